//! Which pods have needed which volumes. A pod names a claim, and the claim the volume; a pod that runs goes on using the
//! volume when its claim is deleted under it, and nothing else would say so.
//!
//! Mirrors upstream's desired state of the world, from which a volume of a pod goes only with the pod. A manager that
//! starts without the claim does not know, as upstream's does not: then `status.volumesInUse` keeps the volume attached.

use std::collections::{BTreeMap, BTreeSet};

use api::collections::HashMap;
use api::kinds::Pod;
use api::{Istr, Key, Uid};
use parking_lot::Mutex;

#[derive(Default)]
pub struct Users(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_volume: HashMap<Istr, BTreeMap<Key, Uid>>,
    by_pod: HashMap<Key, BTreeSet<Istr>>,
}

impl Users {
    pub fn add(&self, volume: &Istr, pod: &Pod) {
        let key = pod.metadata.key();
        let mut known = self.0.lock();
        let volumes = known.by_pod.entry(key.clone()).or_default();
        volumes.insert(volume.clone());
        let pods = known.by_volume.entry(volume.clone()).or_default();
        pods.insert(key, pod.metadata.uid.clone());
    }

    pub fn remove(&self, volume: &Istr, pod: &Key) {
        let mut known = self.0.lock();
        if let Some(pods) = known.by_volume.get_mut(volume) {
            pods.remove(pod);
            if pods.is_empty() {
                known.by_volume.remove(volume);
            }
        }
        if let Some(volumes) = known.by_pod.get_mut(pod) {
            volumes.remove(volume);
            if volumes.is_empty() {
                known.by_pod.remove(pod);
            }
        }
    }

    pub fn of(&self, volume: &Istr) -> BTreeMap<Key, Uid> {
        let known = self.0.lock();
        known.by_volume.get(volume).cloned().unwrap_or_default()
    }

    /// What a pod of this name has needed.
    pub fn volumes_of(&self, pod: &Key) -> BTreeSet<Istr> {
        let known = self.0.lock();
        known.by_pod.get(pod).cloned().unwrap_or_default()
    }
}
