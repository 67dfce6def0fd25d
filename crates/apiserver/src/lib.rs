//! The embedded Kubernetes API server: storage, watch, REST, patching, defaulting, validation, admission.
//!
//! One service function answers every request, whether it came over TLS or from a client in the same
//! process, so tests and the simulator exercise exactly what users run.

pub mod admission;
mod aggregation;
mod apply;
pub mod audit;
pub mod auth;
pub mod bootstrap;
mod containers;
mod convert;
#[cfg(test)]
mod corpus;
pub mod crd;
pub mod defaults;
mod discovery;
mod documents;
mod embed;
mod fields;
mod http_log;
mod inspect;
pub mod kinds;
mod metrics;
mod opaque;
mod openapi;
mod openid;
mod ordered;
pub mod outbound;
mod parsed;
mod patch;
pub mod pki;
pub mod policy;
pub mod private_file;
pub mod proto;
mod resources;
mod rest;
pub mod schema;
mod selector;
mod semantics;
pub mod serve;
mod server;
pub mod settings;
pub mod status;
mod storage;
pub mod strategy;
pub mod tables;
#[cfg(test)]
mod tests;
mod tls;
pub mod validation;
pub mod warnings;
mod webhooks;
mod websocket;

pub use containers::{ExecRequest, Kubelets, LogRequest, Output};
pub use embed::{Handler, RestoreError};
pub use inspect::Changed;
pub use kinds::Extra;
pub use server::{ApiServer, Error, Options, Storage};
pub use settings::Settings;
pub use storage::{Repaired, is_ours, repair, stranger};
pub use tls::{Authorities, FrontProxy, Tls};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// A response body: one buffer, or the endless stream of a watch.
pub type Body = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, BoxError>;
/// One request in, one response out, without a socket in between.
pub type Transport =
    tower::util::BoxCloneSyncService<http::Request<bytes::Bytes>, http::Response<Body>, BoxError>;
