//! The endpoints of services in one object each, as they were before slices. Shaped like a workload (snapshot, plan,
//! apply), without a status.
//!
//! **Converges**: each service with a selector has an Endpoints object of its name with the addresses, ready and not
//! ready, of the pods that it selects, in the first of its families, grouped by ports; at most a thousand of them, with
//! an annotation that says so. It carries the service's labels. No Endpoints object outlives its service.
//!
//! **Triggers**: services; pods that a service selects, when what an endpoint says of them changes; Endpoints that
//! somebody deletes or edits; at the start, by all Endpoints, to find those without a service, and later by ours that
//! come without one.
//!
//! **Writes**: creates, updates and deletes Endpoints; events `FailedToCreateEndpoint` and `FailedToUpdateEndpoint`.
//!
//! **Mirrors** `pkg/controller/endpoint`. Subsets and ports are sorted by what they are and not by a hash of a Go dump;
//! nothing is written where only the order differs.

mod actions;
mod invariants;
pub mod oracle;
mod plan;
mod reason;
mod subsets;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::kinds::{
    ENDPOINT_CONTROLLER, ENDPOINTS_MANAGED_BY, Endpoints, LEADER_ELECTION, Metadata, Pod, Service,
    Subset,
};
use api::{Key, LabelSet, ObjectId, Resource, Uid};
use client::DeleteOptions;
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, EventType, Loop, Next, ObjectRef, Reconcile, Report, Store,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Descriptor;
use crate::oracle::View;
use crate::service_endpoints::{Membership, TriggerTimes, WriteThrottle, WriteTracker, not_ours};
use crate::workload::Consistency;
use plan::{Action, Plan, Snapshot, annotations, labels, plan};

pub use oracle::EndpointsOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "endpoint-controller",
    caches: &[
        View::of::<Pod>(),
        View::of::<Service>(),
        View::of::<Endpoints>(),
    ],
    oracle: Some(|| Box::<EndpointsOracle>::default()),
    actions: &actions::ACTIONS,
    decides_about: &[Service::TYPE],
    queues: &["endpoint"],
    build: Some(|ctx| {
        let config = &ctx.config.endpoint_controller;
        let (workers, batch) = (
            ctx.workers(config.concurrent_syncs),
            config.updates_batch_period,
        );
        Some(controller(ctx, workers, batch.to_std()).into())
    }),
    ..Descriptor::named("endpoints-controller", "endpoint", "endpoint-controller")
};

/// Upstream's number: three minutes of trying.
const RETRIES: u32 = 15;

/// Somebody who edits Endpoints repeatedly is not answered more often than this.
const EDIT_DELAY: Duration = Duration::from_secs(1);

pub struct EndpointsController {
    context: Context,
    services: Arc<Store<Service>>,
    pods: Arc<Store<Pod>>,
    endpoints: Arc<Store<Endpoints>>,
    trigger_times: TriggerTimes,
    consistency: Consistency,
    throttle: WriteThrottle,
    write_tracker: Arc<WriteTracker>,
}

/// `batch` is how long a change of a pod waits for others.
pub fn controller(context: &Context, workers: usize, batch: Duration) -> Controller {
    let membership = Membership::new(context);
    let write_tracker = Arc::<WriteTracker>::default();
    let pods = context.informers.store::<Pod>();
    pods.index_labels();
    let informer = context.informers.of::<Endpoints>();
    // What is there when we begin may be left over from a time when nobody looked.
    let is_beginning = Arc::new(AtomicBool::new(true));
    let (own, beginning, listing) = (
        write_tracker.clone(),
        is_beginning.clone(),
        informer.synced(),
    );
    let services = context.informers.store::<Service>();
    let known = services.clone();
    let controller = Loop::on_objects::<Service>(context, Backoff::DEFAULT)
        .queue("endpoint")
        .watches::<Service>(|change, queue| queue.add(change.object().key()))
        .watches::<Pod>(move |change, queue| {
            for key in membership.concerned(&change) {
                queue.add_after(key, batch);
            }
        })
        .watches::<Endpoints>(move |change, queue| match change {
            Change::Added(held) => {
                // Who elects leaders through Endpoints needs no service: they are nobody's leftovers.
                let is_old = beginning.load(Ordering::Relaxed) || !listing.is_done();
                let key = held.key();
                if is_old && held.metadata.annotation(LEADER_ELECTION).is_none() {
                    queue.add(key);
                } else if is_managed(held)
                    && (known.get(&key).is_none() || !own.is_own(&held.metadata))
                {
                    // Created by a request whose answer was lost, and seen when the service has gone already; or changed
                    // by somebody before it was seen.
                    queue.add_after(key, EDIT_DELAY);
                }
            }
            Change::Updated { old, new } => {
                let is_edited = is_managed(old) && !own.is_own(&new.metadata);
                if is_edited && !Arc::ptr_eq(old, new) {
                    queue.add_after(new.key(), EDIT_DELAY);
                }
            }
            Change::Deleted(held) => {
                own.gone(&held.metadata);
                queue.add(held.key());
            }
        })
        .workers(workers)
        .retries(RETRIES)
        .reconciler(EndpointsController {
            context: context.clone(),
            services,
            pods,
            endpoints: informer.store().clone(),
            trigger_times: TriggerTimes::default(),
            consistency: Consistency::always().of::<Endpoints>(context),
            throttle: WriteThrottle::default(),
            write_tracker,
        });
    is_beginning.store(false, Ordering::Relaxed);
    controller
}

