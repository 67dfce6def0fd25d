//! Component statuses: deprecated for years, but people still type `kubectl get cs`.
//!
//! Upstream asks etcd, and a scheduler and a controller manager on ports of the same machine. Here the store is
//! within the server, and who else runs in a cluster is not its business.

use super::{Context, negotiate};
use crate::Body;
use crate::status::{Status, Subject};
use crate::storage::{Stored, encode_body};
use http::Response;
use serde_json::json;
use std::sync::Arc;

/// The name under which upstream shows its store.
const STORE: &str = "etcd-0";

impl Context {
    /// Answers get and list.
    pub(super) fn components(&self) -> Result<Response<Body>, Status> {
        let store = self.store_status();
        match (self.info.verb, self.info.name.as_str()) {
            ("list", "") => {
                let selector = self.selector()?;
                let shown = selector.matches(&self.kind, &store);
                let items: Vec<_> = shown.then_some(store).into_iter().collect();
                self.listed(negotiate::shape(&self.headers)?, &items, json!({}))
            }
            ("get", STORE) => self.show(200, &store),
            ("get", name) => {
                // UPSTREAM: named by its kind.
                let subject = Subject {
                    group: "",
                    plural: "componentstatus",
                    name,
                };
                Err(Status::not_found(subject))
            }
            _ => Err(super::not_allowed()),
        }
    }

    /// That the server answers shows that its store does.
    fn store_status(&self) -> Arc<Stored> {
        let healthy = json!({"type": "Healthy", "status": "True", "message": "ok"});
        let value = json!({"metadata": {"name": STORE}, "conditions": [healthy]});
        let body = encode_body(&value, None);
        Arc::new(Stored::new(&self.kind, STORE.into(), 0, &value, body))
    }
}
