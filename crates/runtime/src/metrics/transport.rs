//! Counts requests where they leave for the API server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use client::{Body, BoxError, Transport};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body::Frame;
use prometheus::{Histogram, IntCounterVec};
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use super::families::Families;

pub(super) fn measured(inner: Transport, families: &Families, host: &str) -> Transport {
    let verbs = VERBS.map(|verb| Verb {
        seconds: families.rest_duration.with_label_values(&[verb, host]),
        sent: families.rest_request_size.with_label_values(&[verb, host]),
        received: families.rest_response_size.with_label_values(&[verb, host]),
    });
    Transport::new(Measured {
        inner,
        shared: Arc::new(Shared {
            host: host.to_owned(),
            requests: families.rest_requests.clone(),
            verbs,
        }),
    })
}

/// The methods that the API knows; each has its handles ready.
const VERBS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

#[derive(Clone)]
struct Measured {
    inner: Transport,
    shared: Arc<Shared>,
}

struct Shared {
    host: String,
    requests: IntCounterVec,
    verbs: [Verb; 5],
}

struct Verb {
    seconds: Histogram,
    sent: Histogram,
    received: Histogram,
}

impl Shared {
    fn verb(&self, method: &Method) -> Option<&Verb> {
        let place = VERBS.iter().position(|verb| *verb == method.as_str())?;
        Some(&self.verbs[place])
    }

    fn count(&self, code: &str, method: &Method) {
        self.requests
            .with_label_values(&[code, method.as_str(), &self.host])
            .inc();
    }
}

impl Service<Request<Bytes>> for Measured {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // `call` waits for a clone of its own to be ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (inner, shared) = (self.inner.clone(), Arc::clone(&self.shared));
        Box::pin(async move {
            let method = request.method().clone();
            let sent = request.body().len();
            let watch = is_watch(&request);
            let started = Instant::now();
            let answer = inner.oneshot(request).await;
            // UPSTREAM: a request that got no answer has the code `<error>`.
            let status = answer.as_ref().ok().map(Response::status);
            let code = status.as_ref().map_or("<error>", |status| status.as_str());
            shared.count(code, &method);
            let Some(verb) = shared.verb(&method) else {
                return answer;
            };
            if watch {
                // UPSTREAM: a watch is counted, but neither timed nor weighed.
                return answer;
            }
            verb.seconds.observe(started.elapsed().as_secs_f64());
            verb.sent.observe(sent as f64);
            let received = verb.received.clone();
            answer.map(|response| response.map(|body| Body::new(Weighed::new(body, received))))
        })
    }
}

fn is_watch(request: &Request<Bytes>) -> bool {
    request.uri().query().is_some_and(|query| {
        query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    })
}

/// Adds up a body and notes its size when the reader is done with it.
struct Weighed {
    inner: Body,
    bytes: u64,
    received: Histogram,
}

impl Weighed {
    fn new(inner: Body, received: Histogram) -> Weighed {
        Weighed {
            inner,
            bytes: 0,
            received,
        }
    }
}

impl http_body::Body for Weighed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.bytes += data.len() as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Weighed {
    fn drop(&mut self) {
        self.received.observe(self.bytes as f64);
    }
}
