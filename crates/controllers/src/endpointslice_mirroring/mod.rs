//! Endpoints that users write themselves, mirrored in slices for those who read only slices. Shaped like a workload
//! (snapshot, plan, apply), without a status.
//!
//! **Converges**: an Endpoints object whose service has no selector has, for each family and each set of ports, one slice
//! with its addresses, at most `--mirroring-max-endpoints-per-subset` of a subset. It carries the labels and annotations
//! of the object and belongs to it. Without the service or the object, with a selector, with the label `skip-mirror`, or
//! where a leader is elected through it, there are no such slices.
//!
//! **Triggers**: Endpoints; services that come, go, or get or lose their selector; slices that somebody else has written
//! or deleted.
//!
//! **Writes**: creates, updates and deletes slices labelled `endpointslicemirroring-controller.k8s.io`; events
//! `InvalidIPAddress` and `TooManyAddressesToMirror`.
//!
//! **Mirrors** `pkg/controller/endpointslicemirroring`.

mod actions;
mod invariants;
mod metrics;
pub mod oracle;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{EndpointSlice, Endpoints, Service};
use api::{Key, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, EventType, Loop, Next, ObjectRef, Reconcile, Report, Store,
};
use serde_json::json;
use tokio::time::Instant;

use crate::Descriptor;
use crate::oracle::View;
use crate::service_endpoints::slices::{name_prefix, written_list};
use crate::service_endpoints::{OwnSlices, counted, repack};
use metrics::MirrorMetrics;
use plan::{Counts, Mirror, Plan, Snapshot, plan};

pub use oracle::MirroringOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "endpoint-slice-mirroring-controller",
    caches: &[
        View::of::<Endpoints>(),
        View::of::<EndpointSlice>(),
        View::of::<Service>(),
    ],
    oracle: Some(|| Box::<MirroringOracle>::default()),
    actions: &actions::ACTIONS,
    decides_about: &[Service::TYPE],
    queues: &["endpoint_slice_mirroring"],
    metrics: &["endpoint_slice_mirroring_controller_"],
    build: Some(|ctx| {
        let config = &ctx.config.endpoint_slice_mirroring_controller;
        let settings = Settings {
            workers: ctx.workers(config.concurrent_syncs),
            max_addresses: usize::try_from(config.max_endpoints_per_subset).unwrap_or(1),
            batch: config.updates_batch_period.to_std(),
        };
        Some(controller(ctx, settings).into())
    }),
    ..Descriptor::named(
        "endpointslice-mirroring-controller",
        "endpointslicemirroring",
        "endpointslicemirroring-controller",
    )
};

/// Who writes slices from Endpoints, as their label says.
pub const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";

/// 1 s doubling up to 100 s, and at most 10 retries a second after the first 100: upstream's, because a sync may write a
/// lot.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(100),
    bucket: Some((10.0, 100.0)),
};

/// Upstream's number: a quarter of an hour of trying.
const RETRIES: u32 = 15;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub workers: usize,
    pub max_addresses: usize,
    /// How long a change of a slice waits for others.
    pub batch: Duration,
}

pub struct Mirroring {
    context: Context,
    max_addresses: usize,
    endpoints: Arc<Store<Endpoints>>,
    services: Arc<Store<Service>>,
    slices: Arc<OwnSlices>,
    metrics: MirrorMetrics,
}

pub fn controller(context: &Context, settings: Settings) -> Controller {
    let metrics = MirrorMetrics::new(&context.metrics);
    let slices = OwnSlices::new(context, CONTROLLER, metrics.changes.clone());
    let own = slices.clone();
    Loop::on_objects::<Endpoints>(context, BACKOFF)
        .queue("endpoint_slice_mirroring")
        .watches::<Endpoints>(|change, queue| {
            let concerns = match &change {
                Change::Added(held) | Change::Deleted(held) => held.is_mirrored(),
                Change::Updated { old, new } => old.is_mirrored() || new.is_mirrored(),
            };
            if concerns {
                queue.add(change.object().key());
            }
        })
        .watches::<Service>(|change, queue| {
            let has_none = |service: &Service| service.spec.selector.is_empty();
            let concerns = match &change {
                Change::Added(service) | Change::Deleted(service) => has_none(service),
                Change::Updated { old, new } => has_none(old) != has_none(new),
            };
            if concerns {
                queue.add(change.object().key());
            }
        })
        .watches::<EndpointSlice>(move |change, queue| {
            for key in own.concerned(&change) {
                queue.add_after(key, settings.batch);
            }
        })
        .workers(settings.workers)
        .retries(RETRIES)
        .reconciler(Mirroring {
            context: context.clone(),
            max_addresses: settings.max_addresses.max(1),
            endpoints: context.informers.store::<Endpoints>(),
            services: context.informers.store::<Service>(),
            slices,
            metrics,
        })
}

