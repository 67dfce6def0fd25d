//! Runs the `bench` crate in release mode; it lists its benches itself.

use anyhow::Result;

use crate::{real, steps, workspace};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let name = arguments.first().map(String::as_str);
    if matches!(name, Some("apiserver" | "head-to-head" | "up")) {
        // It measures the binary that people get, not the one that tests use.
        steps::succeed(workspace::cargo().args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "steersman",
        ]))?;
    }
    if matches!(name, Some("apiserver" | "head-to-head")) {
        real::build(&[])?;
    }
    let mut command = workspace::cargo();
    command
        .args(["run", "--release", "--quiet", "--package", "bench", "--"])
        .args(arguments);
    steps::succeed(&mut command)
}
