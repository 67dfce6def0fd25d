//! From an object to its row: the few facts that the page shows. Pure.
//!
//! A row is a small JSON object. The page keeps ten thousand of them, the stream carries them, and the history holds
//! every version of the last minutes, so a row has what some panel reads and no more. Everything else of an object is
//! asked for when somebody opens its page.

use std::marker::PhantomData;
use std::sync::Arc;

use api::kinds::WorkloadKind;
use api::{DecodeError, Meta, Resource, ResourceType};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::kinds::Drawn;

/// A slim view of an object of a kind.
pub(crate) struct Row<K> {
    pub(crate) meta: Meta,
    pub(crate) json: Arc<str>,
    /// It may be unsettled: worth an explanation.
    pub(crate) open: bool,
    /// Another object that it says something of, and whether that may be unsettled.
    pub(crate) unsettles: Option<(ResourceType, Box<str>, bool)>,
    kind: PhantomData<fn() -> K>,
}

impl<K> PartialEq for Row<K> {
    fn eq(&self, other: &Row<K>) -> bool {
        self.json == other.json
    }
}

impl<K: Drawn> Resource for Row<K> {
    const TYPE: ResourceType = K::TYPE;

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8]) -> Result<Row<K>, DecodeError> {
        #[derive(Deserialize)]
        struct Named {
            metadata: Meta,
        }
        let named: Named = api::resource::decode_json(&K::TYPE, json)?;
        let object: Value = api::resource::decode_json(&K::TYPE, json)?;
        let is_deleted = named.metadata.deleted_at.is_some();
        let open = is_deleted && K::OPEN_WHILE_DELETED || K::is_open(&object);
        let mut row = row(&K::TYPE, &named.metadata, K::fields(&object));
        if open {
            // Who may not be told every verdict asks for those of what is open.
            row["open"] = true.into();
        }
        let unsettles = K::unsettles(&object);
        Ok(Row {
            open,
            unsettles: unsettles.map(|other| (other.resource, other.name.into(), other.open)),
            meta: named.metadata,
            json: row.to_string().into(),
            kind: PhantomData,
        })
    }
}

/// What the page reads of an object.
fn row(resource: &ResourceType, meta: &Meta, fields: Value) -> Value {
    let mut row = json!({
        "kind": resource.kind,
        "name": &*meta.name,
        "uid": meta.uid.to_string(),
        "at": meta.created_at.unix(),
        "rv": meta.resource_version,
    });
    let Some(map) = row.as_object_mut() else {
        return Value::Null;
    };
    if !meta.namespace.is_empty() {
        map.insert("ns".into(), (&*meta.namespace).into());
    }
    if let Some(owner) = meta.controller() {
        map.insert("owner".into(), owner.uid.to_string().into());
    }
    if let Some(deleted) = meta.deleted_at {
        map.insert("gone".into(), deleted.unix().into());
    }
    if let Some(workload) = WorkloadKind::of(&resource.group, &resource.kind) {
        map.insert("workload".into(), true.into());
        if workload.rolls_out {
            map.insert("rolls".into(), true.into());
        }
    }
    if let Value::Object(fields) = fields {
        let told = fields.into_iter().filter(|(_, value)| !is_nothing(value));
        map.extend(told.collect::<Map<String, Value>>());
    }
    row
}

/// What need not be said, because the page takes it for granted.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

pub(crate) fn pod(object: &Value) -> Value {
    let phase = text(object, "/status/phase");
    let statuses = || {
        list(object, "/status/containerStatuses")
            .chain(list(object, "/status/initContainerStatuses"))
    };
    let waiting =
        statuses().find_map(|one| one.pointer("/state/waiting/reason").and_then(Value::as_str));
    let waiting =
        waiting.filter(|reason| !matches!(*reason, "ContainerCreating" | "PodInitializing"));
    let ended = list(object, "/status/containerStatuses").find_map(|one| {
        one.pointer("/state/terminated/reason")
            .and_then(Value::as_str)
    });
    let restarts: i64 = statuses().map(|one| number(one, "/restartCount")).sum();
    let reason = match phase {
        "Failed" => Some(text(object, "/status/reason"))
            .filter(|reason| !reason.is_empty())
            .or(ended),
        "Succeeded" => None,
        _ => waiting.or(ended),
    };
    let labels = object.pointer("/metadata/labels");
    let label = |name: &str| labels.and_then(|labels| labels.get(name));
    json!({
        "node": text(object, "/spec/nodeName"),
        "phase": phase,
        "ready": is_true(object, "Ready"),
        "reason": reason,
        "restarts": Some(restarts).filter(|count| *count > 0),
        "hash": label("pod-template-hash").or(label("controller-revision-hash")),
        "labels": labels,
    })
}