impl Mirroring {
    async fn sync(&self, key: &Key, report: &Report<'_>) -> Result<(), Error> {
        let slices = self.slices.of(key)?;
        let endpoints = self.endpoints.get(key).filter(|held| held.is_mirrored());
        let service = self.services.get(key);
        let service = service.filter(|service| service.spec.selector.is_empty());
        let (Some(endpoints), Some(service)) = (endpoints, service) else {
            return self.clean_up(key, &slices).await;
        };
        let Some(endpoints) = self.in_full(endpoints).await? else {
            return Ok(());
        };
        let snapshot = Snapshot {
            max_addresses: self.max_addresses,
            endpoints: &endpoints,
            subsets: repack(&endpoints.subsets().unwrap_or_default()),
            slices,
        };
        let plan = plan(&snapshot);
        report.decide(ObjectId::of(&*service), explain(&plan));
        self.warn(&snapshot, plan.counts);
        self.metrics.planned(key, plan.counts);
        self.apply(key, &snapshot, &plan).await
    }

    /// The addresses that endpoints-controller has written are not in the cache; it no longer does once the selector is
    /// gone.
    async fn in_full(&self, endpoints: Arc<Endpoints>) -> Result<Option<Arc<Endpoints>>, Error> {
        if endpoints.subsets().is_some() {
            return Ok(Some(endpoints));
        }
        let (client, meta) = (&self.context.client, &endpoints.metadata);
        match client
            .get(&Endpoints::TYPE, &meta.namespace, &meta.name)
            .await
        {
            Ok(found) => match Endpoints::decode_in_full(&found) {
                Ok(found) => Ok(Some(Arc::new(found))),
                Err(error) => Err(Error::Terminal(error.to_string())),
            },
            // The cache will know soon.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn clean_up(&self, key: &Key, slices: &[Arc<EndpointSlice>]) -> Result<(), Error> {
        self.metrics.forget(key);
        self.slices.forget(key);
        let mut failure = None;
        for slice in slices {
            if let Err(error) = self.slices.delete(slice).await {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn warn(&self, snapshot: &Snapshot<'_>, counts: Counts) {
        let object = ObjectRef::of(snapshot.endpoints);
        let event = |reason: &'static str, message: String| {
            let recorder = &self.context.recorder;
            recorder.event(&object, EventType::Warning, reason, message);
        };
        if counts.invalid > 0 {
            let count = counts.invalid;
            let message =
                format!("Skipped {count} invalid IP addresses when mirroring to EndpointSlices");
            event("InvalidIPAddress", message);
        }
        if counts.skipped > counts.invalid {
            let (most, skipped) = (self.max_addresses, counts.skipped);
            let message = format!(
                "A max of {most} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            event("TooManyAddressesToMirror", message);
        }
    }

    /// Creates, then updates, then deletes, so that nobody who follows sees fewer endpoints than there are.
    async fn apply(
        &self,
        key: &Key,
        snapshot: &Snapshot<'_>,
        plan: &Plan<'_>,
    ) -> Result<(), Error> {
        for mirror in &plan.create {
            let body = body(snapshot, plan, mirror);
            match self.slices.create(key, body).await {
                // Creates will go on failing until all is gone.
                Err(error) if error.is_namespace_terminating() => return Ok(()),
                created => created?,
            }
        }
        for mirror in &plan.update {
            let Some(slice) = mirror.slice.map(|number| &snapshot.slices[number]) else {
                continue;
            };
            let body = body(snapshot, plan, mirror);
            self.slices.update(key, slice, body).await?;
        }
        for number in &plan.delete {
            self.slices.delete(&snapshot.slices[*number]).await?;
        }
        Ok(())
    }
}

/// A slice as it is written.
fn body(snapshot: &Snapshot<'_>, plan: &Plan<'_>, mirror: &Mirror<'_>) -> String {
    let meta = &snapshot.endpoints.metadata;
    let mut metadata = json!({
        "namespace": meta.namespace, "labels": plan.labels,
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Endpoints", "name": meta.name, "uid": meta.uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    if !plan.annotations.is_empty() {
        metadata["annotations"] = json!(plan.annotations);
    }
    match mirror.slice.map(|number| &snapshot.slices[number].metadata) {
        Some(held) => {
            metadata["name"] = json!(held.name);
            metadata["resourceVersion"] = json!(held.resource_version.to_string());
        }
        None => metadata["generateName"] = json!(name_prefix(&meta.name)),
    }
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": mirror.family.as_str(), "endpoints": written_list(&mirror.endpoints),
        "ports": written_list(&mirror.ports),
    });
    slice.to_string()
}

fn explain(plan: &Plan<'_>) -> Vec<Line> {
    let counts = plan.counts;
    let what = format!(
        "mirrors {} of Endpoints in {}",
        counted(counts.endpoints, "endpoint"),
        counted(counts.slices, "slice")
    );
    let mut lines = vec![Line::states("Mirrors", what)];
    if counts.skipped > 0 {
        let what = format!("leaves out {} addresses of Endpoints", counts.skipped);
        let why = match counts.skipped == counts.invalid {
            true => "they are no IP addresses",
            false => "a subset has more than can be mirrored",
        };
        lines.push(Line::states("SkipsAddresses", what).because(why));
    }
    let written = plan.create.len() + plan.update.len() + plan.delete.len();
    if written > 0 {
        lines.push(Line::acts(
            "WritesSlices",
            format!("writes {}", counted(written, "slice")),
        ));
    }
    lines
}

impl Reconcile for Mirroring {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let began = Instant::now();
        let result = self.sync(key, report).await;
        self.metrics.took(began.elapsed());
        result?;
        Ok(Next::AwaitChange)
    }
}
