//! May a pod run on a node? In upstream's order, and with upstream's words where it may not.

use std::borrow::Cow;
use std::collections::BTreeSet;

use api::node_affinity::{NodeSelectorOperator, NodeSelectorTerm, RequiredNodeAffinity};
use api::taints::{TaintEffect, find_untolerated};
use api::{Istr, Key};

use super::cache::{Cache, NodeState};
use super::devices::{ClaimWrite, DeviceNeeds, Devices};
use super::plan::Objects;
use super::topology::{Neighbours, Spread};
use super::volumes::VolumeNeeds;
use crate::node::Node;
use crate::pod::{Amounts, Pod, Unsatisfiable};

/// All that has to be known about a pod before nodes are asked, computed once.
pub(super) struct Prepared<'a> {
    cache: &'a Cache,
    pod: &'a Pod,
    required: RequiredNodeAffinity,
    /// The only nodes that the pod names, if it does: every pod of a DaemonSet names one.
    named: Option<BTreeSet<Istr>>,
    neighbours: Neighbours,
    spread: Vec<Spread>,
    volumes: VolumeNeeds,
    devices: DeviceNeeds,
    known_devices: Option<&'a dyn Devices>,
    /// Pods that are thought away: the victims of a preemption.
    without: BTreeSet<Key>,
}

/// Why a node does not do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rejection {
    pub(super) reasons: Vec<Cow<'static, str>>,
    /// Would it help if pods left the node?
    pub(super) is_resolvable: bool,
    /// Which changes could make the node do.
    pub(super) helped_by: u8,
}

impl Rejection {
    pub(super) const BY_NODE: u8 = 1;
    pub(super) const BY_POD_GONE: u8 = 2;
    pub(super) const BY_ASSIGNED: u8 = 4;
    pub(super) const BY_STORAGE: u8 = 8;
    pub(super) const BY_DEVICES: u8 = 16;

    /// Pods that leave do not help.
    pub(super) fn lasting(reason: impl Into<Cow<'static, str>>, helped_by: u8) -> Rejection {
        Rejection {
            reasons: vec![reason.into()],
            is_resolvable: false,
            helped_by: helped_by | Rejection::BY_NODE,
        }
    }

    /// Because of where other pods are.
    pub(super) fn by_pods(reason: &'static str) -> Rejection {
        Rejection {
            reasons: vec![reason.into()],
            is_resolvable: true,
            helped_by: Rejection::BY_NODE | Rejection::BY_POD_GONE | Rejection::BY_ASSIGNED,
        }
    }
}

const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

