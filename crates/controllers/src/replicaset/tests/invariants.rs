//! The checks that the simulator asks: what the controller says passes, and whatever is wrong in it does not.

use std::sync::Arc;

use api::kinds::{Pod, ReplicaSet};
use api::{Gates, OwnerRef};
use serde_json::{Value, json};

use super::super::invariants::{converged, counts_in_time};
use super::super::{Outcome, compute};
use super::{now, snapshot};

/// The set with the status that the controller gives it, and its pods.
fn given(text: &str) -> (ReplicaSet, Vec<Arc<Pod>>) {
    let snapshot = snapshot(text);
    let mut set = (*snapshot.owner).clone();
    set.status = compute(&snapshot, &Outcome::default(), now());
    let owner = OwnerRef {
        uid: set.metadata.uid.clone(),
        controller: Some(true),
        ..OwnerRef::default()
    };
    let owners = api::meta::intern_owners(vec![owner]);
    let mut pods = snapshot.active;
    for pod in &mut pods {
        Arc::make_mut(pod).metadata.owners = owners.clone();
    }
    (set, pods)
}

/// The same with another value in its status.
fn falsified(set: &ReplicaSet, field: &str, value: Value) -> ReplicaSet {
    let mut status = serde_json::to_value(&set.status).unwrap();
    status[field] = value;
    let mut set = set.clone();
    set.status = serde_json::from_value(status).unwrap();
    set
}

#[test]
fn every_field_of_a_status_is_checked() {
    let (set, pods) = given("replicas=3,min=60 | a:ready,10m b:ready,10s c:pending");
    let told = |set: &ReplicaSet| converged(set, &pods, Gates::default(), now());
    assert_eq!(told(&set), Ok(()));
    for field in [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ] {
        let told = told(&falsified(&set, field, json!(9))).unwrap_err();
        let start = format!("default/web: status says {field} ");
        assert!(told.starts_with(&start), "{field}: {told}");
    }
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]);
    assert_eq!(
        told(&falsified(&set, "conditions", failure)).unwrap_err(),
        "default/web: status says ReplicaFailure Some(\"FailedCreate\"), the objects say None"
    );
}

#[test]
fn a_pod_counts_as_available_when_its_time_has_come() {
    let (set, pods) = given("replicas=2,min=60 | a:ready,10m b:ready,10s");
    assert_eq!(counts_in_time(&set, &pods, now()), Ok(()));
    let early = falsified(&set, "availableReplicas", json!(2));
    assert_eq!(
        counts_in_time(&early, &pods, now()).unwrap_err(),
        "default/web: status says 2 available pods, 1 have been ready for long enough"
    );
}
