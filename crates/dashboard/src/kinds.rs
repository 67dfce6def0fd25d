//! The kinds that the page draws: what is watched, shown and can be asked for. A kind is an `impl` of [`Drawn`] and a line
//! of [`KINDS`]. Secrets and ConfigMaps are not among them, so no payload can hold what is in one.

use api::kinds::{
    CertificateSigningRequest, ControllerRevision, CronJob, DaemonSet, Deployment, EndpointSlice,
    HorizontalPodAutoscaler, Job, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ReplicaSet, ReplicationController, ResourceClaim, ResourceQuota, Service,
    StatefulSet, StorageVersionMigration, WorkloadKind,
};
use api::{Meta, Resource, ResourceType};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::follow::{self, Follower};
use crate::rows::{
    autoscaler, budget, condition, daemons, endpoints, is_seen, is_spent, is_true, job, list, node,
    number, pod, ready_endpoints, replicas, service_of, spent, stateful, text, wanted,
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

    /// It may be unsettled by what others in its namespace are, without a change of its own.
    const RESTS_ON_OTHERS: bool = false;

    /// The object that is unsettled by this one, and whether it is now.
    fn unsettles(_: &Value) -> Option<Unsettled<'_>> {
        None
    }
}

/// An object of the same namespace that another one says something of.
pub(crate) struct Unsettled<'a> {
    pub(crate) resource: ResourceType,
    pub(crate) name: &'a str,
    pub(crate) open: bool,
}

/// What is read of an Ingress.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub(crate) struct Ingress {
    metadata: Meta,
}

api::view!(
    Ingress,
    ResourceType::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress")
);

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

pub(crate) static KINDS: [Kind; 22] = [
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
    Kind::of::<Ingress>(),
    Kind::of::<PersistentVolume>(),
    Kind::of::<ResourceQuota>(),
    Kind::of::<ResourceClaim>(),
    Kind::of::<CertificateSigningRequest>(),
    Kind::of::<StorageVersionMigration>(),
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
    /// Every rollout deletes pods, and whoever controls them says what that waits for.
    const OPEN_WHILE_DELETED: bool = false;

    fn fields(object: &Value) -> Value {
        pod(object)
    }

    fn is_open(object: &Value) -> bool {
        let phase = text(object, "/status/phase");
        let runs = phase == "Running" && is_true(object, "Ready");
        let is_deleted = object.pointer("/metadata/deletionTimestamp").is_some();
        !is_explained_by_its_controller(object) && (is_deleted || !runs && phase != "Succeeded")
    }
}

/// Is it controlled by a workload, whose own explanation says what is wrong with it? Of what a custom resource controls
/// nobody else does.
fn is_explained_by_its_controller(object: &Value) -> bool {
    let mut owners = list(object, "/metadata/ownerReferences");
    let controller = owners.find(|owner| owner["controller"] == true);
    controller.is_some_and(|owner| {
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        WorkloadKind::of(group, owner["kind"].as_str().unwrap_or_default()).is_some()
    })
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
    !is_explained_by_its_controller(object) && (!is_seen(object) || is_short)
}

impl Drawn for StatefulSet {
    fn fields(object: &Value) -> Value {
        stateful(object)
    }

    fn is_open(object: &Value) -> bool {
        let wanted = wanted(object);
        let revision = |which: &str| object.pointer(which);
        !is_seen(object)
            || number(object, "/status/readyReplicas") < wanted
            || number(object, "/status/availableReplicas") < wanted
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
    /// Its jobs may fail.
    const RESTS_ON_OTHERS: bool = true;

    fn fields(object: &Value) -> Value {
        json!({"text": text(object, "/spec/schedule")})
    }

    fn is_open(object: &Value) -> bool {
        // In UTC and to the second, as all times are: the later one is the greater text.
        let last = |what: &str| text(object, &format!("/status/last{what}Time")).to_owned();
        object.pointer("/spec/suspend") == Some(&Value::Bool(true))
            || list(object, "/status/active").next().is_some()
            || last("Schedule").is_empty()
            || last("Successful") < last("Schedule")
    }
}

impl Drawn for PodDisruptionBudget {
    fn fields(object: &Value) -> Value {
        budget(object)
    }

