//! `steersman simulate`: seeds, faults, checks.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is where users are spoken to"
)]

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use simulator::{Report, run_seed};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Replay one seed and tell all about it
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run this many seeds, from 0 on
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// How many at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    jobs: u64,
}

/// What a broken check exits with.
const BROKEN: u8 = 2;

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    match arguments.seed {
        Some(seed) => {
            let report = run_seed(seed);
            print!("{report}");
            exit_code(report.failure.is_some())
        }
        None => many(arguments),
    }
}

fn exit_code(broken: bool) -> ExitCode {
    if broken {
        ExitCode::from(BROKEN)
    } else {
        ExitCode::SUCCESS
    }
}

#[derive(Default)]
struct Sum {
    seeds: u64,
    virtual_seconds: f64,
    writes: u64,
    faults: u64,
    crashes: u64,
    checks: u64,
    broken: Vec<Report>,
}

fn many(arguments: &Arguments) -> ExitCode {
    let (next, sum) = (AtomicU64::new(0), Mutex::new(Sum::default()));
    let progress = std::io::stderr().is_terminal();
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.seeds {
                        return;
                    }
                    let report = run_seed(seed);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    sum.add(report);
                    if progress {
                        eprint!(
                            "\r{} of {} seeds, {} broken",
                            sum.seeds,
                            arguments.seeds,
                            sum.broken.len()
                        );
                    }
                }
            });
        }
    });
    if progress {
        eprintln!();
    }
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.broken.sort_by_key(|report| report.seed);
    sum.print();
    exit_code(!sum.broken.is_empty())
}

impl Sum {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.virtual_seconds += report.virtual_time.as_secs_f64();
        self.writes += report.writes;
        self.faults += report.faults;
        self.crashes += report.crashes;
        self.checks += report.checks;
        if report.failure.is_some() {
            self.broken.push(report);
        }
    }

    fn print(&self) {
        println!("seeds            {}", self.seeds);
        println!("virtual seconds  {:.0}", self.virtual_seconds);
        println!("writes           {}", self.writes);
        println!("faults injected  {}", self.faults);
        println!("crashes survived {}", self.crashes);
        println!("checks evaluated {}", self.checks);
        println!("broken           {}", self.broken.len());
        for report in self.broken.iter().take(3) {
            println!("\n{report}");
        }
    }
}
