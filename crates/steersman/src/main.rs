//! The binary: one name, many commands. Everything of substance is in the crates behind it.

// Its macros are for all that follow.
#[macro_use]
mod out;

mod apiserver;
mod chaos;
mod cli;
mod connect;
mod controller_manager;
mod controllers;
mod envtest;
mod etcd;
#[cfg(test)]
mod examples;
mod files;
mod forget;
#[cfg(test)]
mod kinds;
mod kube_apiserver;
mod man;
mod manager_dashboard;
mod preview;
mod running;
mod signals;
mod simulate;
mod terminal;
mod up;
mod version;
mod why;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    // A symlink with upstream's name makes us a drop-in.
    match program.rsplit('/').next() {
        Some(name @ "kube-controller-manager") => controller_manager::main(name, arguments),
        Some(name @ "kube-apiserver") => kube_apiserver::main(name, arguments),
        Some(name @ "etcd") => etcd::main(name, arguments),
        _ => cli::main(),
    }
}