pub(crate) fn node(object: &Value) -> Value {
    let labels = object.pointer("/metadata/labels");
    let zone = labels.and_then(|labels| labels.get("topology.kubernetes.io/zone"));
    let stopped = object.pointer("/metadata/annotations/steersman.dev~1silent");
    json!({
        "zone": zone,
        "ready": is_true(object, "Ready"),
        "unknown": condition(object, "Ready") == Some("Unknown"),
        "cordoned": object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)),
        "stopped": stopped.is_some_and(|value| value == "true"),
        "simulated": text(object, "/status/nodeInfo/containerRuntimeVersion").starts_with("simulated://"),
        "room": text(object, "/status/capacity/pods").parse::<i64>().ok(),
    })
}

pub(crate) fn replicas(object: &Value) -> Value {
    let wanted = wanted(object);
    let revision = object.pointer("/metadata/annotations/deployment.kubernetes.io~1revision");
    let template = object.pointer("/spec/template/metadata/labels");
    // A ReplicaSet has no strategy.
    let rolls = text(object, "/spec/strategy/type") == "RollingUpdate";
    let (surge, unavailable) = limits(object, wanted);
    json!({
        "wanted": wanted,
        "pods": number(object, "/status/replicas"),
        "ready": number(object, "/status/readyReplicas"),
        "available": number(object, "/status/availableReplicas"),
        "updated": number(object, "/status/updatedReplicas"),
        "seen": is_seen(object),
        "generation": number(object, "/metadata/generation"),
        "revision": revision.and_then(Value::as_str).and_then(|text| text.parse::<i64>().ok()),
        "hash": object.pointer("/metadata/labels/pod-template-hash").or(object.pointer("/status/updateRevision")),
        "old": object.pointer("/status/currentRevision"),
        "surge": Some(surge).filter(|_| rolls),
        "unavailable": Some(unavailable).filter(|_| rolls),
        "paused": object.pointer("/spec/paused") == Some(&Value::Bool(true)),
        "labels": template,
    })
}

/// maxSurge and maxUnavailable of a Deployment in pods.
fn limits(object: &Value, wanted: i64) -> (i64, i64) {
    let read = |field: &str, up: bool| {
        let value = object.pointer(&format!("/spec/strategy/rollingUpdate/{field}"));
        value.map_or(0, |value| scaled(value, wanted, up))
    };
    match (read("maxSurge", true), read("maxUnavailable", false)) {
        // UPSTREAM: a rollout that may do neither may do with one pod less.
        (0, 0) => (0, 1),
        found => found,
    }
}

/// A number of pods, or a percentage of all.
fn scaled(value: &Value, wanted: i64, up: bool) -> i64 {
    let Some(text) = value.as_str() else {
        return value.as_i64().unwrap_or(0);
    };
    let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
    let product = wanted.saturating_mul(percent.clamp(0, 10_000));
    match up {
        true => product.saturating_add(99) / 100,
        false => product / 100,
    }
}

/// A StatefulSet: as any set of replicas, but it replaces in place.
pub(crate) fn stateful(object: &Value) -> Value {
    let mut row = replicas(object);
    if text(object, "/spec/updateStrategy/type") != "OnDelete" {
        let most = object.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
        let most = most.map_or(1, |most| scaled(most, wanted(object), false));
        (row["surge"], row["unavailable"]) = (0.into(), most.max(1).into());
    }
    row
}

pub(crate) fn daemons(object: &Value) -> Value {
    let wanted = number(object, "/status/desiredNumberScheduled");
    let limit = |field: &str, default: i64| {
        let value = object.pointer(&format!("/spec/updateStrategy/rollingUpdate/{field}"));
        // UPSTREAM: of DaemonSets both are rounded up.
        value.map_or(default, |value| scaled(value, wanted, true))
    };
    let rolls = text(object, "/spec/updateStrategy/type") != "OnDelete";
    json!({
        "wanted": wanted,
        "pods": number(object, "/status/currentNumberScheduled"),
        "ready": number(object, "/status/numberReady"),
        "available": number(object, "/status/numberAvailable"),
        "updated": number(object, "/status/updatedNumberScheduled"),
        "seen": is_seen(object),
        "generation": number(object, "/metadata/generation"),
        "surge": Some(limit("maxSurge", 0)).filter(|_| rolls),
        "unavailable": Some(limit("maxUnavailable", 1)).filter(|_| rolls),
        "labels": object.pointer("/spec/template/metadata/labels"),
    })
}

pub(crate) fn job(object: &Value) -> Value {
    let ended = ["Complete", "Failed", "Suspended"]
        .into_iter()
        .find(|kind| is_true(object, kind));
    json!({
        "wanted": object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1),
        "ready": number(object, "/status/succeeded"),
        "pods": number(object, "/status/active"),
        "failed": Some(number(object, "/status/failed")).filter(|count| *count > 0),
        "text": ended,
        "labels": object.pointer("/spec/template/metadata/labels"),
    })
}

