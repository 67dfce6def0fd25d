//! Runs the `bench` crate in release mode; it lists its benches itself.

use std::process::Command;

use anyhow::Result;

use crate::{real, steps, workspace};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let name = arguments.first().map(String::as_str);
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--quiet", "--package", "bench"]);
    if name.is_some() {
        // What is measured is the binary that people get, not the one that tests use. Both are built at once: chosen
        // alone, the bench would have a dependency with fewer features, and all that uses it built once more.
        build.args(["--package", "steersman"]);
    }
    steps::succeed(&mut build)?;
    if matches!(name, Some("apiserver" | "head-to-head" | "process")) {
        real::build(&[])?;
    }
    let bench = workspace::target().join("release/bench");
    steps::succeed(Command::new(bench).args(arguments))
}
