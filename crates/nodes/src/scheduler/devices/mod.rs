//! Devices for pods: what the claims of a pod say about where it may run, and which devices they get there.
//!
//! UPSTREAM: the plugin `DynamicResources`, and the allocator of `k8s.io/dynamic-resource-allocation/structured`: the same
//! order, the same words. Not here: devices that are divided or shared, that become ready after they are allocated, or that
//! stand for extended resources; rules that taint devices; claims of pod groups; giving back a claim that holds a pod up.

mod allocate;
mod pools;
mod selector;
mod writes;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::kinds::{ClaimSource, GeneratedClaim, PodClaim, RESERVED_FOR_MAX};
use api::node_affinity::CompiledNodeSelector;
use api::{Resource, Uid};
use parking_lot::Mutex;
use runtime::{Change, Informers, Store};

use super::filter::Rejection;
use crate::devices::{DeviceClass, DeviceId, ResourceClaim, ResourceSlice};
use crate::node::Node;
use crate::pod::Pod;

pub(super) use selector::Selectors;
pub(super) use writes::ClaimWrite;

/// Where claims, classes and devices are looked up.
pub(super) trait Devices {
    fn device_claim(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>>;
    fn class(&self, name: &str) -> Option<Arc<DeviceClass>>;
    fn slices(&self) -> Vec<Arc<ResourceSlice>>;
    /// Devices that somebody has, or is about to get.
    fn in_use(&self) -> BTreeSet<DeviceId>;
    /// Was the claim given devices that no cache shows yet?
    fn is_being_allocated(&self, claim: &Uid) -> bool;
    fn selectors(&self) -> &Selectors;
}

/// The caches, and what was written a moment ago.
pub(super) struct DeviceStores {
    claims: Arc<Store<ResourceClaim>>,
    classes: Arc<Store<DeviceClass>>,
    slices: Arc<Store<ResourceSlice>>,
    allocating: Arc<Allocating>,
    selectors: Selectors,
}

/// Devices of claims whose allocation the cache does not show yet.
#[derive(Default)]
pub(super) struct Allocating(Mutex<BTreeMap<Uid, Vec<DeviceId>>>);

impl Allocating {
    pub(super) fn begin(&self, write: &ClaimWrite) {
        if write.allocation.is_some() {
            let uid = write.claim.metadata.uid.clone();
            self.0.lock().insert(uid, write.devices.clone());
        }
    }

    pub(super) fn end(&self, claim: &Uid) {
        self.0.lock().remove(claim);
    }

    fn claim_changed(&self, change: &Change<'_, ResourceClaim>) {
        let claim = change.object();
        if matches!(change, Change::Deleted(_)) || claim.status.allocation.is_some() {
            self.end(&claim.metadata.uid);
        }
    }
}

impl DeviceStores {
    pub(super) fn new(informers: &Informers) -> DeviceStores {
        let allocating = Arc::<Allocating>::default();
        let claims = informers.of::<ResourceClaim>();
        let seen = allocating.clone();
        claims.on_change(move |change| seen.claim_changed(&change));
        DeviceStores {
            claims: claims.store().clone(),
            classes: informers.store::<DeviceClass>(),
            slices: informers.store::<ResourceSlice>(),
            allocating,
            selectors: Selectors::default(),
        }
    }

    pub(super) fn allocating(&self) -> &Allocating {
        &self.allocating
    }
}

impl Devices for DeviceStores {
    fn device_claim(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        self.claims.find(namespace, name)
    }

    fn class(&self, name: &str) -> Option<Arc<DeviceClass>> {
        self.classes.find("", name)
    }

    fn slices(&self) -> Vec<Arc<ResourceSlice>> {
        self.slices.list()
    }

    fn in_use(&self) -> BTreeSet<DeviceId> {
        let claims = self.claims.list();
        let held = claims.iter().flat_map(|claim| claim.holds());
        let allocating = self.allocating.0.lock();
        held.chain(allocating.values().flatten().cloned()).collect()
    }

    fn is_being_allocated(&self, claim: &Uid) -> bool {
        self.allocating.0.lock().contains_key(claim)
    }

