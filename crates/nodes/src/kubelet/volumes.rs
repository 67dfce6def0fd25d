//! Which volumes a kubelet has to wait for, and which it uses.
//!
//! Only where the node leaves attaching to the controller: a volume may be used once the node's list has it and the
//! kubelet has said that it is going to.

use std::sync::Arc;

use api::kinds::CsiDriver;
use api::{Istr, Key};
use runtime::{Index, IndexValue, Informers, Store};

use super::BY_NODE;
use crate::node::Node;
use crate::pod::Pod;
use crate::storage::{PersistentVolume, PersistentVolumeClaim};

/// Pods by the claims that they mount.
const BY_CLAIM: Index<Pod> = Index {
    name: "mounted-claim",
    values: |pod, found| {
        for claim in pod.claims.iter() {
            let namespace = pod.metadata.namespace.clone();
            found(IndexValue::In(namespace, claim.name.clone()));
        }
    },
};

pub(crate) struct Volumes {
    pods: Arc<Store<Pod>>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    volumes: Arc<Store<PersistentVolume>>,
    drivers: Arc<Store<CsiDriver>>,
}

impl Volumes {
    pub(crate) fn new(informers: &Informers) -> Volumes {
        let pods = informers.of::<Pod>();
        pods.add_index(&BY_CLAIM);
        pods.add_index(&BY_NODE);
        Volumes {
            pods: pods.store().clone(),
            claims: informers.store(),
            volumes: informers.store(),
            drivers: informers.store(),
        }
    }

    /// May the containers of the pod start, as far as its volumes are concerned?
    pub(crate) fn are_there(&self, pod: &Pod, node: &Node) -> bool {
        if !node.is_attach_managed() || pod.claims.is_empty() {
            return true;
        }
        let needed = self.needed(pod);
        needed.is_some_and(|needed| {
            needed.iter().all(|volume| {
                let status = &node.status;
                status.volumes_in_use.contains(volume)
                    && status
                        .volumes_attached
                        .iter()
                        .any(|held| held.name == *volume)
            })
        })
    }

    /// What the node's kubelet uses, or is about to.
    pub(crate) fn in_use(&self, node: &Node) -> Vec<Istr> {
        let value = IndexValue::Text(Istr::new(node.name()));
        let pods = self.pods.by(&BY_NODE, &value);
        let mut used: Vec<Istr> = pods
            .iter()
            .filter(|pod| !pod.is_finished())
            .flat_map(|pod| self.known(pod))
            .collect();
        used.sort();
        used.dedup();
        used
    }

    /// The nodes of pods that mount this claim, and the pods.
    pub(crate) fn users(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<Pod>> {
        let meta = &claim.metadata;
        let value = IndexValue::In(meta.namespace.clone(), Istr::new(&meta.name));
        let mut pods = self.pods.by(&BY_CLAIM, &value);
        pods.retain(|pod| pod.is_assigned());
        pods
    }

    /// What has to be attached for the pod; none while a claim of its is not bound.
    fn needed(&self, pod: &Pod) -> Option<Vec<Istr>> {
        let mut needed = Vec::new();
        for claim in pod.claims.iter() {
            let key = Key::new(&pod.metadata.namespace, &claim.name);
            let claim = self.claims.get(&key).filter(|claim| claim.is_bound())?;
            let volume = self.volumes.find("", &claim.spec.volume_name)?;
            needed.extend(self.attachable(&volume));
        }
        Some(needed)
    }

    /// The same, as far as it is known.
    fn known(&self, pod: &Pod) -> Vec<Istr> {
        let namespace = &pod.metadata.namespace;
        let bound = pod.claims.iter().filter_map(|claim| {
            let claim = self.claims.find(namespace, &claim.name)?;
            let volume = self.volumes.find("", &claim.spec.volume_name)?;
            claim.is_bound().then(|| self.attachable(&volume))?
        });
        bound.collect()
    }

    fn attachable(&self, volume: &PersistentVolume) -> Option<Istr> {
        let csi = volume.spec.csi.as_ref()?;
        let driver = self.drivers.find("", &csi.driver);
        let is_needless = driver.is_some_and(|held| held.spec.attach_required == Some(false));
        (!is_needless).then(|| csi.unique_name())
    }
}
