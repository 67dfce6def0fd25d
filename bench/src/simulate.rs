//! How fast the simulator is, and what it holds over many runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use simulator::{Scenario, library, run_scenario, verify, verify_crash};

use crate::report::{Goal, Report};

/// What the issue asks for: two cores.
const JOBS: u64 = 2;

pub(crate) fn run(arguments: &[String], report: &mut Report) -> Result<()> {
    let seeds = match arguments {
        [] => 1000,
        [count] => count.parse()?,
        _ => bail!("usage: cargo xtask bench simulate [SEEDS]"),
    };
    speeds(report);
    many(report, seeds);
    same_bytes(report, seeds);
    crashes(report);
    Ok(())
}

fn speeds(report: &mut Report) {
    let (busy, idle) = (Duration::from_secs(1800), Duration::from_secs(24 * 3600));
    for (name, scenario, goal) in [
        ("busy: 10 nodes, 200 pods", library::busy(busy), 1000.0),
        ("idle: 3 nodes", library::idle(idle), 100_000.0),
    ] {
        let started = Instant::now();
        let ran = run_scenario(&scenario);
        let speed = ran.virtual_time.as_secs_f64() / started.elapsed().as_secs_f64();
        report.figure(name, speed, "s/s", Some(Goal::AtLeast(goal)));
    }
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
