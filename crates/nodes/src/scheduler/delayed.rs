//! Claims whose volume is chosen when the pod's node is: a free volume that the node reaches, or a new one.
//!
//! UPSTREAM: as `FindMatchingVolume` and `checkVolumeProvisions` of kube-scheduler's volumebinding plugin choose.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use api::node_affinity::CompiledNodeSelector;
use api::{Istr, Key, LabelSelector, Quantity, Resource};

use super::volumes::{SELECTED_NODE, Volumes};
use crate::node::Node;
use crate::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A claim that is not bound, of a class that waits for the first consumer.
pub(super) struct Delayed {
    claim: Arc<PersistentVolumeClaim>,
    class: Arc<StorageClass>,
    /// Volumes that would do, the best one first, and where they can be reached.
    candidates: Vec<(Arc<PersistentVolume>, Option<CompiledNodeSelector>)>,
}

/// What has to be written before the pod is bound to a node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Choice {
    /// Volumes that are kept for claims.
    pub(super) bindings: Vec<Binding>,
    /// Claims that have to be told the node, for which their volumes are made.
    pub(super) provisions: Vec<Key>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Binding {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    pub(super) volume: Arc<PersistentVolume>,
}

impl Choice {
    pub(super) fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }
}

impl Delayed {
    pub(super) fn new(
        claim: Arc<PersistentVolumeClaim>,
        class: Arc<StorageClass>,
        volumes: &dyn Volumes,
    ) -> Delayed {
        let mut found = volumes.of_class(&class.metadata.name);
        found.retain(|volume| suits(&claim, volume));
        if let Some(own) = found.iter().position(|volume| is_for(volume, &claim)) {
            found = vec![found.swap_remove(own)];
        }
        found.sort_by_cached_key(|volume| (size(volume), volume.key()));
        let with_nodes = |volume: Arc<PersistentVolume>| {
            let nodes = volume.required_nodes();
            (volume, nodes)
        };
        Delayed {
            candidates: found.into_iter().map(with_nodes).collect(),
            claim,
            class,
        }
    }

    /// UPSTREAM: small claims come first, so that each gets the smallest volume that does.
    pub(super) fn by_size(&self, other: &Delayed) -> Ordering {
        self.claim.requested().cmp(&other.claim.requested())
    }

    /// None where the node cannot have the claim's volume.
    fn choose(&self, node: &Node, choice: &mut Choice, taken: &mut BTreeSet<Istr>) -> Option<()> {
        match self.claim.metadata.annotation(SELECTED_NODE) {
            Some(selected) if selected != node.name() => return None,
            Some(_) => {}
            None => {
                let mut candidates = self.candidates.iter();
                let found = candidates.find(|(volume, nodes)| {
                    let is_free = !taken.contains(&*volume.metadata.name);
                    is_free && nodes.as_ref().is_none_or(|nodes| reaches(nodes, node))
                });
                if let Some((volume, _)) = found {
                    taken.insert(Istr::new(&volume.metadata.name));
                    choice.bindings.push(Binding {
                        claim: self.claim.clone(),
                        volume: volume.clone(),
                    });
                    return Some(());
                }
            }
        }
        let terms = &self.class.allowed_topologies;
        let is_allowed = terms.is_empty() || terms.iter().any(|term| term.matches(node.labels()));
        let provisioner = &self.class.provisioner;
        if provisioner.is_empty() || *provisioner == *NO_PROVISIONER || !is_allowed {
            return None;
        }
        choice.provisions.push(self.claim.key());
        Some(())
    }
}

/// Where the volumes of all these claims come from on the node; None where one of them cannot be had there.
pub(super) fn choose(claims: &[Delayed], node: &Node) -> Option<Choice> {
    let mut choice = Choice::default();
    let mut taken = BTreeSet::new();
    for delayed in claims {
        delayed.choose(node, &mut choice, &mut taken)?;
    }
    Some(choice)
}

pub(super) fn reaches(nodes: &CompiledNodeSelector, node: &Node) -> bool {
    nodes.matches(node.name(), node.labels()).unwrap_or(false)
}

/// Is the volume kept for this claim?
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let meta = &claim.metadata;
    volume.spec.claim_ref.as_ref().is_some_and(|held| {
        held.namespace == meta.namespace
            && *held.name == *meta.name
            && (held.uid.is_empty() || held.uid == meta.uid)
    })
}

fn size(volume: &PersistentVolume) -> Quantity {
    let held = volume.spec.capacity.get("storage");
    held.cloned().unwrap_or_default()
}

/// Could the claim have the volume, wherever it can be reached?
fn suits(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (wants, has) = (&claim.spec, &volume.spec);
    let mode = |mode: &Istr| match mode.is_empty() {
        true => Istr::new("Filesystem"),
        false => mode.clone(),
    };
    let class = |name: &Option<Istr>| name.clone().unwrap_or_default();
    let is_large_enough = claim
        .requested()
        .is_none_or(|wanted| size(volume) >= *wanted);
    let is_alike = mode(&wants.volume_mode) == mode(&has.volume_mode)
        && class(&wants.volume_attributes_class_name) == class(&has.volume_attributes_class_name);
    if !is_large_enough || !is_alike || volume.metadata.is_terminating() {
        return false;
    }
    if has.claim_ref.is_some() {
        return is_for(volume, claim);
    }
    let selector = LabelSelector::compile_optional(wants.selector.as_ref());
    let is_selected = wants.selector.is_none()
        || selector.is_ok_and(|selector| selector.matches(&volume.metadata.labels));
    let mut modes = wants.access_modes.iter();
    volume.status.phase == "Available"
        && is_selected
        && modes.all(|one| has.access_modes.contains(one))
}
