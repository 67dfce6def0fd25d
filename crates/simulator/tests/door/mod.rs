//! A door between a manager and the API server: shut, open, or open but for some paths.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use client::{Body, BoxError, Transport};
use futures_util::StreamExt;
use http::header::{ETAG, IF_NONE_MATCH};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::sync::watch;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

/// Clones share the door.
#[derive(Clone)]
pub struct Door {
    inner: Transport,
    shut: Arc<watch::Sender<bool>>,
    refused: Arc<AtomicU64>,
    missing: Arc<Mutex<Option<&'static str>>>,
}

impl Door {
    pub fn to(inner: Transport) -> Door {
        Door {
            inner,
            shut: Arc::new(watch::Sender::new(false)),
            refused: Arc::default(),
            missing: Arc::default(),
        }
    }

    /// Ends all streams and refuses every connection.
    pub fn shut(&self) {
        self.shut.send_replace(true);
    }

    pub fn open(&self) {
        self.shut.send_replace(false);
    }

    /// How many requests found it shut.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Behaves as a server that lacks this group; with none it lacks nothing.
    pub fn lacks(&self, group: Option<&'static str>) {
        *self.missing.lock() = group;
    }

    pub fn transport(&self) -> Transport {
        let door = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            let door = door.clone();
            async move { door.pass(request).await }
        }))
    }

    async fn pass(&self, mut request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        if *self.shut.borrow() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err("connection refused".into());
        }
        let missing = *self.missing.lock();
        let path = request.uri().path().to_owned();
        if missing.is_some_and(|group| path.starts_with(&format!("/apis/{group}/"))) {
            return Ok(not_found());
        }
        let missing = missing.filter(|_| path == "/apis");
        if missing.is_some() {
            // The tag of another document.
            request.headers_mut().remove(IF_NONE_MATCH);
        }
        let response = self.inner.clone().oneshot(request).await?;
        if let Some(group) = missing {
            return without(response, group).await;
        }
        let mut shut = self.shut.subscribe();
        Ok(response.map(|body| {
            let frames = body.into_data_stream();
            let until = async move {
                let _ = shut.wait_for(|shut| *shut).await;
            };
            let frames = frames.take_until(Box::pin(until));
            let frames = frames.map(|bytes| bytes.map(http_body::Frame::data));
            Body::new(StreamBody::new(frames))
        }))
    }
}

/// Aggregated discovery without one group.
async fn without(response: Response<Body>, group: &str) -> Result<Response<Body>, BoxError> {
    let (mut head, body) = response.into_parts();
    head.headers.remove(ETAG);
    let body = body.collect().await?.to_bytes();
    let mut list: serde_json::Value = serde_json::from_slice(&body)?;
    if let Some(items) = list["items"].as_array_mut() {
        items.retain(|item| item["metadata"]["name"] != group);
    }
    let body = Full::new(Bytes::from(list.to_string()));
    let body = Body::new(body.map_err(|never| match never {}));
    Ok(Response::from_parts(head, body))
}

fn not_found() -> Response<Body> {
    let text = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","code":404}"#;
    let body = Full::new(Bytes::from_static(text.as_bytes()));
    let mut response = Response::new(Body::new(body.map_err(|never| match never {})));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
