//! `cargo xtask test`: everything that must hold before a change lands, cheapest first.

use std::process::Command;

use anyhow::{Result, bail};

use crate::steps::{Done, Steps, succeed};
use crate::suites::{self, Choice, Suite};
use crate::{parity, real, schema, tidy, workspace};

/// The crate that is too slow without optimization.
const SIMULATOR: &str = "steersman-simulator";

/// For continuous integration: what two cores do in some seven minutes. Always the same, so that no change fails by
/// luck; `simulate --first N` runs others.
const SEEDS_IN_CI: &str = "2000";

/// Ten seconds' worth, for people who wait.
const SEEDS: &str = "100";

fn seeds() -> &'static str {
    match in_ci() {
        true => SEEDS_IN_CI,
        false => SEEDS,
    }
}

/// The tests that need the real servers.
const REAL_SUITE: &str = "real-tests --test real";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut with_real, mut choice) = (true, Choice::Changed);
    for argument in arguments {
        match argument.as_str() {
            "--no-real" => with_real = false,
            "--all" => choice = Choice::All,
            other => {
                bail!("unknown argument {other:?}; usage: cargo xtask test [--no-real] [--all]")
            }
        }
    }
    if in_ci() {
        choice = Choice::All;
    }
    let mut steps = Steps::default();
    static_checks(&mut steps)?;
    documentation(&mut steps, choice)?;
    // Before everything that types kubectl.
    let servers = match with_real {
        true => build_servers(&mut steps)?,
        false => Done::Skipped("--no-real was given".to_owned()),
    };
    // All programs by one cargo, with one set of features: nothing is built twice.
    let mut suites = Vec::new();
    steps.run("building all tests", || {
        suites = suites::build(&["--workspace", "--exclude", SIMULATOR])?;
        Ok(Done::Passed)
    })?;
    let real = suites
        .iter()
        .position(|suite| suite.name.ends_with(REAL_SUITE))
        .map(|at| suites.swap_remove(at));
    steps.run("unit and in-process tests", || {
        suites::run(&suites, choice).map(|()| Done::Passed)
    })?;
    simulator(&mut steps, choice)?;
    match real {
        Some(real) => match servers {
            Done::Passed => real_tests(&mut steps, &real)?,
            Done::Skipped(reason) => steps.skip("tests on real servers", &reason),
        },
        None => bail!("cargo built no {REAL_SUITE}"),
    }
    steps.print();
    println!("\nall of it passed");
    Ok(())
}

/// Continuous integration takes nobody's word for anything.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

fn static_checks(steps: &mut Steps) -> Result<()> {
    steps.command("format", cargo(&["fmt", "--all", "--check"]))?;
    steps.run("tidy", || tidy::run(&[]).map(|()| Done::Passed))?;
    steps.run("parity ledger", || parity::run(&[]).map(|()| Done::Passed))?;
    steps.command(
        "lints",
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features=steersman/pprof",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    steps.run("locks", locks)?;
    steps.run("licences and sources of dependencies", licences)?;
    steps.run("types of the page's scripts", page_types)
}

/// A tool that is not here: a line for people, a failure for continuous integration.
fn missing(what: &str) -> Result<Done> {
    if in_ci() {
        bail!("{what}; .ci/tools installs it");
    }
    Ok(Done::Skipped(what.to_owned()))
}

/// The scripts of the dashboard are plain JavaScript with types in their comments.
fn page_types() -> Result<Done> {
    let tsc = std::env::var("STEERSMAN_TSC").unwrap_or_else(|_| "tsc".to_owned());
    let installed = Command::new(&tsc).arg("--version").output();
    if !installed.is_ok_and(|ran| ran.status.success()) {
        return missing("there is no TypeScript compiler (npm install typescript)");
    }
    let page = workspace::root().join("crates/dashboard/assets");
    succeed(Command::new(&tsc).arg("--project").arg(page))?;
    Ok(Done::Passed)
}

/// The lock of kube-rs's tests names our dependencies, too, and is used an hour later.
fn locks() -> Result<Done> {
    let manifest = workspace::root().join("tests/kube-rs/Cargo.toml");
    let mut metadata = cargo(&["metadata", "--locked", "--format-version=1"]);
    metadata.arg("--manifest-path").arg(&manifest);
    if !metadata.output()?.status.success() {
        bail!(
            "tests/kube-rs/Cargo.lock does not fit; run `cargo update --workspace` in tests/kube-rs and commit it"
        );
    }
    Ok(Done::Passed)
}

/// Its readers are the people who work here: module essays link to private parts.
fn documentation(steps: &mut Steps, choice: Choice) -> Result<()> {
    if choice == Choice::Changed {
        steps.skip(
            "documentation",
            "only with --all and in continuous integration",
        );
        return Ok(());
    }
    let flags = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ];
    let mut documentation = cargo(&flags);
    documentation.env(
        "RUSTDOCFLAGS",
        "-D warnings -A rustdoc::private-intra-doc-links",
    );
    steps.command("documentation", documentation)
}