impl<'a> Prepared<'a> {
    /// Fails where no node can do, whatever it is like; with the reason.
    pub(super) fn new(
        cache: &'a Cache,
        objects: &'a dyn Objects,
        pod: &'a Pod,
        without: BTreeSet<Key>,
    ) -> Result<Prepared<'a>, Rejection> {
        let required =
            RequiredNodeAffinity::new(&pod.spec.node_selector, pod.spec.affinity.as_ref());
        let named = named_nodes(pod);
        if named.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(Rejection::lasting("pod affinity terms conflict", 0));
        }
        let needs = VolumeNeeds::of(pod, objects)?;
        let known_devices = objects.devices();
        let devices = match known_devices {
            Some(devices) => DeviceNeeds::of(pod, devices)?,
            None => DeviceNeeds::default(),
        };
        Ok(Prepared {
            neighbours: Neighbours::new(cache, pod, &without),
            spread: Spread::of(
                cache,
                pod,
                Unsatisfiable::DoNotSchedule,
                &required,
                &without,
            ),
            volumes: needs,
            devices,
            known_devices,
            cache,
            pod,
            required,
            named,
            without,
        })
    }

    pub(super) fn required(&self) -> &RequiredNodeAffinity {
        &self.required
    }

    pub(super) fn volumes(&self) -> &VolumeNeeds {
        &self.volumes
    }

    pub(super) fn devices(&self) -> &DeviceNeeds {
        &self.devices
    }

    /// What claims for devices have to be told before the pod is bound to the node.
    pub(super) fn device_writes(&self, node: &Node) -> Vec<ClaimWrite> {
        let known = self.known_devices;
        known.map_or_else(Vec::new, |known| self.devices.writes(known, node))
    }

    pub(super) fn check(&self, node: &Node, state: &NodeState) -> Result<(), Rejection> {
        self.check_node(node)?;
        self.check_ports(node, state)?;
        self.check_resources(node, state)?;
        self.volumes.check(node)?;
        if let Some(known) = self.known_devices {
            self.devices.check(known, node)?;
        }
        for spread in &self.spread {
            spread.check(node)?;
        }
        self.neighbours.check(node)
    }

    fn check_node(&self, node: &Node) -> Result<(), Rejection> {
        let tolerations = &self.pod.spec.tolerations;
        if let Some(named) = &self.named
            && !named.contains(node.name())
        {
            // UPSTREAM: such nodes are not even looked at.
            let reason = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
            return Err(Rejection::lasting(reason, 0));
        }
        if node.spec.unschedulable {
            let cordon = api::Taint::new(UNSCHEDULABLE_TAINT, "", TaintEffect::NoSchedule);
            if find_untolerated(tolerations, &[cordon], |_| true, false).is_some() {
                return Err(Rejection::lasting("node(s) were unschedulable", 0));
            }
        }
        if !tolerates_node(self.pod, node) {
            return Err(Rejection::lasting("node(s) had untolerated taint(s)", 0));
        }
        if !self
            .required
            .matches(node.name(), node.labels())
            .unwrap_or(false)
        {
            let reason = "node(s) didn't match Pod's node affinity/selector";
            return Err(Rejection::lasting(reason, 0));
        }
        Ok(())
    }

    fn check_ports(&self, node: &Node, state: &NodeState) -> Result<(), Rejection> {
        let wanted = &self.pod.spec.host_ports;
        if wanted.is_empty() {
            return Ok(());
        }
        let others = self
            .remaining(state)
            .chain(self.cache.nominated_before(self.pod, node.name()));
        let mut held = others.flat_map(|other| other.spec.host_ports.iter());
        if held.any(|port| wanted.iter().any(|one| one.conflicts_with(port))) {
            let mut rejection =
                Rejection::by_pods("node(s) didn't have free ports for the requested pod ports");
            rejection.helped_by &= !Rejection::BY_ASSIGNED;
            return Err(rejection);
        }
        Ok(())
    }

    fn remaining<'b>(
        &'b self,
        state: &'b NodeState,
    ) -> impl Iterator<Item = &'b std::sync::Arc<Pod>> {
        let kept = |key: &Key| self.without.is_empty() || !self.without.contains(key);
        state
            .pods
            .iter()
            .filter(move |(key, _)| kept(key))
            .map(|(_, pod)| pod)
    }

    fn check_resources(&self, node: &Node, state: &NodeState) -> Result<(), Rejection> {
        let allocatable = &node.status.allocatable;
        let wanted = &self.pod.spec.requests.total;
        let mut count = state.pods.len() as i64;
        let mut adjusted: Option<Amounts> = None;
        if !self.without.is_empty() {
            let used = adjusted.get_or_insert_with(|| state.requested.clone());
            for (_, gone) in state
                .pods
                .iter()
                .filter(|(key, _)| self.without.contains(key))
            {
                used.subtract(&gone.spec.requests.total);
                count -= 1;
            }
        }
        if self.cache.has_nominations() {
            for other in self.cache.nominated_before(self.pod, node.name()) {
                let used = adjusted.get_or_insert_with(|| state.requested.clone());
                used.add(&other.spec.requests.total);
                count += 1;
            }
        }
        let used = adjusted.as_ref().unwrap_or(&state.requested);
        let mut reasons: Vec<Cow<'static, str>> = Vec::new();
        if count + 1 > allocatable.pods {
            reasons.push("Too many pods".into());
        }
        let has = &allocatable.amounts;
        let mut is_resolvable = true;
        let mut ask = |name: &str, wanted: i64, has: i64, used: i64| {
            if wanted > 0 && wanted > has - used {
                reasons.push(format!("Insufficient {name}").into());
                // More than the node has at all: nobody's leaving helps.
                is_resolvable &= wanted <= has;
            }
        };
        ask("cpu", wanted.milli_cpu, has.milli_cpu, used.milli_cpu);
        ask("memory", wanted.memory, has.memory, used.memory);
        ask(
            "ephemeral-storage",
            wanted.ephemeral_storage,
            has.ephemeral_storage,
            used.ephemeral_storage,
        );
        for (name, amount) in wanted.others() {
            ask(name, *amount, has.other(name), used.other(name));
        }
        match reasons.is_empty() {
            true => Ok(()),
            false => Err(Rejection {
                reasons,
                is_resolvable,
                helped_by: Rejection::BY_NODE | Rejection::BY_POD_GONE,
            }),
        }
    }
}

/// The nodes that a pod's required affinity names by `metadata.name`, if each of its terms does.
fn named_nodes(pod: &Pod) -> Option<BTreeSet<Istr>> {
    let affinity = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required.as_ref()?.node_selector_terms;
    if terms.is_empty() {
        return None;
    }
    let names_of = |term: &NodeSelectorTerm| {
        let named = term.match_fields.iter().filter(|field| {
            field.key == "metadata.name" && field.operator == NodeSelectorOperator::In
        });
        let sets = named.map(|field| field.values.iter().cloned().collect::<BTreeSet<Istr>>());
        sets.reduce(|one, two| one.intersection(&two).cloned().collect())
    };
    let names: Option<Vec<BTreeSet<Istr>>> = terms.iter().map(names_of).collect();
    Some(names?.into_iter().flatten().collect())
}

/// Is there no taint that keeps the pod from being scheduled on the node?
pub(super) fn tolerates_node(pod: &Pod, node: &Node) -> bool {
    let repels = |taint: &api::Taint| {
        matches!(
            taint.effect,
            TaintEffect::NoSchedule | TaintEffect::NoExecute
        )
    };
    find_untolerated(&pod.spec.tolerations, &node.spec.taints, repels, false).is_none()
}
