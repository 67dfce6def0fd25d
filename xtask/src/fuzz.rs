//! Runs the `fuzz` crate, optimised: tries inputs that nobody would send.

use anyhow::Result;

use crate::{steps, workspace};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args([
        "run",
        "--quiet",
        "--profile",
        "sim",
        "--package",
        "fuzz",
        "--",
    ]);
    steps::succeed(cargo.args(arguments))
}
