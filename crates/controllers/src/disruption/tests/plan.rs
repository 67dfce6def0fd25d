//! The pure plan, in a terse notation.
//!
//! `min=34% scale=3 | a b:unready c:deleting d~60`: a budget, what the owners are scaled to, and the pods under it. `~60`
//! is a pod that was evicted 60 seconds ago; `gone~60` was evicted and is not there any more.

use std::sync::Arc;

use api::conditions::{self, Condition, ConditionStatus};
use api::kinds::{Pod, PodDisruptionBudget};
use api::{IntOrString, MicroTime, Resource, Time};
use expect_test::{Expect, expect};
use serde_json::json;

use super::super::plan::{CONDITION, counts_by_scale, plan, plan_failure};
use super::super::{Expected, Plan};

const NOW: i64 = 1_000_000;

fn now() -> MicroTime {
    Time::from_unix(NOW).micro()
}

fn read(text: &str) -> (PodDisruptionBudget, Vec<Arc<Pod>>, Option<Expected>) {
    let (words, pods) = text.split_once('|').unwrap();
    let mut budget = PodDisruptionBudget::default();
    budget.metadata.generation = 7;
    let mut expected = Expected::default();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap();
        let number = || match value.parse() {
            Ok(number) => IntOrString::Int(number),
            Err(_) => IntOrString::from(value),
        };
        match name {
            "min" => budget.spec.min_available = Some(number()),
            "max" => budget.spec.max_unavailable = Some(number()),
            "scale" => expected.pods = value.parse().unwrap(),
            "unmanaged" => expected.unmanaged = value.split(',').map(Arc::from).collect(),
            other => panic!("{other}?"),
        }
    }
    let mut read = Vec::new();
    for word in pods.split_whitespace() {
        let (word, evicted) = match word.split_once('~') {
            Some((word, seconds)) => (word, seconds.parse::<i64>().ok()),
            None => (word, None),
        };
        let (name, state) = word.split_once(':').unwrap_or((word, "ready"));
        if let Some(seconds) = evicted {
            let at = Time::from_unix(NOW - seconds);
            budget.status.disrupted_pods.insert(name.into(), at);
        }
        if name == "gone" {
            continue;
        }
        let mut pod = json!({
            "metadata": {"name": name},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if state == "unready" { "False" } else { "True" }}]},
        });
        if state == "deleting" {
            pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        read.push(Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap()));
    }
    let expected = counts_by_scale(&budget.spec).then_some(expected);
    (budget, read, expected)
}

fn planned(text: &str) -> Plan {
    let (budget, pods, expected) = read(text);
    plan(&budget, &pods, expected.as_ref(), now()).unwrap()
}

fn print(plan: &Plan) -> String {
    let status = &plan.status;
    let mut text = format!(
        "{} allowed, {} healthy of {}, {} expected",
        status.disruptions_allowed,
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods
    );
    for pod in status.disrupted_pods.keys() {
        text.push_str(&format!(", {pod} evicted"));
    }
    if let Some(at) = plan.recheck {
        text.push_str(&format!(", again in {} s", at.since(now()).as_secs()));
    }
    let condition = conditions::find(&status.conditions, CONDITION).unwrap();
    assert_eq!(condition.is_true(), status.disruptions_allowed > 0);
    assert_eq!(condition.observed_generation, 7);
    assert_eq!(status.observed_generation, 7);
    text
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&print(&planned(text)));
}

// TestNoSelector, TestUnavailable.
#[test]
fn a_whole_number_counts_the_pods_that_are_there() {
    check("min=3 |", expect!["0 allowed, 0 healthy of 3, 0 expected"]);
    check(
        "min=3 | a",
        expect!["0 allowed, 1 healthy of 3, 1 expected"],
    );
    check(
        "min=3 | a b c d",
        expect!["1 allowed, 4 healthy of 3, 4 expected"],
    );
    check(
        "min=3 | a:unready b c d",
        expect!["0 allowed, 3 healthy of 3, 4 expected"],
    );
    check(
        "min=0 | a b",
        expect!["2 allowed, 2 healthy of 0, 2 expected"],
    );
    check("min=0 |", expect!["0 allowed, 0 healthy of 0, 0 expected"]);
}

// TestIntegerMaxUnavailable, TestIntegerMaxUnavailableWithScaling, TestPercentageMaxUnavailableWithScaling.
#[test]
fn unavailability_is_counted_from_the_scale() {
    check("max=1 |", expect!["0 allowed, 0 healthy of 0, 0 expected"]);
    check(
        "max=1 unmanaged=a | a",
        expect!["0 allowed, 1 healthy of 0, 0 expected"],
    );
    check(
        "max=2 scale=7 | a",
        expect!["0 allowed, 1 healthy of 5, 7 expected"],
    );
    check(
        "max=2 scale=5 | a",
        expect!["0 allowed, 1 healthy of 3, 5 expected"],
    );
    check(
        "max=30% scale=7 | a",
        expect!["0 allowed, 1 healthy of 4, 7 expected"],
    );
    check(
        "max=30% scale=3 | a",
        expect!["0 allowed, 1 healthy of 2, 3 expected"],
    );
    check(
        "max=5 scale=3 | a b c",
        expect!["3 allowed, 3 healthy of 0, 3 expected"],
    );
    check(
        "max=1 scale=0 | a",
        expect!["0 allowed, 1 healthy of 0, 0 expected"],
    );
}