    fn is_open(object: &Value) -> bool {
        let has_pods = number(object, "/status/expectedPods") > 0;
        !is_seen(object)
            || has_pods && number(object, "/status/disruptionsAllowed") == 0
            || condition(object, "DisruptionAllowed").is_none()
    }
}

impl Drawn for Service {
    fn fields(object: &Value) -> Value {
        json!({"selector": {"matchLabels": object.pointer("/spec/selector")}})
    }

    /// Whether its pods take traffic is known by its slices.
    fn is_open(object: &Value) -> bool {
        let kind = text(object, "/spec/type");
        let awaits_address = kind == "LoadBalancer"
            && list(object, "/status/loadBalancer/ingress")
                .next()
                .is_none();
        let selects = object.pointer("/spec/selector");
        let selects = selects
            .and_then(Value::as_object)
            .is_some_and(|all| !all.is_empty());
        awaits_address || !selects && kind != "ExternalName"
    }
}

impl Drawn for EndpointSlice {
    fn fields(object: &Value) -> Value {
        endpoints(object)
    }

    fn unsettles(object: &Value) -> Option<Unsettled<'_>> {
        let (ready, all) = ready_endpoints(object);
        Some(Unsettled {
            resource: Service::TYPE,
            name: service_of(object)?,
            open: ready < all || all == 0,
        })
    }
}

impl Drawn for Ingress {
    /// On the Services that it leads to.
    const RESTS_ON_OTHERS: bool = true;

    fn fields(object: &Value) -> Value {
        let hosts = list(object, "/spec/rules").map(|rule| text(rule, "/host"));
        json!({"text": hosts.filter(|host| !host.is_empty()).collect::<Vec<_>>().join(", ")})
    }

    fn is_open(_: &Value) -> bool {
        true
    }
}

impl Drawn for PersistentVolumeClaim {
    fn fields(object: &Value) -> Value {
        json!({"text": text(object, "/status/phase")})
    }

    fn is_open(object: &Value) -> bool {
        let asked = object.pointer("/spec/volumeAttributesClassName");
        text(object, "/status/phase") != "Bound"
            || asked.is_some()
                && asked != object.pointer("/status/currentVolumeAttributesClassName")
    }
}

impl Drawn for PersistentVolume {
    fn fields(object: &Value) -> Value {
        json!({"text": text(object, "/status/phase")})
    }

    fn is_open(object: &Value) -> bool {
        !matches!(text(object, "/status/phase"), "Bound" | "Available")
    }
}

impl Drawn for ResourceQuota {
    /// Whom it refuses.
    const RESTS_ON_OTHERS: bool = true;

    fn fields(object: &Value) -> Value {
        json!({"text": spent(object)})
    }

    fn is_open(object: &Value) -> bool {
        object.pointer("/status/hard") != object.pointer("/spec/hard") || is_spent(object)
    }
}

impl Drawn for ResourceClaim {
    /// Whether a pod waits for it.
    const RESTS_ON_OTHERS: bool = true;

    fn fields(object: &Value) -> Value {
        let is_allocated = object.pointer("/status/allocation").is_some();
        json!({"text": if is_allocated { "allocated" } else { "not allocated" }})
    }

    fn is_open(object: &Value) -> bool {
        object.pointer("/status/allocation").is_none()
    }
}

impl Drawn for CertificateSigningRequest {
    fn fields(object: &Value) -> Value {
        let held = ["Denied", "Failed", "Approved"]
            .into_iter()
            .find(|kind| is_true(object, kind));
        json!({"text": held.unwrap_or("Pending")})
    }

    fn is_open(object: &Value) -> bool {
        text(object, "/status/certificate").is_empty() || !is_true(object, "Approved")
    }
}

impl Drawn for StorageVersionMigration {
    fn fields(object: &Value) -> Value {
        let resource =
            ["resource", "group"].map(|field| text(object, &format!("/spec/resource/{field}")));
        json!({"text": resource.join(".").trim_end_matches('.')})
    }

    fn is_open(object: &Value) -> bool {
        !is_true(object, "Succeeded")
    }
}

impl Drawn for HorizontalPodAutoscaler {
    fn fields(object: &Value) -> Value {
        autoscaler(object)
    }

    fn is_open(object: &Value) -> bool {
        let number = |field: &str| number(object, &format!("/status/{field}"));
        !is_true(object, "ScalingActive")
            || condition(object, "AbleToScale") == Some("False")
            || number("currentReplicas") != number("desiredReplicas")
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
