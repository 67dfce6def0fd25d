//! What a pod's claims say about where it may run.

use std::sync::Arc;

use api::node_affinity::CompiledNodeSelector;

use super::delayed::{self, Choice, Delayed, reaches};
use super::filter::Rejection;
use crate::node::Node;
use crate::pod::Pod;
use crate::storage::{BindingMode, PersistentVolume, PersistentVolumeClaim, StorageClass};

/// Where claims, volumes and classes are looked up.
pub(super) trait Volumes {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>>;
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>>;
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
    /// All volumes of a class.
    fn of_class(&self, name: &str) -> Vec<Arc<PersistentVolume>>;
}

/// What the claims of one pod amount to.
#[derive(Default)]
pub(super) struct VolumeNeeds {
    /// Volumes that are there, and where they can be reached.
    reachable: Vec<CompiledNodeSelector>,
    /// A claim is bound to a volume that is not there.
    lacks_volume: bool,
    /// Claims whose volume is chosen with the node, small ones first.
    delayed: Vec<Delayed>,
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
            let class = class
                .filter(|class| class.volume_binding_mode == BindingMode::WaitForFirstConsumer);
            match class {
                // UPSTREAM: a claim that names its volume is not bound by the scheduler.
                Some(class) if claim.spec.volume_name.is_empty() => {
                    needs.delayed.push(Delayed::new(claim, class, volumes));
                }
                _ => {
                    return no_node("pod has unbound immediate PersistentVolumeClaims".to_owned());
                }
            }
        }
        needs.delayed.sort_by(Delayed::by_size);
        Ok(needs)
    }

    pub(super) fn check(&self, node: &Node) -> Result<(), Rejection> {
        if self.lacks_volume {
            let reason =
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
            return Err(Rejection::lasting(reason, Rejection::BY_STORAGE));
        }
        if !self.reachable.iter().all(|nodes| reaches(nodes, node)) {
            let reason = "node(s) didn't match PersistentVolume's node affinity";
            return Err(Rejection::lasting(reason, Rejection::BY_STORAGE));
        }
        if self.choose(node).is_none() {
            let reason = "node(s) didn't find available persistent volumes to bind";
            return Err(Rejection::lasting(reason, Rejection::BY_STORAGE));
        }
        Ok(())
    }

    /// Where the volumes of claims that are not bound come from on this node, if it can have them all.
    pub(super) fn choose(&self, node: &Node) -> Option<Choice> {
        delayed::choose(&self.delayed, node)
    }
}

/// The node that a claim's volume is to be made for.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
