//! Which requests are recognized as those of kubelets. Pure.

use api::decision::{Line, reasons};
use api::kinds::CertificateSigningRequest;

use crate::certificates::{MalformedRequest, Request, Signer, is_kubelet_client};

/// As what a request is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognized {
    /// A node that asks for its own certificate.
    SelfNodeClient,
    /// Somebody who asks for a node's.
    NodeClient,
}

/// What comes next for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Whether the requester is permitted one of these, in this order.
    Ask(Vec<Recognized>),
    Leave(Reason),
}

/// Why nothing is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Issued,
    Approved,
    Denied,
    /// No request of a kubelet for its own certificate: a person decides.
    NotRecognized,
    NotPermitted {
        user: String,
        recognized: Vec<Recognized>,
    },
    Malformed(MalformedRequest),
}

impl Recognized {
    pub const fn subresource(self) -> &'static str {
        match self {
            Recognized::SelfNodeClient => "selfnodeclient",
            Recognized::NodeClient => "nodeclient",
        }
    }

    /// Upstream's words.
    pub const fn message(self) -> &'static str {
        match self {
            Recognized::SelfNodeClient => {
                "Auto approving self kubelet client certificate after SubjectAccessReview."
            }
            Recognized::NodeClient => {
                "Auto approving kubelet client certificate after SubjectAccessReview."
            }
        }
    }
}

pub fn next_step(request: &CertificateSigningRequest) -> Step {
    if request.is_issued() {
        return Step::Leave(Reason::Issued);
    }
    if request.is_denied() {
        return Step::Leave(Reason::Denied);
    }
    if request.is_approved() {
        return Step::Leave(Reason::Approved);
    }
    let parsed = match Request::parse(&request.spec.request) {
        Ok(parsed) => parsed,
        Err(error) => return Step::Leave(Reason::Malformed(error)),
    };
    let spec = &request.spec;
    let is_kubelet = Signer::named(&spec.signer_name) == Some(Signer::KubeletClient)
        && is_kubelet_client(&parsed, &spec.usages);
    if !is_kubelet {
        return Step::Leave(Reason::NotRecognized);
    }
    match *spec.username == *parsed.subject.common_name {
        true => Step::Ask(vec![Recognized::SelfNodeClient, Recognized::NodeClient]),
        false => Step::Ask(vec![Recognized::NodeClient]),
    }
}

impl From<&Reason> for Line {
    fn from(reason: &Reason) -> Line {
        match reason {
            Reason::Issued => Line::states("Issued", "the certificate was issued"),
            Reason::Approved => Line::states("Approved", "it was approved"),
            Reason::Denied => Line::states("Denied", "it was denied"),
            Reason::NotRecognized => Line::states("NotRecognized", "is not approved automatically")
                .because("it is no request of a kubelet for its certificate as a client"),
            Reason::NotPermitted { user, recognized } => {
                let names: Vec<&str> = recognized.iter().map(|one| one.subresource()).collect();
                let names = names.join(" ");
                Line::states("NotPermitted", "is not approved automatically")
                    .because(format!(
                        "recognized as [{names}] but subject access review was not approved for {user:?}"
                    ))
                    .hint("let that user create certificatesigningrequests/nodeclient, or approve it")
            }
            Reason::Malformed(error) => {
                Line::states(reasons::MALFORMED, "is not approved automatically")
                    .because(error.to_string())
            }
        }
    }
}
