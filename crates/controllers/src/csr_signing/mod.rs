//! Certificates for approved requests. A small controller.
//!
//! **Converges**: every approved CertificateSigningRequest for one of the four signers of Kubernetes
//! (`kubernetes.io/kubelet-serving`, `kube-apiserver-client-kubelet`, `kube-apiserver-client`, `legacy-unknown`) has a
//! certificate of that signer's CA, or the condition `Failed` if the signer's rules forbid it.
//!
//! **Triggers**: any change of a request. The CA is read again for each signature, so that a new one is used at once.
//!
//! **Writes**: the status of requests: `certificate`, or the condition.
//!
//! **Mirrors** `pkg/controller/certificates`, `…/signer` and `…/authority`. A certificate says what Go's would: subject
//! and alternative names of the request and nothing else of it, the usages of the object, five minutes back-dated, not
//! longer than `expirationSeconds`, `--cluster-signing-duration` and the CA itself.
//!
//! **Deliberate differences**: one loop for four signers; a CA that cannot be read stops the requests for its signer
//! alone, which are tried again each minute, where upstream does not start; a request that can never be signed (it is
//! malformed, or its own signature does not verify) is left until it is cleaned up, where upstream tries for ever. Keys of
//! authorities are RSA, or ECDSA on P-256 or P-384.

mod actions;
mod authority;
mod ca_source;
mod invariants;
mod plan;
mod usages;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{Condition, ConditionStatus};
use api::decision::{Line, controllers, reasons};
use api::kinds::{CERTIFICATE_FAILED, CertificateSigningRequest, CertificateSigningRequestStatus};
use api::{Istr, Key, ObjectId, Resource, Rng};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};
use runtime::{Context, Controller, Error, Loop, Next, Reconcile, Report, Store};

use crate::Descriptor;
use crate::certificates::{BACKOFF, Request, Signer};
use crate::oracle::View;
use crate::workload::status::put_status;

pub use authority::{Authority, BadAuthority, Issued, Refusal, Terms, validity};
pub use ca_source::{CaError, CaProvider, CaSource, sources};
pub use invariants::{SigningOracle, converged, safe};
pub use plan::{Reason, Step, duration, next_step};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<CertificateSigningRequest>()],
    decides_about: &[CertificateSigningRequest::TYPE],
    queues: &["certificate"],
    build: Some(|ctx| {
        let config = &ctx.config.csr_signing_controller;
        let sources = sources(config, ctx.environment.cluster_ca.as_ref());
        if sources.is_empty() {
            tracing::info!("Skipping CSR signer controller because no csr cert/key was specified");
            return None;
        }
        let ttl = config.cluster_signing_duration.to_std();
        // UPSTREAM: five workers, without a flag.
        Some(controller(ctx, sources, ttl, ctx.environment.rng.fork(), 5).into())
    }),
    oracle: Some(|| Box::<SigningOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        controllers::CSR_SIGNING,
        "csrsigning",
        "certificate-controller",
    )
};

/// When a CA that could not be read, or does not sign, is tried again. Upstream looks at its files as often.
const CA_RETRY: Duration = Duration::from_secs(60);

/// `ttl` is what certificates live at most, `rng` gives their serial numbers.
pub fn controller(
    context: &Context,
    sources: Vec<(Signer, CaSource)>,
    ttl: Duration,
    rng: Rng,
    workers: usize,
) -> Controller {
    let providers = sources.into_iter().map(|(signer, source)| {
        let provider = CaProvider::new(source);
        if let Err(error) = provider.current() {
            tracing::error!(signer = signer.name(), %error, "this signer does not sign until its CA can be read");
        }
        (signer, provider)
    });
    let providers: BTreeMap<Signer, CaProvider> = providers.collect();
    Loop::on::<Key>(context, BACKOFF)
        .queue("certificate")
        .watches::<CertificateSigningRequest>(|change, queue| queue.add(change.object().key()))
        .workers(workers)
        .reconciler(SigningController {
            context: context.clone(),
            requests: context.informers.store::<CertificateSigningRequest>(),
            providers,
            ttl,
            rng,
        })
}

pub struct SigningController {
    context: Context,
    requests: Arc<Store<CertificateSigningRequest>>,
    providers: BTreeMap<Signer, CaProvider>,
    ttl: Duration,
    rng: Rng,
}

