//! How to talk to an API server: verbs, patches, watch streams, errors, flow control.
//!
//! A [`Client`] speaks HTTP requests to a [`Transport`], a `tower` service. In production that is the
//! connection pool of [`https`], configured by [`config`]; in `steersman up` and in the simulator it is the
//! embedded API server called directly. Same code, same bytes, no mocks; a fault is a `tower` layer.
//!
//! The crate knows nothing of caches or controllers, and takes time from `tokio::time` alone, so that
//! it runs under virtual time.

mod client;
pub mod config;
mod envelope;
mod error;
mod flow;
pub mod https;
mod list;
mod metrics;
mod options;
mod path;
mod response;
mod status;
mod token;
mod watch;
pub mod writes;

pub use client::{Client, Conditional};
pub use envelope::Encoding;
pub use error::{Error, describe, sentence, without_numbers};
pub use flow::Flow;
pub use list::ListPage;
pub use metrics::Metrics;
pub use options::{
    DeleteOptions, ListOptions, Patch, Propagation, ResourceVersionMatch, WatchOptions,
};
pub use path::escape;
pub use status::{Cause, Status};
pub use token::Token;
pub use watch::{WatchEvent, WatchStream};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A response body: whole at once from the embedded server, in chunks from the network.
pub type Body = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, BoxError>;

/// One request in, one response out: the HTTPS pool in production, the embedded API server in process.
pub type Transport =
    tower::util::BoxCloneSyncService<http::Request<bytes::Bytes>, http::Response<Body>, BoxError>;
