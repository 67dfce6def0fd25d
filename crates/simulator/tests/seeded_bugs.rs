//! Bugs on purpose: each must be found, and the table says how soon. Run by `cargo xtask simulate-bugs`.

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
];

/// A bug that takes more seeds than this is as good as not found.
const SEEDS_MAX: u64 = 400;

#[test]
#[expect(clippy::print_stdout, reason = "the table is the result")]
fn every_seeded_bug_is_found() {
    let chosen = std::env::var("SEEDED_BUG").ok();
    let mut missed = Vec::new();
    println!("| bug | what it does | seeds | found by |\n|---|---|---|---|");
    for (bug, about) in BUGS {
        if chosen.as_deref().is_some_and(|chosen| chosen != *bug) {
            continue;
        }
        let found = (0..SEEDS_MAX).find_map(|seed| {
            let scenario = Scenario::from_seed(seed);
            mutation::choose(bug);
            let failure = verify(&scenario).failure?;
            mutation::choose("");
            // A seed that breaks without the bug says nothing about it.
            if let Some(failure) = verify(&scenario).failure {
                println!("seed {seed} breaks without any bug: {}", failure.problem);
                return None;
            }
            let problem = failure
                .problem
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            Some((seed + 1, problem))
        });
        mutation::choose("");
        match found {
            Some((seeds, problem)) => println!("| `{bug}` | {about} | {seeds} | {problem} |"),
            None => {
                println!("| `{bug}` | {about} | **not in {SEEDS_MAX}** | |");
                missed.push(*bug);
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
