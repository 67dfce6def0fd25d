//! A transport that remembers every write that passes through it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use client::{Body, BoxError, Transport};
use http::{Method, Request, Response};
use serde_json::Value;
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
pub(crate) struct Recording(Arc<Mutex<Vec<Write>>>);

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
                let response: Response<Body> = inner.ready().await?.call(request).await?;
                if let Some(mut write) = write {
                    write.answer = response.status().as_u16();
                    log.lock().push(write);
                }
                Ok::<_, BoxError>(response)
            }
        }))
    }

    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.lock())
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Write>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
