//! `cargo xtask conformance`: upstream's end-to-end specs on the cluster of `steersman up`.

use std::process::ExitCode;

use anyhow::Result;
use real_tests::conformance::{self, Choice, Verdict};
use real_tests::installation::Installation;
use real_tests::process;

/// How much of a failure is shown; all of it is in the log of the specs.
const SHOWN_LETTERS: usize = 400;

pub(crate) fn run(installation: &Installation, arguments: &[String]) -> Result<ExitCode> {
    let choice = match arguments.first() {
        Some(pattern) => Choice::Matching(pattern),
        None => Choice::Listed,
    };
    let listed = conformance::listed()?;
    let folder = std::env::temp_dir().join(format!("steersman-conformance-{}", std::process::id()));
    println!(
        "the cluster and the log of the specs are in {}",
        folder.display()
    );
    let outcomes = conformance::run(installation, choice, &listed, &folder)?;
    let verdict = conformance::verdict(&outcomes, &listed, choice);
    print(&verdict);
    if verdict.regressions.is_empty() {
        let _cleaner = process::remove_when_we_end(&folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn print(verdict: &Verdict) {
    for name in &verdict.newly_passing {
        println!("passes and is not listed: {name}");
    }
    for (name, reason) in &verdict.failed {
        println!("fails and is not listed: {name}\n    {}", shown(reason));
    }
    for (name, reason) in &verdict.regressions {
        println!("FAILED: {name}\n    {}", shown(reason));
    }
    println!(
        "{} passed ({} of them not listed), {} failed that are listed, {} that are not, {} skipped themselves",
        verdict.passed,
        verdict.newly_passing.len(),
        verdict.regressions.len(),
        verdict.failed.len(),
        verdict.skipped
    );
}

fn shown(reason: &str) -> String {
    let short: String = reason.chars().take(SHOWN_LETTERS).collect();
    short.trim().replace('\n', "\n    ")
}
