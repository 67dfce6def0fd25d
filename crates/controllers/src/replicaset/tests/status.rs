use api::conditions::{Condition, ConditionStatus};
use expect_test::{Expect, expect};
use runtime::Error;

use super::super::{Outcome, Snapshot, compute};
use super::{now, snapshot};

fn check(snapshot: &Snapshot<api::kinds::ReplicaSet>, failure: Option<&str>, expected: Expect) {
    let outcome = Outcome {
        failure: failure.map(|text| Error::Retry(text.into())),
        moved: false,
    };
    let status = compute(snapshot, &outcome, now());
    expected.assert_eq(&serde_json::to_string(&status).unwrap());
}

// Upstream: TestCalculateStatus.
#[test]
fn counts() {
    check(
        &snapshot("replicas=4,min=60 | a:ready,10m b:ready,10s c:pending"),
        None,
        expect![[
            r#"{"replicas":3,"fullyLabeledReplicas":3,"readyReplicas":2,"availableReplicas":1,"terminatingReplicas":0,"observedGeneration":2}"#
        ]],
    );
}

/// `replicas fullyLabeled ready available terminating`.
fn counted(snapshot: &Snapshot<api::kinds::ReplicaSet>) -> String {
    let status = compute(snapshot, &Outcome::default(), now());
    let terminating = status.terminating_replicas;
    format!(
        "{} {} {} {} {}",
        status.replicas,
        status.fully_labeled_replicas,
        status.ready_replicas,
        status.available_replicas,
        terminating.map_or("-".into(), |count| count.to_string())
    )
}

// Upstream: TestCalculateStatus.
#[test]
fn every_count_counts_its_own() {
    let labelled = |text: &str, more: &str| {
        let mut snapshot = snapshot(text);
        let mut owner = (*snapshot.owner).clone();
        let template = serde_json::json!({"metadata": {"labels": {"app": "web", "tier": more}}});
        owner.spec.template = api::Template::parse(&template.to_string()).unwrap();
        snapshot.owner = std::sync::Arc::new(owner);
        // Pods of the name `full` have both labels.
        for pod in &mut snapshot.active {
            if &*pod.metadata.name == "full" {
                let pod = std::sync::Arc::make_mut(pod);
                pod.metadata.labels = pod.metadata.labels.with("tier", more);
            }
        }
        counted(&snapshot)
    };
    let plain = |text: &str| counted(&snapshot(text));
    assert_eq!(plain("replicas=2 | a:ready"), "1 1 1 1 0");
    assert_eq!(plain("replicas=2 | a:ready b:ready"), "2 2 2 2 0");
    assert_eq!(labelled("replicas=1 | a:ready", "x"), "1 0 1 1 0");
    assert_eq!(labelled("replicas=1 | a:ready b:ready", "x"), "2 0 2 2 0");
    assert_eq!(
        labelled("replicas=1 | a:ready full:ready", "x"),
        "2 1 2 2 0"
    );
    assert_eq!(plain("replicas=1 | a:pending"), "1 1 0 0 0");
    assert_eq!(plain("replicas=1,min=3600 | a:ready,1m"), "1 1 1 0 0");
    assert_eq!(plain("replicas=1,min=3600 | a:ready,1h"), "1 1 1 1 0");
    assert_eq!(plain("replicas=1,min=3600 | a:ready,2h"), "1 1 1 1 0");
    assert_eq!(plain("replicas=0 |"), "0 0 0 0 0");
    for (terminating, expected) in [(Some(2), "1 1 1 1 2"), (None, "1 1 1 1 -")] {
        let mut snapshot = snapshot("replicas=1 | a:ready");
        snapshot.terminating = terminating;
        assert_eq!(counted(&snapshot), expected);
    }
}

// Upstream: TestCalculateStatusConditions.
#[test]
fn a_failure_appears_once_and_goes_with_success() {
    let fresh = snapshot("replicas=2 | a:ready");
    check(
        &fresh,
        Some("quota exceeded"),
        expect![[
            r#"{"replicas":1,"fullyLabeledReplicas":1,"readyReplicas":1,"availableReplicas":1,"terminatingReplicas":0,"observedGeneration":2,"conditions":[{"type":"ReplicaFailure","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"FailedCreate","message":"quota exceeded"}]}"#
        ]],
    );
    let too_many = snapshot("replicas=2 | a:ready b:ready c:ready");
    let refused = Outcome {
        failure: Some(Error::Retry("not today".into())),
        moved: false,
    };
    let status = compute(&too_many, &refused, now());
    let held = &status.conditions[0];
    let told = (held.reason.as_str(), &*held.message);
    assert_eq!(told, ("FailedDelete", "not today"));
    assert!(
        compute(&fresh, &Outcome::default(), now())
            .conditions
            .is_empty()
    );
    let mut failed = snapshot("replicas=0 | a:ready");
    let mut owner = (*failed.owner).clone();
    let held = Condition::new(
        "ReplicaFailure",
        ConditionStatus::True,
        "FailedDelete",
        "first",
        now().time(),
    );
    owner.status.conditions = vec![held];
    failed.owner = std::sync::Arc::new(owner);
    let outcome = Outcome {
        failure: Some(Error::Retry("second".into())),
        moved: false,
    };
    let status = compute(&failed, &outcome, now());
    assert_eq!(
        &*status.conditions[0].message, "first",
        "the first failure stays"
    );
    assert!(
        compute(&failed, &Outcome::default(), now())
            .conditions
            .is_empty()
    );
}

#[test]
fn counts_that_fall_are_news_and_counts_that_rise_can_wait() {
    use crate::workload::StatusChange;
    let check = |held: (i32, i32), now: (i32, i32), moved: bool, expected: StatusChange| {
        let of = |(ready, available): (i32, i32)| api::kinds::ReplicaSetStatus {
            ready_replicas: ready,
            available_replicas: available,
            ..Default::default()
        };
        let owner = api::kinds::ReplicaSet {
            status: of(held),
            ..Default::default()
        };
        let outcome = super::super::Outcome {
            moved,
            failure: None,
        };
        let change = super::super::status::change(&owner, &of(now), &outcome);
        assert_eq!(change, expected, "{held:?} {now:?} {moved}");
    };
    check((3, 3), (3, 3), true, StatusChange::None);
    check((3, 2), (3, 3), false, StatusChange::Counts);
    check((3, 2), (3, 3), true, StatusChange::Moving);
    check((3, 3), (3, 2), false, StatusChange::Now);
    check((3, 3), (2, 2), true, StatusChange::Now);
}
