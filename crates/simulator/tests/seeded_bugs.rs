//! Bugs of the runtime, on purpose: each must be found, and the table says how soon. Run by `cargo xtask simulate-bugs`,
//! which looks for bugs of controllers as well (`bugs/*.patch`).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use runtime::mutation;
use steersman_simulator::{Scenario, verify};

/// Each bug, and what it would do to people.
const BUGS: &[(&str, &str)] = &[
    (
        "skip-expectations",
        "acts before it has seen its own writes",
    ),
    (
        "leak-expected-deletions",
        "waits for deletions that it has seen",
    ),
    (
        "drop-synthetic-deletes",
        "tells nobody of what a new listing lacks",
    ),
    (
        "drop-updates-of-terminating",
        "overlooks that an object is being deleted",
    ),
    ("keep-deleted-in-cache", "remembers what is gone"),
    (
        "ignore-gone",
        "keeps asking for a revision that is gone (410)",
    ),
    ("never-retry", "drops a key after the first error"),
    ("lose-dirty-keys", "forgets what changed during a reconcile"),
    ("lose-delayed-keys", "forgets to look again later"),
    ("lead-without-lease", "writes without holding the lease"),
    ("steal-lease", "takes a lease that another one holds"),
    (
        "ignore-new-orphans",
        "does not wake owners for new pods that have none",
    ),
    (
        "trust-warm-caches",
        "takes the lease and trusts what it saw before",
    ),
    (
        "never-forgive",
        "counts failures of keys that are well again",
    ),
    ("never-let-go", "keeps a key in hand after an error"),
    (
        "remember-the-dead",
        "keeps expectations of objects that are gone",
    ),
    (
        "repeat-events",
        "writes an event anew instead of counting it",
    ),
];

/// A bug that takes more seeds than this is as good as not found.
const SEEDS_MAX: u64 = 1000;

/// How many bugs are looked for at a time. Each has a thread of its own, and so has its bug.
const JOBS: usize = 2;

#[test]
#[expect(clippy::print_stdout, reason = "the table is the result")]
fn every_seeded_bug_is_found() {
    let chosen = std::env::var("SEEDED_BUG").ok();
    let wanted = |bug: &str| {
        let chosen = chosen.as_deref();
        chosen.is_none_or(|chosen| chosen.split(',').any(|chosen| chosen == bug))
    };
    let bugs: Vec<_> = BUGS.iter().filter(|(bug, _)| wanted(bug)).collect();
    let (next, healthy) = (AtomicUsize::new(0), Healthy::default());
    let found: Mutex<BTreeMap<usize, Option<(u64, String)>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && let Some((bug, _)) = bugs.get(number)
                {
                    let outcome = healthy.find(bug);
                    match &outcome {
                        Some((seeds, problem)) => println!("{bug}: {seeds} seeds: {problem}"),
                        None => println!("{bug}: not in {SEEDS_MAX} seeds"),
                    }
                    found.lock().insert(number, outcome);
                }
            });
        }
    });
    let found = found.into_inner();
    println!("| bug | what it does | seeds | found by |\n|---|---|---|---|");
    let mut missed = Vec::new();
    for ((bug, about), outcome) in bugs.iter().zip(found.values()) {
        match outcome {
            Some((seeds, problem)) => println!("| `{bug}` | {about} | {seeds} | {problem} |"),
            None => {
                println!("| `{bug}` | {about} | **not in {SEEDS_MAX}** | |");
                missed.push(*bug);
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Whether a seed holds without any bug; one that does not says nothing about bugs.
#[derive(Default)]
struct Healthy(Mutex<BTreeMap<u64, bool>>);

impl Healthy {
    /// How many seeds it takes, and what is broken then.
    fn find(&self, bug: &'static str) -> Option<(u64, String)> {
        (0..SEEDS_MAX).find_map(|seed| {
            mutation::choose(bug);
            let failure = verify(&Scenario::from_seed(seed)).failure;
            mutation::choose("");
            let problem = failure?.problem;
            let first = problem.lines().next().unwrap_or_default();
            self.is_healthy(seed).then(|| (seed + 1, first.to_owned()))
        })
    }

    fn is_healthy(&self, seed: u64) -> bool {
        if let Some(known) = self.0.lock().get(&seed) {
            return *known;
        }
        let healthy = !verify(&Scenario::from_seed(seed)).is_broken();
        self.0.lock().insert(seed, healthy);
        healthy
    }
}
