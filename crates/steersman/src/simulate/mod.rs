//! `steersman simulate`: seeds, faults, checks.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

mod html;
mod many;
mod summary;

use std::process::ExitCode;

use crate::terminal::{Terminal, Tone};
use clap::{ArgGroup, Args};
use simulator::{Cut, Scenario, explain, library, verify, verify_crash};

/// Test Steersman itself: the whole cluster on a virtual clock, from seeds, with faults and crashes
///
/// Runs all controllers, two managers, an API server and nodes in one thread, with faults that are drawn from seeds, and
/// checks what the controllers must hold to. The same seed gives the same run. It says nothing about your manifests: use
/// `steersman preview` for those.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 if every check held, 2 if one is broken, 1 if the arguments make no sense.
Examples:
  steersman simulate --seeds 20
  steersman simulate --seed 42 --timeline
  steersman simulate --list"
)]
#[command(group = ArgGroup::new("one run").args(["seed", "scenario"]).multiple(true))]
pub(crate) struct Arguments {
    /// Replay one seed and print its details
    #[arg(long, conflicts_with = "seeds", value_name = "N")]
    seed: Option<u64>,
    /// Run this many seeds
    #[arg(long, value_name = "COUNT", value_parser = at_least_one)]
    seeds: Option<u64>,
    /// The first of the seeds
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    first: u64,
    /// How many at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,
    /// Play a scenario of the library instead of one that the seed draws; without a seed it has no faults
    #[arg(long)]
    scenario: Option<String>,
    /// List the scenarios of the library
    #[arg(long, exclusive = true)]
    list: bool,
    /// Crash the manager after each write in turn
    #[arg(long, requires = "scenario", conflicts_with_all = ["seed", "seeds", "crash_after_write"])]
    crash_after_each_write: bool,
    /// Crash the manager right after this write
    #[arg(long, requires = "one run", conflicts_with = "seeds")]
    crash_after_write: Option<u64>,
    /// Keep only these steps of the scenario, as 0,3,4
    #[arg(long, requires = "one run", conflicts_with = "seeds")]
    steps: Option<String>,
    /// Keep only these classes of faults, as lost-after,slow; or none
    #[arg(long, requires = "one run", conflicts_with = "seeds")]
    faults: Option<String>,
    /// Print everything that happened, even if every check held
    #[arg(long, requires = "one run", conflicts_with = "seeds")]
    timeline: bool,
    /// Write what happened into this file, as a page that needs no server
    #[arg(
        long,
        value_name = "FILE",
        requires = "one run",
        conflicts_with = "seeds"
    )]
    html: Option<std::path::PathBuf>,
    /// How many managers there are
    #[arg(long, requires = "one run", conflicts_with = "seeds", value_parser = clap::value_parser!(u8).range(1..=2))]
    managers: Option<u8>,
}

/// The parser's own range would end at the largest number of 64 bits, and say so.
fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("it is not a whole number".to_owned()),
    }
}

/// What a broken check exits with.
const BROKEN: u8 = 2;

/// How many seeds are run when nobody says.
const SEEDS: u64 = 100;

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let outcome = run(arguments);
    if let Err(problem) = &outcome {
        let terminal = Terminal::of(&std::io::stderr());
        let problem = client::without_numbers(problem);
        let problem = format!("{} {problem}", terminal.paint(Tone::Bad, "error:"));
        eprintln!("{}", terminal.wrap(&problem));
    }
    ExitCode::from(exit_code(&outcome))
}

/// Pipelines tell by it what was broken: nothing, a check, or the arguments.
fn exit_code(outcome: &Result<bool, String>) -> u8 {
    match outcome {
        Ok(false) => 0,
        Ok(true) => BROKEN,
        Err(_) => 1,
    }
}

