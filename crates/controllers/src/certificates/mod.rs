//! What the controllers of certificate signing requests share: reading a PKCS #10 request, and which requests each of
//! the cluster's own signers accepts. Pure.
//!
//! **Mirrors** `pkg/apis/certificates/helpers.go`.

mod request;
mod rules;

use std::time::Duration;

use runtime::rate_limit::Backoff;

pub use request::{MalformedRequest, Request, Subject};
pub use rules::{is_kubelet_client, validate_kubelet_client, validate_kubelet_serving};

/// Upstream's numbers for all controllers of requests.
pub(crate) const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(200),
    max: Duration::from_secs(1000),
    bucket: Some((10.0, 100.0)),
};

/// The signers of Kubernetes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signer {
    KubeletServing,
    KubeletClient,
    ApiServerClient,
    LegacyUnknown,
}

impl Signer {
    pub const ALL: [Signer; 4] = [
        Signer::KubeletServing,
        Signer::KubeletClient,
        Signer::ApiServerClient,
        Signer::LegacyUnknown,
    ];

    /// Its name in a request's `signerName`.
    pub const fn name(self) -> &'static str {
        match self {
            Signer::KubeletServing => "kubernetes.io/kubelet-serving",
            Signer::KubeletClient => "kubernetes.io/kube-apiserver-client-kubelet",
            Signer::ApiServerClient => "kubernetes.io/kube-apiserver-client",
            Signer::LegacyUnknown => "kubernetes.io/legacy-unknown",
        }
    }

    /// The flag that gives this signer a CA of its own.
    pub fn flag(self, end: &str) -> String {
        let own = match self {
            Signer::KubeletServing => "kubelet-serving",
            Signer::KubeletClient => "kubelet-client",
            Signer::ApiServerClient => "kube-apiserver-client",
            Signer::LegacyUnknown => "legacy-unknown",
        };
        format!("--cluster-signing-{own}-{end}")
    }

    pub fn named(name: &str) -> Option<Signer> {
        Signer::ALL.into_iter().find(|signer| signer.name() == name)
    }

    /// Why it refuses a request, in upstream's words.
    pub fn validate<S: AsRef<str>>(self, request: &Request, usages: &[S]) -> Result<(), String> {
        match self {
            Signer::KubeletServing => validate_kubelet_serving(request, usages),
            Signer::KubeletClient => validate_kubelet_client(request, usages),
            Signer::ApiServerClient => rules::validate_client_usages(usages),
            // UPSTREAM: no rules, for the sake of what was written before signers had names.
            Signer::LegacyUnknown => Ok(()),
        }
    }
}
