//! What the status says.

use super::super::status::{self, compute};
use super::*;
use crate::workload::StatusChange;

/// `replicas ready available current updated`, then the current revision.
fn check(text: &str, deleted: usize, expected: &str) {
    let status = compute(&snapshot(text, Gates::default(), false), deleted, now());
    let counts = [
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
    ];
    let counts = counts.map(|count| count.to_string()).join(" ");
    assert_eq!(
        format!("{counts} {}", status.current_revision),
        expected,
        "{text}"
    );
    assert_eq!(status.observed_generation, 2);
    assert_eq!(status.collision_count, Some(0));
}

// Upstream: TestStatefulSetAvailability, TestStatefulSetStatusUpdaterGetAvailableReplicas.
#[test]
fn counts() {
    check("replicas=2 |", 0, "0 0 0 0 0 old");
    check(
        "replicas=2 | 0:ready,rev=old 1:running,rev=old",
        0,
        "2 1 1 2 0 old",
    );
    check("replicas=2 | 0:ready,rev=old 1:ready", 0, "2 2 2 1 1 old");
    check(
        "replicas=2 min=60 | 0:ready,since=10 1:ready",
        0,
        "2 2 1 2 2 new",
    );
    check("replicas=2 | 0:ready,gone 1:pending", 0, "2 1 1 0 1 old");
    check(
        "replicas=1 | 0:ready,rev=old 1:ready,rev=old",
        0,
        "2 2 2 2 0 old",
    );
    check("replicas=1 | 0:failed,rev=old", 0, "1 0 0 1 0 old");
    check(
        "replicas=1 | 0:ready,rev=old web-00:ready",
        0,
        "1 1 1 1 0 old",
    );
    check(
        "replicas=1 deleted | 0:ready,rev=old web-00:ready",
        0,
        "2 2 2 1 1 old",
    );
    check(
        "replicas=2 | 0:ready,rev=old 1:ready,rev=old",
        1,
        "2 2 2 1 0 old",
    );
}

// Upstream: TestStatefulSetControlRollingUpdate.
#[test]
fn a_complete_update_makes_the_revision_current() {
    check("replicas=2 | 0:ready 1:ready", 0, "2 2 2 2 2 new");
    check("replicas=2 | 0:ready 1:running", 0, "2 1 1 0 2 old");
    check("replicas=1 | 0:ready 1:ready", 0, "2 2 2 0 2 old");
    check("replicas=2 ondelete | 0:ready 1:ready", 0, "2 2 2 0 2 old");
    check("replicas=0 |", 0, "0 0 0 0 0 new");
}

// Upstream: TestStatefulSetStatusUpdaterUpdatesObservedGeneration.
#[test]
fn only_what_users_see_is_worth_a_write() {
    let base = set("replicas=1");
    let with = |change: fn(&mut StatefulSet)| {
        let mut changed = (*base).clone();
        change(&mut changed);
        status::change(&base, &changed.status) != StatusChange::None
    };
    assert!(!with(|_| {}));
    assert!(with(|set| set.status.observed_generation = 5));
    assert!(with(|set| set.status.observed_generation = -1));
    assert!(with(|set| set.status.replicas = 1));
    assert!(with(|set| set.status.ready_replicas = 1));
    assert!(with(|set| set.status.available_replicas = 1));
    assert!(with(|set| set.status.current_replicas = 1));
    assert!(with(|set| set.status.updated_replicas = 1));
    assert!(with(|set| set.status.current_revision = "x".into()));
    assert!(with(|set| set.status.update_revision = "x".into()));
    assert!(!with(|set| set.status.collision_count = Some(3)));
}
