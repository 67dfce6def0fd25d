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
//! rows = 1
//! ```
//!
//! `ours` with `open` is covered in part: `open` says what is missing. `rows` says how many rows upstream's table has, once
//! somebody has compared each of them with our tests; without it the test was compared as a whole.
//!
//! `docs/parity.md` is the same as one page, written by `--markdown`.
//!
//! Open is honest. A test of ours that is named must exist; an upstream test must be listed (checked
//! where the Go module cache has its source).

mod ledger;
mod ours;
mod page;
mod upstream;

use anyhow::{Result, bail};

use ledger::Ledger;
use page::Tally;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let has = |flag: &str| arguments.iter().any(|word| word == flag);
    let (write, markdown) = (has("--write"), has("--markdown"));
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    if let Some(unknown) = arguments
        .iter()
        .find(|word| word.starts_with("--") && !["--write", "--markdown"].contains(&&***word))
    {
        bail!(
            "unknown argument {unknown:?}; usage: cargo xtask parity [--write] [--markdown] [controller]"
        );
    }
    let tests = ours::OurTests::scan()?;
    let mut findings = Vec::new();
    let mut ledgers = Vec::new();
    print_row("controller", ["covered", "partial", "open", "n/a", "rows"]);
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
        print_row(&ledger.controller, counts(ledger.tally()));
        ledgers.push(ledger);
    }
    let mut total = Tally::default();
    ledgers.iter().for_each(|ledger| total.add(ledger.tally()));
    print_row("all", counts(total));
    if wanted.is_empty() && markdown {
        page::write(&ledgers)?;
    } else if wanted.is_empty() {
        findings.extend(page::check(&ledgers));
    }
    if !findings.is_empty() {
        findings.iter().for_each(|finding| println!("{finding}"));
        bail!("{} findings in the parity ledger", findings.len());
    }
    Ok(())
}

fn counts(tally: Tally) -> [String; 5] {
    let Tally {
        covered,
        partial,
        open,
        not_applicable,
        rows,
    } = tally;
    [covered, partial, open, not_applicable, rows].map(|count| count.to_string())
}

fn print_row(name: &str, columns: [impl std::fmt::Display; 5]) {
    let [covered, partial, open, not_applicable, rows] = columns;
    println!("{name:<26} {covered:>7} {partial:>7} {open:>5} {not_applicable:>5} {rows:>5}");
}
