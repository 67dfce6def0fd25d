//! The binary: finds out what it is asked to be, and hands over.

mod controller_manager;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    // A symbolic link of this name swaps Steersman in for the original.
    if Path::new(&program)
        .file_stem()
        .is_some_and(|name| name == controller_manager::UPSTREAM_NAME)
    {
        return controller_manager::main(arguments, controller_manager::UPSTREAM_NAME);
    }
    match arguments.split_first() {
        Some((command, rest)) if command == "controller-manager" => {
            controller_manager::main(rest.to_vec(), "steersman controller-manager")
        }
        Some((command, [])) if command == "version" || command == "--version" => print(&format!(
            "Steersman {} ({})",
            env!("CARGO_PKG_VERSION"),
            manager::version::line()
        )),
        Some((command, _)) if command == "help" || command == "--help" || command == "-h" => {
            print(USAGE)
        }
        None => fail(USAGE),
        Some((command, _)) => fail(&format!("unknown command {command:?}\n\n{USAGE}")),
    }
}

const USAGE: &str = "\
Usage: steersman COMMAND [flags]

  controller-manager   run the controllers of a cluster, in place of kube-controller-manager
  version              show the version

`steersman COMMAND --help` shows the flags of a command.";

#[expect(
    clippy::print_stdout,
    reason = "what was asked for goes to standard output"
)]
fn print(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

#[expect(
    clippy::print_stderr,
    reason = "there is no log before the options are read"
)]
fn fail(text: &str) -> ExitCode {
    eprintln!("Error: {text}");
    ExitCode::FAILURE
}
