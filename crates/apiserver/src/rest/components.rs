//! Component statuses: deprecated for years, but people still type `kubectl get cs`.
//!
//! Upstream asks etcd, and a scheduler and a controller manager on ports of the same machine. Here the store is
//! within the server, and so is what the server was told to run beside; anything else is not its business.

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
        match (self.info.verb, self.info.name.as_str()) {
            ("list", "") => {
                let selector = self.selector()?;
                let mut names: Vec<&str> = self.shared.components.to_vec();
                names.push(STORE);
                names.sort_unstable();
                let all = names.into_iter().map(|name| self.component(name));
                let items: Vec<_> = all
                    .filter(|component| selector.matches(&self.kind, component))
                    .collect();
                self.listed(negotiate::shape(&self.headers)?, &items, json!({}))
            }
            ("get", name) if name == STORE || self.shared.components.contains(&name) => {
                self.show(200, &self.component(name))
            }
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

    /// That the server answers shows that its store does, and whatever shares its process.
    fn component(&self, name: &str) -> Arc<Stored> {
        let healthy = json!({"type": "Healthy", "status": "True", "message": "ok"});
        let value = json!({"metadata": {"name": name}, "conditions": [healthy]});
        let body = encode_body(&value, None);
        Arc::new(Stored::new(&self.kind, name.into(), 0, &value, body))
    }
}
