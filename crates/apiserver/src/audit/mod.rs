//! The audit log: what was asked of the server, by whom, and what it answered, as a policy says.
//!
//! Mirrors `k8s.io/apiserver/pkg/audit`. An event is written at up to three stages of a request: when it is received, when a
//! watch has begun to be answered, and when the answer is complete. Requests whose credentials are refused are not logged.

mod log;
mod policy;

use crate::auth::Identity;
use crate::rest::RequestInfo;
use crate::status::Status;
use api::{Clock, MicroTime};
use bytes::Bytes;
use http::request::Parts;
use log::Log;
use policy::Ruling;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

pub use log::{Format, LogOptions};
pub use policy::{Level, Policy, Stage};

/// UPSTREAM: how much of a user agent is logged.
const MAX_USER_AGENT: usize = 1024;

/// Where a request came from, as its connection says; put into the request's extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source(pub(crate) IpAddr);

/// A policy and where events go.
pub struct Auditor {
    policy: Policy,
    log: Log,
}

/// The event of one request that is to be logged.
pub(crate) struct Recording {
    auditor: Arc<Auditor>,
    clock: Clock,
    ruling: Ruling,
    event: Value,
}

impl Auditor {
    pub fn open(policy: Policy, log: LogOptions) -> std::io::Result<Auditor> {
        let log = Log::open(log)?;
        Ok(Auditor { policy, log })
    }

    /// Begins the event of a request, and writes that it was received.
    pub(crate) fn begin(
        self: &Arc<Auditor>,
        clock: &Clock,
        id: String,
        parts: &Parts,
        info: &RequestInfo,
        identity: &Identity,
    ) -> Option<Recording> {
        let ruling = self.policy.ruling(identity, info);
        if ruling.level == Level::None {
            return None;
        }
        let header = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let id = header("audit-id").map_or(id, str::to_owned);
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": format!("{:?}", ruling.level), "auditID": id,
            "stage": "", "requestURI": parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            "verb": info.verb, "user": user(identity), "sourceIPs": sources(parts),
        });
        if let Some(agent) = header("user-agent") {
            let agent = match agent.get(..MAX_USER_AGENT) {
                Some(begin) if agent.len() > MAX_USER_AGENT => format!("{begin}...TRUNCATED"),
                _ => agent.to_owned(),
            };
            event["userAgent"] = agent.into();
        }
        if info.is_resource {
            event["objectRef"] = object_ref(info);
        }
        event["requestReceivedTimestamp"] = clock.now().to_string().into();
        let mut recording = Recording {
            auditor: self.clone(),
            clock: clock.clone(),
            ruling,
            event,
        };
        recording.write(Stage::RequestReceived);
        Some(recording)
    }
}

impl Recording {
    pub(crate) fn id(&self) -> &str {
        self.event["auditID"].as_str().unwrap_or_default()
    }

    /// Notes whom the caller acts as.
    pub(crate) fn impersonated(&mut self, identity: &Identity) {
        self.event["impersonatedUser"] = user(identity);
    }

    /// Notes what was sent, where the policy asks for it, and which object that makes.
    pub(crate) fn request_body(&mut self, headers: &http::HeaderMap, body: &Bytes) {
        let is_wanted = self.ruling.level >= Level::Request;
        let is_nameless = self.event["verb"] == "create" && self.event["objectRef"].is_object();
        if body.is_empty() || !(is_wanted || is_nameless) {
            return;
        }
        // What cannot be read is refused soon: the answer says why.
        let patch = || serde_json::from_slice(body).ok();
        let object = match crate::rest::body::content_type(headers).ends_with("patch+json") {
            true => patch(),
            false => crate::rest::body::parse(headers, body, "").ok(),
        };
        let Some(object) = object.or_else(patch) else {
            return;
        };
        let name: &Value = &object["metadata"]["name"];
        if is_nameless && self.event["objectRef"]["name"].is_null() && name.is_string() {
            self.event["objectRef"]["name"] = name.clone();
        }
        if is_wanted {
            self.event["requestObject"] = self.shown(object);
        }
    }

