//! A transport that remembers every write that passes through it, and refuses some when told to.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Body, BoxError, Transport};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

/// One write that a client sent.
#[derive(Clone, Debug)]
pub struct Write {
    pub method: Method,
    pub path: String,
    pub body: Value,
    /// The status code of the answer.
    pub answer: u16,
}

#[derive(Clone, Default)]
pub(crate) struct Recording(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    writes: Vec<Write>,
    /// Paths.
    reads: Vec<String>,
    refusals: Vec<Refusal>,
    /// How long each write takes.
    latency: Duration,
    /// By path, with its query: what is answered instead of the server.
    answers: BTreeMap<String, Value>,
    /// By path, with its query: what is never answered.
    hangs: BTreeSet<String>,
}

/// Requests that will not get through.
pub(crate) struct Refusal {
    pub(crate) method: Method,
    /// How the path ends.
    pub(crate) path: String,
    pub(crate) code: u16,
    pub(crate) times: usize,
}

impl Recording {
    pub(crate) fn around(&self, inner: Transport) -> Transport {
        let log = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: Request<Bytes>| {
            let (mut inner, log) = (inner.clone(), log.clone());
            async move {
                let write = (request.method() != Method::GET).then(|| Write {
                    method: request.method().clone(),
                    path: request.uri().path().to_string(),
                    body: serde_json::from_slice(request.body()).unwrap_or(Value::Null),
                    answer: 0,
                });
                if write.is_none() {
                    log.lock().reads.push(request.uri().path().to_string());
                }
                if log.hangs(&request) {
                    std::future::pending::<()>().await;
                }
                let latency = log.lock().latency;
                if write.is_some() && !latency.is_zero() {
                    tokio::time::sleep(latency).await;
                }
                let refused = log.refused(request.method(), request.uri().path());
                let response: Response<Body> = match (refused, log.answer(&request)) {
                    (Some(code), _) => refusal(code),
                    (None, Some(answer)) => json_response(200, &answer),
                    (None, None) => inner.ready().await?.call(request).await?,
                };
                if let Some(mut write) = write {
                    write.answer = response.status().as_u16();
                    log.lock().writes.push(write);
                }
                Ok::<_, BoxError>(response)
            }
        }))
    }

    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.lock().writes)
    }

    /// How often something was read whose path ends so.
    pub(crate) fn reads_of(&self, path: &str) -> usize {
        let log = self.lock();
        log.reads.iter().filter(|read| read.ends_with(path)).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().writes.len()
    }

    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.lock().refusals.push(refusal);
    }

    pub(crate) fn slow_down(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Answers this read from now on, whatever the server has.
    pub(crate) fn set_answer(&self, path: &str, answer: Value) {
        let mut log = self.lock();
        log.hangs.remove(path);
        log.answers.insert(path.to_owned(), answer);
    }

    pub(crate) fn hang(&self, path: &str) {
        self.lock().hangs.insert(path.to_owned());
    }

    fn hangs(&self, request: &Request<Bytes>) -> bool {
        let path = request.uri().path_and_query();
        path.is_some_and(|path| self.lock().hangs.contains(path.as_str()))
    }

    fn answer(&self, request: &Request<Bytes>) -> Option<Value> {
        let path = request.uri().path_and_query()?.as_str();
        let found = self.lock().answers.get(path).cloned();
        found.filter(|_| request.method() == Method::GET)
    }

    /// The code to refuse this request with, if it is to be refused.
    fn refused(&self, method: &Method, path: &str) -> Option<u16> {
        let mut log = self.lock();
        let refusal = log.refusals.iter_mut().find(|refusal| {
            refusal.times > 0 && refusal.method == *method && path.ends_with(&refusal.path)
        })?;
        refusal.times -= 1;
        Some(refusal.code)
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Log> {
        self.0.lock()
    }
}

/// What an API server answers that cannot, or will not.
fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": format!("refused by the test: {reason}"), "reason": reason, "code": code,
    });
    json_response(code, &status)
}

fn json_response(code: u16, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(Body::new(body))
        .unwrap_or_else(|error| panic!("{code} is no status code: {error}"))
}

/// `POST pods`, `PUT replicasets/web/status`: what was written, without namespace and group.
impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<&str> = self.path.trim_start_matches('/').split('/').collect();
        let after_group = if parts[0] == "api" { 2 } else { 3 };
        let rest = match parts.get(after_group) {
            Some(&"namespaces") if parts.len() > after_group + 2 => &parts[after_group + 2..],
            _ => &parts[after_group.min(parts.len())..],
        };
        write!(f, "{} {}", self.method, rest.join("/"))?;
        if self.answer >= 400 {
            write!(f, " -> {}", self.answer)?;
        }
        Ok(())
    }
}
