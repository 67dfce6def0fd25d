//! The gremlin between the manager and the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use api::Rng;
use bytes::Bytes;
use client::{Body, BoxError, Transport};
use futures_util::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

/// How often things go wrong: one in so many requests. Zero means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub lost_before: usize,
    pub lost_after: usize,
    pub refused: usize,
    pub slow: usize,
    pub watch_cut: usize,
    pub watch_frozen: usize,
}

impl Faults {
    /// A mix that the seed decides: some runs are calm, some are wild.
    pub fn from_seed(rng: &Rng) -> Faults {
        let one_in = |most: usize| {
            if rng.chance(2) {
                0
            } else {
                5 + rng.below(most)
            }
        };
        Faults {
            lost_before: one_in(60),
            lost_after: one_in(60),
            refused: one_in(60),
            slow: one_in(10),
            watch_cut: one_in(40),
            watch_frozen: one_in(10),
        }
    }
}

/// Does what [`Faults`] says, until it is told to rest.
#[derive(Clone)]
pub struct Gremlin(Arc<Inner>);

struct Inner {
    faults: Faults,
    rng: Rng,
    resting: AtomicBool,
    done: AtomicU64,
}

impl Gremlin {
    pub fn new(faults: Faults, rng: Rng) -> Gremlin {
        Gremlin(Arc::new(Inner {
            faults,
            rng,
            resting: AtomicBool::new(false),
            done: AtomicU64::new(0),
        }))
    }

    /// No more trouble from here on.
    pub fn rest(&self) {
        self.0.resting.store(true, Ordering::Relaxed);
    }

    /// How many faults were injected.
    pub fn count(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    pub fn between(&self, inner: Transport) -> Transport {
        let gremlin = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            let (gremlin, inner) = (gremlin.clone(), inner.clone());
            async move { gremlin.pass(inner, request).await }
        }))
    }

    async fn pass(
        &self,
        mut inner: Transport,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, BoxError> {
        let faults = &self.0.faults;
        if self.strikes(faults.slow) {
            let millis = self.0.rng.below(2000) as u64;
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        if self.strikes(faults.lost_before) {
            return Err("the request was lost".into());
        }
        let is_read = request.method() == Method::GET;
        if !is_read && self.strikes(faults.refused) {
            return self.refusal();
        }
        let is_watch = is_read
            && request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch="));
        let response = inner.ready().await?.call(request).await?;
        if !is_read && self.strikes(faults.lost_after) {
            return Err("the answer was lost".into());
        }
        Ok(if is_watch {
            self.spoil(response)
        } else {
            response
        })
    }

    /// A watch that is cut after some events, or that stands still for a while.
    fn spoil(&self, response: Response<Body>) -> Response<Body> {
        let faults = &self.0.faults;
        let cut = self.strikes(faults.watch_cut).then(|| self.0.rng.below(30));
        let frozen = self
            .strikes(faults.watch_frozen)
            .then(|| self.0.rng.below(30));
        if cut.is_none() && frozen.is_none() {
            return response;
        }
        let millis = self.0.rng.below(20_000) as u64;
        let (head, body) = response.into_parts();
        let frames = body
            .into_data_stream()
            .enumerate()
            .then(move |(index, frame)| async move {
                if frozen == Some(index) {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
                frame.map(http_body::Frame::data)
            });
        let body = match cut {
            Some(count) => StreamBody::new(frames.take(count)).boxed_unsync(),
            None => StreamBody::new(frames).boxed_unsync(),
        };
        Response::from_parts(head, body)
    }

    fn refusal(&self) -> Result<Response<Body>, BoxError> {
        let (code, reason) = match self.0.rng.below(4) {
            0 => (409, "Conflict"),
            1 => (429, "TooManyRequests"),
            2 => (500, "InternalError"),
            _ => (504, "Timeout"),
        };
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "message": "the gremlin says no", "reason": reason, "code": code,
        });
        let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
        Ok(Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .body(body.boxed_unsync())?)
    }

    fn strikes(&self, one_in: usize) -> bool {
        let strikes =
            one_in > 0 && !self.0.resting.load(Ordering::Relaxed) && self.0.rng.chance(one_in);
        self.0.done.fetch_add(u64::from(strikes), Ordering::Relaxed);
        strikes
    }
}
