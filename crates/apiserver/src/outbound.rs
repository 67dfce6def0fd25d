//! Calls that the server makes: to admission and conversion webhooks, and to the servers behind APIServices.
//!
//! The server knows no client. Whoever opens it hands in something that can make calls; without that, as in the
//! simulator, everything that needs a call fails by its own rules and says why.

use crate::{Body, BoxError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};

/// Makes calls. Connections, and how many of them are kept, are its own business; time limits are the caller's.
pub trait Outbound: Send + Sync {
    /// The error says what failed as Go's HTTP client would: `dial tcp 127.0.0.1:1: connect: connection refused`.
    fn call(
        &self,
        target: Target,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Body>, BoxError>>;
}

/// Where a call goes, and whom it trusts there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Without TLS if it is false.
    pub is_https: bool,
    /// The host and port to connect to.
    pub authority: String,
    /// The name to expect in the certificate, if it is not the host.
    pub server_name: Option<String>,
    /// Certificate authorities to trust, in PEM; the system's if there are none.
    pub authorities: Option<Bytes>,
    /// Trust whoever answers.
    pub insecure: bool,
    /// Who calls: a certificate and its key, in PEM.
    pub identity: Option<(Bytes, Bytes)>,
}

/// A server that a kubeconfig names, and who calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backend {
    pub target: Target,
    /// `https://host`, and the port if it was given: as errors name it.
    pub origin: String,
    pub path: String,
    /// For the header of that name.
    pub authorization: Option<String>,
}

/// What is said where a call would have to be made and nobody can make it.
pub(crate) const NOBODY_CALLS: &str =
    "this server makes no outgoing calls: it was started without a network client";