pub(crate) fn budget(object: &Value) -> Value {
    json!({
        "healthy": number(object, "/status/currentHealthy"),
        "least": number(object, "/status/desiredHealthy"),
        "allowed": number(object, "/status/disruptionsAllowed"),
        "selector": object.pointer("/spec/selector"),
    })
}

pub(crate) fn endpoints(object: &Value) -> Value {
    let (ready, all) = ready_endpoints(object);
    json!({"ready": ready, "pods": all, "service": service_of(object)})
}

/// How many endpoints are ready, of how many.
pub(crate) fn ready_endpoints(object: &Value) -> (usize, usize) {
    let all = || list(object, "/endpoints");
    let ready = all().filter(|one| one.pointer("/conditions/ready") == Some(&Value::Bool(true)));
    (ready.count(), all().count())
}

/// The Service that a slice is of.
pub(crate) fn service_of(object: &Value) -> Option<&str> {
    let labels = object.pointer("/metadata/labels")?;
    labels.get("kubernetes.io/service-name")?.as_str()
}

/// How much of a quota is used.
pub(crate) fn spent(object: &Value) -> String {
    let hard = object.pointer("/status/hard").and_then(Value::as_object);
    let used = |name: &str| {
        object
            .pointer("/status/used")
            .and_then(|used| used.get(name))
    };
    let told = hard.into_iter().flatten().map(|(name, most)| {
        let used = used(name).and_then(Value::as_str).unwrap_or("0");
        format!("{name} {used} of {}", most.as_str().unwrap_or_default())
    });
    told.collect::<Vec<_>>().join(", ")
}

/// Is something of a quota used up?
pub(crate) fn is_spent(object: &Value) -> bool {
    let Ok(quota) = api::kinds::ResourceQuota::decode(object.to_string().as_bytes()) else {
        return true;
    };
    let (Some(hard), Some(used)) = (&quota.status.hard, &quota.status.used) else {
        return true;
    };
    let mut all = hard.iter();
    all.any(|(name, most)| used.get(name).is_some_and(|used| used >= most))
}

pub(crate) fn autoscaler(object: &Value) -> Value {
    let (now, wanted) = (
        number(object, "/status/currentReplicas"),
        number(object, "/status/desiredReplicas"),
    );
    json!({
        "text": format!("{now} of {wanted}"),
        "target": text(object, "/spec/scaleTargetRef/name"),
    })
}

/// How many pods a workload asks for.
pub(crate) fn wanted(object: &Value) -> i64 {
    let replicas = object.pointer("/spec/replicas");
    replicas.and_then(Value::as_i64).unwrap_or(1)
}

/// Has its controller seen the last change?
pub(crate) fn is_seen(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation")
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let found = object.pointer(pointer).and_then(Value::as_array);
    found.into_iter().flatten()
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let found = list(object, "/status/conditions").find(|one| one["type"] == kind);
    found.and_then(|one| one["status"].as_str())
}

pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind) == Some("True")
}

#[cfg(test)]
mod tests {
    use api::kinds::{
        CertificateSigningRequest, CronJob, DaemonSet, Deployment, EndpointSlice,
        HorizontalPodAutoscaler, Job, Node, PersistentVolumeClaim, Pod, PodDisruptionBudget,
        ResourceClaim, ResourceQuota, Service, StatefulSet,
    };

    use super::*;

    fn decode<K: Drawn>(object: &Value) -> (Value, bool) {
        let row = Row::<K>::decode(object.to_string().as_bytes()).unwrap();
        (serde_json::from_str(&row.json).unwrap(), row.open)
    }

