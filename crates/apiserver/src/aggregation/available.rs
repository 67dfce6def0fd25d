//! Whether the servers behind APIServices answer, as their condition `Available` says it.

use super::proxy::name_user;
use super::{Remote, api_services};
use crate::auth::Identity;
use crate::fields::{list, set, text};
use crate::kinds;
use crate::outbound::NOBODY_CALLS;
use crate::server::Shared;
use crate::webhooks::read_answer;
use bytes::Bytes;
use http::Request;
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
    let mut known = shared.aggregation.resources.lock();
    known.retain(|name, _| remotes.iter().any(|remote| remote.name == *name));
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
        let Some(outbound) = shared.outbound.clone() else {
            return refused("FailedDiscoveryCheck", NOBODY_CALLS.to_owned());
        };
        let path = format!("/apis/{}/{}", self.group, self.version);
        let url = format!("https://{}{path}", target.authority);
        let failed = |why: String| {
            let message = format!("failing or missing response from {url}: {why}");
            refused("FailedDiscoveryCheck", message)
        };
        let request = Request::get(&path).body(Bytes::new());
        let mut request = match request {
            Ok(request) => request,
            Err(why) => return failed(why.to_string()),
        };
        let identity = Identity::new("system:kube-aggregator", &[crate::auth::MASTERS]);
        name_user(request.headers_mut(), &identity);
        let asked = async {
            let answer = outbound.call(target, request).await;
            let answer = answer.map_err(|why| why.to_string())?;
            let read = read_answer(answer).await;
            let (code, _, body) = read.map_err(|why| why.to_string())?;
            Ok::<_, String>((code, body))
        };
        match tokio::time::timeout(TIMEOUT, asked).await {
            Err(_) => failed(format!(
                "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            )),
            Ok(Err(why)) => failed(format!("Get \"{url}\": {why}")),
            Ok(Ok((code, _))) if !(200..300).contains(&code) => {
                failed(format!("bad status from {url}: {code}"))
            }
            Ok(Ok((_, body))) => {
                let resources: Value = serde_json::from_slice(&body).unwrap_or_default();
                let mut known = shared.aggregation.resources.lock();
                known.insert(self.name.clone(), resources);
                ("True", "Passed", "all checks passed".to_owned())
            }
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