impl Reconcile for SigningController {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(request) = self.requests.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let decide = |line: Line| report.decide(ObjectId::of(&*request), [line]);
        match next_step(&request, |signer| self.providers.contains_key(&signer)) {
            Step::Leave(Reason::Pending) => {
                let obstacle = self.obstacle(&request);
                let is_passing = obstacle
                    .as_ref()
                    .is_some_and(|line| line.reason == reasons::CANNOT_SIGN);
                let lines = std::iter::once(Line::from(&Reason::Pending)).chain(obstacle);
                report.decide(ObjectId::of(&*request), lines);
                Ok(match is_passing {
                    true => Next::After(CA_RETRY),
                    false => Next::AwaitChange,
                })
            }
            Step::Leave(reason) => {
                decide(Line::from(&reason));
                Ok(Next::AwaitChange)
            }
            Step::Fail { signer, message } => {
                let what = format!("{} refuses it", signer.name());
                decide(Line::acts("Refuses", what).because(message.clone()));
                self.fail(&request, message).await
            }
            Step::Sign(signer, parsed) => match self.sign(&request, signer, &parsed) {
                Ok(issued) => {
                    let what = format!("{} signs a certificate that ends", signer.name());
                    decide(Line::acts("Signs", what).until(issued.not_after));
                    self.issue(&request, &issued).await
                }
                Err(problem) => {
                    tracing::warn!(request = %key, signer = signer.name(), problem, "cannot sign a certificate");
                    decide(cannot_sign(problem));
                    Ok(Next::After(CA_RETRY))
                }
            },
        }
    }
}

impl SigningController {
    /// Why a request could not be signed if it was approved now.
    fn obstacle(&self, request: &CertificateSigningRequest) -> Option<Line> {
        let signer = Signer::named(&request.spec.signer_name)?;
        let Some(provider) = self.providers.get(&signer) else {
            return Some(Line::from(&Reason::NoAuthority(signer)));
        };
        let now = self.context.clock.now().time();
        provider.fault(now).map(cannot_sign)
    }

    fn sign(
        &self,
        request: &CertificateSigningRequest,
        signer: Signer,
        parsed: &Request,
    ) -> Result<Issued, String> {
        let provider = self.providers.get(&signer);
        let provider = provider.ok_or_else(|| "the signer has no CA".to_owned())?;
        let authority = provider.current().map_err(|error| error.to_string())?;
        let terms = Terms {
            usages: &request.spec.usages,
            ttl: duration(request.spec.expiration_seconds, self.ttl),
            now: self.context.clock.now().time(),
            serial: serial(&self.rng),
        };
        let issued = authority.sign(parsed, &terms);
        issued.map_err(|refusal| refusal.to_string())
    }

    async fn issue(
        &self,
        request: &CertificateSigningRequest,
        issued: &Issued,
    ) -> Result<Next, Error> {
        let pem = to_pem(&issued.der);
        let status = CertificateSigningRequestStatus {
            certificate: BASE64_STANDARD.encode(pem).into(),
            ..request.status.clone()
        };
        self.put(request, &status).await
    }

    async fn fail(
        &self,
        request: &CertificateSigningRequest,
        message: String,
    ) -> Result<Next, Error> {
        let mut status = request.status.clone();
        status.conditions.push(Condition {
            type_: Istr::from(CERTIFICATE_FAILED),
            status: ConditionStatus::True,
            reason: Istr::from("SignerValidationFailure"),
            message: message.into(),
            last_update_time: Some(self.context.clock.now().time()),
            ..Condition::default()
        });
        self.put(request, &status).await
    }

    /// The revision that was looked at is the one that is signed: what was denied meanwhile is refused.
    async fn put(
        &self,
        request: &CertificateSigningRequest,
        status: &CertificateSigningRequestStatus,
    ) -> Result<Next, Error> {
        let (client, meta) = (&self.context.client, &request.metadata);
        match put_status::<CertificateSigningRequest>(client, meta, status).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Next::AwaitChange),
        }
    }
}

fn cannot_sign(problem: String) -> Line {
    let line = Line::waits(reasons::CANNOT_SIGN, "cannot be signed");
    line.because(problem).hint("check the CA of this signer")
}

/// A number that says nothing of the sequence that it is drawn from: everybody sees it, and what else is drawn must not
/// follow from it.
fn serial(rng: &Rng) -> u128 {
    let hash = digest(&SHA256, &rng.next_u128().to_be_bytes());
    let bytes = hash.as_ref().iter().take(16);
    bytes.fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// One block, in lines of 64 letters, as Go writes it.
fn to_pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
