//! `cargo xtask parity`: which of upstream's unit tests our tests cover.
//!
//! Upstream's tests are the best list of these controllers' behaviours in existence. Each file
//! `parity/<controller>.toml` names every test function of one upstream package and either the tests
//! of ours that pin the same behaviour, or why it does not apply here, or what is still missing:
//!
//! ```toml
//! package = "pkg/controller/replicaset"
//!
//! [[test]]
//! upstream = "TestSyncReplicaSetCreates"
//! ours = ["steersman-controllers::replicaset::tests::plan::creates_what_is_missing"]
//! ```
//!
//! Open is honest. A test of ours that is named must exist; an upstream test must be listed (checked
//! where the Go module cache has its source).

mod ledger;
mod ours;
mod upstream;

use anyhow::{Result, bail};

use ledger::Ledger;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let write = arguments.iter().any(|word| word == "--write");
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    if let Some(unknown) = arguments
        .iter()
        .find(|word| word.starts_with("--") && *word != "--write")
    {
        bail!("unknown argument {unknown:?}; usage: cargo xtask parity [--write] [controller]");
    }
    let tests = ours::OurTests::scan()?;
    let mut findings = Vec::new();
    let mut totals = [0; 3];
    println!(
        "{:<26} {:>7} {:>5} {:>5}",
        "controller", "covered", "n/a", "open"
    );
    for path in Ledger::paths()? {
        let mut ledger = Ledger::read(&path)?;
        if !wanted.is_empty() && !wanted.contains(&&ledger.controller) {
            continue;
        }
        match upstream::tests_of(&ledger.package)? {
            Some(listed) if write => ledger.add_missing(&listed)?,
            Some(listed) => findings.extend(ledger.compare(&listed)),
            None => {}
        }
        findings.extend(ledger.check(&tests));
        let counts = ledger.counts();
        println!(
            "{:<26} {:>7} {:>5} {:>5}",
            ledger.controller, counts[0], counts[1], counts[2]
        );
        totals
            .iter_mut()
            .zip(counts)
            .for_each(|(total, count)| *total += count);
    }
    println!(
        "{:<26} {:>7} {:>5} {:>5}",
        "all", totals[0], totals[1], totals[2]
    );
    if !findings.is_empty() {
        findings.iter().for_each(|finding| println!("{finding}"));
        bail!("{} findings in the parity ledger", findings.len());
    }
    Ok(())
}
