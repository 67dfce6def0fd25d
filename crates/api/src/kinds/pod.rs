//! The pod view, and the facts that every workload controller asks of a pod.
//!
//! Pods are most of what a controller manager holds, so this is the one view that is squeezed:
//! what comes from the template is hash-consed in a [`PodBody`], conditions that nobody reads are
//! dropped, annotations too but for the one that ranks deletions.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::intern::{Istr, Pool};
use crate::meta::{Meta, or_default};
use crate::node_affinity::Affinity;
use crate::resource::{DecodeError, Resource, ResourceType, decode_json};
use crate::time::{MicroTime, Time};

/// The annotation by which a user ranks pods for deletion.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub metadata: Meta,
    /// Empty until the scheduler has bound the pod.
    pub node_name: Istr,
    pub body: Arc<PodBody>,
    pub own: Option<Box<PodOwn>>,
    pub status: PodStatus,
}

/// The part of a pod that all pods of one template share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct PodBody {
    pub restart_policy: Istr,
    pub subdomain: Istr,
    pub host_network: bool,
}

/// The part of a pod that its controller sets per pod: StatefulSet identity, DaemonSet node.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodOwn {
    pub hostname: Istr,
    /// Volumes that stand for a claim; others are not kept.
    pub volumes: Box<[Volume]>,
    pub affinity: Option<Affinity>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub name: Istr,
    pub claim_name: Istr,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodStatus {
    pub phase: Phase,
    pub ready: bool,
    /// When the Ready condition last changed, whatever it says now.
    pub ready_changed_at: Option<Time>,
    pub reason: Istr,
    /// Conditions that some controller reads: see `NOTED`.
    pub conditions: Box<[PodCondition]>,
    /// The highest restart count of a container, and of a sidecar.
    pub restarts: i32,
    pub sidecar_restarts: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCondition {
    #[serde(rename = "type")]
    pub type_: Istr,
    pub status: Istr,
    #[serde(default)]
    pub reason: Istr,
    #[serde(default)]
    pub last_transition_time: Option<Time>,
}

/// Conditions besides Ready that controllers read.
const NOTED: [&str; 1] = ["DisruptionTarget"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

impl Pod {
    /// Counts towards replicas: neither finished nor on its way out.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.metadata.is_terminating()
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Being deleted and not finished yet: what `terminatingReplicas` counts.
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.metadata.is_terminating()
    }

    pub fn is_ready(&self) -> bool {
        self.status.ready
    }

    /// Ready for at least `min_ready_seconds`.
    pub fn is_available(&self, min_ready_seconds: i32, now: MicroTime) -> bool {
        match self.until_available(min_ready_seconds, now) {
            Some(wait) => wait.is_zero(),
            None => false,
        }
    }

    /// How long until the pod counts as available if it stays ready; `None` when it is not ready.
    pub fn until_available(&self, min_ready_seconds: i32, now: MicroTime) -> Option<Duration> {
        if !self.status.ready {
            return None;
        }
        let Ok(min_ready_seconds @ 1..) = u64::try_from(min_ready_seconds) else {
            return Some(Duration::ZERO);
        };
        let ready_at = self.status.ready_changed_at?;
        let available_at = ready_at
            .micro()
            .plus(Duration::from_secs(min_ready_seconds));
        Some(available_at.since(now))
    }

    /// The user's rank for deletion: lower goes first, 0 when absent or malformed.
    pub fn deletion_cost(&self) -> i32 {
        // UPSTREAM: a leading plus or zeros make the value invalid, and invalid counts as 0.
        let Some(text) = self.metadata.annotation(POD_DELETION_COST) else {
            return 0;
        };
        let digits = text.strip_prefix('-').unwrap_or(text);
        let canonical =
            digits == "0" || digits.starts_with(|first: char| ('1'..='9').contains(&first));
        if canonical {
            text.parse().unwrap_or(0)
        } else {
            0
        }
    }

    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status
            .conditions
            .iter()
            .find(|held| held.type_ == type_)
    }

    pub fn hostname(&self) -> &str {
        self.own.as_ref().map_or("", |own| &own.hostname)
    }

    pub fn volumes(&self) -> &[Volume] {
        self.own.as_ref().map_or(&[], |own| &own.volumes)
    }

    pub fn affinity(&self) -> Option<&Affinity> {
        self.own.as_ref()?.affinity.as_ref()
    }
}

impl Resource for Pod {
    const TYPE: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<Pod, DecodeError> {
        decode_json::<Wire>(&Pod::TYPE, json).map(Pod::from)
    }
}

static BODIES: Pool<PodBody> = Pool::new();

