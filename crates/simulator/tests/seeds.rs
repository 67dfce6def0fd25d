//! A few seeds with everything that can go wrong. `cargo xtask test` runs thousands.

use steersman_simulator::{Scenario, library, run_scenario, verify, verify_crash};

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..6 {
        let scenario = Scenario::from_seed(seed);
        let (one, two) = (run_scenario(&scenario), run_scenario(&scenario));
        assert_eq!(one.hash, two.hash, "seed {seed}\n{one}\n{two}");
        assert_eq!(one.to_string(), two.to_string());
    }
    let hash = |seed| run_scenario(&Scenario::from_seed(seed)).hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn seeds_converge_to_what_they_would_without_trouble() {
    for seed in 0..12 {
        let report = verify(&Scenario::from_seed(seed));
        assert!(!report.is_broken(), "{report}");
        assert!(report.checks > 50, "hardly anything was checked: {report}");
    }
}

/// Each write of a calm run in turn is the last one before a crash. The other scenarios of the library
/// are for `cargo xtask bench simulate`.
#[test]
fn a_crash_after_each_single_write_is_survived() {
    let calm = library::find("orphan-adopt").expect("it is in the library");
    let undisturbed = run_scenario(&calm);
    assert!(!undisturbed.is_broken(), "{undisturbed}");
    for write in 1..=undisturbed.manager_writes {
        let crashed = verify_crash(&calm, write, &undisturbed);
        assert!(!crashed.is_broken(), "crash after write {write}: {crashed}");
        assert_eq!(crashed.crashes, 1, "crash after write {write}");
    }
}

#[test]
fn every_scenario_of_the_library_ends_well_by_itself() {
    for named in &library::LIBRARY {
        let report = run_scenario(&named.scenario());
        assert!(!report.is_broken(), "{report}");
        assert!(report.granted.iter().all(|granted| *granted), "{report}");
    }
}