// TestReplicaSet, TestReplicationController, TestStatefulSetController, TestNakedPod, TestMultipleControllers.
#[test]
fn percentages_round_up() {
    check(
        "min=20% scale=10 | a",
        expect!["0 allowed, 1 healthy of 2, 10 expected"],
    );
    check(
        "min=34% scale=3 | a b",
        expect!["0 allowed, 2 healthy of 2, 3 expected"],
    );
    check(
        "min=34% scale=3 | a b c",
        expect!["1 allowed, 3 healthy of 2, 3 expected"],
    );
    check(
        "min=34% scale=3 unmanaged=r | a b c r",
        expect!["2 allowed, 4 healthy of 2, 3 expected"],
    );
    check(
        "min=28% unmanaged=a | a",
        expect!["0 allowed, 1 healthy of 0, 0 expected"],
    );
    check(
        "min=1% scale=1 | a b",
        expect!["1 allowed, 2 healthy of 1, 1 expected"],
    );
}

#[test]
fn absurd_numbers_allow_nothing_or_no_more_than_there_is() {
    check(
        "min=2147483647 | a",
        expect!["0 allowed, 1 healthy of 2147483647, 1 expected"],
    );
    check(
        "min=-2147483648 | a",
        expect!["2147483647 allowed, 1 healthy of -2147483648, 1 expected"],
    );
    check(
        "max=-2147483648 scale=3 | a",
        expect!["0 allowed, 1 healthy of 2147483647, 3 expected"],
    );
    check(
        "min=300% scale=3 | a b c",
        expect!["0 allowed, 3 healthy of 9, 3 expected"],
    );
    check(
        "max=300% scale=3 | a b c",
        expect!["3 allowed, 3 healthy of 0, 3 expected"],
    );
    check("| a b", expect!["0 allowed, 2 healthy of 0, 0 expected"]);
    for garbage in ["min=x%", "max=x", "max=%", "min=99999999999999999999%"] {
        let (budget, pods, expected) = read(&format!("{garbage} scale=1 | a"));
        let error = plan(&budget, &pods, expected.as_ref(), now()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("invalid value for IntOrString"),
            "{error}"
        );
    }
}

// TestUpdateDisruptedPods.
#[test]
fn an_eviction_counts_for_two_minutes() {
    check(
        "min=1 | p1:deleting~0 p2~180 p3~60 gone~0",
        expect!["0 allowed, 1 healthy of 1, 3 expected, p3 evicted, again in 60 s"],
    );
    check(
        "min=1 | a~119 b~30 c",
        expect!["0 allowed, 1 healthy of 1, 3 expected, a evicted, b evicted, again in 1 s"],
    );
    check(
        "min=1 | a~120 b",
        expect!["1 allowed, 2 healthy of 1, 2 expected"],
    );
}

#[test]
fn pods_that_are_being_deleted_are_not_healthy() {
    check(
        "min=1 | a:deleting b",
        expect!["0 allowed, 1 healthy of 1, 2 expected"],
    );
}

#[test]
fn every_sentence_reads_well() {
    let lines = |text: &str| {
        let plan = planned(text);
        let lines = plan.reasons.iter().map(api::decision::Line::from);
        lines
            .map(|line| line.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    expect![[r"
        1 pod that is not managed by a controller is not expected
        counts pod b again at 1970-01-12T13:48:30Z: its eviction was allowed, and it is not deleted yet
        counts pod c again: its eviction was allowed two minutes ago, and it was not deleted
        allows no evictions: 2 pods are healthy, 2 must be"]]
    .assert_eq(&lines("max=1 scale=3 unmanaged=a | a b~10 c~200"));
    expect![[r"
        no pod is under this budget
        allows no evictions: no pods are expected"]]
    .assert_eq(&lines("max=1 |"));
    expect!["allows 1 eviction now: 2 pods are healthy, 1 must be"]
        .assert_eq(&lines("min=1 | a b"));
}

// TestKeepExistingPDBConditionDuringSync.
#[test]
fn conditions_of_others_stay() {
    let (mut budget, pods, _) = read("min=3 | a");
    let other = Condition::new("Other", ConditionStatus::True, "Test", "m", now().time());
    budget.status.conditions = vec![other.clone()];
    let plan = plan(&budget, &pods, None, now()).unwrap();
    assert_eq!(plan.status.conditions[0], other);
    assert_eq!(plan.status.conditions.len(), 2);
}

#[test]
fn planning_again_changes_nothing() {
    let (mut budget, pods, expected) = read("max=1 scale=3 | a b c~5");
    let first = plan(&budget, &pods, expected.as_ref(), now()).unwrap();
    budget.status = first.status.clone();
    let later = now().plus(std::time::Duration::from_secs(9));
    let second = plan(&budget, &pods, expected.as_ref(), later).unwrap();
    assert_eq!(second.status, first.status);
}

// TestInvalidSelectors.
#[test]
fn where_nothing_can_be_counted_nothing_is_allowed() {
    let (mut budget, _, _) = read("min=1 | a~5");
    budget.status.disruptions_allowed = 4;
    budget.status.current_healthy = 5;
    let status = plan_failure(&budget, "no luck", now());
    assert_eq!((status.disruptions_allowed, status.current_healthy), (0, 5));
    assert_eq!(
        status.disrupted_pods.len(),
        1,
        "evictions are not forgotten"
    );
    let condition = &status.conditions[0];
    assert_eq!(
        (
            &*condition.reason,
            &*condition.message,
            condition.is_false()
        ),
        ("SyncFailed", "no luck", true)
    );
    budget.status = status.clone();
    assert_eq!(plan_failure(&budget, "no luck", now()), status);
}
