use api::LabelSet;
use api::kinds::Deployment;

use super::super::annotations::{
    DESIRED_REPLICAS, REVISION, REVISION_HISTORY, after_rollback, count, last_revision,
    max_revision, of_new_set, with_sizes,
};
use super::snapshot;

fn labels(text: &str) -> LabelSet {
    text.split_whitespace()
        .map(|pair| pair.split_once('=').unwrap())
        .collect()
}

fn annotated(text: &str) -> Deployment {
    let mut deployment = Deployment::default();
    deployment.metadata.annotations = labels(text);
    deployment
}

fn own(text: &str) -> String {
    text.replace("deployment.kubernetes.io/", "")
}

// Upstream: TestAnnotationUtils.
#[test]
fn a_set_inherits_what_speaks_of_the_template() {
    let deployment = annotated(
        "team=a kubectl.kubernetes.io/last-applied-configuration=x deployment.kubernetes.io/revision=4 deprecated.deployment.rollback.to=2",
    );
    let made = of_new_set(&deployment, &labels("mine=1"), 5);
    assert_eq!(own(&made.to_string()), "revision=5,mine=1,team=a");
    assert_eq!(of_new_set(&deployment, &made, 5), made, "and then it rests");
    assert_eq!(
        of_new_set(&deployment, &made, 3).get(REVISION),
        Some("5"),
        "a revision never goes down"
    );
}

#[test]
fn a_revision_that_is_replaced_goes_to_the_history() {
    let deployment = annotated("");
    let mut held = LabelSet::default();
    for revision in [1, 4, 6, 9] {
        held = of_new_set(&deployment, &held, revision);
    }
    assert_eq!(held.get(REVISION), Some("9"));
    assert_eq!(held.get(REVISION_HISTORY), Some("1,4,6"));

    // Some 2,000 characters are kept, the newest.
    for revision in 1000..1600 {
        held = of_new_set(&deployment, &held, revision);
    }
    let history = held.get(REVISION_HISTORY).unwrap();
    assert_eq!(history.len(), 1999);
    assert!(
        history.starts_with("1199,") && history.ends_with(",1598"),
        "{history}"
    );
}

#[test]
fn a_spoiled_revision_is_left_alone() {
    let held = labels("deployment.kubernetes.io/revision=x");
    assert_eq!(of_new_set(&annotated("team=a"), &held, 5), held);
}

// Upstream: TestReplicasAnnotationsNeedUpdate.
#[test]
fn sizes_are_noted() {
    let noted = with_sizes(&labels("a=b"), 10, 12);
    assert_eq!(
        own(&noted.to_string()),
        "a=b,desired-replicas=10,max-replicas=12"
    );
    assert_eq!(with_sizes(&noted, 10, 12), noted);
    assert_ne!(with_sizes(&noted, 10, 13), noted);
    assert_ne!(with_sizes(&noted, 11, 12), noted);
}

// Upstream: TestGetNonNegativeInt32FromAnnotation.
#[test]
fn counts_are_digits_within_an_int32() {
    let read = |text: &str| {
        let snapshot = snapshot(&format!("replicas=1 | a:1,desired={text}"));
        count(&snapshot.sets[0], DESIRED_REPLICAS)
    };
    assert_eq!(read("0"), Some(0));
    assert_eq!(read("13"), Some(13));
    assert_eq!(read("2147483647"), Some(i32::MAX));
    for text in ["2147483648", "4294967296", "-1", "+1", "x", "", "-"] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn highest_and_second_highest_revision() {
    let revisions = |text: &str| {
        let snapshot = snapshot(&format!("replicas=1 | {text}"));
        let sets = || snapshot.sets.iter().map(|set| &**set);
        (max_revision(sets()), last_revision(sets()))
    };
    assert_eq!(revisions(""), (0, 0));
    assert_eq!(revisions("a:1,rev=3"), (3, 0));
    assert_eq!(revisions("a:1,rev=3 b:1,rev=7 c:1,rev=5"), (7, 5));
    assert_eq!(revisions("a:1,rev=x b:1,rev=- c:1,rev=2"), (2, 0));
}

#[test]
fn a_rollback_brings_annotations_back() {
    let deployment = labels(
        "cause=edit new=1 deployment.kubernetes.io/revision=2 deprecated.deployment.rollback.to=1",
    );
    let set = labels("cause=create deployment.kubernetes.io/revision=1");
    assert_eq!(
        own(&after_rollback(&deployment, &set).to_string()),
        "cause=create,revision=2"
    );
}
