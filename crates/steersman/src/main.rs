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
mod files;
mod outbound;
mod preview;
mod running;
mod signals;
mod simulate;
mod up;
mod why;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    // A symlink with upstream's name makes us a drop-in.
    if program.rsplit('/').next() == Some("kube-controller-manager") {
        return controller_manager::main("kube-controller-manager", arguments);
    }
    cli::main()
}
