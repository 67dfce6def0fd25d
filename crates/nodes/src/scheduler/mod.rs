//! A simulated scheduler: gives pods that have no node a node.
//!
//! What triggers it: pods without a node, and whatever could make room for them (nodes, pods that leave,
//! claims, volumes). What it writes: bindings; the condition `PodScheduled` and the event `FailedScheduling`
//! for pods that no node will take; the devices of claims, and who may use them; the deletion of victims. [`plan`]
//! decides, this file and [`apply`] carry it out. It stands in for kube-scheduler: the same rules and the same
//! words, but not the same code, no plugins, no extenders, no disruption budgets.

mod apply;
mod cache;
mod delayed;
mod devices;
mod filter;
mod pending;
mod plan;
mod preempt;
mod score;
mod topology;
mod volumes;

#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::Namespace;
use api::{Clock, Istr, Key, MicroTime, Resource};
use client::Client;
use futures_util::future::join_all;
use runtime::informer::Synced;
use runtime::{Change, Index, IndexValue, Informers, Recorder, Stop, Store};
use tokio::sync::Notify;

use crate::node::Node;
use crate::pod::Pod;
use crate::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use cache::Cache;
use devices::{DeviceStores, Devices};
use filter::Rejection;
use pending::Pending;
use plan::{Objects, Plan};
use volumes::Volumes;

pub(crate) use volumes::SELECTED_NODE;

/// The only scheduler name that it answers to.
const NAME: &str = "default-scheduler";

/// Pods planned between two rounds of writes, which then go out together.
const BATCH: usize = 64;

/// How often parked pods are checked for having waited too long.
const FLUSH_EVERY: Duration = Duration::from_secs(30);

pub(crate) struct Scheduler {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    pods: Arc<Store<Pod>>,
    storage: Storage,
    state: Arc<Shared>,
    waits_for: Vec<Synced>,
}

/// What the listeners of the informers keep up to date.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    cache: Cache,
    pending: Pending,
    /// Pods that wait for their claims to be bound, on the node that was chosen for them.
    awaiting_claims: BTreeMap<Key, Istr>,
    /// Where the next search for a node begins.
    start: usize,
}

/// Volumes by their classes.
const BY_CLASS: Index<PersistentVolume> = Index {
    name: "class",
    values: |volume, found| found(IndexValue::Text(volume.spec.storage_class_name.clone())),
};

/// Everything besides pods and nodes that plans look up.
struct Storage {
    /// None where devices are not looked at.
    devices: Option<DeviceStores>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    volumes: Arc<Store<PersistentVolume>>,
    classes: Arc<Store<StorageClass>>,
}

impl Scheduler {
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        recorder: Recorder,
        informers: &Informers,
        allocates_devices: bool,
    ) -> Scheduler {
        let state = Arc::new(Shared::default());
        let (pods, nodes) = (informers.of::<Pod>(), informers.of::<Node>());
        let (claims, volumes) = (
            informers.of::<PersistentVolumeClaim>(),
            informers.of::<PersistentVolume>(),
        );
        volumes.add_index(&BY_CLASS);
        let (classes, namespaces) = (informers.of::<StorageClass>(), informers.of::<Namespace>());
        let (shared, read) = (state.clone(), clock.clone());
        nodes.on_change(move |change| shared.node_changed(&change, read.now()));
        let (shared, read) = (state.clone(), clock.clone());
        pods.on_change(move |change| shared.pod_changed(&change, read.now()));
        let shared = state.clone();
        namespaces.on_change(move |change| shared.namespace_changed(&change));
        let (shared, read) = (state.clone(), clock.clone());
        claims.on_change(move |_| shared.wake(Rejection::BY_STORAGE, read.now()));
        let (shared, read) = (state.clone(), clock.clone());
        volumes.on_change(move |_| shared.wake(Rejection::BY_STORAGE, read.now()));
        let (shared, read) = (state.clone(), clock.clone());
        classes.on_change(move |_| shared.wake(Rejection::BY_STORAGE, read.now()));
        let devices = allocates_devices.then(|| {
            // Before pods are woken, so that they find what the cache shows.
            let devices = DeviceStores::new(informers);
            let (shared, read) = (state.clone(), clock.clone());
            devices::on_change(informers, move || {
                shared.wake(Rejection::BY_DEVICES, read.now());
            });
            devices
        });
        let mut waits_for = vec![
            nodes.synced(),
            pods.synced(),
            namespaces.synced(),
            claims.synced(),
            volumes.synced(),
            classes.synced(),
        ];
        if allocates_devices {
            waits_for.extend(devices::synced(informers));
        }
        Scheduler {
            waits_for,
            storage: Storage {
                devices,
                claims: claims.store().clone(),
                volumes: volumes.store().clone(),
                classes: classes.store().clone(),
            },
            pods: pods.store().clone(),
            client,
            clock,
            recorder,
            state,
        }
    }

    pub(crate) async fn run(self, stop: Stop) {
        for synced in &self.waits_for {
            if stop.or(synced.wait()).await.is_none() {
                return;
            }
        }
        while !stop.is_stopped() {
            let changed = self.state.changed.notified();
            self.bind_those_whose_claims_are_bound().await;
            let plans = self.plan_batch();
            if plans.is_empty() {
                let idle = self.idle_for();
                let woken = async {
                    let _ = tokio::time::timeout(idle, changed).await;
                };
                stop.or(woken).await;
                self.state.lock().pending.flush(self.clock.now());
                continue;
            }
            join_all(plans.into_iter().map(|(pod, plan)| self.apply(pod, plan))).await;
        }
    }

    /// Plans as many pods as are worth one round of writes. Each plan counts for the next one.
    fn plan_batch(&self) -> Vec<(Arc<Pod>, Plan)> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let mut plans: Vec<(Arc<Pod>, Plan)> = Vec::new();
        while plans.len() < BATCH
            && let Some(key) = state.pending.pop(now)
        {
            let Some(pod) = self.pods.get(&key).filter(|pod| wants_node(pod)) else {
                state.pending.remove(&key);
                continue;
            };
            let (plan, start) = plan::plan(&state.cache, &self.storage, &pod, state.start);
            state.start = start;
            match &plan {
                Plan::Bind { node, devices, .. } => {
                    if let Some(known) = &self.storage.devices {
                        let allocating = known.allocating();
                        devices.iter().for_each(|write| allocating.begin(write));
                    }
                    state.cache.place(pod.clone(), node, true);
                    state.pending.remove(&key);
                }
                Plan::Hold => {}
                Plan::Wait { preemption, .. } => {
                    if let Some(preemption) = preemption {
                        state.cache.nominate(pod.clone(), &preemption.node);
                    }
                }
            }
            plans.push((pod, plan));
        }
        plans
    }

    fn idle_for(&self) -> Duration {
        let state = self.state.lock();
        let flush = match state.pending.has_parked() {
            true => FLUSH_EVERY,
            // Nothing waits: any change will notify.
            false => Duration::from_secs(3600),
        };
        match state.pending.next_due() {
            Some(due) => due
                .since(self.clock.now())
                .clamp(Duration::from_millis(1), flush),
            None => flush,
        }
    }
}

