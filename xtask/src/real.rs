//! The commands around the real servers. The work is done by the `real-bed` program of `tests/real`,
//! so that this crate needs none of its dependencies.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

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
            steps::succeed(bed()?.args(arguments))
        }
        _ => bail!("usage: cargo xtask real build|up [--minor N] [--manager go|ours|none]"),
    }
}

/// Builds what is missing of the servers; says so if that must be skipped.
pub(crate) fn build(arguments: &[String]) -> Result<Done> {
    let status = bed()?.arg("build").args(arguments).status()?;
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
    steps::succeed(bed()?.arg("differential").args(arguments))
}

/// Upstream's end-to-end specs; those that are listed must pass.
pub(crate) fn conformance(arguments: &[String]) -> Result<()> {
    build_steersman()?;
    let status = bed()?.arg("conformance").args(arguments).status()?;
    match status.code() {
        Some(0 | EXIT_SKIPPED) => Ok(()),
        _ => bail!("not all specs of tests/real/conformance.txt passed; what failed is above"),
    }
}

/// Upstream's tests of kubectl, whose scripts come from its module.
pub(crate) fn kubectl_tests(arguments: &[String]) -> Result<()> {
    if let Done::Skipped(reason) = build(&[])? {
        println!("skipped: {reason}");
        return Ok(());
    }
    build_steersman()?;
    steps::succeed(bed()?.arg("kubectl-tests").args(arguments))
}

/// Folders with the OpenAPI documents of a live kube-apiserver and the Go modules of its types.
pub(crate) fn schema_sources() -> Result<Vec<PathBuf>> {
    const MODULES: [&str; 4] = [
        "k8s.io/api",
        "k8s.io/apimachinery",
        "k8s.io/apiextensions-apiserver",
        "k8s.io/kube-aggregator",
    ];
    let documents = workspace::root().join("target/openapi");
    let _ = std::fs::remove_dir_all(&documents);
    steps::succeed(bed()?.arg("openapi").arg(&documents))?;
    let listed = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}"])
        .args(MODULES)
        .current_dir(workspace::root().join("tests/real/servers"))
        .output()
        .context("the Go tool chain is missing")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut folders: Vec<PathBuf> = listed
        .lines()
        .filter(|line| !line.is_empty())
        .map(Into::into)
        .collect();
    if folders.len() != MODULES.len() {
        bail!(
            "the Go modules of the real servers are not downloaded; run `cargo xtask real build`"
        );
    }
    folders.push(documents);
    Ok(folders)
}

/// The Go structs of pod templates, as a Go program prints them.
pub(crate) fn go_structs() -> Result<Vec<u8>> {
    let ran = Command::new("go")
        .args(["run", "./templates", "layouts"])
        .current_dir(workspace::root().join("tests/real/servers"))
        .output()
        .context("the Go tool chain is missing")?;
    if !ran.status.success() {
        bail!("{}", String::from_utf8_lossy(&ran.stderr));
    }
    Ok(ran.stdout)
}

/// The tests and the test cluster look for our binary beside themselves in the target folder.
pub(crate) fn build_steersman() -> Result<()> {
    steps::succeed(workspace::cargo().args(["build", "--quiet", "--package", "steersman"]))
}

/// The program of the test cluster. It is built among all others, because alone it would get other features of what it rests
/// on, and all of that would be built once more.
pub(crate) fn bed() -> Result<Command> {
    let flags = ["--workspace", "--exclude", "steersman-simulator"];
    let mut build = workspace::cargo();
    build
        .args(["build", "--quiet"])
        .args(flags)
        .args(["--bin", "real-bed"]);
    let status = build.status()?;
    anyhow::ensure!(
        status.success(),
        "the program of the test cluster cannot be built"
    );
    let mut command = Command::new(workspace::target().join("debug/real-bed"));
    command.current_dir(workspace::root());
    Ok(command)
}
