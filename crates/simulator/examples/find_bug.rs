//! Runs seeds with a bug until one breaks as it should: `find_bug BUG FROM TO [PHRASE...]`. For `cargo xtask simulate-bugs`.
//!
//! Prints `SEED PROBLEM` of the first seed whose problem has one of the phrases and ends there. Problems without are
//! printed before it, the first one alone; after that it looks at a few more seeds and no more.
#![expect(clippy::print_stdout, reason = "what it prints is the result")]

use runtime::mutation;
use steersman_simulator::{Scenario, verify};

/// After the first problem that is not the one looked for: seeds that break are slow, and all break alike.
const MORE_SEEDS: u64 = 60;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let bug = arguments.next();
    let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
    let (Some(bug), Some(from), Some(mut to)) = (bug, number(), number()) else {
        println!("usage: find_bug BUG FROM TO [PHRASE...]");
        std::process::exit(1);
    };
    mutation::choose(bug.leak());
    let phrases: Vec<String> = arguments.collect();
    let (mut seed, mut has_other) = (from, false);
    while seed < to {
        let failure = verify(&Scenario::from_seed(seed)).failure;
        if let Some(problem) = failure.map(|failure| failure.problem) {
            let first = problem.lines().next().unwrap_or_default();
            let is_meant = phrases.iter().any(|phrase| first.contains(phrase.as_str()));
            if is_meant || !has_other {
                println!("{seed} {first}");
            }
            if is_meant {
                return;
            }
            if !has_other {
                has_other = true;
                to = to.min(seed + MORE_SEEDS);
            }
        }
        seed += 1;
    }
}