/// Whether something was broken; an error says what is wrong with the arguments.
fn run(arguments: &Arguments) -> Result<bool, String> {
    if arguments.list {
        for named in &library::LIBRARY {
            println!("{:<16} {}", named.name, named.about);
        }
        return Ok(false);
    }
    if arguments.crash_after_each_write {
        return crash_after_each_write(arguments);
    }
    let alone = arguments.scenario.is_some() && arguments.seeds.is_none();
    match arguments.seed {
        Some(seed) => one(arguments, Some(seed)),
        None if alone => one(arguments, None),
        None => {
            let count = arguments.seeds.unwrap_or(SEEDS);
            let last = arguments.first.checked_add(count);
            let last = last.ok_or("--first and --seeds together are too large")?;
            // Whether the name is known is found out before the first run.
            scenario(arguments, None)?;
            let drawn = |seed| {
                let scenario = scenario(arguments, Some(seed));
                let scenario = scenario.unwrap_or_else(|_| Scenario::from_seed(seed));
                (scenario, source(arguments, Some(seed)))
            };
            let sum = many::run(
                arguments.jobs,
                arguments.first..last,
                drawn,
                |_, scenario| verify(scenario),
            );
            print!("{sum}");
            println!("{}", sum.verdict(Terminal::of_stdout()));
            Ok(sum.is_broken())
        }
    }
}

fn one(arguments: &Arguments, seed: Option<u64>) -> Result<bool, String> {
    let whole = scenario(arguments, seed)?;
    let cut = Cut::parse(
        &whole,
        arguments.steps.as_deref(),
        arguments.faults.as_deref(),
        arguments.managers.map(usize::from),
    )?;
    let small = cut.apply(&whole);
    let source = source(arguments, seed);
    let report = match cut == Cut::none(&whole) {
        true => explain(&whole, &source),
        // It has been cut already: whoever asks wants to see just this.
        false => {
            let mut report = verify(&small);
            if let Some(failure) = &mut report.failure {
                failure.replay = format!("steersman simulate {source}{}", cut.arguments(&whole));
                failure.shrunk = Some(small.clone());
            }
            report
        }
    };
    if let Some(nth) = arguments.crash_after_write
        && report.manager_writes < nth
    {
        let writes = report.manager_writes;
        return Err(format!(
            "--crash-after-write: the manager made only {writes} writes, so it was not crashed"
        ));
    }
    if arguments.timeline && !report.is_broken() {
        println!("{small}");
        for line in simulator::timeline_of(&small) {
            println!("  {line}");
        }
    }
    if let Some(path) = &arguments.html {
        html::write(path, &small, &report)?;
    }
    print!("{report}");
    Ok(report.is_broken())
}

/// The scenario that the arguments name, before anything is cut from it.
fn scenario(arguments: &Arguments, seed: Option<u64>) -> Result<Scenario, String> {
    let mut scenario = match (&arguments.scenario, seed) {
        (None, seed) => Scenario::from_seed(seed.unwrap_or(0)),
        (Some(name), seed) => {
            let found = library::find(name).ok_or_else(|| {
                let names: Vec<&str> = library::LIBRARY.iter().map(|named| named.name).collect();
                format!(
                    "--scenario: there is no scenario {name:?}; there are {}",
                    names.join(", ")
                )
            })?;
            match seed {
                Some(seed) => found.with_faults(seed),
                None => found,
            }
        }
    };
    scenario.crash_after_write = arguments.crash_after_write;
    Ok(scenario)
}

/// The arguments that give the same scenario again.
fn source(arguments: &Arguments, seed: Option<u64>) -> String {
    let name = arguments
        .scenario
        .as_ref()
        .map(|name| format!("--scenario {name}"));
    let seed = seed.map(|seed| format!("--seed {seed}"));
    let words: Vec<String> = name.into_iter().chain(seed).collect();
    words.join(" ")
}

fn crash_after_each_write(arguments: &Arguments) -> Result<bool, String> {
    let calm = scenario(arguments, None)?;
    let undisturbed = simulator::run_scenario(&calm);
    if undisturbed.is_broken() {
        print!("{undisturbed}");
        return Ok(true);
    }
    let writes = undisturbed.manager_writes;
    let drawn = |write| {
        let mut crashed = calm.clone();
        crashed.crash_after_write = Some(write);
        (crashed, source(arguments, None))
    };
    let sum = many::run(arguments.jobs, 1..writes + 1, drawn, |write, _| {
        verify_crash(&calm, write, &undisturbed)
    });
    println!("crashes after each of {writes} writes of {}", calm.name);
    print!("{sum}");
    println!("{}", sum.verdict(Terminal::of_stdout()));
    Ok(sum.is_broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_check_has_an_exit_code_of_its_own() {
        assert_eq!(exit_code(&Ok(false)), 0);
        assert_eq!(exit_code(&Ok(true)), 2);
        assert_eq!(exit_code(&Err("no such scenario".to_owned())), 1);
    }
}
