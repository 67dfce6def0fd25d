//! Developer commands, run as `cargo xtask <command>`. It compiles in seconds and stays so: what
//! needs servers or measurements lives in crates of its own that these commands run.
#![expect(clippy::print_stdout, reason = "a command line tool prints its result")]
#![expect(clippy::print_stderr, reason = "and its failures")]
#![expect(
    clippy::disallowed_methods,
    reason = "steps are timed with the machine's clock"
)]

mod bench;
mod bugs;
mod dist;
mod fuzz;
mod mutants;
mod parity;
mod picture;
mod prose;
mod real;
mod schema;
mod screenshots;
mod steps;
mod suites;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context, Result};

/// A developer command: its name, its arguments as shown to people, what it is for, and the code.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: [Command; 17] = [
    Command {
        name: "test",
        arguments: "[--no-real] [--all]",
        about: "everything continuous integration checks; tests that passed and whose programs are the same only with --all",
        run: test::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "the rules of the house that no compiler checks: arrows between crates, file length, words",
        run: tidy::run,
    },
    Command {
        name: "parity",
        arguments: "[--write] [--markdown] [controller]",
        about: "how many of upstream's unit tests ours cover; --write adds those the ledger lacks as open, --markdown writes docs/parity.md",
        run: parity::run,
    },
    Command {
        name: "real",
        arguments: "build|up [--minor N] [--manager go|ours|none]",
        about: "build the real Kubernetes servers, or start them for a person until Ctrl-C",
        run: real::run,
    },
    Command {
        name: "differential",
        arguments: "[--against go|ours] [scenario...]",
        about: "run scenarios with the Go controller manager and with ours, and compare what each did",
        run: real::differential,
    },
    Command {
        name: "conformance",
        arguments: "[focus]",
        about: "upstream's end-to-end specs on the cluster of `steersman up`: those of tests/real/conformance.txt, or all that match",
        run: real::conformance,
    },
    Command {
        name: "kubectl-tests",
        arguments: "[--server go|ours] [function...]",
        about: "run upstream's own tests of kubectl (test/cmd) on our servers, or on Go's (an hour)",
        run: real::kubectl_tests,
    },
    Command {
        name: "bench",
        arguments: "[name] [arguments]",
        about: "list the benches, or run one in release mode; figures go to target/bench/<name>.jsonl",
        run: bench::run,
    },
    Command {
        name: "fuzz",
        arguments: "[target...] [--seconds N] [--seed N] [--keep]",
        about: "hostile inputs to everything that reads bytes of strangers; --keep puts those with new answers into the corpus",
        run: fuzz::run,
    },
    Command {
        name: "simulate-bugs",
        arguments: "[--runtime|--controllers] [name...]",
        about: "put bugs in on purpose, one at a time, and see that the simulator finds each (an hour or two)",
        run: bugs::run,
    },
    Command {
        name: "mutants",
        arguments: "[--shard N/M] [--sample K] [--seed S]",
        about: "change controllers and runtime at random by cargo-mutants, and see that a test or one of 50 seeds fails (a minute or two for each)",
        run: mutants::run,
    },
    Command {
        name: "dist",
        arguments: "[target...]",
        about: "static release binaries in dist/: archives with man pages and completions, checksums, SBOMs (a release build for each)",
        run: dist::run,
    },
    Command {
        name: "image",
        arguments: "[tag]",
        about: "a container image with the static release binary, by buildah, podman or docker",
        run: dist::image,
    },
    Command {
        name: "picture",
        arguments: "",
        about: "draw docs/up.svg from what `steersman up` says on the terminal",
        run: picture::run,
    },
    Command {
        name: "screenshots",
        arguments: "",
        about: "draw docs/dashboard/*.png in Chromium from a cluster that is really up",
        run: screenshots::run,
    },
    Command {
        name: "schema",
        arguments: "FOLDER... | --live [--check]",
        about: "turn the API server's OpenAPI documents and protobuf definitions into the tables of schema/",
        run: write_schema,
    },
    Command {
        name: "help",
        arguments: "",
        about: "this list",
        run: help,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("help", &[][..]),
    };
    let name = if matches!(name, "-h" | "--help") {
        "help"
    } else {
        name
    };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprintln!("error: there is no command {name:?}; `cargo xtask help` lists them");
        return ExitCode::FAILURE;
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn help(_: &[String]) -> Result<()> {
    println!("usage: cargo xtask <command>\n");
    for command in &COMMANDS {
        println!(
            "  {} {}\n      {}",
            command.name, command.arguments, command.about
        );
    }
    Ok(())
}

fn write_schema(arguments: &[String]) -> Result<()> {
    let output = workspace::root().join("schema");
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let mut inputs: Vec<std::path::PathBuf> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .map(Into::into)
        .collect();
    if has("--live") {
        inputs.extend(real::schema_sources()?);
    }
    if has("--check") {
        schema::check(&inputs, &output)
    } else {
        schema::run(&inputs, &output)?;
        match has("--live") {
            true => std::fs::write(output.join("go_structs.txt"), real::go_structs()?)
                .context("cannot write the structs of templates"),
            false => Ok(()),
        }
    }
}