impl From<Wire> for Pod {
    fn from(wire: Wire) -> Pod {
        let Wire {
            mut metadata,
            spec,
            status,
        } = wire;
        metadata.generate_name = None;
        metadata.annotations = metadata
            .annotations
            .filtered(|key| key == POD_DELETION_COST);
        Pod {
            metadata,
            node_name: spec.node_name.clone(),
            status: status.into_view(&spec),
            own: spec.own(),
            body: BODIES.intern(PodBody {
                restart_policy: spec.restart_policy,
                subdomain: spec.subdomain,
                host_network: spec.host_network,
            }),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    metadata: Meta,
    spec: WireSpec,
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    node_name: Istr,
    restart_policy: Istr,
    hostname: Istr,
    subdomain: Istr,
    host_network: bool,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<WireContainer>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<WireVolume>,
    affinity: Option<Affinity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireContainer {
    name: Istr,
    #[serde(default)]
    restart_policy: Istr,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireVolume {
    /// Not interned: admission gives every pod a volume with a random name.
    name: String,
    #[serde(default)]
    persistent_volume_claim: Option<WireClaim>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireClaim {
    claim_name: Istr,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    phase: Phase,
    reason: Istr,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<WireContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<WireContainerStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireContainerStatus {
    name: Istr,
    restart_count: i32,
}

impl WireSpec {
    fn own(&self) -> Option<Box<PodOwn>> {
        let volumes: Box<[Volume]> = self
            .volumes
            .iter()
            .filter_map(|volume| {
                Some(Volume {
                    name: Istr::new(&volume.name),
                    claim_name: volume.persistent_volume_claim.as_ref()?.claim_name.clone(),
                })
            })
            .collect();
        let nothing = self.hostname.is_empty() && volumes.is_empty() && self.affinity.is_none();
        (!nothing).then(|| {
            Box::new(PodOwn {
                hostname: self.hostname.clone(),
                volumes,
                affinity: self.affinity.clone(),
            })
        })
    }

    fn is_sidecar(&self, name: &str) -> bool {
        self.init_containers
            .iter()
            .any(|container| container.name == name && container.restart_policy == "Always")
    }
}

impl WireStatus {
    fn into_view(self, spec: &WireSpec) -> PodStatus {
        let ready = self
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready");
        PodStatus {
            phase: self.phase,
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_changed_at: ready.and_then(|condition| condition.last_transition_time),
            reason: self.reason,
            restarts: highest(&self.container_statuses, |_| true),
            sidecar_restarts: highest(&self.init_container_statuses, |name| spec.is_sidecar(name)),
            conditions: self
                .conditions
                .into_iter()
                .filter(|condition| NOTED.contains(&condition.type_.as_str()))
                .collect(),
        }
    }
}

fn highest(statuses: &[WireContainerStatus], counts: impl Fn(&str) -> bool) -> i32 {
    statuses
        .iter()
        .filter(|status| counts(&status.name))
        .map(|status| status.restart_count)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: &str) -> Pod {
        Pod::decode(json.as_bytes()).unwrap()
    }

    fn ready_since(seconds: i64) -> Pod {
        pod(&format!(
            r#"{{"status":{{"conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"{}"}}]}}}}"#,
            Time::from_unix(seconds)
        ))
    }

    #[test]
    fn availability() {
        let now = Time::from_unix(100).micro();
        for (since, min_ready, available) in [
            (100, 0, true),
            (95, 5, true),
            (96, 5, false),
            (90, -1, true),
        ] {
            assert_eq!(
                ready_since(since).is_available(min_ready, now),
                available,
                "{since} {min_ready}"
            );
        }
        assert_eq!(
            ready_since(98).until_available(5, now),
            Some(Duration::from_secs(3))
        );
        assert!(
            !pod(r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#)
                .is_available(1, now)
        );
        assert_eq!(pod("{}").until_available(0, now), None);
    }

    #[test]
    fn activity() {
        let check = |json: &str| {
            let pod = pod(json);
            (pod.is_active(), pod.is_finished(), pod.is_terminating())
        };
        assert_eq!(
            check(r#"{"status":{"phase":"Running"}}"#),
            (true, false, false)
        );
        assert_eq!(
            check(r#"{"status":{"phase":"Failed"}}"#),
            (false, true, false)
        );
        assert_eq!(check(r#"{"status":{"phase":"Odd"}}"#), (true, false, false));
        let deleted = r#"{"metadata":{"deletionTimestamp":"2024-01-01T00:00:00Z"},"status":{"phase":"Running"}}"#;
        assert_eq!(check(deleted), (false, false, true));
    }

    #[test]
    fn deletion_cost_is_strict() {
        for (text, cost) in [
            ("10", 10),
            ("-10", -10),
            ("+1", 0),
            ("007", 0),
            ("0", 0),
            ("x", 0),
            ("9999999999", 0),
        ] {
            let json = format!(
                r#"{{"metadata":{{"annotations":{{"{POD_DELETION_COST}":"{text}","other":"x"}}}}}}"#
            );
            assert_eq!(pod(&json).deletion_cost(), cost, "{text}");
            assert_eq!(pod(&json).metadata.annotations.len(), 1);
        }
    }

    #[test]
    fn counts_restarts_of_containers_and_sidecars() {
        let pod = pod(
            r#"{"spec":{"initContainers":[{"name":"once"},{"name":"side","restartPolicy":"Always"}]},
                "status":{"containerStatuses":[{"name":"a","restartCount":2},{"name":"b","restartCount":5}],
                "initContainerStatuses":[{"name":"once","restartCount":9},{"name":"side","restartCount":3}]}}"#,
        );
        assert_eq!((pod.status.restarts, pod.status.sidecar_restarts), (5, 3));
    }

    #[test]
    fn pods_of_one_template_share_their_body() {
        let one = pod(
            r#"{"metadata":{"name":"a"},"spec":{"restartPolicy":"Always","volumes":[{"name":"kube-api-access-x1"}]}}"#,
        );
        let two = pod(
            r#"{"metadata":{"name":"b"},"spec":{"restartPolicy":"Always","volumes":[{"name":"kube-api-access-y2"}]}}"#,
        );
        assert!(Arc::ptr_eq(&one.body, &two.body));
        assert!(one.own.is_none());
        assert!(
            std::mem::size_of::<Pod>() <= 352,
            "{}",
            std::mem::size_of::<Pod>()
        );
    }
}
