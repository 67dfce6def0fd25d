//! Whether the servers behind APIServices answer, as their condition `Available` says it.

use super::proxy::name_user;
use super::{Remote, api_services};
use crate::auth::Identity;
use crate::fields::{list, set, text};
use crate::kinds;
use crate::outbound::{NOBODY_CALLS, Target};
use crate::server::Shared;
use crate::webhooks::read_answer;
use bytes::Bytes;
use http::Request;
use http::header::ACCEPT;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// UPSTREAM: how long a server may take to say what it serves.
const TIMEOUT: Duration = Duration::from_secs(5);

/// UPSTREAM: how often each is asked, if nothing changes.
const PERIOD: Duration = Duration::from_secs(30);

/// Endpoints change often; so long is waited for more of it.
const PAUSE: Duration = Duration::from_secs(1);

/// What is to be said of a server: status, reason, message.
type Verdict = (&'static str, &'static str, String);

/// Asks all remote servers whenever anything about them may have changed, for ever.
pub(crate) async fn keep_checking(shared: Arc<Shared>) {
    let find = |group, kind| kinds::find(group, kind);
    let (Some(own), Some(services), Some(slices)) = (
        api_services(),
        find("", "Service"),
        find("discovery.k8s.io", "EndpointSlice"),
    ) else {
        return std::future::pending().await;
    };
    let changes = [own, services, slices].map(|kind| shared.store.changes(kind));
    loop {
        let [own, services, slices] = [0, 1, 2].map(|which: usize| changes[which].notified());
        tokio::pin!(own, services, slices);
        own.as_mut().enable();
        services.as_mut().enable();
        slices.as_mut().enable();
        check_all(&shared).await;
        if shared.aggregation.remotes(&shared).is_empty() {
            own.await;
            continue;
        }
        tokio::select! {
            () = own => {}
            () = services => {}
            () = slices => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks every remote server once, and writes down what is new.
pub(crate) async fn check_all(shared: &Arc<Shared>) {
    let remotes = shared.aggregation.remotes(shared);
    for remote in remotes.iter() {
        let verdict = remote.check(shared).await;
        record(shared, remote, &verdict);
    }
    let is_there = |name: &String| remotes.iter().any(|remote| remote.name == *name);
    shared
        .aggregation
        .resources
        .lock()
        .retain(|name, _| is_there(name));
    let mut definitions = shared.aggregation.definitions.lock();
    definitions.retain(|name, _| is_there(name));
}

impl Remote {
    async fn check(&self, shared: &Shared) -> Verdict {
        let refused = |reason, message: String| ("False", reason, message);
        let service = format!("service/{} in \"{}\"", self.service, self.namespace);
        let key = format!("{}/{}", self.namespace, self.service);
        let stored = kinds::find("", "Service").and_then(|kind| {
            let found = shared.store.get(kind, &key)?;
            Some(found.value(kind))
        });
        let Some(stored) = stored else {
            return refused("ServiceNotFound", format!("{service} is not present"));
        };
        let is_external = text(&stored, "spec.type") == "ExternalName";
        let mut ports = list(&stored, "spec.ports").iter();
        if !is_external && !ports.any(|port| port["port"] == self.port) {
            let message = format!("{service} is not listening on port {}", self.port);
            return refused("ServicePortError", message);
        }
        let target = match self.target(shared) {
            Ok(target) => target,
            Err(_) => {
                let message = format!("cannot find endpointslices for {service}");
                return refused("EndpointsNotFound", message);
            }
        };
        if shared.outbound.is_none() {
            return refused("FailedDiscoveryCheck", NOBODY_CALLS.to_owned());
        }
        let path = format!("/apis/{}/{}", self.group, self.version);
        let url = format!("https://{}{path}", target.authority);
        let failed = |why: String| {
            let message = format!("failing or missing response from {url}: {why}");
            refused("FailedDiscoveryCheck", message)
        };
        match self.ask(shared, target, &path).await {
            Err(None) => failed(format!(
                "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            )),
            Err(Some(why)) => failed(format!("Get \"{url}\": {why}")),
            Ok((code, _)) if !(200..300).contains(&code) => {
                failed(format!("bad status from {url}: {code}"))
            }
            Ok((_, body)) => {
                let resources: Value = serde_json::from_slice(&body).unwrap_or_default();
                self.learn(shared, resources).await;
                ("True", "Passed", "all checks passed".to_owned())
            }
        }
    }

    /// Code and body of an answer, or why there is none: none, because it took too long.
    async fn ask(
        &self,
        shared: &Shared,
        target: Target,
        path: &str,
    ) -> Result<(u16, Bytes), Option<String>> {
        let why = |error: &dyn std::fmt::Display| Some(error.to_string());
        let outbound = shared.outbound.clone();
        let outbound = outbound.ok_or_else(|| Some(NOBODY_CALLS.to_owned()))?;
        let request = Request::get(path).header(ACCEPT, "application/json");
        let mut request = request.body(Bytes::new()).map_err(|error| why(&error))?;
        let identity = Identity::new("system:kube-aggregator", &[crate::auth::MASTERS]);
        name_user(request.headers_mut(), &identity);
        let asked = async {
            let answer = outbound.call(target, request).await;
            let answer = answer.map_err(|error| why(&error))?;
            let read = read_answer(answer).await;
            let (code, _, body) = read.map_err(|error| why(&error))?;
            Ok((code, body))
        };
        let answered = tokio::time::timeout(TIMEOUT, asked).await;
        answered.unwrap_or(Err(None))
    }

    /// Keeps what the server serves. How that looks is asked for when it is new, and again while there is no answer.
    async fn learn(&self, shared: &Shared, resources: Value) {
        let known = &shared.aggregation.resources;
        let before = known.lock().insert(self.name.clone(), resources.clone());
        let is_known = shared
            .aggregation
            .definitions
            .lock()
            .contains_key(&self.name);
        if is_known && before.as_ref() == Some(&resources) {
            return;
        }
        let Ok(target) = self.target(shared) else {
            return;
        };
        if let Ok((200, body)) = self.ask(shared, target, "/openapi/v2").await {
            let document: Value = serde_json::from_slice(&body).unwrap_or_default();
            let prefix = format!("/apis/{}/{}", self.group, self.version);
            let definitions = super::openapi::definitions(&document, &prefix);
            let mut known = shared.aggregation.definitions.lock();
            known.insert(self.name.clone(), Arc::new(definitions));
        }
    }
}

/// Writes the condition, if it is another than before.
fn record(shared: &Shared, remote: &Remote, (status, reason, message): &Verdict) {
    let Some(kind) = api_services() else {
        return;
    };
    let now = shared.now();
    let written: Result<_, ()> = shared.store.write(|transaction| {
        let Some(stored) = transaction.get(kind, &remote.name) else {
            return Ok(());
        };
        let mut service = stored.value(kind);
        let conditions = list(&service, "status.conditions");
        let before = conditions.iter().find(|condition| condition["type"] == "Available");
        let is_same = before.is_some_and(|before| {
            before["status"] == *status && before["reason"] == *reason && before["message"] == *message
        });
        if is_same {
            return Ok(());
        }
        let since = before.filter(|before| before["status"] == *status);
        let since = since.map_or_else(|| json!(now), |before| before["lastTransitionTime"].clone());
        let condition = json!({"type": "Available", "status": status, "reason": reason, "message": message, "lastTransitionTime": since});
        let others = conditions.iter().filter(|condition| condition["type"] != "Available");
        let conditions: Vec<Value> = others.cloned().chain([condition]).collect();
        set(&mut service, "status.conditions", Value::Array(conditions));
        transaction.put(kind, &remote.name, &service, None);
        Ok(())
    });
    debug_assert!(written.is_ok(), "it cannot fail");
}
