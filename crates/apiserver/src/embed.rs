//! What only the process that the server is embedded in can do: answer paths of its own on the server's
//! port, put objects in as they were elsewhere, and do by hand what a controller that is not there would.

use crate::containers::Kubelets;
use crate::convert;
use crate::crd::lifecycle;
use crate::rest::RequestInfo;
use crate::server::{ApiServer, Shared};
use crate::status::Status;
use crate::storage::Transaction;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use parking_lot::RwLock;
use serde_json::Value;
use std::sync::Arc;

/// Answers a request of a user who was let in.
pub type Handler = Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

/// Why an object could not be put in.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RestoreError {
    #[error("no kind {kind:?} is known in {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
    #[error("a {kind} without a name")]
    Nameless { kind: String },
}

/// Who answers what the server itself cannot.
#[derive(Default)]
pub(crate) struct Mounts {
    /// By the prefix of the paths that they answer.
    handlers: RwLock<Vec<(String, Handler)>>,
    pub(crate) kubelets: RwLock<Option<Arc<dyn Kubelets>>>,
}

impl ApiServer {
    /// Has `handler` answer every path that begins with `prefix`, on the server's own port and under its
    /// authorization: users need a rule for these `nonResourceURLs`.
    pub fn mount(&self, prefix: &str, handler: Handler) {
        let mut held = self.shared().mounts.handlers.write();
        held.push((prefix.to_owned(), handler));
    }

    /// Puts an object in as it is, with its uid, times, status and owners; only its resourceVersion is
    /// new. Nothing is validated or admitted: another server has done that. What it lacks is filled in, as upstream
    /// does with what it reads from its storage: a template without defaults would never equal the one of the
    /// ReplicaSet that is made from it. What was there under its name is replaced.
    pub fn restore(&self, mut object: Value) -> Result<(), RestoreError> {
        let shared = self.shared();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let registry = shared.registry();
        let Some(known) = registry.kind(&api_version, &kind).cloned() else {
            return Err(RestoreError::UnknownKind { api_version, kind });
        };
        let name = text(&object["metadata"]["name"]);
        if name.is_empty() {
            return Err(RestoreError::Nameless { kind });
        }
        let key = match known.namespaced {
            true => format!("{}/{name}", text(&object["metadata"]["namespace"])),
            false => name,
        };
        let opaque = crate::opaque::text_of(&known, object.to_string().as_bytes());
        let stored = convert::storage_kind(&registry, &known);
        // What cannot be read by its type stays as it is.
        if let Ok((read, _)) = crate::semantics::decode(&known, object.clone()) {
            object = read;
        }
        crate::semantics::default(&known, &mut object);
        convert::to_storage(&known, &mut object);
        write(shared, |transaction| {
            transaction.put(&stored, &key, &object, opaque.as_deref());
        });
        if crate::semantics::is_definition(&known) {
            lifecycle::register(shared);
        }
        Ok(())
    }

    /// Asks the servers behind APIServices whether they answer, once: a server that is served does so by itself.
    pub async fn check_api_services(&self) {
        crate::aggregation::check_all(self.shared()).await;
    }

    /// Brings the status of every ResourceQuota up to date: for a cluster without a quota controller, where
    /// nobody else would say how much is used or give back what was deleted.
    pub fn recount_quotas(&self) {
        let registry = self.shared().registry();
        write(self.shared(), |transaction| {
            let now = self.shared().clock.now();
            crate::admission::recount_quotas(&registry, transaction, now);
        });
    }
}

/// A write that cannot fail.
fn write(shared: &Shared, body: impl FnOnce(&mut Transaction<'_>)) {
    let written: Result<_, Status> = shared.store.write(|transaction| {
        body(transaction);
        Ok(())
    });
    debug_assert!(written.is_ok(), "putting objects in has no way to fail");
}

impl Mounts {
    /// Who answers a path that is no resource's.
    pub(crate) fn find(&self, info: &RequestInfo) -> Option<Handler> {
        let held = self.handlers.read();
        held.iter()
            .find(|(prefix, _)| info.path.starts_with(prefix.as_str()))
            .map(|(_, handler)| handler.clone())
    }
}