    /// Notes what the server decided about it.
    pub(crate) fn annotate(&mut self, annotations: impl IntoIterator<Item = (String, String)>) {
        for (key, value) in annotations {
            self.event["annotations"][key] = value.into();
        }
    }

    pub(crate) fn allowed(&mut self, is_allowed: bool, why: &str) {
        let decision = if is_allowed { "allow" } else { "forbid" };
        self.annotate([
            (
                "authorization.k8s.io/decision".to_owned(),
                decision.to_owned(),
            ),
            ("authorization.k8s.io/reason".to_owned(), why.to_owned()),
        ]);
    }

    /// Whether the answer's body is to be noted.
    pub(crate) fn wants_response(&self) -> bool {
        self.ruling.level >= Level::RequestResponse
    }

    /// Notes the answer: its code, the Status that it is, and all of it where the policy asks for that.
    pub(crate) fn answered(&mut self, code: u16, body: Option<&[u8]>) {
        let object: Option<Value> = body.and_then(|body| serde_json::from_slice(body).ok());
        let mut status = json!({"metadata": {}, "code": code});
        if let Some(object) = object {
            if object["kind"] == "Status" && object["apiVersion"] == "v1" {
                status = object.clone();
                for member in ["kind", "apiVersion"] {
                    status.as_object_mut().map(|status| status.remove(member));
                }
            }
            if self.wants_response() {
                self.event["responseObject"] = self.shown(object);
            }
        }
        self.event["responseStatus"] = status;
    }

    /// The same for a request that is refused before it is looked at any further.
    pub(crate) fn refused(mut self, status: &Status) {
        self.allowed(false, "");
        let body = status.to_value().to_string();
        self.answered(status.code, Some(body.as_bytes()));
        self.write(Stage::ResponseComplete);
    }

    pub(crate) fn write(&mut self, stage: Stage) {
        if self.ruling.omit_stages.contains(&stage) {
            return;
        }
        let now: MicroTime = self.clock.now();
        self.event["stage"] = format!("{stage:?}").into();
        self.event["stageTimestamp"] = now.to_string().into();
        self.auditor.log.write(self.event.clone(), now);
    }

    fn shown(&self, mut object: Value) -> Value {
        if self.ruling.omit_managed_fields {
            let forget = |object: &mut Value| {
                let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
                metadata.map(|metadata| metadata.remove("managedFields"));
            };
            forget(&mut object);
            let items = object.get_mut("items").and_then(Value::as_array_mut);
            items.into_iter().flatten().for_each(forget);
        }
        object
    }
}

/// Writes the end of an answer that is still being sent, whenever that is.
pub(crate) struct UntilComplete(pub(crate) Recording);

impl Drop for UntilComplete {
    fn drop(&mut self) {
        self.0.write(Stage::ResponseComplete);
    }
}

fn user(identity: &Identity) -> Value {
    let mut user = json!({"username": identity.user});
    if !identity.uid.is_empty() {
        user["uid"] = identity.uid.as_str().into();
    }
    if !identity.groups.is_empty() {
        user["groups"] = json!(identity.groups);
    }
    if !identity.extra.is_empty() {
        user["extra"] = json!(identity.extra);
    }
    user
}

fn object_ref(info: &RequestInfo) -> Value {
    let members = [
        ("resource", &info.resource),
        ("namespace", &info.namespace),
        ("name", &info.name),
        ("apiGroup", &info.group),
        ("apiVersion", &info.version),
        ("subresource", &info.subresource),
    ];
    let given = members.iter().filter(|(_, value)| !value.is_empty());
    given
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// UPSTREAM: whom proxies name, then the other end of the connection.
fn sources(parts: &Parts) -> Vec<String> {
    let mut found: Vec<IpAddr> = Vec::new();
    for name in ["x-forwarded-for", "x-real-ip"] {
        let texts = parts.headers.get_all(name).iter();
        let texts = texts.filter_map(|value| value.to_str().ok());
        let addresses = texts.flat_map(|text| text.split(','));
        found.extend(addresses.filter_map(|text| text.trim().parse::<IpAddr>().ok()));
    }
    found.extend(parts.extensions.get::<Source>().map(|source| source.0));
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|address| seen.insert(*address));
    found
        .iter()
        .map(|address| address.to_canonical().to_string())
        .collect()
}