impl Shared {
    fn pod_changed(&self, change: &Change<'_, Pod>, now: MicroTime) {
        let pod = change.object();
        let key = pod.key();
        let mut state = self.lock();
        if matches!(change, Change::Deleted(_)) || pod.is_finished() {
            state.pending.remove(&key);
            state.awaiting_claims.remove(&key);
            state.cache.withdraw_nomination(&key);
            if state.cache.remove(&key).is_some() {
                state.pending.wake(Rejection::BY_POD_GONE, now);
            }
        } else if pod.is_assigned() {
            state.pending.remove(&key);
            state.awaiting_claims.remove(&key);
            let was_assumed = state
                .cache
                .placed(&key)
                .is_some_and(|placed| placed.assumed);
            let is_new = state.cache.place(pod.clone(), &pod.node_name, false);
            if is_new || was_assumed {
                state.pending.wake(Rejection::BY_ASSIGNED, now);
            }
        } else if !wants_node(pod) {
            state.pending.remove(&key);
        } else if state.cache.placed(&key).is_none() {
            state.pending.add(&key, pod.spec.priority);
            if let Change::Updated { old, new } = change
                && (old.spec != new.spec
                    || old.metadata.labels != new.metadata.labels
                    || old.device_claims != new.device_claims)
            {
                state.pending.changed(&key, now);
            }
        } else {
            return;
        }
        drop(state);
        self.changed.notify_one();
    }

    fn node_changed(&self, change: &Change<'_, Node>, now: MicroTime) {
        let node = change.object();
        let matters = match change {
            Change::Updated { old, new } => {
                old.spec != new.spec
                    || old.metadata.labels != new.metadata.labels
                    || old.status.allocatable != new.status.allocatable
            }
            _ => true,
        };
        let mut state = self.lock();
        match change {
            Change::Deleted(_) => state.cache.remove_node(node.name()),
            _ => state.cache.set_node(node.clone()),
        }
        if matters {
            state.pending.wake(Rejection::BY_NODE, now);
            drop(state);
            self.changed.notify_one();
        }
    }

    fn namespace_changed(&self, change: &Change<'_, Namespace>) {
        let meta = change.object().meta();
        let name = Istr::from(&*meta.name);
        let mut state = self.lock();
        match change {
            Change::Deleted(_) => state.cache.namespaces.remove(&name),
            _ => state.cache.namespaces.insert(name, meta.labels.clone()),
        };
    }

    fn wake(&self, event: u8, now: MicroTime) {
        self.lock().pending.wake(event, now);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Is this a pod for us to place?
fn wants_node(pod: &Pod) -> bool {
    let spec = &pod.spec;
    !pod.is_assigned()
        && !pod.is_finished()
        && !pod.metadata.is_terminating()
        && spec.gates.is_empty()
        && (spec.scheduler_name.is_empty() || spec.scheduler_name == NAME)
}

impl Volumes for Storage {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.find(namespace, name)
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.find("", name)
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.find("", name)
    }

    fn of_class(&self, name: &str) -> Vec<Arc<PersistentVolume>> {
        self.volumes
            .by(&BY_CLASS, &IndexValue::Text(Istr::new(name)))
    }
}

impl Objects for Storage {
    fn devices(&self) -> Option<&dyn Devices> {
        let devices = self.devices.as_ref()?;
        Some(devices)
    }
}
