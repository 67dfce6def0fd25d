//! The checks that the simulator asks: what the controller says passes, and whatever is wrong in it does not.

use api::OwnerRef;

use super::super::invariants::{counts_in_time, reported};
use super::super::status::compute;
use super::*;

/// The set with the status that the controller gives it, its pods, and the revisions `old` and `new`.
fn given(text: &str) -> (StatefulSet, Vec<Arc<Pod>>, Vec<Arc<ControllerRevision>>) {
    let snapshot = snapshot(text, Gates::default(), false);
    let mut set = (*snapshot.set).clone();
    set.status = compute(&snapshot, 0, now());
    let owner = OwnerRef {
        uid: set.metadata.uid.clone(),
        controller: Some(true),
        ..OwnerRef::default()
    };
    let owners = api::meta::intern_owners(vec![owner]);
    let mut pods: Vec<Arc<Pod>> = snapshot.pods().cloned().collect();
    for pod in &mut pods {
        Arc::make_mut(pod).metadata.owners = owners.clone();
    }
    let mut newest = (*revision("new", 2)).clone();
    newest.data = set.spec.template.revision().clone();
    (set, pods, vec![revision("old", 1), Arc::new(newest)])
}

fn falsified(set: &StatefulSet, field: &str, value: Value) -> StatefulSet {
    let mut status = serde_json::to_value(&set.status).unwrap();
    status[field] = value;
    let mut set = set.clone();
    set.status = serde_json::from_value(status).unwrap();
    set
}

#[test]
fn every_field_of_a_status_is_checked() {
    let half_way = "replicas=3 min=60 | 0:ready,rev=old 1:ready,since=10 2:pending";
    let (set, pods, revisions) = given(half_way);
    let told = |set: &StatefulSet| reported(set, &pods, &revisions, now());
    assert_eq!(told(&set), Ok(()));
    for field in [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "updatedReplicas",
        "currentReplicas",
    ] {
        let told = told(&falsified(&set, field, json!(9))).unwrap_err();
        let start = format!("default/web: status says {field} 9");
        assert!(told.starts_with(&start), "{field}: {told}");
    }
    assert_eq!(
        told(&falsified(&set, "updateRevision", json!("old"))).unwrap_err(),
        "default/web: status says updateRevision \"old\", the objects say \"new\""
    );
    assert_eq!(
        told(&falsified(&set, "currentRevision", json!("lost"))).unwrap_err(),
        "default/web: current revision lost does not exist"
    );
}

#[test]
fn a_rollout_that_is_done_makes_its_revision_the_current_one() {
    let (set, pods, revisions) = given("replicas=2 | 0:ready 1:ready");
    assert_eq!(reported(&set, &pods, &revisions, now()), Ok(()));
    let behind = falsified(&set, "currentRevision", json!("old"));
    assert_eq!(
        reported(&behind, &pods, &revisions, now()).unwrap_err(),
        "default/web: status says currentRevision \"old\", the objects say \"new\""
    );
    let told = reported(&set, &pods, &revisions[..1], now()).unwrap_err();
    assert_eq!(told, "default/web has no revision of its template");
}

#[test]
fn a_pod_counts_as_available_when_its_time_has_come() {
    let (set, pods, _) = given("replicas=2 min=60 | 0:ready 1:ready,since=10");
    assert_eq!(counts_in_time(&set, &pods, now()), Ok(()));
    let early = falsified(&set, "availableReplicas", json!(2));
    assert_eq!(
        counts_in_time(&early, &pods, now()).unwrap_err(),
        "default/web: status says 2 available pods, 1 have been ready for long enough"
    );
}
