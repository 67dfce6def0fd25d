use std::sync::Arc;

use expect_test::{Expect, expect};

use super::super::limits::{
    is_complete, max_unavailable, most_replicas, must_stay_available, new_set_size,
};
use super::super::{bounds, keeps_enough, new_set, plan, surplus};
use super::{now, planned, snapshot, steps};
use crate::workload::lines::with_class;

/// The steps in a line, the reasons below.
fn check(text: &str, expected: Expect) {
    let plan = plan(&snapshot(text), now());
    let reasons: Vec<String> = plan
        .reasons
        .iter()
        .map(|reason| format!("\n  {}", with_class(reason)))
        .collect();
    let steps = match steps(&plan) {
        none if none.is_empty() => "nothing".to_string(),
        some => some,
    };
    expected.assert_eq(&format!("{steps}{}", reasons.concat()));
}

#[test]
fn a_complete_rollout_rests() {
    check(
        "replicas=3 | old:0 new:3/3",
        expect![[r#"
            nothing
              states: is complete: 3 pods of the current template are available"#]],
    );
    check(
        "replicas=3 history=2 | a:0 old:0 new:3/3",
        expect![[r#"
            nothing
              states: is complete: 3 pods of the current template are available
              states: has 2 old ReplicaSets to roll back to: revisionHistoryLimit is 2"#]],
    );
}

// Upstream: TestSyncDeploymentCreatesReplicaSet.
#[test]
fn creates_the_set_of_a_new_template() {
    check(
        "replicas=3 |",
        expect![[r#"
            create 3
              acts: creates web-6f9b8ddf56 with 3 of 3 pods: no ReplicaSet has this template, and there may be 3 pods in all"#]],
    );
    check(
        "replicas=10 surge=2 unavailable=2 | old:10/10",
        expect![[r#"
            create 2, old 10->8
              acts: creates web-6f9b8ddf56 with 2 of 10 pods: no ReplicaSet has this template, and there may be 12 pods in all
              acts: scales old from 10 to 8: enough pods are available without them"#]],
    );
}

// Upstream: TestDeploymentController_reconcileNewReplicaSet.
#[test]
fn the_new_set_grows_into_the_room_that_there_is() {
    let cases = [
        (
            "replicas=10 surge=0 unavailable=0 | old:10/0 new:0",
            "old 10->9",
        ),
        ("replicas=10 surge=2 | old:10 new:0", "new 0->2"),
        ("replicas=10 surge=2 | old:5 new:0", "new 0->7"),
        ("replicas=10 surge=2 | old:10 new:2/0", ""),
        ("replicas=10 surge=2 | old:2 new:11", "new 11->10"),
    ];
    for (text, expected) in cases {
        assert_eq!(planned(text), expected, "{text}");
    }
}

/// Found by the simulator (seed 360). As upstream: what a set is about to delete counts as available as long as its
/// status says so, and as many more go from old sets. The floor holds but for those.
#[test]
fn pods_that_a_status_still_promises_are_taken_for_pods_that_stay() {
    assert_eq!(
        planned("replicas=4 unavailable=1 | old:3/3 new:1/3"),
        "old 3->0"
    );
    let after = snapshot("replicas=4 unavailable=1 | old:0/3 new:1/3");
    let deployment = &after.deployment;
    let owner = api::OwnerRef {
        uid: deployment.metadata.uid.clone(),
        controller: Some(true),
        ..api::OwnerRef::default()
    };
    let owners = api::meta::intern_owners(vec![owner]);
    let mut sets = after.sets.clone();
    for set in &mut sets {
        Arc::make_mut(set).metadata.owners = owners.clone();
    }
    let (least, _) = bounds(deployment);
    assert_eq!(least, 3);
    let new = sets.iter().find(|set| set.replicas() == 1);
    let new = new.expect("the snapshot has it");
    assert_eq!(surplus(new), 2);
    assert_eq!(
        keeps_enough(deployment, &sets, least - surplus(new)),
        Ok(())
    );
    let error = keeps_enough(deployment, &sets, least).unwrap_err();
    assert!(error.ends_with("asks for 1 pods, 3 must stay"), "{error}");
}

// Upstream: TestNewRSNewReplicas.
#[test]
fn the_size_of_the_new_set() {
    let size = |facts: &str, current, others| {
        new_set_size(&snapshot(&format!("{facts} |")).deployment, current, others)
    };
    assert_eq!(size("replicas=1 surge=1 unavailable=1", 5, 0), 5);
    assert_eq!(size("replicas=6 surge=10 unavailable=1", 2, 3), 6);
    assert_eq!(size("replicas=6 surge=1", 2, 3), 4);
    assert_eq!(size("replicas=3 recreate", 1, 4), 3);
}

// Upstream: TestDeploymentController_reconcileOldReplicaSets,
// TestDeploymentController_scaleDownOldReplicaSetsForRollingUpdate.
#[test]
fn old_sets_shrink_as_far_as_enough_pods_stay_available() {
    let cases = [
        ("replicas=10 | old:10 new:0", "old 10->9"),
        ("replicas=10 unavailable=2 | old:10 new:0", "old 10->8"),
        // What is not available goes first.
        ("replicas=10 unavailable=2 | old:10/8 new:0", "old 10->8"),
        (
            "replicas=10 unavailable=2 | old:10/9 new:0",
            "old 10->9, old 9->8",
        ),
        // New pods that are not available keep old ones alive.
        ("replicas=10 unavailable=2 | old:8 new:2/0", ""),
        // Too few are available as it is; the broken ones are no loss.
        ("replicas=10 unavailable=2 | old:10/1 new:0", "old 10->8"),
        // The oldest set goes first.
        (
            "replicas=10 unavailable=3 | a:2 b:8 new:0",
            "a 2->0, b 8->7",
        ),
        // One that should have no pods has none to give, whatever its status says.
        ("replicas=10 unavailable=2 | old:0/10 new:10", ""),
        // A set that still shrinks ends the sync.
        ("replicas=10 unavailable=2 | a:4/6 b:6 new:0", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(planned(text), expected, "{text}");
    }
}

// Upstream: TestDeploymentController_cleanupUnhealthyReplicas.
#[test]
fn pods_that_are_not_available_go_first_but_not_more_than_may_go() {
    let cases = [
        // One may go.
        ("replicas=10 unavailable=1 | old:10/8 new:0", "old 10->9"),
        // Three may go, two are broken, and no third is spare.
        (
            "replicas=10 unavailable=2 surge=1 | old:10/8 new:1/1",
            "old 10->8, old 8->7",
        ),
        // None may go.
        ("replicas=10 unavailable=2 | old:8/6 new:2/0", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(planned(text), expected, "{text}");
    }
}

#[test]
fn says_why_old_pods_are_kept() {
    check(
        "replicas=10 surge=3 unavailable=2 | old:8 new:5/0",
        expect![[r#"
            nothing
              waits: keeps new at 5 of 10 pods: maxSurge allows 13 pods in all
              waits: keeps 8 old pods: 8 pods must stay available (maxUnavailable), 8 are, and 5 new pods are not available yet"#]],
    );
    check(
        "replicas=10 unavailable=2 | a:4/6 b:4 new:2",
        expect![[r#"
            nothing
              waits: keeps new at 2 of 10 pods: maxSurge allows 10 pods in all
              waits: keeps its old pods: a is still scaling down"#]],
    );
    check(
        "replicas=2 surge=1 | new:2/1",
        expect![[r#"
            nothing
              waits: waits for its pods: 2 of 2 updated, 1 available"#]],
    );
}

// Upstream: TestScaleDownOldReplicaSets, TestOldPodsRunning.
#[test]
fn recreate_waits_for_all_old_pods() {
    check(
        "replicas=3 recreate | old:3 new:0",
        expect![[r#"
            old 3->0
              acts: scales old from 3 to 0: Recreate removes all old pods first"#]],
    );
    check(
        "replicas=3 recreate | old:0,pods=2",
        expect![[r#"
            nothing
              waits: waits for 2 old pods of old to end: Recreate starts no new pods before"#]],
    );
    check(
        "replicas=3 recreate | old:0,unfinished=1 new:0",
        expect![[r#"
            nothing
              waits: waits for 1 old pod of old to end: Recreate starts no new pods before"#]],
    );
    check(
        "replicas=3 recreate | old:0",
        expect![[r#"
            create 3
              acts: creates web-6f9b8ddf56 with 3 of 3 pods: no ReplicaSet has this template, and there may be 3 pods in all"#]],
    );
    // Its own pods do not count, and those that have ended were not handed in.
    check(
        "replicas=3 recreate | old:0 new:1,unfinished=1",
        expect![[r#"
            new 1->3
              acts: scales new from 1 to 3: it has the current template"#]],
    );
}

// Upstream: TestDeploymentController_cleanupDeployment, TestDeploymentController_cleanupDeploymentOrder.
#[test]
fn the_history_is_bounded() {
    let complete = "replicas=1 status=1/1/1";
    let cases = [
        ("history=1 | a:0 b:0 c:0 new:1", "delete a, delete b"),
        ("history=0 | a:0 b:0,pods=1 new:1", "delete a"),
        ("history=0 | a:0 b:0 new:1", "delete a, delete b"),
        ("history=0 | a:0,deleted new:1", ""),
        ("history=2147483647 | a:0 b:0 new:1", ""),
        ("history=0 | a:0,unseen new:1", ""),
        // By revision, and without one first.
        ("history=1 | a:0,rev=2 b:0,rev=1 new:1", "delete b"),
        ("history=1 | a:0,rev=1 b:0,rev=- new:1", "delete b"),
        ("history=1 | a:0,rev=- b:0,rev=2 new:1", "delete a"),
        // By age where a revision is no number.
        ("history=1 | a:0,rev=2 b:0,rev=x new:1", "delete a"),
        // One that is not empty uses up its turn.
        ("history=1 | a:0,pods=1 b:0 c:0 new:1", "delete b"),
        ("history=1 | a:0,pods=1 b:0,pods=1 c:0 new:1", ""),
        (
            "history=2 | a:0,rev=3 b:0,rev=1 c:0,rev=4 d:0,rev=2 new:1",
            "delete b, delete d",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(planned(&format!("{complete} {text}")), expected, "{text}");
    }
    assert_eq!(
        planned("replicas=1 status=2/1/1 history=0 | a:0 new:1"),
        "",
        "not before the rollout is complete"
    );
    assert_eq!(
        planned("replicas=1 paused history=0 | a:0 new:1"),
        "delete a",
        "but always while paused"
    );
    assert_eq!(
        planned("replicas=4 paused history=0 | a:0 b:0,pods=1 c:1,pods=0 d:1 new:2"),
        "delete a",
        "sets that have pods, or should have some, stay"
    );
    assert_eq!(planned("replicas=4 paused history=0 | a:1 b:1 new:2/1"), "");
    check(
        "replicas=1 status=1/1/1 history=1 | a:0,pods=1 b:0 c:0 new:1",
        expect![[r#"
            delete b
              waits: keeps a: it still has pods, although revisionHistoryLimit is exceeded
              acts: deletes b (revision 2): revisionHistoryLimit is 1"#]],
    );
}

// Upstream: TestSyncDeploymentDontDoAnythingDuringDeletion.
#[test]
fn one_that_is_being_deleted_does_nothing() {
    check(
        "replicas=3 deleted | old:3",
        expect![[r#"
            nothing
              states: is being deleted: only its status is kept up to date"#]],
    );
}

// Upstream: TestFindNewReplicaSet, TestFindOldReplicaSets.
#[test]
fn the_oldest_set_of_the_template_is_the_new_one() {
    let split = |text: &str| {
        let plan = plan(&snapshot(text), now());
        let name = |set: &api::kinds::ReplicaSet| set.metadata.name.to_string();
        let old: Vec<String> = plan.after.old.iter().map(name).collect();
        (plan.after.new.as_ref().map(name), old.join(" "))
    };
    let paused = |sets: &str| split(&format!("replicas=1 paused | {sets}"));
    assert_eq!(paused("old:0 new:1"), (Some("new".into()), "old".into()));
    assert_eq!(
        paused("old:0 new1:0 new2:1"),
        (Some("new1".into()), "old new2".into())
    );
    assert_eq!(paused("old:0"), (None, "old".into()));
    assert_eq!(paused("new:1"), (Some("new".into()), String::new()));
}

// Upstream: TestGenerateReplicaSetName, TestDeploymentController_generateReplicaSetName.
#[test]
fn names_fit() {
    let hash = "abcde12345";
    assert_eq!(new_set::name("web", hash), "web-abcde12345");
    let long = "a".repeat(250);
    assert_eq!(
        new_set::name(&long, hash),
        format!("{}-{hash}", &long[..242])
    );
    assert_eq!(
        new_set::name(&long[..242], hash),
        format!("{}-{hash}", &long[..242])
    );
    let (d, h) = ("d".repeat(252), "h".repeat(252));
    assert_eq!(new_set::name(&d, &h), format!("{d}-{h}"));
}

// Upstream: TestMaxUnavailable, TestMinAvailable.
#[test]
fn limits() {
    let limits = |facts: &str| {
        let snapshot = snapshot(&format!("{facts} |"));
        let deployment = &*snapshot.deployment;
        let unavailable = max_unavailable(deployment);
        let available = must_stay_available(deployment);
        (unavailable, available, most_replicas(deployment))
    };
    assert_eq!(limits("replicas=10 surge=1 unavailable=5"), (5, 5, 11));
    assert_eq!(limits("replicas=10 surge=1 unavailable=10"), (10, 0, 11));
    assert_eq!(limits("replicas=5 surge=1 unavailable=10"), (5, 0, 6));
    assert_eq!(limits("replicas=0 surge=1 unavailable=10"), (0, 0, 1));
    assert_eq!(limits("replicas=4 surge=0 unavailable=0"), (1, 3, 4));
    assert_eq!(limits("replicas=10 surge=1 unavailable=60%"), (6, 4, 11));
    assert_eq!(limits("replicas=10 surge=1 unavailable=100%"), (10, 0, 11));
    assert_eq!(limits("replicas=5 surge=1 unavailable=100%"), (5, 0, 6));
    // UPSTREAM: none may be missing for `Available`, although all go at once.
    assert_eq!(
        limits("replicas=4 surge=3 unavailable=3 recreate"),
        (0, 4, 4)
    );
}

// Upstream: TestDeploymentComplete.
#[test]
fn completeness() {
    let complete = |facts: &str| {
        let snapshot = snapshot(&format!("{facts} |"));
        is_complete(&snapshot.deployment, &snapshot.deployment.status)
    };
    assert!(complete("replicas=5 status=5/5/5"));
    assert!(
        !complete("replicas=5 status=5/5/4"),
        "not all are available"
    );
    assert!(!complete("replicas=5 status=5/4/5"), "not all are new");
    assert!(!complete("replicas=5 status=6/5/5"), "an old one is left");
    assert!(!complete("replicas=1 status=5/1/1"), "it still shrinks");
    assert!(
        !complete("replicas=5 unavailable=1 status=5/5/3"),
        "too few are available"
    );
    assert!(
        !complete("replicas=1 unavailable=1 surge=1 status=1/1/0"),
        "its only pod never comes up, although it may be missing"
    );
    assert!(
        !complete("replicas=1 surge=1 status=2/1/1"),
        "the pod that is available is an old one"
    );
}
