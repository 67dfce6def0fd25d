//! `cargo xtask differential`: every scenario with the Go manager and with another, side by side.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, anyhow, bail};
use real_tests::Flavor;
use real_tests::installation::Installation;
use real_tests::scenario::{self, Difference, KnownDifferences, Record, Run, Scenario, Side};

const ASPECTS: [&str; 6] = [
    "objects",
    "events",
    "conditions",
    "order",
    "writes",
    "refused",
];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (against, wanted) = parse(arguments)?;
    let installation = Installation::pinned()?;
    let scenarios = Scenario::load(&wanted)?;
    let [expected, actual] = play(&installation, against, &scenarios)?;
    let known = KnownDifferences::read()?;
    let mut failed = 0;
    let mut details = Vec::new();
    println!(
        "\n{:<42} {:>8} {:>8} {:>10} {:>6} {:>8} {:>8}  writes go/{}",
        "scenario",
        "objects",
        "events",
        "conditions",
        "order",
        "writes",
        "refused",
        against.name()
    );
    for scenario in &scenarios {
        let verdict = verdict(scenario, &expected, &actual, &known);
        println!("{:<42} {}", scenario.name, verdict.line);
        if !verdict.details.is_empty() {
            failed += 1;
            details.push(format!(
                "{} ({})\n    {}",
                scenario.name,
                scenario.about,
                verdict.details.join("\n    ")
            ));
        }
    }
    println!(
        "\n{} scenarios, {} agree, {failed} differ",
        scenarios.len(),
        scenarios.len() - failed
    );
    if failed > 0 {
        println!("\n{}", details.join("\n\n"));
        println!(
            "\na difference that is meant to be belongs into docs/differences.md, with its reason"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(arguments: &[String]) -> Result<(Flavor, Vec<String>)> {
    let mut against = Flavor::Ours;
    let mut wanted = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--against" => {
                against = match words.next().map(String::as_str) {
                    Some("go") => Flavor::Go,
                    Some("ours") => Flavor::Ours,
                    other => bail!("--against wants go or ours, not {other:?}"),
                }
            }
            option if option.starts_with("--") => {
                bail!(
                    "unknown option {option}; usage: differential [--against go|ours] [scenario...]"
                )
            }
            name => wanted.push(name.to_owned()),
        }
    }
    Ok((against, wanted))
}

fn play(installation: &Installation, against: Flavor, scenarios: &[Scenario]) -> Result<[Run; 2]> {
    let done = AtomicUsize::new(0);
    let progress = |side: Side, name: &str| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        eprintln!(
            "{done:>3}/{} {:<4} {name}",
            scenarios.len() * 2,
            side.name()
        );
    };
    let sides = [Side::Real(Flavor::Go), Side::Real(against)];
    let runs = scenario::run_all(installation, &sides, scenarios, &progress)?;
    runs.try_into()
        .map_err(|_| anyhow!("two sides make two runs"))
}

struct Verdict {
    line: String,
    /// Empty if the two agree.
    details: Vec<String>,
}

fn verdict(scenario: &Scenario, expected: &Run, actual: &Run, known: &KnownDifferences) -> Verdict {
    let record = |run: &Run, who: &str| match run.get(&scenario.name) {
        Some(Ok(record)) => Ok(record.clone()),
        Some(Err(error)) => Err(format!("{who}: {error:#}")),
        None => Err(format!("{who}: did not run")),
    };
    let (expected, actual) = match (record(expected, "go"), record(actual, "other")) {
        (Ok(expected), Ok(actual)) => (expected, actual),
        (expected, actual) => {
            let details = [expected.err(), actual.err()]
                .into_iter()
                .flatten()
                .collect();
            return Verdict {
                line: "did not finish".to_owned(),
                details,
            };
        }
    };
    let found = scenario::compare(&expected, &actual);
    let (meant, unmeant): (Vec<Difference>, Vec<Difference>) = found
        .into_iter()
        .partition(|difference| known.contains(&scenario.name, difference));
    let cell = |aspect: &str| {
        let count =
            |differences: &[Difference]| differences.iter().filter(|d| d.aspect == aspect).count();
        match (count(&unmeant), count(&meant)) {
            (0, 0) => "=".to_owned(),
            (0, meant) => format!("({meant})"),
            (unmeant, _) => unmeant.to_string(),
        }
    };
    let cells = ASPECTS.map(cell);
    let sum = |record: &Record| record.writes.values().sum::<u64>();
    let line = format!(
        "{:>8} {:>8} {:>10} {:>6} {:>8} {:>8}  {}/{}",
        cells[0],
        cells[1],
        cells[2],
        cells[3],
        cells[4],
        cells[5],
        sum(&expected),
        sum(&actual)
    );
    let details = unmeant
        .into_iter()
        .map(|d| format!("{}: {}", d.aspect, d.text))
        .collect();
    Verdict { line, details }
}