/// As it is sent: a thousand addresses are not made a tree of values first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Value,
    subsets: &'a [Subset<'a>],
}

fn is_managed(endpoints: &Endpoints) -> bool {
    endpoints.metadata.labels.get(ENDPOINTS_MANAGED_BY) == Some(ENDPOINT_CONTROLLER)
}

impl EndpointsController {
    async fn sync(&self, key: &Key, report: &Report<'_>) -> Result<(), Error> {
        self.consistency.check(key)?;
        let Some(service) = self.services.get(key) else {
            self.trigger_times.forget(key);
            self.consistency.forget(key);
            return self.delete(key).await;
        };
        let id = ObjectId::of(&*service);
        if let Some(line) = not_ours(&service) {
            report.decide(id, [line]);
            return Ok(());
        }
        let selects = |labels: &LabelSet| service.selects(labels);
        let pods = self.pods.labelled(&key.namespace, selects);
        let snapshot = Snapshot {
            triggered_at: self.trigger_times.observe(&service, &pods),
            endpoints: self.endpoints.get(key),
            service,
            pods,
        };
        let plan = plan(&snapshot);
        report.decide(id, reason::explain(&plan));
        if plan.action == Action::Nothing {
            return Ok(());
        }
        let began = Instant::now();
        match self.write(key, &snapshot, &plan).await {
            Ok(()) => {
                self.throttle.written(key, began.elapsed());
                Ok(())
            }
            // Creates will go on failing until all is gone.
            Err(error) if plan.action == Action::Create && error.is_namespace_terminating() => {
                Ok(())
            }
            Err(error) => {
                self.complain(key, &snapshot, plan.action, &error);
                Err(error.into())
            }
        }
    }

    async fn write(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        plan: &Plan<'_>,
    ) -> Result<(), client::Error> {
        let (client, namespace) = (&self.context.client, &key.namespace);
        let labels = labels(&snapshot.service);
        let annotations = annotations(snapshot, plan.is_truncated);
        let metadata = match &snapshot.endpoints {
            None => {
                json!({"name": key.name, "namespace": namespace, "labels": labels, "annotations": annotations})
            }
            Some(held) => {
                let mut meta = held.metadata.clone();
                (meta.labels, meta.annotations) = (labels, annotations);
                json!(meta)
            }
        };
        let written = Written {
            api_version: "v1",
            kind: "Endpoints",
            metadata,
            subsets: &plan.subsets,
        };
        let body = serde_json::to_string(&written).unwrap_or_default();
        let answer = match plan.action {
            Action::Create => {
                client
                    .create_metadata_only(&Endpoints::TYPE, namespace, body)
                    .await?
            }
            // The role allows no patch, so all of it goes back, on top of what was read.
            Action::Update | Action::Nothing => {
                client
                    .replace_metadata_only(&Endpoints::TYPE, namespace, &key.name, body)
                    .await?
            }
        };
        if let Ok(Metadata { metadata }) = Metadata::decode(&answer) {
            let revision = metadata.resource_version;
            self.consistency.note::<Endpoints>(key, revision);
            self.write_tracker.written(metadata.uid, revision);
        }
        Ok(())
    }

    fn complain(&self, key: &Key, snapshot: &Snapshot, action: Action, error: &client::Error) {
        let uid = snapshot.endpoints.as_ref();
        let uid = uid.map_or_else(Uid::default, |held| held.metadata.uid.clone());
        let object = ObjectRef::named(&Endpoints::TYPE, &key.namespace, &key.name, uid);
        let (reason, message) = match action {
            Action::Create => (
                "FailedToCreateEndpoint",
                format!("Failed to create endpoint for service {key}: {error}"),
            ),
            _ => (
                "FailedToUpdateEndpoint",
                format!("Failed to update endpoint {key}: {error}"),
            ),
        };
        self.context
            .recorder
            .event(&object, EventType::Warning, reason, message);
    }

    /// The service is gone, and its Endpoints go with it.
    async fn delete(&self, key: &Key) -> Result<(), Error> {
        let Some(held) = self.endpoints.get(key) else {
            return Ok(());
        };
        let options = DeleteOptions::exactly(&held.metadata.uid);
        let client = &self.context.client;
        let deleted = client
            .delete(&Endpoints::TYPE, &key.namespace, &key.name, &options)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Reconcile for EndpointsController {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        if let Some(wait) = self.throttle.wait(key) {
            return Ok(Next::After(wait));
        }
        self.sync(key, report).await?;
        Ok(Next::AwaitChange)
    }
}
