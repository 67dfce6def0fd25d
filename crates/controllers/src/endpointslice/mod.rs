//! The endpoints of services in slices. Shaped like a workload (snapshot, plan, apply), without a status.
//!
//! **Converges**: for each service with a selector, and for each of its families of addresses, every pod that it selects
//! and that has an address and a node is an endpoint of exactly one slice, together with others that have the same
//! ports; ready, serving and terminating as the pod is. A slice holds at most `--max-endpoints-per-slice` of them. A
//! service without endpoints has one empty slice. Slices carry the service's labels, belong to it, and go with it (the
//! garbage collector sees to that). Hints say where traffic should come from, if the service asks for them:
//! [`traffic_distribution`], and [`topology`] for the older annotation.
//!
//! **Triggers**: services; pods that a service selects, when what an endpoint says of them changes; slices that somebody
//! else has written or deleted; nodes, where zones no longer have the endpoints that they need.
//!
//! **Writes**: creates, updates and deletes slices labelled `endpointslice-controller.k8s.io`; events
//! `FailedToUpdateEndpointSlices`, `TopologyAwareHintsEnabled` and `TopologyAwareHintsDisabled`.
//!
//! **Mirrors** `pkg/controller/endpointslice` and `k8s.io/endpointslice`. A service whose selector goes away, or whose
//! type becomes ExternalName, keeps its slices, as upstream has it: they are the user's from then on.
//!
//! Whether the cache is as new as our own writes is decided by revisions (`Consistency`) and not by generations: a
//! change of labels alone has no generation. `WriteTracker` knows which states of slices are our own doing.

mod actions;
mod apply;
pub mod desired;
mod families;
mod invariants;
mod metrics;
mod oracle;
mod ownership;
pub mod packing;
pub mod plan;
mod reason;
pub mod snapshot;
pub mod topology;
mod traffic_distribution;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::collections::HashMap;
use api::kinds::{EndpointSlice, Node, Pod, Service};
use api::{Istr, Key, LabelSet, ObjectId, Resource};
use parking_lot::Mutex;
use runtime::controller::Tick;
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, EventType, Loop, Next, ObjectRef, Queue, Reconcile, Report,
    Runnable, Store,
};
use tokio::time::Instant;

use crate::Descriptor;
use crate::oracle::View;
use crate::service_endpoints::{Membership, OwnSlices, TriggerTimes, WriteThrottle, not_ours};
use apply::Failure;
use metrics::SliceMetrics;
use ownership::CONTROLLER;
use plan::plan;
use snapshot::{Closeness, Snapshot};
use topology::{Event, Hinted, Zones, is_overloaded};

pub use oracle::EndpointSliceOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "endpoint-slice-controller",
    caches: &[
        View::of::<Pod>(),
        View::of::<Service>(),
        View::of::<Node>(),
        View::of::<EndpointSlice>(),
    ],
    decides_about: &[Service::TYPE],
    queues: &["endpoint_slice"],
    metrics: &["endpoint_slice_controller_"],
    oracle: Some(|| Box::<EndpointSliceOracle>::default()),
    actions: &actions::ACTIONS,
    build: Some(|ctx| {
        let config = &ctx.config.endpoint_slice_controller;
        let settings = Settings {
            workers: ctx.workers(config.concurrent_syncs),
            max_endpoints: usize::try_from(config.max_endpoints_per_slice)
                .unwrap_or(1)
                .max(1),
            batch: config.updates_batch_period.to_std(),
        };
        let Loops { services, nodes } = controller(ctx, settings);
        Some(Runnable::together(
            ctx.controller,
            vec![services.into(), nodes.into()],
        ))
    }),
    ..Descriptor::named(
        "endpointslice-controller",
        "endpointslice",
        "endpointslice-controller",
    )
};

/// 1 s doubling up to 1000 s, and at most 10 retries a second after the first 100: upstream's, because a sync may write
/// a lot.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(1000),
    bucket: Some((10.0, 100.0)),
};

/// Upstream's number: half an hour of trying.
const RETRIES: u32 = 15;

