//! Many runs at a time, with a line that says how far it is.

use parking_lot::Mutex;
use std::io::IsTerminal;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use simulator::{Cut, Report, Scenario, explain};

use super::summary::{SHOWN, Sum};

/// Runs the scenario of each number on one of `jobs` threads; the first that break are shrunk. `drawn`
/// gives a scenario and the arguments that name it, `verify` runs it.
pub(super) fn run(
    jobs: u64,
    numbers: Range<u64>,
    drawn: impl Fn(u64) -> (Scenario, String) + Sync,
    verify: impl Fn(u64, &Scenario) -> Report + Sync,
) -> Sum {
    let (next, sum) = (AtomicU64::new(numbers.start), Mutex::new(Sum::new()));
    let total = numbers.end - numbers.start;
    let bar = std::io::stderr().is_terminal();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(total) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    let (scenario, source) = drawn(number);
                    let mut report = verify(number, &scenario);
                    if let Some(failure) = &mut report.failure {
                        let arguments = Cut::none(&scenario).arguments(&scenario);
                        failure.replay = format!("steersman simulate {source}{arguments}");
                    }
                    let mut sum = sum.lock();
                    sum.add(number, report);
                    if bar {
                        eprint!("\r{}", sum.progress(total));
                    } else if sum.is_time_to_tell() {
                        eprintln!("{}", sum.progress(total).trim_end());
                    }
                }
            });
        }
    });
    if bar {
        eprintln!();
    }
    let mut sum = sum.into_inner();
    sum.finish();
    for (number, report) in sum.broken.iter_mut().take(SHOWN) {
        let (scenario, source) = drawn(*number);
        *report = explain(&scenario, &source);
    }
    sum
}