    fn meta(name: &str) -> Value {
        json!({"name": name, "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "1970-01-01T00:01:00Z", "labels": {"pod-template-hash": "5d4f8"}})
    }

    #[test]
    fn a_pod_that_cannot_pull_its_image() {
        let pod = json!({"metadata": meta("web-1"), "spec": {"nodeName": "node-0", "containers": []},
            "status": {"phase": "Pending", "containerStatuses": [
                {"restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
        let (row, open) = decode::<Pod>(&pod);
        assert_eq!(
            row,
            json!({"kind": "Pod", "ns": "shop", "name": "web-1", "uid": "u-1", "rv": 7, "at": 60, "node": "node-0",
                "phase": "Pending", "reason": "ImagePullBackOff", "hash": "5d4f8",
                "labels": {"pod-template-hash": "5d4f8"}, "open": true})
        );
        assert!(open, "nobody owns it");
    }

    #[test]
    fn a_rollout_says_how_far_it_may_go() {
        let deployment = json!({"metadata": meta("web"),
            "spec": {"replicas": 10, "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
            "status": {"observedGeneration": 2, "replicas": 12, "readyReplicas": 9, "updatedReplicas": 4}});
        let (row, open) = decode::<Deployment>(&deployment);
        assert_eq!((&row["surge"], &row["unavailable"]), (&json!(3), &json!(2)));
        assert!(open);
    }

    #[test]
    fn what_is_done_is_not_open() {
        let status = json!({"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "updatedReplicas": 1});
        let done = json!({"metadata": meta("web"), "spec": {"replicas": 1}, "status": status});
        assert!(!decode::<Deployment>(&done).1);
        assert!(!decode::<StatefulSet>(&done).1);
    }

    #[test]
    fn what_a_custom_resource_controls_is_explained_itself() {
        let owned_by = |version: &str, kind: &str| {
            let mut meta = meta("web-1");
            meta["ownerReferences"] = json!([{"apiVersion": version, "kind": kind, "name": "web", "uid": "u-2",
                "controller": true}]);
            let pod = json!({"metadata": meta, "spec": {}, "status": {"phase": "Pending"}});
            decode::<Pod>(&pod).1
        };
        assert!(!owned_by("apps/v1", "ReplicaSet"));
        assert!(owned_by("example.com/v1", "ReplicaSet"));
        assert!(owned_by("v1", "Node"));
    }

    #[test]
    fn a_service_is_unsettled_by_a_slice_that_is_not_ready() {
        let slice = |endpoints: Value| {
            let mut meta = meta("web-x");
            meta["labels"] = json!({"kubernetes.io/service-name": "web"});
            let slice = json!({"metadata": meta, "endpoints": endpoints});
            let row = Row::<EndpointSlice>::decode(slice.to_string().as_bytes()).unwrap();
            let (resource, name, open) = row.unsettles.unwrap();
            assert_eq!((&*resource.kind, &*name), ("Service", "web"));
            open
        };
        assert!(!slice(json!([{"conditions": {"ready": true}}])));
        assert!(slice(
            json!([{"conditions": {"ready": true}}, {"conditions": {"ready": false}}])
        ));
        assert!(slice(json!([])), "it selects nothing");
    }

    #[test]
    fn sets_and_daemons_say_how_far_their_rollouts_may_go() {
        let status = json!({"observedGeneration": 2, "desiredNumberScheduled": 7});
        let rolling = |update: Value| json!({"metadata": meta("x"), "spec": {"replicas": 7, "updateStrategy": update}, "status": status});
        let row = |object: &Value| {
            (
                decode::<DaemonSet>(object).0,
                decode::<StatefulSet>(object).0,
            )
        };
        let (daemons, set) = row(&rolling(
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}}),
        ));
        assert_eq!(
            (&daemons["surge"], &daemons["unavailable"]),
            (&json!(0), &json!(2))
        );
        assert_eq!(set["unavailable"], 1);
        let (daemons, set) = row(&rolling(json!({"type": "OnDelete"})));
        assert_eq!(
            (daemons.get("unavailable"), set.get("unavailable")),
            (None, None)
        );
    }

    #[test]
    fn a_quota_is_open_when_something_is_used_up() {
        let quota = |hard: &str, used: &str| {
            let hard = json!({"requests.cpu": hard});
            let status = json!({"hard": hard, "used": {"requests.cpu": used}});
            decode::<ResourceQuota>(
                &json!({"metadata": meta("q"), "spec": {"hard": hard}, "status": status}),
            )
        };
        assert!(!quota("2", "1500m").1);
        assert!(quota("2", "2000m").1);
        assert_eq!(quota("2", "1500m").0["text"], "requests.cpu 1500m of 2");
    }

    #[test]
    fn absurd_objects_have_rows_too() {
        for spec in [
            json!(null),
            json!("x"),
            json!({"replicas": "many", "strategy": {"rollingUpdate": {"maxSurge": "∞%"}}}),
            json!({"replicas": i64::MAX, "strategy": {"rollingUpdate": {"maxSurge": "99999999%"}}}),
        ] {
            let object = json!({"metadata": meta("odd"), "spec": spec, "status": 7});
            decode::<Node>(&object);
            decode::<Pod>(&object);
            decode::<Deployment>(&object);
            decode::<DaemonSet>(&object);
            decode::<Job>(&object);
            decode::<PodDisruptionBudget>(&object);
            decode::<EndpointSlice>(&object);
            decode::<StatefulSet>(&object);
            decode::<Service>(&object);
            decode::<CronJob>(&object);
            decode::<HorizontalPodAutoscaler>(&object);
            decode::<PersistentVolumeClaim>(&object);
            decode::<ResourceQuota>(&object);
            decode::<ResourceClaim>(&object);
            decode::<CertificateSigningRequest>(&object);
        }
    }
}
