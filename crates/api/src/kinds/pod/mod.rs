//! The pod view, and the facts that every workload controller asks of a pod.
//!
//! Pods are most of what a controller manager holds, so this is the one view that is squeezed:
//! what comes from the template is hash-consed in a [`PodBody`], conditions that nobody reads are
//! dropped, annotations too but for the one that ranks deletions and those of jobs. How containers
//! ended is kept for pods that are meant to end, and nowhere else.

mod affinity;
mod ips;
mod se_linux;
mod volumes;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::PodClaim;
use crate::intern::Istr;
use crate::meta::Meta;
use crate::quota::PodCharge;
use crate::resource::{DecodeError, Resource, ResourceType, decode_json, decode_protobuf};
use crate::taints::Toleration;
use crate::time::{MicroTime, Time};
pub use ips::PodIps;
pub use se_linux::{Mounted, SELINUX_MOUNT_OPTION, SELINUX_RECURSIVE, SeLinux};
use wire::Wire;

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
    pub tolerations: Box<[Toleration]>,
    /// Ports with a name, of containers first and then of sidecars: services find them by it.
    pub ports: Box<[ContainerPort]>,
    /// What quotas count.
    pub charge: PodCharge,
    pub requests: PodRequests,
}

/// What is requested of each resource, in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct PodRequests {
    /// For the pod as a whole, where it says so itself: with its overhead, and of resources that it does not speak of what
    /// its containers say.
    pub pod: Box<[(Istr, i64)]>,
    /// By container, and after them by sidecar.
    pub containers: Box<[(Istr, Box<[(Istr, i64)]>)]>,
}

/// A port of a container that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerPort {
    pub name: Istr,
    pub protocol: Istr,
    pub port: i32,
}

/// What few pods have: StatefulSet identity, DaemonSet node, how a Job's pod ended, disruption.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodOwn {
    pub hostname: Istr,
    /// Volumes that stand for a claim; others are not kept.
    pub volumes: Box<[Volume]>,
    /// Volumes that stand in the pod itself and have to be attached.
    pub inline: Box<[InlineVolume]>,
    /// What SELinux means for them; none where no container mounts any.
    pub se_linux: Option<Box<SeLinux>>,
    /// The one node that the pod's affinity allows by name, if it does that: a daemon's node.
    pub meant_for: Istr,
    /// Of pods that are not restarted for ever, as those of jobs.
    pub ended: Option<Box<Ended>>,
    /// Conditions that some controller reads, besides Ready; all of them where a job's policy may ask.
    pub conditions: Box<[PodCondition]>,
    /// Claims for devices.
    pub claims: Box<[PodClaim]>,
    /// The group that it is scheduled with.
    pub pod_group: Istr,
    /// The claim that the scheduler made for the pod's extended resources.
    pub extended_resource_claim: Istr,
}

/// How the containers of a pod ended.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Ended {
    /// When the last of them did; `None` while one of them has not.
    pub at: Option<Time>,
    /// Those that failed: containers first, then init containers.
    pub failures: Box<[Exit]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub container: Istr,
    pub code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub name: Istr,
    pub claim_name: Istr,
    /// The claim is created for the pod, from a template in it, and is named after both.
    pub is_ephemeral: bool,
}

/// A volume of a kind that is built in, or was, without a PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineVolume {
    pub name: Istr,
    /// What lists of attached volumes call it.
    pub unique_name: Istr,
    /// May several nodes have it?
    pub is_shared: bool,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodStatus {
    pub phase: Phase,
    pub ready: bool,
    /// When the kubelet took it on.
    pub started_at: Option<Time>,
    /// When the Ready condition last changed, whatever it says now.
    pub ready_changed_at: Option<Time>,
    pub reason: Istr,
    pub ips: PodIps,
    /// The highest restart count of a container, and of a sidecar.
    pub restarts: i32,
    pub sidecar_restarts: i32,
    /// Restarts of all containers and init containers together.
    pub restarts_in_all: i32,
    /// Of a pod that is being deleted: does any of its containers run still?
    pub is_running_still: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCondition {
    pub type_: Istr,
    pub status: Istr,
    pub reason: Istr,
    pub last_transition_time: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl Phase {
    /// How far a pod has come, as upstream ranks active pods: the less the sooner it may go.
    pub fn progress(self) -> u8 {
        match self {
            Phase::Pending => 0,
            Phase::Unknown => 1,
            Phase::Running | Phase::Succeeded | Phase::Failed => 2,
        }
    }
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
        self.conditions().iter().find(|held| held.type_ == type_)
    }

    pub fn conditions(&self) -> &[PodCondition] {
        self.own.as_ref().map_or(&[], |own| &own.conditions)
    }

    pub fn hostname(&self) -> &str {
        self.own.as_ref().map_or("", |own| &own.hostname)
    }

    pub fn ended(&self) -> Option<&Ended> {
        self.own.as_ref()?.ended.as_deref()
    }

    pub fn extended_resource_claim(&self) -> Option<&str> {
        let own = self.own.as_ref()?;
        Some(&*own.extended_resource_claim).filter(|name| !name.is_empty())
    }

    /// The claims for devices that the pod names.
    pub fn claims(&self) -> &[PodClaim] {
        self.own.as_ref().map_or(&[], |own| &own.claims)
    }

    /// The group that the pod is scheduled with.
    pub fn pod_group(&self) -> Option<&Istr> {
        let own = self.own.as_ref()?;
        Some(&own.pod_group).filter(|name| !name.is_empty())
    }

    pub fn volumes(&self) -> &[Volume] {
        self.own.as_ref().map_or(&[], |own| &own.volumes)
    }

    pub fn inline_volumes(&self) -> &[InlineVolume] {
        self.own.as_ref().map_or(&[], |own| &own.inline)
    }

    pub fn se_linux(&self) -> Option<&SeLinux> {
        self.own.as_ref()?.se_linux.as_deref()
    }

    /// Does the pod need its volumes no longer? It has ended, or is being deleted and none of its containers runs.
    pub fn has_left_volumes(&self) -> bool {
        self.is_finished() || self.metadata.is_terminating() && !self.status.is_running_still
    }

    /// The node that a pod is on, or is meant for while nobody has bound it.
    pub fn target_node(&self) -> Option<&str> {
        let meant_for = self.own.as_ref().map_or("", |own| &own.meant_for);
        [&*self.node_name, meant_for]
            .into_iter()
            .find(|node| !node.is_empty())
    }
}

impl Resource for Pod {
    const TYPE: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");

    /// Pods are most of all bytes.
    const PROTOBUF: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<Pod, DecodeError> {
        decode_json::<Wire<'_>>(&Pod::TYPE, json).map(Pod::from)
    }

    fn decode_protobuf(message: &[u8]) -> Result<Pod, DecodeError> {
        decode_protobuf::<Wire<'_>>(&Pod::TYPE, message).map(Pod::from)
    }
}

/// The API server holds pods as values, and asks the same of them.
impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pod, D::Error> {
        Wire::deserialize(deserializer).map(Pod::from)
    }
}
