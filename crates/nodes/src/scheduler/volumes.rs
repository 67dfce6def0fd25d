//! What a pod's claims say about where it may run.

use std::sync::Arc;

use api::Key;
use api::node_affinity::CompiledNodeSelector;

use super::filter::Rejection;
use crate::node::Node;
use crate::pod::Pod;
use crate::storage::{
    BindingMode, PersistentVolume, PersistentVolumeClaim, StorageClass, TopologyTerm,
};

/// Where claims, volumes and classes are looked up.
pub(super) trait Volumes {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>>;
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>>;
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
}

/// What the claims of one pod amount to.
#[derive(Default)]
pub(super) struct VolumeNeeds {
    /// Volumes that are there, and where they can be reached.
    reachable: Vec<CompiledNodeSelector>,
    /// A claim is bound to a volume that is not there.
    lacks_volume: bool,
    /// Claims whose volume is made when the node is known, and where it can be made.
    waiting: Vec<(Key, Arc<[TopologyTerm]>)>,
}

impl VolumeNeeds {
    pub(super) fn of(pod: &Pod, volumes: &dyn Volumes) -> Result<VolumeNeeds, Rejection> {
        let mut needs = VolumeNeeds::default();
        let no_node = |reason: String| {
            let helped = Rejection::BY_STORAGE;
            Err(Rejection::lasting(reason, helped))
        };
        let namespace = &pod.metadata.namespace;
        for wanted in pod.claims.iter() {
            let name = &wanted.name;
            let Some(claim) = volumes.claim(namespace, name) else {
                return no_node(match wanted.ephemeral {
                    true => format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                    ),
                    false => format!("persistentvolumeclaim \"{name}\" not found"),
                });
            };
            if claim.metadata.is_terminating() {
                return no_node(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            if claim.is_bound() {
                match volumes.volume(&claim.spec.volume_name) {
                    Some(volume) => needs.reachable.extend(volume.required_nodes()),
                    None => needs.lacks_volume = true,
                }
                continue;
            }
            let class = claim
                .spec
                .storage_class_name
                .as_deref()
                .and_then(|name| volumes.class(name));
            match class
                .filter(|class| class.volume_binding_mode == BindingMode::WaitForFirstConsumer)
            {
                Some(class) => needs
                    .waiting
                    .push((claim.metadata.key(), class.allowed_topologies.clone())),
                None => {
                    return no_node("pod has unbound immediate PersistentVolumeClaims".to_owned());
                }
            }
        }
        Ok(needs)
    }

    pub(super) fn check(&self, node: &Node) -> Result<(), Rejection> {
        let reaches = |selector: &CompiledNodeSelector| {
            selector
                .matches(node.name(), node.labels())
                .unwrap_or(false)
        };
        if self.lacks_volume {
            let reason =
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
            return Err(Rejection::lasting(reason, Rejection::BY_STORAGE));
        }
        if !self.reachable.iter().all(reaches) {
            let reason = "node(s) didn't match PersistentVolume's node affinity";
            return Err(Rejection::lasting(reason, Rejection::BY_STORAGE));
        }
        let allowed = |terms: &[TopologyTerm]| {
            terms.is_empty() || terms.iter().any(|term| term.matches(node.labels()))
        };
        if !self.waiting.iter().all(|(_, terms)| allowed(terms)) {
            let reason = "node(s) didn't find available persistent volumes to bind";
            return Err(Rejection::lasting(reason, Rejection::BY_STORAGE));
        }
        Ok(())
    }

    /// Claims that must be told the node before the pod can be bound.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Key> {
        self.waiting.iter().map(|(claim, _)| claim)
    }
}

/// The node that a claim's volume is to be made for.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
