//! A server for one Lease, and the links to it, which can fail one by one.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Body, BoxError, Transport};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc;

#[derive(Clone, Default)]
pub(super) struct LeaseServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    revision: u64,
    /// Method and, for writes, the spec that was sent.
    requests: Vec<String>,
    watchers: Vec<mpsc::UnboundedSender<Value>>,
}

impl LeaseServer {
    pub(super) fn link(&self) -> Link {
        Link {
            server: self.clone(),
            fault: Arc::new(Mutex::new(Fault::None)),
        }
    }

    pub(super) fn lease(&self) -> Value {
        self.0.lock().lease.clone().unwrap_or(Value::Null)
    }

    pub(super) fn spec(&self) -> String {
        self.lease()["spec"].to_string()
    }

    pub(super) fn holder(&self) -> String {
        let lease = self.lease();
        lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or("nobody")
            .to_owned()
    }

    /// What was asked since the last call.
    pub(super) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().requests)
    }

    /// Writes the lease behind everyone's back.
    pub(super) fn put(&self, spec: Value) {
        let mut state = self.0.lock();
        state.store(json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}, "spec": spec}));
    }

    pub(super) fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock();
        let mut lease = state.lease.clone().unwrap();
        change(&mut lease);
        state.store(lease);
    }

    pub(super) fn delete(&self) {
        self.0.lock().lease = None;
    }

    fn watch(&self) -> Body {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.0.lock();
        if let Some(lease) = &state.lease {
            let event = json!({"type": "ADDED", "object": lease});
            sender.send(event).unwrap();
        }
        state.watchers.push(sender);
        let lines = futures_util::stream::unfold(receiver, |mut receiver| async {
            let line = format!("{}\n", receiver.recv().await?);
            Some((Ok(http_body::Frame::data(Bytes::from(line))), receiver))
        });
        Body::new(StreamBody::new(lines))
    }

    fn handle(&self, request: &Request<Bytes>) -> (u16, Value) {
        let mut state = self.0.lock();
        let sent: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let line = match *request.method() {
            Method::GET => "GET".to_owned(),
            ref method => format!("{method} {}", sent["spec"]),
        };
        state.requests.push(line);
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        match (request.method(), &state.lease) {
            (&Method::GET, Some(lease)) => (200, lease.clone()),
            (&Method::GET | &Method::PUT, None) => (404, failure(404, "NotFound")),
            (&Method::POST, None) => (201, state.store(sent)),
            (&Method::POST, Some(_)) => (409, failure(409, "AlreadyExists")),
            (&Method::PUT, Some(lease)) if version(lease) != version(&sent) => {
                (409, failure(409, "Conflict"))
            }
            (&Method::PUT, Some(_)) => (200, state.store(sent)),
            other => panic!("no candidate sends {other:?}"),
        }
    }
}

impl State {
    fn store(&mut self, mut lease: Value) -> Value {
        self.revision += 1;
        lease["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        lease["metadata"]["uid"] = json!("6ba7b810-9dad-11d1-80b4-00c04fd430c8");
        self.lease = Some(lease.clone());
        let event = json!({"type": "MODIFIED", "object": lease});
        self.watchers
            .retain(|watcher| watcher.send(event.clone()).is_ok());
        lease
    }
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason})
}

/// What is wrong with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Refused,
    /// The request is lost without an answer.
    Silent,
    /// The request arrives, and its answer is lost.
    AnswerLost,
    Slow(Duration),
}

/// One candidate's way to the server.
#[derive(Clone)]
pub(super) struct Link {
    server: LeaseServer,
    fault: Arc<Mutex<Fault>>,
}

impl Link {
    pub(super) fn set(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }

    pub(super) fn transport(&self) -> Transport {
        let link = self.clone();
        Transport::new(tower::service_fn(move |request: Request<Bytes>| {
            let link = link.clone();
            async move { link.carry(request).await }
        }))
    }

    async fn carry(self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let fault = *self.fault.lock();
        match fault {
            Fault::None => {}
            Fault::Refused => return Err("connection refused".into()),
            Fault::Silent => std::future::pending().await,
            Fault::AnswerLost => {
                self.server.handle(&request);
                std::future::pending().await
            }
            // The way there takes as long as the way back.
            Fault::Slow(each_way) => tokio::time::sleep(each_way).await,
        }
        if request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"))
        {
            return Ok(Response::new(self.server.watch()));
        }
        let (code, body) = self.server.handle(&request);
        if let Fault::Slow(each_way) = fault {
            tokio::time::sleep(each_way).await;
        }
        let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
        Ok(Response::builder().status(code).body(Body::new(body))?)
    }
}
