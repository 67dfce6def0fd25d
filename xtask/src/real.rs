//! The commands around the real servers. The work is done by the `real-bed` program of `tests/real`,
//! so that this crate needs none of its dependencies.

use std::process::Command;

use anyhow::{Result, bail};

use crate::steps::{self, Done};
use crate::workspace;

/// What `real-bed build` exits with where the Go tool chain is missing and may be.
const EXIT_SKIPPED: i32 = 3;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.first().map(String::as_str) {
        Some("build") => build(&arguments[1..]).map(drop),
        Some("up") => {
            if arguments
                .iter()
                .any(|word| word == "ours" || word.ends_with("=ours"))
            {
                build_steersman()?;
            }
            steps::succeed(bed().args(arguments))
        }
        _ => bail!("usage: cargo xtask real build|up [--minor N] [--manager go|ours|none]"),
    }
}

/// Builds what is missing of the servers; says so if that must be skipped.
pub(crate) fn build(arguments: &[String]) -> Result<Done> {
    let status = bed().arg("build").args(arguments).status()?;
    match status.code() {
        Some(0) => Ok(Done::Passed),
        Some(EXIT_SKIPPED) => Ok(Done::Skipped("the Go tool chain is missing".to_owned())),
        _ => bail!("the real servers could not be built"),
    }
}

pub(crate) fn differential(arguments: &[String]) -> Result<()> {
    if let Done::Skipped(reason) = build(&[])? {
        println!("skipped: {reason}");
        return Ok(());
    }
    build_steersman()?;
    steps::succeed(bed().arg("differential").args(arguments))
}

/// The tests and the bed look for our binary beside themselves in the target folder.
pub(crate) fn build_steersman() -> Result<()> {
    steps::succeed(workspace::cargo().args(["build", "--quiet", "--package", "steersman"]))
}

fn bed() -> Command {
    let mut command = workspace::cargo();
    command.args([
        "run",
        "--quiet",
        "--package",
        "real-tests",
        "--bin",
        "real-bed",
        "--",
    ]);
    command
}
