//! Seeds, faults and crashes.

use steersman_simulator::{Plan, crash_points, run_plan, run_seed};

fn check(seed: u64) {
    let report = run_seed(seed);
    assert!(report.failure.is_none(), "{report}");
    assert!(report.checks > 0, "nothing was checked: {report}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..2 {
        let (one, two) = (run_seed(seed), run_seed(seed));
        assert_eq!(one.hash, two.hash, "seed {seed}\n{one}\n{two}");
        assert_eq!(one.to_string(), two.to_string());
    }
    assert_ne!(run_seed(1).hash, run_seed(2).hash);
}

#[test]
fn seeds_converge_through_faults_and_crashes() {
    for seed in 0..12 {
        check(seed);
    }
}

/// Each write of a calm run in turn is the last one before a crash.
#[test]
fn a_crash_after_each_single_write_is_survived() {
    for seed in [7] {
        let calm = Plan {
            faults: false,
            random_crashes: false,
            ..Plan::for_seed(seed)
        };
        let undisturbed = run_plan(calm);
        assert!(undisturbed.failure.is_none(), "{undisturbed}");
        for write in 1..=crash_points(seed) {
            let crashed = run_plan(Plan {
                crash_after_write: Some(write),
                ..calm
            });
            assert!(
                crashed.failure.is_none(),
                "crash after write {write}: {crashed}"
            );
            assert_eq!(crashed.crashes, 1, "crash after write {write}");
        }
    }
}
