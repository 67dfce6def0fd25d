//! Bugs on purpose: each must be found, and the table says how soon. Run by `cargo xtask simulate-bugs`.

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
    ("delete-by-name", "deletes pods without a uid precondition"),
    ("adopt-unchecked", "adopts without a live look at itself"),
    ("adopt-while-dying", "adopts although it is being deleted"),
    ("never-release", "keeps pods that it no longer selects"),
    (
        "ignore-conflict",
        "takes a refused status write for a good one",
    ),
    ("one-pod-too-many", "creates one pod more than wanted"),
    ("delete-ready-first", "ranks pods the wrong way round"),
    ("round-unavailable-up", "rounds maxUnavailable up"),
    ("surge-too-far", "goes one above maxSurge"),
    (
        "recreate-without-waiting",
        "Recreate starts before old pods are gone",
    ),
    ("keep-all-history", "never deletes old ReplicaSets"),
    (
        "stateful-unordered",
        "makes the next ordinal before the last is ready",
    ),
    (
        "stateful-update-all",
        "updates all pods of a StatefulSet at once",
    ),
    ("ignore-partition", "updates pods below the partition"),
    ("keep-claims", "ignores the claim retention policy"),
    (
        "daemon-everywhere",
        "runs daemons on nodes that do not suit",
    ),
    (
        "daemon-never-updates",
        "leaves daemons at their old revision",
    ),
    (
        "collect-if-one-owner-is-gone",
        "collects what another owner still needs",
    ),
    (
        "owners-unknown-are-gone",
        "takes owners it does not know for gone",
    ),
    ("foreground-without-waiting", "does not wait for dependents"),
    (
        "forget-to-orphan",
        "lets go without orphaning the dependents",
    ),
    ("finalize-before-empty", "ends a namespace that has content"),
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
    (
        "forget-accounts",
        "does not make a service account that was deleted again",
    ),
    (
        "tokens-outlive-accounts",
        "keeps tokens of accounts that are gone",
    ),
    (
        "trust-forged-roots",
        "leaves forged root certificates alone",
    ),
    (
        "roles-only-grow",
        "never takes a rule away from a sum of roles",
    ),
    ("jobs-die-young", "deletes finished jobs before their time"),
    (
        "keep-foreign-annotations",
        "leaves a wrong ttl on a node that had one",
    ),
    (
        "clean-fresh-tokens",
        "deletes unused tokens without marking them first",
    ),
    (
        "jobs-run-one-more",
        "runs one pod more than parallelism says",
    ),
    ("suspended-jobs-run", "runs jobs that are suspended"),
    ("indexes-twice", "gives an index to a second pod"),
    ("jobs-wait-forever", "never looks again after a back-off"),
    (
        "jobs-let-go-uncounted",
        "lets pods go before it has written down how they ended",
    ),
    ("jobs-count-twice", "counts each end twice"),
    (
        "orphans-stay-held",
        "leaves the finalizer on pods whose job is gone",
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
