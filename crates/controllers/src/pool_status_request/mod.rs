//! How many devices the pools of a driver have, for those who ask. A small controller, behind the gate
//! `DRAResourcePoolStatus`.
//!
//! **Converges**: each ResourcePoolStatusRequest has an answer, unless slices of a pool that it asks for are missing. One
//! that was answered an hour ago is gone, and so is one that nobody could answer for a day.
//!
//! **Triggers**: requests without an answer; slices of the driver that such a request asks for; every ten minutes, for what
//! is too old.
//!
//! **Writes**: the status of requests, once; deletes requests.
//!
//! **Mirrors** `pkg/controller/resourcepoolstatusrequest`.
//!
//! **Deliberate differences**: a request for a pool whose slices are not all there waits for them; upstream tries five times
//! within a second and then leaves the request without an answer. Requests that fail are tried again until they work.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};
use api::{Key, ObjectId, Resource};
use client::{DeleteOptions, Patch};
use prometheus::{HistogramVec, IntCounterVec};
use runtime::controller::Tick;
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Error, Loop, Metrics, Next, Reconcile, Report, Runnable, Store};
use serde_json::json;

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::PoolStatusOracle;
pub use plan::{Answer, Pool, is_expired, plan};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[
        View::of::<ResourcePoolStatusRequest>(),
        View::of::<ResourceSlice>(),
        View::of::<ResourceClaim>(),
    ],
    decides_about: &[ResourcePoolStatusRequest::TYPE],
    metrics: &["resourcepoolstatusrequest_controller_"],
    build: Some(|ctx| Some(controller(ctx))),
    oracle: Some(|| Box::<PoolStatusOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "resourcepoolstatusrequest-controller",
        "",
        "resourcepoolstatusrequest-controller",
    )
    .gated(&["DRAResourcePoolStatus"])
};

/// UPSTREAM: how often requests that are too old are looked for.
const CLEANUP_PERIOD: Duration = Duration::from_secs(600);

pub fn controller(context: &Context) -> Runnable {
    let requests = context.informers.store::<ResourcePoolStatusRequest>();
    let slices = context.informers.store::<ResourceSlice>();
    let waiting = requests.clone();
    let answers = Loop::on::<Key>(context, Backoff::DEFAULT)
        .watches::<ResourcePoolStatusRequest>(|change, queue| {
            let request = change.object();
            if !matches!(change, Change::Deleted(_)) && request.status.is_none() {
                queue.add(request.key());
            }
        })
        .watches::<ResourceSlice>(move |change, queue| {
            let driver = &change.object().spec.driver;
            for request in waiting.list() {
                if request.status.is_none() && request.spec.driver == *driver {
                    queue.add(request.key());
                }
            }
        })
        .reads::<ResourceClaim>()
        // UPSTREAM: one worker, without a flag.
        .workers(1)
        .reconciler(Answers {
            context: context.clone(),
            requests: requests.clone(),
            slices,
            claims: context.informers.store::<ResourceClaim>(),
            metrics: RequestMetrics::new(&context.metrics),
        });
    let cleanup = Loop::every(context, CLEANUP_PERIOD, Duration::ZERO)
        .reads::<ResourcePoolStatusRequest>()
        .reconciler(Cleanup {
            context: context.clone(),
            requests,
        });
    Runnable::together(context.controller, vec![answers.into(), cleanup.into()])
}

struct RequestMetrics {
    processed: IntCounterVec,
    errors: IntCounterVec,
    duration: HistogramVec,
}

impl RequestMetrics {
    fn new(metrics: &Metrics) -> RequestMetrics {
        let labels = &["driver_name"];
        // Upstream's: from a millisecond, doubled fourteen times.
        let buckets: Vec<f64> = (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
        RequestMetrics {
            processed: metrics.counter(
                "resourcepoolstatusrequest_controller_requests_processed_total",
                "Total number of ResourcePoolStatusRequests processed",
                Stability::Alpha,
                labels,
            ),
            errors: metrics.counter(
                "resourcepoolstatusrequest_controller_request_processing_errors_total",
                "Total number of errors encountered while processing ResourcePoolStatusRequests",
                Stability::Alpha,
                labels,
            ),
            duration: metrics.histogram(
                "resourcepoolstatusrequest_controller_request_processing_duration_seconds",
                "Time taken to process a ResourcePoolStatusRequest",
                Stability::Alpha,
                labels,
                &buckets,
            ),
        }
    }
}

struct Answers {
    context: Context,
    requests: Arc<Store<ResourcePoolStatusRequest>>,
    slices: Arc<Store<ResourceSlice>>,
    claims: Arc<Store<ResourceClaim>>,
    metrics: RequestMetrics,
}

impl Reconcile for Answers {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let request = self.requests.get(key);
        let Some(request) = request.filter(|request| request.status.is_none()) else {
            return Ok(Next::AwaitChange);
        };
        let begun = self.context.clock.now();
        let answer = plan(&request.spec, &self.slices.list(), &self.claims.list());
        if let Some(pool) = answer.incomplete() {
            let line = Line::waits("PoolIncomplete", "waits for slices").because(pool.to_owned());
            report.decide(ObjectId::of(&*request), [line]);
            return Ok(Next::AwaitChange);
        }
        let line = Line::acts("Answers", answer.message());
        report.decide(ObjectId::of(&*request), [line]);
        let meta = &request.metadata;
        // Another answer in the meantime is final.
        let body = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version.to_string()},
            "status": answer.status(self.context.clock.now().time()),
        });
        let patch = Patch::Merge(body.to_string().into());
        let kind = ResourcePoolStatusRequest::TYPE;
        let client = &self.context.client;
        let written = client
            .patch(&kind, "", &meta.name, Some("status"), &patch)
            .await;
        let driver = [request.spec.driver.as_str()];
        let took = self.context.clock.now().since(begun).as_secs_f64();
        self.metrics
            .duration
            .with_label_values(&driver)
            .observe(took);
        self.metrics.processed.with_label_values(&driver).inc();
        match written {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                self.metrics.errors.with_label_values(&driver).inc();
                return Err(error.into());
            }
        }
        Ok(Next::AwaitChange)
    }
}

struct Cleanup {
    context: Context,
    requests: Arc<Store<ResourcePoolStatusRequest>>,
}

impl Reconcile<Tick> for Cleanup {
    async fn reconcile(&self, _: &Tick, report: &Report<'_>) -> Result<Next, Error> {
        let now = self.context.clock.now();
        for request in self.requests.list() {
            if !is_expired(&request, now) {
                continue;
            }
            let line = Line::acts("Deletes", "deletes it").because("it is too old");
            report.decide(ObjectId::of(&*request), [line]);
            let (kind, meta) = (ResourcePoolStatusRequest::TYPE, &request.metadata);
            let options = DeleteOptions {
                uid: Some(meta.uid.clone()),
                ..DeleteOptions::default()
            };
            let client = &self.context.client;
            let deleted = client.delete(&kind, "", &meta.name, &options).await;
            if let Err(error) = deleted
                && !error.is_not_found()
            {
                tracing::warn!(request = %meta.name, %error, "cannot delete an expired ResourcePoolStatusRequest");
            }
        }
        Ok(Next::AwaitChange)
    }
}