/// Changes of several slices of a service are looked at together.
const SLICE_CHANGE_DELAY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub workers: usize,
    pub max_endpoints: usize,
    /// How long a change of a pod waits for others.
    pub batch: Duration,
}

/// The loop over services, and the one that looks at nodes when they change.
pub struct Loops {
    pub services: Controller,
    pub nodes: Controller<Tick>,
}

pub struct EndpointSlices {
    context: Context,
    max_endpoints: usize,
    services: Arc<Store<Service>>,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Node>>,
    slices: Arc<OwnSlices>,
    trigger_times: TriggerTimes,
    throttle: WriteThrottle,
    topology: Arc<Topology>,
    metrics: SliceMetrics,
}

pub fn controller(context: &Context, settings: Settings) -> Loops {
    let metrics = SliceMetrics::new(&context.metrics);
    let slices = OwnSlices::new(context, CONTROLLER, metrics.changes.clone());
    let membership = Membership::new(context);
    let pods = context.informers.store::<Pod>();
    pods.index_labels();
    let topology = Arc::<Topology>::default();
    let (own, batch) = (slices.clone(), settings.batch);
    let services = Loop::on_objects::<Service>(context, BACKOFF)
        .queue("endpoint_slice")
        .watches::<Service>(|change, queue| queue.add(change.object().key()))
        .watches::<Pod>(move |change, queue| {
            for key in membership.concerned(&change) {
                queue.add_after(key, batch);
            }
        })
        .watches::<EndpointSlice>(move |change, queue| {
            for key in own.concerned(&change) {
                queue.add_after(key, SLICE_CHANGE_DELAY.max(batch));
            }
        })
        .reads::<Node>()
        .workers(settings.workers)
        .retries(RETRIES);
    let enqueued = services.handle();
    let nodes = Loop::on::<Tick>(context, Backoff::DEFAULT)
        .watches::<Node>({
            let topology = topology.clone();
            move |change, queue| {
                if concerns_topology(&change) {
                    topology.outdated.store(true, Ordering::Release);
                    queue.add(Tick);
                }
            }
        })
        .reconciler(NodeChanges {
            topology: topology.clone(),
            nodes: context.informers.store::<Node>(),
            services: enqueued,
        });
    let services = services.reconciler(EndpointSlices {
        max_endpoints: settings.max_endpoints.max(1),
        services: context.informers.store::<Service>(),
        pods,
        nodes: context.informers.store::<Node>(),
        trigger_times: TriggerTimes::default(),
        throttle: WriteThrottle::default(),
        context: context.clone(),
        slices,
        topology,
        metrics,
    });
    Loops { services, nodes }
}

impl EndpointSlices {
    async fn sync(&self, key: &Key, report: &Report<'_>) -> Result<(), Error> {
        let Some(service) = self.services.get(key) else {
            self.forget(key);
            return Ok(());
        };
        let id = ObjectId::of(&*service);
        if let Some(line) = not_ours(&service) {
            report.decide(id, [line]);
            return Ok(());
        }
        let snapshot = self.observe(key, service)?;
        let plan = plan(&snapshot);
        report.decide(id, reason::explain(&snapshot, &plan));
        self.topology.remember(key, &plan.hinted);
        self.metrics.planned(&snapshot.service, &plan);
        let began = Instant::now();
        let failures = self.apply(&snapshot, &plan).await;
        if failures.is_empty() {
            if !plan.is_nothing() {
                self.throttle.written(key, began.elapsed());
            }
            return Ok(());
        }
        let service = &snapshot.service;
        let (key, message) = (service.key(), Failure::message(&failures));
        self.context.recorder.event(
            &ObjectRef::of(&**service),
            EventType::Warning,
            "FailedToUpdateEndpointSlices",
            format!("Error updating Endpoint Slices for Service {key}: {message}"),
        );
        Err(Failure::into_error(failures))
    }

