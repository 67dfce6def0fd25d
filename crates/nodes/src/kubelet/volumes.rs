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

/// Volumes by the claims that they are for, whether these exist or not.
const BY_CLAIM_REF: Index<PersistentVolume> = Index {
    name: "claim-ref",
    values: |volume, found| {
        if let Some(held) = &volume.spec.claim_ref {
            found(IndexValue::In(held.namespace.clone(), held.name.clone()));
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
        informers.of::<PersistentVolume>().add_index(&BY_CLAIM_REF);
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
            .flat_map(|pod| self.used(pod, node))
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

    /// What the pod mounts or is about to, as far as it is known. What is mounted stays so while the pod runs, even if
    /// its claim is deleted under it.
    fn used(&self, pod: &Pod, node: &Node) -> Vec<Istr> {
        let namespace = &pod.metadata.namespace;
        let mut used = Vec::new();
        for mounted in pod.claims.iter() {
            let claim = self.claims.find(namespace, &mounted.name);
            if let Some(claim) = claim.filter(|claim| claim.is_bound()) {
                let volume = self.volumes.find("", &claim.spec.volume_name);
                used.extend(volume.and_then(|volume| self.attachable(&volume)));
                continue;
            }
            let value = IndexValue::In(namespace.clone(), mounted.name.clone());
            let volumes = self.volumes.by(&BY_CLAIM_REF, &value);
            let names = volumes.iter().filter_map(|held| self.attachable(held));
            used.extend(names.filter(|name| node.status.volumes_in_use.contains(name)));
        }
        used
    }

    fn attachable(&self, volume: &PersistentVolume) -> Option<Istr> {
        let csi = volume.spec.csi.as_ref()?;
        let driver = self.drivers.find("", &csi.driver);
        let is_needless = driver.is_some_and(|held| held.spec.attach_required == Some(false));
        (!is_needless).then(|| csi.unique_name())
    }
}
