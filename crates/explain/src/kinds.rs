//! The kinds that are explained: a line of [`KINDS`] each. Everything else that this crate, `why` and the preview know of
//! kinds follows from it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::kinds::{
    DeviceClass, EndpointSlice, Lease, Namespace, Node, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, ResourceClaim, ResourceQuota, Service, VolumeAttributesClass,
};
use api::{Resource, ResourceType};
use serde_json::Value;

use crate::facts::{Facts, group_of};
use crate::json::text;
use crate::{
    Draft, autoscaler, budget, certificate, cron_job, deployment, devices, ingress, job, migration,
    namespace, node, pod, quota, replicas, service, sets, storage,
};

/// How objects of a kind are explained.
pub struct Kind {
    pub resource: ResourceType,
    /// What its own controller goes by: nobody plans or concludes without them.
    pub inputs: &'static [ResourceType],
    /// What has to be read beside the object and its events.
    pub needs: &'static [Need],
    pub(crate) explain: fn(&Facts, &mut Draft<'_>),
    /// What it says covers its deletion too, which is told alike for all others.
    pub(crate) tells_deletion: bool,
}

/// Something that an explanation rests on.
pub enum Need {
    /// All of a kind, of the object's namespace if they have one.
    All(ResourceType),
    /// Those that the object controls.
    Controlled(ResourceType),
    /// Those that its selector selects.
    Selected(ResourceType),
    /// The pods that its selector selects; those at work only where they count for something.
    Pods,
    /// The same with those at work: they are its result.
    AllPods,
    /// Budgets, and the pods of those whose status nobody has written.
    Budgets,
    /// Who controls it.
    Owner,
    /// Who shares a pod's node, its claims and its devices.
    AroundPod,
    /// When a node's kubelet posted status last, and what keeps its pods from being evicted.
    AroundNode,
    /// The pods under a budget.
    UnderBudget,
    /// The attributes class that a claim asks for.
    AttributesClass,
    /// The claim that a volume is bound to, or kept for.
    ClaimOfVolume,
    /// The pods and slices of a Service, and where nobody is selected who may have been meant.
    BehindService,
    /// The Services that an Ingress leads to, with what is behind them.
    BehindIngress,
    /// What an autoscaler scales.
    ScaleTarget,
    /// Everything that is left in a namespace that is being deleted.
    Content,
    /// Who was lately refused what it wanted to create.
    Refused,
}

impl Need {
    /// The kinds that are read for it; none where any may be.
    fn kinds(&self) -> Vec<&ResourceType> {
        const POD: &[ResourceType] = &[Pod::TYPE];
        const CLAIM: &[ResourceType] = &[PersistentVolumeClaim::TYPE];
        const CLASS: &[ResourceType] = &[VolumeAttributesClass::TYPE];
        const BUDGETS: &[ResourceType] = &[PodDisruptionBudget::TYPE, Pod::TYPE];
        const AROUND_POD: &[ResourceType] = &[
            Pod::TYPE,
            PersistentVolumeClaim::TYPE,
            ResourceClaim::TYPE,
            DeviceClass::TYPE,
        ];
        const AROUND_NODE: &[ResourceType] = &[Lease::TYPE, PodDisruptionBudget::TYPE, Pod::TYPE];
        const BEHIND: &[ResourceType] = &[Service::TYPE, EndpointSlice::TYPE, Pod::TYPE];
        let fixed: &'static [ResourceType] = match self {
            Need::All(one) | Need::Controlled(one) | Need::Selected(one) => return vec![one],
            Need::Pods | Need::AllPods | Need::UnderBudget => POD,
            Need::Budgets => BUDGETS,
            Need::AroundPod => AROUND_POD,
            Need::AroundNode => AROUND_NODE,
            Need::AttributesClass => CLASS,
            Need::ClaimOfVolume => CLAIM,
            Need::BehindService | Need::BehindIngress => BEHIND,
            Need::Owner | Need::ScaleTarget | Need::Content | Need::Refused => &[],
        };
        fixed.iter().collect()
    }
}

/// What is read where objects are refused, or pods find no node.
pub static AROUND: [ResourceType; 3] = [Namespace::TYPE, Node::TYPE, ResourceQuota::TYPE];

/// One line for each kind that is explained.
static KINDS: [Kind; 20] = [
    autoscaler::KIND,
    budget::KIND,
    certificate::KIND,
    cron_job::KIND,
    deployment::KIND,
    devices::CLAIM,
    ingress::KIND,
    job::KIND,
    migration::KIND,
    namespace::KIND,
    node::KIND,
    pod::KIND,
    quota::KIND,
    replicas::REPLICA_SET,
    replicas::REPLICATION_CONTROLLER,
    service::KIND,
    sets::DAEMON_SET,
    sets::STATEFUL_SET,
    storage::CLAIM,
    storage::VOLUME,
];

impl Kind {
    /// How an object is explained; none where its decisions alone are told. A custom resource that is merely called
    /// like a built-in kind is of no kind here.
    pub fn of(object: &Value) -> Option<&'static Kind> {
        let (group, kind) = (group_of(object), text(object, "/kind"));
        let mut all = KINDS.iter();
        all.find(|one| one.resource.kind == kind && one.resource.group == group)
    }

    pub fn all() -> impl Iterator<Item = &'static Kind> {
        KINDS.iter()
    }

    /// The kinds of what is read for it.
    pub fn reads(&self) -> impl Iterator<Item = &ResourceType> {
        self.inputs
            .iter()
            .chain(self.needs.iter().flat_map(Need::kinds))
    }
}

/// The API groups of the kinds that are explained, or explain others.
static GROUPS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let all = KINDS.iter();
    let all = all.flat_map(|kind| std::iter::once(&kind.resource).chain(kind.reads()));
    all.chain(&AROUND)
        .map(|one| (&*one.kind, &*one.group))
        .collect()
});

pub(crate) fn group_of_kind(kind: &str) -> Option<&'static str> {
    GROUPS.get(kind).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_explained_once_and_is_in_one_group() {
        let mut known = BTreeMap::new();
        for kind in &KINDS {
            let name = &kind.resource.kind;
            assert!(known.insert(name, ()).is_none(), "{name} stands twice");
            for one in kind.reads().chain([&kind.resource]) {
                assert_eq!(group_of_kind(&one.kind), Some(&*one.group), "{one}");
            }
        }
    }
}
