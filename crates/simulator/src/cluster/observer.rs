//! Between an actor and the API server: every write is traced, checked, and may be the last one.

use parking_lot::Mutex;
use std::sync::Arc;

use bytes::Bytes;
use client::{Body, BoxError, Transport};
use controllers::oracle::Actor;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use tower::util::BoxCloneSyncService;

use crate::front::Front;
use crate::oracle::{Oracles, Place};
use crate::trace::Trace;

pub(super) struct Observer {
    pub(super) actor: Actor,
    pub(super) trace: Trace,
    pub(super) oracles: Oracles,
    pub(super) front: Front,
    pub(super) crash: Arc<CrashPoint>,
}

/// The manager dies right after its nth write, if that is set.
#[derive(Default)]
pub(super) struct CrashPoint {
    after_write: Mutex<Option<u64>>,
    reached: tokio::sync::Notify,
}

impl CrashPoint {
    pub(super) fn set(&self, nth: Option<u64>) {
        *self.after_write.lock() = nth;
    }

    pub(super) async fn reached(&self) {
        self.reached.notified().await;
    }

    fn is_due(&self, count: u64) -> bool {
        *self.after_write.lock() == Some(count)
    }
}

impl Observer {
    pub(super) fn transport(self) -> Transport {
        let observer = Arc::new(self);
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            observer.clone().pass(request)
        }))
    }

    fn pass(
        self: Arc<Observer>,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        self.oracles.count(self.actor);
        match *request.method() {
            Method::GET => self.front.pass(request),
            _ => self.pass_write(request),
        }
    }

    fn pass_write(
        self: Arc<Observer>,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<Body>, BoxError>> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let body = request.body().clone();
        let place = Place::of(&path);
        self.oracles.before(self.actor, &method, &place, &body);
        let answer = self.front.pass(request);
        Box::pin(async move {
            let response = answer.await?;
            let code = response.status().as_u16();
            let count = self.trace.note(self.actor, &method, &path, &body, code);
            self.oracles.look(&self.front.server(), self.actor, &place);
            if matches!(self.actor, Actor::Manager(..)) && self.crash.is_due(count) {
                // The write took effect, but its answer never arrives: the process is gone.
                let remark = format!("crashes after write {count}");
                self.trace.remark(self.actor, remark);
                self.crash.reached.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(response)
        })
    }
}
