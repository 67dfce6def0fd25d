//! The kinds that the page draws: what is watched, shown and can be asked for. A kind is an `impl` of [`Drawn`] and a line
//! of [`KINDS`]. Secrets and ConfigMaps are not among them, so no payload can hold what is in one.

use api::kinds::{
    ControllerRevision, CronJob, DaemonSet, Deployment, EndpointSlice, HorizontalPodAutoscaler,
    Job, Namespace, Node, PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet,
    ReplicationController, Service, StatefulSet,
};
use api::{Resource, ResourceType};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::follow::{self, Follower};
use crate::rows::{
    autoscaler, budget, condition, daemons, endpoints, has_controller, is_seen, is_true, job, node,
    number, pod, replicas, text, wanted,
};

/// What the page shows of objects of a kind.
pub(crate) trait Drawn: Resource {
    /// Its part of the row.
    fn fields(object: &Value) -> Value;

    /// Is it on its way, or may it be stuck? What is not is not explained at all.
    fn is_open(_: &Value) -> bool {
        false
    }

    /// While it is being deleted it is on its way.
    const OPEN_WHILE_DELETED: bool = true;
}

/// A kind that the page draws.
pub(crate) struct Kind {
    pub(crate) resource: ResourceType,
    /// Keeps its rows in step with the API server.
    pub(crate) follow: fn(Follower) -> BoxFuture<'static, ()>,
}

impl Kind {
    const fn of<K: Drawn>() -> Kind {
        Kind {
            resource: K::TYPE,
            follow: follow::rows_of::<K>,
        }
    }
}

pub(crate) static KINDS: [Kind; 16] = [
    Kind::of::<Namespace>(),
    Kind::of::<Node>(),
    Kind::of::<Pod>(),
    Kind::of::<Deployment>(),
    Kind::of::<ReplicaSet>(),
    Kind::of::<StatefulSet>(),
    Kind::of::<DaemonSet>(),
    Kind::of::<Job>(),
    Kind::of::<CronJob>(),
    Kind::of::<ReplicationController>(),
    Kind::of::<PodDisruptionBudget>(),
    Kind::of::<Service>(),
    Kind::of::<EndpointSlice>(),
    Kind::of::<PersistentVolumeClaim>(),
    Kind::of::<HorizontalPodAutoscaler>(),
    Kind::of::<ControllerRevision>(),
];

/// The kind of a name, if the page draws it.
pub(crate) fn named(name: &str) -> Option<&'static ResourceType> {
    let mut all = drawn();
    all.find(|resource| resource.kind == name)
}

/// The kinds that have rows. What controllers decide about others is shown with the decisions.
pub fn drawn() -> impl Iterator<Item = &'static ResourceType> {
    KINDS.iter().map(|kind| &kind.resource)
}

impl Drawn for Namespace {
    fn fields(object: &Value) -> Value {
        json!({"text": text(object, "/status/phase")})
    }
}

impl Drawn for Node {
    fn fields(object: &Value) -> Value {
        node(object)
    }

    fn is_open(object: &Value) -> bool {
        !is_true(object, "Ready") || object.pointer("/spec/unschedulable").is_some()
    }
}

impl Drawn for Pod {
    /// Every rollout deletes pods.
    const OPEN_WHILE_DELETED: bool = false;

    fn fields(object: &Value) -> Value {
        pod(object)
    }

    fn is_open(object: &Value) -> bool {
        let phase = text(object, "/status/phase");
        let runs = phase == "Running" && is_true(object, "Ready");
        !has_controller(object) && !runs && phase != "Succeeded"
    }
}

impl Drawn for Deployment {
    fn fields(object: &Value) -> Value {
        replicas(object)
    }

    fn is_open(object: &Value) -> bool {
        let (wanted, is) = (wanted(object), |field| number(object, field));
        !is_seen(object)
            || is("/status/updatedReplicas") < wanted
            || is("/status/availableReplicas") < wanted
            || is("/status/replicas") > wanted
    }
}

impl Drawn for ReplicaSet {
    fn fields(object: &Value) -> Value {
        replicas(object)
    }

    fn is_open(object: &Value) -> bool {
        is_replica_set_open(object)
    }
}

impl Drawn for ReplicationController {
    fn fields(object: &Value) -> Value {
        replicas(object)
    }

    fn is_open(object: &Value) -> bool {
        is_replica_set_open(object)
    }
}

fn is_replica_set_open(object: &Value) -> bool {
    let is_short = number(object, "/status/readyReplicas") != wanted(object);
    !has_controller(object) && (!is_seen(object) || is_short)
}

impl Drawn for StatefulSet {
    fn fields(object: &Value) -> Value {
        replicas(object)
    }

    fn is_open(object: &Value) -> bool {
        let wanted = wanted(object);
        let revision = |which: &str| object.pointer(which);
        !is_seen(object)
            || number(object, "/status/readyReplicas") < wanted
            || number(object, "/status/replicas") > wanted
            || revision("/status/updateRevision") != revision("/status/currentRevision")
    }
}

impl Drawn for DaemonSet {
    fn fields(object: &Value) -> Value {
        daemons(object)
    }

    fn is_open(object: &Value) -> bool {
        let wanted = number(object, "/status/desiredNumberScheduled");
        !is_seen(object)
            || number(object, "/status/numberAvailable") < wanted
            || number(object, "/status/updatedNumberScheduled") < wanted
    }
}

impl Drawn for Job {
    fn fields(object: &Value) -> Value {
        job(object)
    }

    fn is_open(object: &Value) -> bool {
        !is_true(object, "Complete") && !is_true(object, "Suspended")
    }
}

impl Drawn for CronJob {
    fn fields(object: &Value) -> Value {
        json!({"text": text(object, "/spec/schedule")})
    }
}

impl Drawn for PodDisruptionBudget {
    fn fields(object: &Value) -> Value {
        budget(object)
    }
}

impl Drawn for Service {
    fn fields(object: &Value) -> Value {
        json!({"selector": {"matchLabels": object.pointer("/spec/selector")}})
    }
}

impl Drawn for EndpointSlice {
    fn fields(object: &Value) -> Value {
        endpoints(object)
    }
}

impl Drawn for PersistentVolumeClaim {
    fn fields(object: &Value) -> Value {
        json!({"text": text(object, "/status/phase")})
    }

    fn is_open(object: &Value) -> bool {
        text(object, "/status/phase") == "Pending"
    }
}

impl Drawn for HorizontalPodAutoscaler {
    fn fields(object: &Value) -> Value {
        autoscaler(object)
    }

    fn is_open(object: &Value) -> bool {
        condition(object, "ScalingActive") == Some("False")
    }
}

impl Drawn for ControllerRevision {
    fn fields(object: &Value) -> Value {
        let labels = &object["metadata"]["labels"];
        let hash = labels.get("controller.kubernetes.io/hash");
        json!({
            "revision": number(object, "/revision"),
            "hash": hash.or(labels.get("controller-revision-hash")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_is_there_once_and_none_holds_secrets() {
        let names: BTreeSet<&str> = drawn().map(|resource| &*resource.kind).collect();
        assert_eq!(names.len(), KINDS.len());
        for hidden in ["Secret", "ConfigMap", "ServiceAccount"] {
            assert!(named(hidden).is_none(), "{hidden}");
        }
    }
}
