//! Old certificate signing requests. A small controller.
//!
//! **Converges**: a request that was issued, denied or has failed is deleted an hour after that; one that nobody has
//! decided, or that was approved and not issued, after a day; one whose certificate has ended at once.
//!
//! **Triggers**: time alone, once an hour.
//!
//! **Writes**: deletes requests, with uid and revision as preconditions.
//!
//! **Mirrors** `pkg/controller/certificates/cleaner/cleaner.go`.
//!
//! **Deliberate differences**: a request that has changed since it was looked at is left until the next time.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::{Line, controllers};
use api::kinds::CertificateSigningRequest;
use api::{ObjectId, Resource};
use client::DeleteOptions;
use runtime::controller::Tick;
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};

use crate::Descriptor;
use crate::oracle::View;

pub use invariants::{CleanerOracle, converged, safe};
pub use plan::{Deadline, Reason, deadline};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<CertificateSigningRequest>()],
    decides_about: &[CertificateSigningRequest::TYPE],
    queues: &["certificate_cleaner"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<CleanerOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        controllers::CSR_CLEANER,
        "csrcleaner",
        "certificate-controller",
    )
};

/// Upstream's number.
const PERIOD: Duration = Duration::from_secs(60 * 60);

pub fn controller(context: &Context) -> Controller<Tick> {
    Loop::every(context, PERIOD, Duration::ZERO)
        .queue("certificate_cleaner")
        .reads::<CertificateSigningRequest>()
        .reconciler(Cleaner {
            context: context.clone(),
            requests: context.informers.store::<CertificateSigningRequest>(),
        })
}

pub struct Cleaner {
    context: Context,
    requests: Arc<Store<CertificateSigningRequest>>,
}

impl Reconcile<Tick> for Cleaner {
    async fn reconcile(&self, _: &Tick, report: &Report<'_>) -> Result<Next, Error> {
        self.clean(report).await;
        Ok(Next::AwaitChange)
    }
}

impl Cleaner {
    async fn clean(&self, report: &Report<'_>) {
        // One reading of the clock for everything that is decided.
        let now = self.context.clock.now();
        for request in self.requests.list() {
            let Some(deadline) = deadline(&request) else {
                continue;
            };
            let is_due = deadline.is_past(now);
            let line = match is_due {
                true => Line::acts("Deletes", "deletes it").because(deadline.reason.why()),
                false => Line::from(&deadline),
            };
            report.decide(ObjectId::of(&*request), [line]);
            if is_due {
                self.delete(&request).await;
            }
        }
    }

    async fn delete(&self, request: &CertificateSigningRequest) {
        let meta = &request.metadata;
        let options = DeleteOptions {
            resource_version: Some(meta.resource_version),
            ..DeleteOptions::exactly(&meta.uid)
        };
        let client = &self.context.client;
        let deleted = client
            .delete(&CertificateSigningRequest::TYPE, "", &meta.name, &options)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                let request = &meta.name;
                tracing::warn!(%request, %error, "cannot delete a certificate signing request, will try again");
            }
            _ => {}
        }
    }
}
