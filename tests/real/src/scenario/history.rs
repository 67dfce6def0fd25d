//! What happens on a server without an audit log, seen through watches and told in the log's terms.
//!
//! Watches do not tell who wrote, nor how often nothing changed: requests cannot be counted, and what users and
//! kubelets did is part of it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::normalise::COMBINED;
use super::resources;
use super::witness::{Scenarios, Witness};
use crate::audit::{Entry, ObjectRef, ResponseStatus};
use crate::http::Api;

/// Longer than all scenarios take: a watch ends with its server.
const WATCHED: Duration = Duration::from_secs(3600);

pub(crate) struct History {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    scenarios: Scenarios,
    writes: BTreeMap<String, Vec<Entry>>,
    last_write: BTreeMap<String, Instant>,
    /// The uids of what is known to be on its way out.
    deleted: BTreeSet<String>,
    /// Why a watch ended; none may while scenarios are played.
    ended: Option<String>,
}

impl History {
    /// Begins to watch every kind that is recorded, and events.
    pub(crate) fn start(api: &Api) -> Result<History> {
        let state: Arc<Mutex<State>> = Arc::default();
        let mut paths = vec![("event", "/api/v1/events".to_owned())];
        for kind in resources::recorded().map(|kind| &*kind.target) {
            paths.push((kind, resources::everywhere(kind)?));
        }
        for (kind, path) in paths {
            let (api, state) = (api.clone(), Arc::clone(&state));
            std::thread::spawn(move || {
                let path = format!("{path}?watch=true&timeoutSeconds={}", WATCHED.as_secs());
                let outcome = api.watch(&path, WATCHED, |event| {
                    lock(&state).take(kind, event);
                    true
                });
                let why = outcome.map_or_else(|error| format!("{error:#}"), |()| "it ended".into());
                lock(&state).ended = Some(format!("the watch of {path}: {why}"));
            });
        }
        Ok(History { state })
    }
}

impl Witness for History {
    fn attend(&self, namespace: &str) {
        lock(&self.state).scenarios.insert(namespace);
    }

    fn last_write(&self, namespace: &str) -> Result<Option<Instant>> {
        let state = lock(&self.state);
        ensure!(state.ended.is_none(), "{:?}", state.ended);
        Ok(state.last_write.get(namespace).copied())
    }

    fn writes(&self, namespace: &str) -> Result<Vec<Entry>> {
        let state = lock(&self.state);
        Ok(state.writes.get(namespace).cloned().unwrap_or_default())
    }
}

impl State {
    fn take(&mut self, kind: &str, event: &Value) {
        let object = &event["object"];
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let uid = text(&metadata["uid"]);
        let leaving = !metadata["deletionTimestamp"].is_null();
        let verb = match event["type"].as_str() {
            Some("ADDED") => "create",
            Some("MODIFIED") if leaving && self.deleted.insert(uid.clone()) => "delete",
            Some("MODIFIED") => "update",
            Some("DELETED") if !self.deleted.remove(&uid) => "delete",
            // The end of what was deleted before.
            _ => "",
        };
        let mut entry = Entry {
            verb: verb.to_owned(),
            object_ref: Some(ObjectRef {
                resource: resources::plural(kind).to_owned(),
                namespace: text(&metadata["namespace"]),
                name: text(&metadata["name"]),
                ..ObjectRef::default()
            }),
            response_status: Some(ResponseStatus {
                code: if verb == "create" { 201 } else { 200 },
                message: String::new(),
            }),
            // The conditions of nodes are their kubelets'.
            response_object: (kind != "node").then(|| object.clone()),
            ..Entry::default()
        };
        let Some(scenario) = self.scenarios.of(&entry) else {
            return;
        };
        self.last_write.insert(scenario.clone(), Instant::now());
        if let Some(refused) = refused_pod(kind, object) {
            entry = refused;
        }
        if !entry.verb.is_empty() {
            self.writes.entry(scenario).or_default().push(entry);
        }
    }
}

/// The request that an event tells of: what is refused leaves nothing else behind.
fn refused_pod(kind: &str, object: &Value) -> Option<Entry> {
    let message = object["message"].as_str()?;
    let message = message.strip_prefix(COMBINED).unwrap_or(message);
    let answer = message.strip_prefix("Error creating: ")?;
    (kind == "event").then(|| Entry {
        verb: "create".to_owned(),
        object_ref: Some(ObjectRef {
            resource: "pods".to_owned(),
            ..ObjectRef::default()
        }),
        response_status: Some(ResponseStatus {
            code: 403,
            message: answer.to_owned(),
        }),
        ..Entry::default()
    })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock()
}
