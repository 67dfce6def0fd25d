//! What answers everything below a path by itself: pages of the binary, whose answers may go on for as long as somebody looks.

use bytes::Bytes;
use client::BoxError;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

use crate::auth::{Denied, User};

/// An answer's body, whole or one piece after the other.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Below its path; who gets there was authenticated and authorized as on every other path.
pub trait Mounted: Send + Sync {
    /// The header that a browser's cookie stands for. It is reviewed as if the browser had sent it.
    fn authorization(&self, headers: &HeaderMap) -> Option<HeaderValue>;

    /// Answers somebody who was let in.
    fn answer(&self, user: &User, request: Request<Bytes>) -> BoxFuture<'_, Response<Body>>;

    /// What somebody gets who was not let in, where that is more than the usual refusal.
    fn turn_away(&self, path: &str, denied: &Denied) -> Option<Response<Body>>;
}

/// A body that is all there.
pub(super) fn whole(body: Bytes) -> Body {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}
