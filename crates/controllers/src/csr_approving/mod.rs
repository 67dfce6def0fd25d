//! Approves what kubelets ask for. A small controller.
//!
//! **Converges**: every CertificateSigningRequest by which a kubelet asks for its certificate as a client is approved, if
//! the requester may `create` `certificatesigningrequests/selfnodeclient` (the certificate is for themselves) or
//! `certificatesigningrequests/nodeclient` (for a node).
//!
//! **Triggers**: any change of a request; what was recognized and not permitted is tried again, later each time.
//!
//! **Writes**: creates SubjectAccessReviews; puts the condition `Approved` through `approval`.
//!
//! **Mirrors** `pkg/controller/certificates/approver`.
//!
//! **Deliberate differences**: a request that cannot be read is left until it is cleaned up, where upstream tries for ever.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::conditions::{Condition, ConditionStatus};
use api::decision::{Line, controllers};
use api::kinds::{
    CERTIFICATE_APPROVED, CertificateSigningRequest, CertificateSigningRequestStatus,
};
use api::{Istr, Key, ObjectId, Resource, ResourceType};
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Descriptor;
use crate::certificates::BACKOFF;
use crate::oracle::View;
use crate::workload::status::put_status_through;

pub use invariants::{ApprovingOracle, converged, safe};
pub use plan::{Reason, Recognized, Step, next_step};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<CertificateSigningRequest>()],
    decides_about: &[CertificateSigningRequest::TYPE],
    queues: &["certificate"],
    // UPSTREAM: five workers, without a flag.
    build: Some(|ctx| Some(controller(ctx, 5).into())),
    oracle: Some(|| Box::<ApprovingOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        controllers::CSR_APPROVING,
        "csrapproving",
        "certificate-controller",
    )
};

const REVIEW: ResourceType = ResourceType::cluster(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
);

pub fn controller(context: &Context, workers: usize) -> Controller {
    Loop::on::<Key>(context, BACKOFF)
        .queue("certificate")
        .watches::<CertificateSigningRequest>(|change, queue| queue.add(change.object().key()))
        .workers(workers)
        .reconciler(ApprovingController {
            context: context.clone(),
            requests: context.informers.store::<CertificateSigningRequest>(),
        })
}

pub struct ApprovingController {
    context: Context,
    requests: Arc<Store<CertificateSigningRequest>>,
}

impl Reconcile for ApprovingController {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(request) = self.requests.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let decide = |line: Line| report.decide(ObjectId::of(&*request), [line]);
        let recognized = match next_step(&request) {
            Step::Leave(reason) => {
                decide(Line::from(&reason));
                return Ok(Next::AwaitChange);
            }
            Step::Ask(recognized) => recognized,
        };
        for one in &recognized {
            if self.is_allowed(&request, *one).await? {
                let line = Line::acts("Approves", "approves it");
                decide(line.because(one.message()));
                return self.approve(&request, *one).await;
            }
        }
        decide(Line::from(&Reason::NotPermitted {
            user: request.spec.username.to_string(),
            recognized,
        }));
        Ok(Next::WithBackoff)
    }
}

impl ApprovingController {
    /// May the requester have it by a SubjectAccessReview?
    async fn is_allowed(
        &self,
        request: &CertificateSigningRequest,
        recognized: Recognized,
    ) -> Result<bool, Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Answer {
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            allowed: bool,
        }
        let body = review(request, recognized).to_string();
        let answer = self.context.client.create(&REVIEW, "", body).await?;
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|error| Error::Retry(format!("the answer to a review: {error}")))?;
        Ok(answer.status.allowed)
    }

    async fn approve(
        &self,
        request: &CertificateSigningRequest,
        recognized: Recognized,
    ) -> Result<Next, Error> {
        let mut conditions = request.status.conditions.clone();
        conditions.push(Condition {
            type_: Istr::from(CERTIFICATE_APPROVED),
            status: ConditionStatus::True,
            reason: Istr::from("AutoApproved"),
            message: recognized.message().into(),
            ..Condition::default()
        });
        let status = CertificateSigningRequestStatus {
            conditions,
            ..request.status.clone()
        };
        let (client, meta) = (&self.context.client, &request.metadata);
        let written =
            put_status_through::<CertificateSigningRequest>("approval", client, meta, &status);
        match written.await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Next::AwaitChange),
        }
    }
}

fn review(request: &CertificateSigningRequest, recognized: Recognized) -> Value {
    let spec = &request.spec;
    let mut review = json!({
        "apiVersion": REVIEW.api_version(), "kind": REVIEW.kind,
        "spec": {
            "user": spec.username,
            "resourceAttributes": {
                "group": "certificates.k8s.io", "resource": "certificatesigningrequests",
                "subresource": recognized.subresource(), "verb": "create", "version": "*",
            },
        },
    });
    if !spec.uid.is_empty() {
        review["spec"]["uid"] = json!(spec.uid);
    }
    if !spec.groups.is_empty() {
        review["spec"]["groups"] = json!(spec.groups);
    }
    if !spec.extra.is_empty() {
        review["spec"]["extra"] = json!(spec.extra);
    }
    review
}
