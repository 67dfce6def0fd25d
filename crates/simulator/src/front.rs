//! The API server's front door: the server behind it can go down and come back.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apiserver::ApiServer;
use bytes::Bytes;
use client::{Body, BoxError, Transport};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tower::{Service, ServiceExt};

use crate::bell::Bell;

/// Clones share the door.
#[derive(Clone)]
pub(crate) struct Front(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Rings when the server goes down: every stream ends then.
    down: Bell,
    /// It never goes down, so no stream need listen.
    stays_up: AtomicBool,
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
            stays_up: AtomicBool::new(false),
        }))
    }

    /// For runs in which the server never goes down.
    pub(crate) fn stay_up(&self) {
        self.0.stays_up.store(true, Ordering::Relaxed);
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

    /// Not an `async fn`, which would keep the request twice.
    pub(crate) fn pass(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        let front = self.clone();
        Box::pin(async move {
            let mut transport = {
                let state = front.lock();
                if state.is_down {
                    return Err("connection refused".into());
                }
                state.transport.clone()
            };
            let query = request.uri().query();
            let is_watch = query.is_some_and(|query| query.contains("watch="));
            let response = transport.ready().await?.call(request).await?;
            if !is_watch || front.0.stays_up.load(Ordering::Relaxed) {
                return Ok(response);
            }
            Ok(front.until_down(response))
        })
    }

    /// The same stream, which ends when the server goes down.
    fn until_down(&self, response: Response<Body>) -> Response<Body> {
        let mut down = self.0.down.listen();
        let (head, body) = response.into_parts();
        let down = async move { down.heard().await };
        let events = body
            .into_data_stream()
            .take_until(Box::pin(down))
            .map(|event| event.map(Frame::data));
        Response::from_parts(head, StreamBody::new(events).boxed_unsync())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}
