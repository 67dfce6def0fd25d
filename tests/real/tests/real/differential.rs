//! Every scenario with Go's manager and with ours on kube-apiserver, and with ours on our own API server: they
//! must agree. `cargo xtask differential` shows the first two as a table, for any scenario.

use real_tests::Flavor;
use real_tests::installation::{self, Installation, KUBERNETES};
use real_tests::scenario::{
    Difference, KnownDifferences, Part, Record, Run, Scenario, Side, compare, run_all,
};

const GO: Side = Side::Real(Flavor::Go);
const OURS: Side = Side::Real(Flavor::Ours);

#[test]
fn scenarios_of_workloads_are_the_same_everywhere() {
    agree(Part::Workloads);
}

#[test]
fn scenarios_of_housekeeping_are_the_same_everywhere() {
    agree(Part::Housekeeping);
}

#[test]
fn scenarios_of_nodes_are_the_same_everywhere() {
    agree(Part::Nodes);
}

#[test]
fn scenarios_with_a_restart_are_the_same_everywhere() {
    agree(Part::Restarts);
}

#[test]
fn scenarios_of_storage_are_the_same_everywhere() {
    agree(Part::Storage);
}

#[test]
fn scenarios_of_protection_are_the_same_everywhere() {
    agree(Part::Protection);
}

/// `SCENARIOS=rolling,recreate` picks some.
fn agree(part: Part) {
    let wanted = std::env::var("SCENARIOS").unwrap_or_default();
    let wanted: Vec<String> = wanted.split_terminator(',').map(str::to_owned).collect();
    let mut scenarios = Scenario::load(&wanted).unwrap();
    scenarios.retain(|scenario| scenario.part == part);
    let Some(installation) = installation::for_test() else {
        installation::say("on our own API server, scenarios are judged by what they wait for");
        let installation = Installation::of(KUBERNETES).unwrap();
        let runs = run_all(&installation, &[Side::Embedded], &scenarios, &|_, _| {}).unwrap();
        return assert_none(failed(Side::Embedded, &runs[0]));
    };
    let sides = [GO, OURS, Side::Embedded];
    let runs = run_all(&installation, &sides, &scenarios, &|_, _| {}).unwrap();
    let mut failures = Vec::new();
    for (side, run) in sides.iter().zip(&runs) {
        failures.extend(failed(*side, run));
    }
    let known = KnownDifferences::read().unwrap();
    failures.extend(differences(&known, "", &runs[0], &runs[1], compare));
    failures.extend(differences(&known, "embedded ", &runs[1], &runs[2], worlds));
    let played = scenarios.iter().map(|scenario| scenario.name.as_str());
    failures.extend(known.unseen(played));
    assert_none(failures);
}

/// Nobody counts requests on our own server, or tells a manager's conditions from those that users wrote.
fn worlds(expected: &Record, actual: &Record) -> Vec<Difference> {
    let mut actual = actual.without_requests();
    actual
        .conditions
        .retain(|condition, _| expected.conditions.contains_key(condition));
    compare(&expected.without_requests(), &actual)
}

fn failed(side: Side, run: &Run) -> Vec<String> {
    let failed = run
        .iter()
        .filter_map(|(name, outcome)| Some((name, outcome.as_ref().err()?)));
    failed
        .map(|(name, error)| format!("{name} with {}: {error:#}", side.name()))
        .collect()
}

/// What two runs do not agree on and no line of docs/differences.md explains.
fn differences(
    known: &KnownDifferences,
    prefix: &str,
    expected: &Run,
    actual: &Run,
    compare: fn(&Record, &Record) -> Vec<Difference>,
) -> Vec<String> {
    let mut unmeant = Vec::new();
    for (name, expected) in expected {
        let (Ok(expected), Some(Ok(actual))) = (expected, actual.get(name)) else {
            continue;
        };
        let name = format!("{prefix}{name}");
        for difference in compare(expected, actual) {
            if !known.contains(&name, &difference) {
                unmeant.push(format!(
                    "{name}: {}: {}",
                    difference.aspect, difference.text
                ));
            }
        }
    }
    unmeant
}

fn assert_none(failures: Vec<String>) {
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