    /// What the caches say, if they are as new as our own writes.
    fn observe(&self, key: &Key, service: Arc<Service>) -> Result<Snapshot, Error> {
        let slices = self.slices.of(key)?;
        let selects = |labels: &LabelSet| service.selects(labels);
        let pods = self.pods.labelled(&key.namespace, selects);
        let zones = match Closeness::of(&service, self.context.gates) {
            Closeness::Proportional => self.topology.zones(&self.nodes),
            _ => Arc::default(),
        };
        Ok(Snapshot {
            gates: self.context.gates,
            triggered_at: self.trigger_times.observe(&service, &pods),
            nodes: self.nodes_of(&pods),
            hinted: self.topology.hinted(key),
            max_endpoints: self.max_endpoints,
            service,
            pods,
            slices,
            zones,
        })
    }

    fn nodes_of(&self, pods: &[Arc<Pod>]) -> HashMap<Istr, Istr> {
        let mut nodes = HashMap::default();
        let mut missing: Option<&Istr> = None;
        for pod in pods {
            let name = &pod.node_name;
            if nodes.contains_key(name) || missing == Some(name) {
                continue;
            }
            match self.nodes.find("", name) {
                Some(node) => drop(nodes.insert(name.clone(), Istr::new(node.zone()))),
                None => missing = Some(name),
            }
        }
        nodes
    }

    /// The service is gone; its slices go with it.
    fn forget(&self, key: &Key) {
        self.trigger_times.forget(key);
        self.slices.forget(key);
        self.topology.remember(key, &Hinted::default());
        self.metrics.forget(key);
    }

    fn emit(&self, service: &Service, event: Option<&Event>) {
        if let Some(event) = event {
            let (object, message) = (ObjectRef::of(service), event.message.clone());
            self.context
                .recorder
                .event(&object, event.event_type, event.reason, message);
        }
    }
}

impl Reconcile for EndpointSlices {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        if let Some(wait) = self.throttle.wait(key) {
            return Ok(Next::After(wait));
        }
        let result = self.sync(key, report).await;
        self.metrics.synced(result.as_ref().err());
        result?;
        Ok(Next::AwaitChange)
    }
}

/// What is known of zones, and of the endpoints that services have in them.
#[derive(Default)]
struct Topology {
    zones: Mutex<Arc<Zones>>,
    /// Have nodes changed since zones were counted? True at the start, in effect: the first node says so.
    outdated: AtomicBool,
    hinted: Mutex<HashMap<Key, Hinted>>,
}

impl Topology {
    fn zones(&self, nodes: &Store<Node>) -> Arc<Zones> {
        let mut zones = self.zones.lock();
        if self.outdated.swap(false, Ordering::AcqRel) {
            *zones = Arc::new(Zones::of(&nodes.list()));
        }
        zones.clone()
    }

    fn hinted(&self, key: &Key) -> Hinted {
        self.hinted.lock().get(key).cloned().unwrap_or_default()
    }

    fn remember(&self, key: &Key, hinted: &Hinted) {
        let mut held = self.hinted.lock();
        match *hinted == Hinted::default() {
            true => drop(held.remove(key)),
            false => drop(held.insert(key.clone(), hinted.clone())),
        }
    }

    /// Services of which a zone has fewer endpoints than it needs.
    fn overloaded(&self, nodes: &Store<Node>) -> Vec<Key> {
        if self.hinted.lock().is_empty() {
            return Vec::new();
        }
        let zones = self.zones(nodes);
        let held = self.hinted.lock();
        let mut keys: Vec<Key> = held
            .iter()
            .filter(|(_, hinted)| {
                let mut families = hinted.by_family.values();
                families.any(|by_zone| is_overloaded(by_zone, &zones))
            })
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort();
        keys
    }
}

/// Enqueues services when nodes have changed so that they are overloaded somewhere.
struct NodeChanges {
    topology: Arc<Topology>,
    nodes: Arc<Store<Node>>,
    services: Arc<Queue>,
}

impl Reconcile<Tick> for NodeChanges {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        for key in self.topology.overloaded(&self.nodes) {
            self.services.add(key);
        }
        Ok(Next::AwaitChange)
    }
}

fn concerns_topology(change: &Change<'_, Node>) -> bool {
    let Change::Updated { old, new } = change else {
        return true;
    };
    let cpu = |node: &Node| node.status.allocatable_millicpu;
    old.is_ready() != new.is_ready() || old.zone() != new.zone() || cpu(old) != cpu(new)
}
