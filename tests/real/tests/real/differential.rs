//! The scenarios of the kinds whose controllers are ours already: both managers must agree on them.
//! `cargo xtask differential` shows the same as a table, for any scenario.

use real_tests::scenario::{KnownDifferences, Scenario, compare, run_all};
use real_tests::{Flavor, installation, manager};

#[test]
fn ours_agrees_with_go() {
    let mut scenarios = Scenario::load(&[]).unwrap();
    let all = scenarios.len();
    scenarios.retain(|scenario| {
        scenario
            .controllers()
            .iter()
            .all(|name| manager::OURS.contains(name))
    });
    if scenarios.len() < all {
        let left_out = all - scenarios.len();
        installation::say(&format!(
            "skipped: {left_out} scenarios of controllers that manager::OURS does not list"
        ));
    }
    let Some(installation) = installation::for_test() else {
        return;
    };
    if scenarios.is_empty() {
        return;
    }
    let expected = run_all(&installation, Flavor::Go, &scenarios, &|_| {}).unwrap();
    let actual = run_all(&installation, Flavor::Ours, &scenarios, &|_| {}).unwrap();
    let known = KnownDifferences::read();
    let mut failures = Vec::new();
    for scenario in &scenarios {
        match (&expected[&scenario.name], &actual[&scenario.name]) {
            (Ok(expected), Ok(actual)) => {
                let found = compare(expected, actual).into_iter();
                let unmeant =
                    found.filter(|difference| !known.contains(&scenario.name, difference));
                failures.extend(
                    unmeant.map(|d| format!("{}: {}: {}", scenario.name, d.aspect, d.text)),
                );
            }
            (expected, actual) => {
                let errors = [("go", expected), ("ours", actual)].into_iter();
                let errors = errors.filter_map(|(who, run)| Some((who, run.as_ref().err()?)));
                failures.extend(
                    errors.map(|(who, error)| format!("{} with {who}: {error:#}", scenario.name)),
                );
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
