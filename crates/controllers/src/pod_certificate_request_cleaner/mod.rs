//! Old requests of pods for certificates. A small controller, behind the gate `PodCertificateRequest`.
//!
//! **Converges**: no PodCertificateRequest is older than fifteen minutes, whatever became of it.
//!
//! **Triggers**: time alone, every five minutes.
//!
//! **Writes**: deletes them, with their uid as precondition.
//!
//! **Mirrors** `pkg/controller/certificates/cleaner/pcrcleaner.go`.

mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::PodCertificateRequest;
use api::{MicroTime, ObjectId, Resource};
use client::DeleteOptions;
use runtime::controller::Tick;
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{PodCertificateRequestOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<PodCertificateRequest>()],
    decides_about: &[PodCertificateRequest::TYPE],
    queues: &["pod_certificate_request_cleaner"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<PodCertificateRequestOracle>::default()),
    ..Descriptor::named(
        "podcertificaterequest-cleaner-controller",
        "",
        "podcertificaterequestcleaner",
    )
    .gated(&["PodCertificateRequest"])
};

/// Upstream's numbers: all is done long before.
const AGE_MAX: Duration = Duration::from_secs(15 * 60);
const PERIOD: Duration = Duration::from_secs(5 * 60);

pub fn controller(context: &Context) -> Controller<Tick> {
    Loop::every(context, PERIOD, Duration::ZERO)
        .queue("pod_certificate_request_cleaner")
        .reads::<PodCertificateRequest>()
        .reconciler(Cleaner {
            context: context.clone(),
            requests: context.informers.store::<PodCertificateRequest>(),
        })
}

pub struct Cleaner {
    context: Context,
    requests: Arc<Store<PodCertificateRequest>>,
}

pub fn is_old(request: &PodCertificateRequest, now: MicroTime) -> bool {
    now >= request.metadata.created_at.micro().plus(AGE_MAX)
}

impl Reconcile<Tick> for Cleaner {
    async fn reconcile(&self, _: &Tick, report: &Report<'_>) -> Result<Next, Error> {
        let now = self.context.clock.now();
        for request in self.requests.list() {
            if is_old(&request, now) {
                let line = Line::acts("Deletes", "deletes it");
                let line = line.because("it is older than 15 minutes");
                report.decide(ObjectId::of(&*request), [line]);
                self.delete(&request).await;
            }
        }
        Ok(Next::AwaitChange)
    }
}

impl Cleaner {
    async fn delete(&self, request: &PodCertificateRequest) {
        let meta = &request.metadata;
        let options = DeleteOptions::exactly(&meta.uid);
        let client = &self.context.client;
        let deleted = client
            .delete(
                &PodCertificateRequest::TYPE,
                &meta.namespace,
                &meta.name,
                &options,
            )
            .await;
        match deleted {
            Err(error) if !error.is_not_found() => {
                let request = meta.key();
                tracing::warn!(%request, %error, "cannot delete a PodCertificateRequest, will try again");
            }
            _ => {}
        }
    }
}