    fn selectors(&self) -> &Selectors {
        &self.selectors
    }
}

/// What the claims of one pod amount to.
#[derive(Default)]
pub(super) struct DeviceNeeds {
    /// Claims that have no devices yet.
    to_allocate: Vec<Arc<ResourceClaim>>,
    /// Claims that have devices, and do not know the pod yet.
    to_reserve: Vec<Arc<ResourceClaim>>,
    /// Where claims that have devices can be used.
    available_on: Vec<CompiledNodeSelector>,
    in_use: BTreeSet<DeviceId>,
    has_claims: bool,
}

/// The claims of a pod. None where one is not there yet, is leaving, or is another's: the pod is not even looked at.
pub(super) fn claims_of(pod: &Pod, devices: &dyn Devices) -> Option<Vec<Arc<ResourceClaim>>> {
    let mut claims = Vec::new();
    for entry in &pod.device_claims {
        let Some(name) = entry.claim_name() else {
            match not_needed(entry) {
                true => continue,
                false => return None,
            }
        };
        let claim = devices.device_claim(&pod.metadata.namespace, name)?;
        let from_template = entry.template().is_some();
        let uid = &pod.metadata.uid;
        if claim.metadata.is_terminating() || from_template && !claim.metadata.is_controlled_by(uid)
        {
            return None;
        }
        claims.push(claim);
    }
    Some(claims)
}

fn not_needed(entry: &PodClaim) -> bool {
    matches!(
        &entry.source,
        ClaimSource::Template {
            generated: GeneratedClaim::NotNeeded,
            ..
        }
    )
}

impl DeviceNeeds {
    /// Fails where no node can do, whatever it is like.
    pub(super) fn of(pod: &Pod, devices: &dyn Devices) -> Result<DeviceNeeds, Rejection> {
        let mut needs = DeviceNeeds::default();
        if pod.device_claims.is_empty() {
            return Ok(needs);
        }
        let nowhere = |reason: String| Err(Rejection::lasting(reason, Rejection::BY_DEVICES));
        for claim in claims_of(pod, devices).unwrap_or_default() {
            needs.has_claims = true;
            let status = &claim.status;
            let uid = &pod.metadata.uid;
            let is_reserved = status.reserved_for.iter().any(|held| held.uid == *uid);
            let Some(allocation) = &status.allocation else {
                let key = claim.metadata.key();
                if devices.is_being_allocated(&claim.metadata.uid) {
                    let reason =
                        format!("resource claim {key} is in the process of being allocated");
                    return nowhere(reason);
                }
                if let Some(reason) = lacks_class(&claim, devices) {
                    return nowhere(reason);
                }
                needs.to_allocate.push(claim);
                continue;
            };
            if let Some(selector) = &allocation.node_selector {
                needs.available_on.push(selector.compile());
            }
            if is_reserved {
                continue;
            }
            if status.reserved_for.len() >= RESERVED_FOR_MAX {
                return nowhere("resourceclaim in use".to_owned());
            }
            needs.to_reserve.push(claim);
        }
        if !needs.to_allocate.is_empty() {
            needs.in_use = devices.in_use();
        }
        Ok(needs)
    }

    pub(super) fn has_claims(&self) -> bool {
        self.has_claims
    }

    pub(super) fn check(&self, devices: &dyn Devices, node: &Node) -> Result<(), Rejection> {
        let lasting = |reason: String| Rejection::lasting(reason, Rejection::BY_DEVICES);
        let reaches = |selector: &CompiledNodeSelector| {
            let matched = selector.matches(node.name(), node.labels());
            matched.unwrap_or(false)
        };
        if !self.available_on.iter().all(reaches) {
            let reason = "resourceclaim not available on the node";
            return Err(lasting(reason.to_owned()));
        }
        if self.to_allocate.is_empty() {
            return Ok(());
        }
        match allocate::allocate(devices, &self.in_use, &self.to_allocate, node) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(lasting("cannot allocate all claims".to_owned())),
            Err(error) => Err(lasting(error)),
        }
    }

    /// What has to be written before the pod is bound to the node, which was checked a moment ago.
    pub(super) fn writes(&self, devices: &dyn Devices, node: &Node) -> Vec<ClaimWrite> {
        let mut writes: Vec<ClaimWrite> = Vec::new();
        if !self.to_allocate.is_empty() {
            let picked = allocate::allocate(devices, &self.in_use, &self.to_allocate, node);
            let picks = picked.ok().flatten().unwrap_or_default();
            for (claim, picks) in self.to_allocate.iter().zip(&picks) {
                writes.push(ClaimWrite::allocating(devices, claim, picks));
            }
        }
        writes.extend(self.to_reserve.iter().map(ClaimWrite::reserving));
        writes
    }
}

/// The first request whose class is not there, in upstream's words.
fn lacks_class(claim: &ResourceClaim, devices: &dyn Devices) -> Option<String> {
    for request in &claim.spec.devices.requests {
        for (number, choice) in request.choices().iter().enumerate() {
            let class = &choice.device_class_name;
            if devices.class(class).is_none() {
                let name = allocate::request_name(request, number);
                return Some(format!(
                    "request {name}: device class {class} does not exist"
                ));
            }
        }
    }
    None
}

/// Wakes pods that wait for devices when something about them changes.
pub(super) fn on_change(informers: &Informers, wake: impl Fn() + Clone + Send + Sync + 'static) {
    let (claims, classes, slices) = (wake.clone(), wake.clone(), wake);
    informers.of::<ResourceClaim>().on_change(move |_| claims());
    informers.of::<DeviceClass>().on_change(move |_| classes());
    informers.of::<ResourceSlice>().on_change(move |_| slices());
}

/// The kinds that are read, for who waits for their caches.
pub(super) fn synced(informers: &Informers) -> Vec<runtime::informer::Synced> {
    vec![
        informers.of::<ResourceClaim>().synced(),
        informers.of::<DeviceClass>().synced(),
        informers.of::<ResourceSlice>().synced(),
    ]
}

/// Named in messages and writes.
pub(super) fn consumer(pod: &Pod) -> serde_json::Value {
    serde_json::json!({"resource": Pod::TYPE.plural, "name": pod.metadata.name, "uid": pod.metadata.uid})
}
