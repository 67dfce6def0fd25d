//! The API server's front door: the server behind it can go down and come back.

mod catalogue;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apiserver::ApiServer;
use bytes::Bytes;
use client::{Body, BoxError, Transport};
use futures_util::StreamExt;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::bell::Bell;

/// Whoever writes to these groups changes what is served.
const DEFINING: [&str; 2] = [
    "/apis/apiextensions.k8s.io/",
    "/apis/apiregistration.k8s.io/",
];

/// Clones share the door.
#[derive(Clone)]
pub(crate) struct Front(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Rings when the server goes down: every stream ends then.
    down: Bell,
    /// Somebody has changed what is served: the catalogue is no longer that of every new server.
    custom: AtomicBool,
}

struct State {
    server: ApiServer,
    transport: Transport,
    is_down: bool,
}

impl Front {
    pub(crate) fn new(server: ApiServer) -> Front {
        Front(Arc::new(Inner {
            state: Mutex::new(State {
                transport: server.transport(),
                server,
                is_down: false,
            }),
            down: Bell::default(),
            custom: AtomicBool::new(false),
        }))
    }

    pub(crate) fn server(&self) -> ApiServer {
        self.lock().server.clone()
    }

    pub(crate) fn take_down(&self) {
        self.lock().is_down = true;
        self.0.down.ring();
    }

    pub(crate) fn bring_back(&self, server: ApiServer) {
        let mut state = self.lock();
        state.transport = server.transport();
        state.server = server;
        state.is_down = false;
    }

    pub(crate) fn transport(&self) -> Transport {
        let front = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            let front = front.clone();
            async move { front.pass(request).await }
        }))
    }

    async fn pass(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let mut transport = {
            let state = self.lock();
            if state.is_down {
                return Err("connection refused".into());
            }
            state.transport.clone()
        };
        let path = request.uri().path();
        if *request.method() != Method::GET && DEFINING.iter().any(|group| path.starts_with(group))
        {
            self.0.custom.store(true, Ordering::Relaxed);
        }
        if matches!(path, "/api" | "/apis") && !self.0.custom.load(Ordering::Relaxed) {
            return catalogue::answer(request).await;
        }
        let query = request.uri().query();
        let is_watch = query.is_some_and(|query| query.contains("watch="));
        let response = transport.ready().await?.call(request).await?;
        if !is_watch {
            return Ok(response);
        }
        let mut down = self.0.down.listen();
        let (head, body) = response.into_parts();
        let down = async move { down.heard().await };
        let events = body
            .into_data_stream()
            .take_until(Box::pin(down))
            .map(|event| event.map(Frame::data));
        Ok(Response::from_parts(
            head,
            StreamBody::new(events).boxed_unsync(),
        ))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
