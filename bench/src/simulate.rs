//! How fast the simulator is, and what it holds over many runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use simulator::{Scenario, library, paces, run_scenario, verify, verify_crash};

use crate::report::{Goal, Report};

/// What the issue asks for: two cores.
const JOBS: u64 = 2;

/// How often a scenario runs whose speed has a goal: one run is short, and the machine is noisy.
const RUNS: usize = 5;

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let seeds = match arguments.as_slice() {
        [] => 1000,
        ["speed"] => return speeds(report, &[]),
        ["speed", names @ ..] => return speeds(report, names),
        [count] => count.parse()?,
        _ => bail!("usage: cargo xtask bench simulate [SEEDS | speed [busy] [restless] [idle]]"),
    };
    speeds(report, &[])?;
    many(report, seeds);
    same_bytes(report, seeds);
    crashes(report);
    Ok(())
}

/// How fast time goes by in scenarios that go well; all of them, or those that are named. The median of some runs,
/// which all do the same.
fn speeds(report: &mut Report, names: &[&str]) -> Result<()> {
    let (half_an_hour, day) = (Duration::from_secs(1800), Duration::from_secs(24 * 3600));
    for (scenario, about, goal) in [
        (
            paces::busy(half_an_hour),
            "10 nodes, 200 pods",
            Some(1000.0),
        ),
        (paces::restless(half_an_hour), "10 nodes, 200 pods", None),
        (paces::idle(day), "3 nodes", Some(100_000.0)),
    ] {
        let name = &scenario.name;
        if !names.is_empty() && !names.contains(&name.as_str()) {
            continue;
        }
        let runs = if goal.is_some() { RUNS } else { 1 };
        let ran = timed(&scenario, runs)?;
        let (slowest, (took, ran)) = (ran[runs - 1].0, &ran[runs / 2]);
        let virtual_seconds = ran.virtual_time.as_secs_f64();
        let mut figure = |what: &str, value, unit, goal| {
            report.figure(&format!("{name}: {what}"), value, unit, goal);
        };
        figure(
            about,
            virtual_seconds / took,
            "s/s",
            goal.map(Goal::AtLeast),
        );
        if runs > 1 {
            let slowest = virtual_seconds / slowest;
            figure(&format!("{about}, slowest of {runs}"), slowest, "s/s", None);
        }
        for (what, count) in [
            ("requests", ran.counts.requests),
            ("changes", ran.counts.changes),
        ] {
            let rate = count as f64 / virtual_seconds;
            figure(&format!("{what} a virtual second"), rate, "1/s", None);
            let each = took / count.max(1) as f64 * 1e6;
            figure(
                &format!("time for each of {count} {what}"),
                each,
                "us",
                None,
            );
        }
    }
    Ok(())
}

/// Runs of a scenario and the seconds that they took, the fastest first.
fn timed(scenario: &Scenario, runs: usize) -> Result<Vec<(f64, simulator::Report)>> {
    let mut ran = Vec::new();
    for _ in 0..runs {
        let started = Instant::now();
        let outcome = run_scenario(scenario);
        let took = started.elapsed().as_secs_f64();
        if let Some(failure) = &outcome.failure {
            bail!("{} did not go well: {}", scenario.name, failure.problem);
        }
        ran.push((took, outcome));
    }
    ran.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    Ok(ran)
}

fn many(report: &mut Report, seeds: u64) {
    let started = Instant::now();
    let broken = count(0..seeds, |seed| {
        verify(&Scenario::from_seed(seed)).is_broken()
    });
    let hour = seeds as f64 / started.elapsed().as_secs_f64() * 3600.0;
    report.figure(
        "seeds an hour, 2 threads",
        hour,
        "1/h",
        Some(Goal::AtLeast(20_000.0)),
    );
    report.figure("seeds broken", broken as f64, "", Some(Goal::AtMost(0.0)));
}

fn same_bytes(report: &mut Report, seeds: u64) {
    let differ = count(0..seeds, |seed| {
        let scenario = Scenario::from_seed(seed);
        run_scenario(&scenario).hash != run_scenario(&scenario).hash
    });
    let share = 100.0 * (seeds - differ) as f64 / seeds.max(1) as f64;
    report.figure(
        "same seed, same bytes",
        share,
        "%",
        Some(Goal::AtLeast(100.0)),
    );
}

fn crashes(report: &mut Report) {
    let (mut crashes, mut lost) = (0, 0);
    for named in &library::LIBRARY {
        let calm = named.scenario();
        let undisturbed = run_scenario(&calm);
        let writes = undisturbed.manager_writes;
        crashes += writes;
        lost += count(1..writes + 1, |write| {
            verify_crash(&calm, write, &undisturbed).is_broken()
        });
        eprintln!("crashed after each of {writes} writes of {}", named.name);
    }
    report.figure("crashes after single writes", crashes as f64, "", None);
    report.figure(
        "crashes not recovered",
        lost as f64,
        "",
        Some(Goal::AtMost(0.0)),
    );
}

/// How many of the numbers are so, on two threads.
fn count(numbers: std::ops::Range<u64>, is_so: impl Fn(u64) -> bool + Sync) -> u64 {
    let (next, found) = (AtomicU64::new(numbers.start), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    found.fetch_add(u64::from(is_so(number)), Ordering::Relaxed);
                }
            });
        }
    });
    found.into_inner()
}