/// The simulator's own tests, and seeds: in a profile of its own, as they run our crates by the thousand.
fn simulator(steps: &mut Steps, choice: Choice) -> Result<()> {
    steps.run("simulator tests", || {
        let suites = suites::build(&["--profile", "sim", "--package", SIMULATOR])?;
        suites::run(&suites, choice).map(|()| Done::Passed)
    })?;
    steps.command(
        "simulator seeds",
        cargo(&[
            "run",
            "--profile",
            "sim",
            "--package",
            "steersman",
            "--",
            "simulate",
            "--seeds",
            seeds(),
            "--jobs",
            "2",
        ]),
    )
}

fn licences() -> Result<Done> {
    let installed = cargo(&["deny", "--version"])
        .output()
        .is_ok_and(|ran| ran.status.success());
    if !installed {
        return missing("cargo-deny is not installed (cargo install cargo-deny)");
    }
    // A build downloads what this platform needs; licences are asked of all.
    succeed(&mut cargo(&["fetch", "--locked", "--quiet"]))?;
    succeed(&mut cargo(&[
        "deny",
        "--offline",
        "check",
        "licenses",
        "bans",
        "sources",
    ]))?;
    Ok(Done::Passed)
}

/// kube-apiserver, etcd, kubectl and others, or why there are none.
fn build_servers(steps: &mut Steps) -> Result<Done> {
    let mut built = Done::Passed;
    steps.run("real servers", || {
        built = real::build(&[])?;
        Ok(built.clone())
    })?;
    Ok(built)
}

fn real_tests(steps: &mut Steps, suite: &Suite) -> Result<()> {
    steps.run("schema tables are those of the live API server", || {
        let inputs = real::schema_sources()?;
        schema::check(&inputs, &workspace::root().join("schema"))?;
        Ok(Done::Passed)
    })?;
    steps.run("tests on real servers", || {
        // Servers mostly wait, and each cluster takes half a gigabyte.
        succeed(suite.command().arg("--test-threads=4"))?;
        Ok(Done::Passed)
    })?;
    steps.command("kube-rs on both API servers", kube_rs())
}

/// A workspace of its own, so that what kube-rs wants of a dependency is not what ours are tested with. Built in
/// about a minute, once.
fn kube_rs() -> Command {
    let target = workspace::target();
    let mut tests = cargo(&["test", "--quiet", "--locked", "--test", "reflectors"]);
    tests
        .arg("--manifest-path")
        .arg(workspace::root().join("tests/kube-rs/Cargo.toml"))
        .arg("--target-dir")
        .arg(target.join("kube-rs"))
        .env("STEERSMAN_BIN", target.join("debug/steersman"));
    tests
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = workspace::cargo();
    command.args(arguments);
    command
}
