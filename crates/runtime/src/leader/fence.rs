//! Keeps a deposed leader from writing.
//!
//! A controller that was descheduled, or waits in a rate limiter, does not notice that its lease ran
//! out. The transport does: it lets a write pass only while the leadership lasts, and gives up on
//! one that is still unanswered when it ends.

use std::task::{Context, Poll};

use bytes::Bytes;
use client::{Body, BoxError, Transport};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use super::Leadership;

/// A transport that refuses every write while we do not lead. Reads pass: a standby keeps its
/// caches warm.
#[derive(Clone)]
pub struct Fence {
    inner: Transport,
    leadership: watch::Receiver<Leadership>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLeading {
    #[error("this process does not hold the leader lease, so the write was not sent")]
    NotSent,
    #[error("the leader lease ended while the write was unanswered; it may have taken effect")]
    Abandoned,
}

impl Fence {
    pub fn around(inner: Transport, leadership: watch::Receiver<Leadership>) -> Transport {
        Transport::new(Fence { inner, leadership })
    }

    /// Until when we lead, as of now; `None` when we do not.
    fn open_until(&self) -> Option<Instant> {
        if self.leadership.has_changed().is_err() {
            // The election has ended.
            return None;
        }
        match *self.leadership.borrow() {
            Leadership::Leading { until, .. } if Instant::now() < until => Some(until),
            _ => None,
        }
    }

    async fn write(mut self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        if crate::mutation::on("lead-without-lease") {
            return self.inner.clone().oneshot(request).await;
        }
        if self.open_until().is_none() {
            return Err(NotLeading::NotSent.into());
        }
        let mut answer = self.inner.clone().oneshot(request);
        // Each renewal opens the fence for longer, and may come while the write is under way.
        while let Some(until) = self.open_until() {
            let deposed = self
                .leadership
                .wait_for(|now| matches!(now, Leadership::Standby { .. }));
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = tokio::time::sleep_until(until) => {}
                _ = deposed => {}
            }
        }
        Err(NotLeading::Abandoned.into())
    }
}

impl Service<Request<Bytes>> for Fence {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // `call` waits for a clone of its own to be ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let fence = self.clone();
        if matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        ) {
            return Box::pin(fence.inner.oneshot(request));
        }
        Box::pin(fence.write(request))
    }
}
