//! The Go controller manager and ours, alternating on real servers.
//!
//! The machine is noisy: the same binary against itself differs by half in wall time and by a sixth
//! in CPU. So the two take turns, several rounds, and what is printed is the median with its range.
//! Requests and memory are steady. CPU divided by etcd's CPU in the same window is steadier than CPU
//! alone where both cause the same writes, so both are shown.

mod at_rest;
mod attachments;
mod autoscalers;
mod budgets;
mod certificates;
mod chart;
mod claims;
mod cronjobs;
mod fixtures;
mod housekeeping;
mod metrics_api;
mod quotas;
pub(crate) mod scenarios;
mod services;
pub(crate) mod stage;
mod summary;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use real_tests::Flavor;
use real_tests::installation::Installation;

use crate::report::{Goal, Report};
use scenarios::{Rounds, SCENARIOS};
use summary::Summary;

/// What a run is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// How large the scenarios are, in percent of their usual size.
    pub(crate) percent: usize,
    /// Whom Go is compared with; Go itself shows how noisy the machine is.
    pub(crate) against: Flavor,
    /// Whether `docs/benchmarks.md` is written.
    pub(crate) write: bool,
}

/// Enough for a median and its range.
const USUAL_ROUNDS: usize = 3;
/// What somebody waits for who wants to know one thing.
const SCENARIO_SECONDS: f64 = 180.0;

const USAGE: &str = "usage: cargo xtask bench head-to-head [--rounds N] [--percent N] [--against go|ours] [--write] [scenario...]";

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    let (options, wanted) = parse(arguments)?;
    if wanted.iter().any(|name| name == "list") {
        SCENARIOS
            .iter()
            .for_each(|scenario| println!("  {:<16} {}", scenario.name, scenario.about));
        return Ok(());
    }
    let installation = Installation::pinned()?;
    let mut summary = Summary::new(options.against);
    // What the scenarios before a failing one found is worth showing all the same.
    let mut took = Vec::new();
    let played = play(&installation, &options, &wanted, &mut summary, &mut took);
    println!("{}", summary.table());
    summary.report(report);
    let usual = options.rounds <= USUAL_ROUNDS && options.percent <= 100;
    for (scenario, seconds) in took {
        let goal = usual.then_some(Goal::AtMost(SCENARIO_SECONDS));
        report.figure(&format!("{scenario}.took"), seconds, "s", goal);
    }
    played?;
    if options.write {
        chart::write(&summary)?;
    }
    Ok(())
}

fn play(
    installation: &Installation,
    options: &Options,
    wanted: &[String],
    summary: &mut Summary,
    took: &mut Vec<(&'static str, f64)>,
) -> Result<()> {
    for scenario in SCENARIOS
        .iter()
        .filter(|scenario| wanted.is_empty() || wanted.iter().any(|name| name == scenario.name))
    {
        let started = Instant::now();
        match scenario.run {
            Rounds::Together(run) => {
                let phases = run(installation, options)
                    .with_context(|| format!("the scenario {:?}", scenario.name))?;
                summary.add(scenario.name, phases);
            }
            Rounds::Each(run) => {
                for round in 1..=options.rounds {
                    eprintln!("{} round {round} of {}", scenario.name, options.rounds);
                    // Whoever comes second finds warmer caches: take turns at that too.
                    let reverse = round % 2 == 0;
                    let phases = run(installation, options, reverse).with_context(|| {
                        format!("the scenario {:?}, round {round}", scenario.name)
                    })?;
                    summary.add(scenario.name, phases);
                }
            }
        }
        took.push((scenario.name, started.elapsed().as_secs_f64()));
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<(Options, Vec<String>)> {
    let mut options = Options {
        rounds: USUAL_ROUNDS,
        percent: 100,
        against: Flavor::Ours,
        write: false,
    };
    let mut wanted = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words
                .next()
                .and_then(|value| value.parse().ok())
                .filter(|value| *value > 0);
            value.with_context(|| format!("{word} wants a positive number; {USAGE}"))
        };
        match word.as_str() {
            "--rounds" => options.rounds = number()?,
            "--percent" => options.percent = number()?,
            "--write" => options.write = true,
            "--against" => {
                options.against = match words.next().map(String::as_str) {
                    Some("go") => Flavor::Go,
                    Some("ours") => Flavor::Ours,
                    _ => bail!("--against wants go or ours; {USAGE}"),
                }
            }
            option if option.starts_with('-') => bail!("unknown option {option}; {USAGE}"),
            name if name == "list" || SCENARIOS.iter().any(|scenario| scenario.name == name) => {
                wanted.push(name.to_owned())
            }
            name => {
                let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
                bail!(
                    "there is no scenario {name:?}; there are: {}",
                    known.join(", ")
                )
            }
        }
    }
    Ok((options, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused_with_the_usage() {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (options, wanted) = parse(&words("--rounds 5 --against go deployment")).unwrap();
        assert_eq!(
            (options.rounds, options.against, wanted.as_slice()),
            (5, Flavor::Go, &["deployment".to_owned()][..])
        );
        for bad in [
            "--rounds",
            "--rounds 0",
            "--against rust",
            "--fast",
            "nonsense",
        ] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
    }
}
