//! Runs the `bench` crate in release mode; it lists its benches itself.

use anyhow::Result;

use crate::{real, steps, workspace};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let real = ["head-to-head", "apiserver"];
    if arguments
        .first()
        .is_some_and(|name| real.contains(&name.as_str()))
    {
        // It measures the binary that people get, not the one that tests use.
        steps::succeed(workspace::cargo().args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "steersman",
        ]))?;
        real::build(&[])?;
    }
    let mut command = workspace::cargo();
    command
        .args(["run", "--release", "--quiet", "--package", "bench", "--"])
        .args(arguments);
    steps::succeed(&mut command)
}
