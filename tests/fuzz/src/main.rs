//! `cargo xtask fuzz [target…] [--seconds N] [--seed N] [--keep]`.
#![expect(clippy::print_stdout, reason = "a command line tool prints its result")]
#![expect(clippy::print_stderr, reason = "and its failures")]

use std::process::ExitCode;

use fuzz::run::run;
use fuzz::targets::ALL;

fn main() -> ExitCode {
    let (mut seconds, mut seed, mut keep, mut names) = (60, 1, false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok());
        let known = match argument.as_str() {
            "--seconds" => number().map(|given| seconds = given),
            "--seed" => number().map(|given| seed = given),
            "--keep" => {
                keep = true;
                Some(())
            }
            name if ALL.iter().any(|target| target.name == name) => {
                names.push(argument);
                Some(())
            }
            _ => None,
        };
        if known.is_none() {
            let targets: Vec<&str> = ALL.iter().map(|target| target.name).collect();
            eprintln!(
                "usage: cargo xtask fuzz [target…] [--seconds N] [--seed N] [--keep]\ntargets: {}",
                targets.join(" ")
            );
            return ExitCode::FAILURE;
        }
    }
    let mut failed = false;
    for target in &ALL {
        if !names.is_empty() && !names.iter().any(|name| name == target.name) {
            continue;
        }
        match run(target, seconds, seed, keep) {
            Ok(found) => println!(
                "{:<16} {:>8} inputs, {:>4} different answers, longest {:?}, largest {} MB",
                target.name,
                found.inputs,
                found.answers,
                found.longest,
                found.largest_bytes / 1_000_000
            ),
            Err(error) => {
                eprintln!("error: {error:#}");
                failed = true;
            }
        }
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
