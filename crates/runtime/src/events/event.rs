//! One event, and how it looks on the wire.

use std::borrow::Cow;

use api::{Time, Uid};
use bytes::Bytes;
use serde::Serialize;

use super::{EventType, ObjectRef};

/// Who says it; the same for all events of a recorder.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) component: String,
    pub(super) host: String,
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) object: ObjectRef,
    pub(super) event_type: EventType,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: String,
    pub(super) first_at: Time,
    pub(super) last_at: Time,
    pub(super) count: u64,
    /// Stands for several similar events.
    pub(super) combined: bool,
}

impl Event {
    /// Events about cluster-scoped objects live in `default`.
    pub(super) fn namespace(&self) -> &str {
        if self.object.namespace.is_empty() {
            "default"
        } else {
            &self.object.namespace
        }
    }

    pub(super) fn body(&self, source: &Source) -> Bytes {
        let object = &self.object;
        let wire = Wire {
            kind: "Event",
            api_version: "v1",
            metadata: Metadata {
                name: &self.name,
                namespace: self.namespace(),
            },
            involved_object: InvolvedObject {
                kind: &object.kind,
                namespace: &object.namespace,
                name: &object.name,
                uid: &object.uid,
                api_version: &object.api_version,
                resource_version: (object.resource_version > 0)
                    .then(|| object.resource_version.to_string()),
                field_path: &object.field_path,
            },
            reason: &self.reason,
            message: &self.message,
            source: WireSource {
                component: &source.component,
                host: &source.host,
            },
            first_timestamp: self.first_at,
            last_timestamp: self.last_at,
            count: self.count,
            event_type: self.event_type.as_str(),
            event_time: (),
            // UPSTREAM: a combined event does not name its reporter.
            reporting_component: if self.combined { "" } else { &source.component },
            reporting_instance: if self.combined { "" } else { &source.host },
        };
        encode(&wire)
    }

    /// What changes when an event happens again.
    pub(super) fn count_patch(&self) -> Bytes {
        encode(&CountPatch {
            count: self.count,
            last_timestamp: self.last_at,
            message: &self.message,
        })
    }
}

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value)
        .expect("strings and numbers always serialise")
        .into()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    involved_object: InvolvedObject<'a>,
    reason: &'a str,
    message: &'a str,
    source: WireSource<'a>,
    first_timestamp: Time,
    last_timestamp: Time,
    count: u64,
    #[serde(rename = "type")]
    event_type: &'static str,
    /// Null: that field belongs to the newer events API.
    event_time: (),
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvolvedObject<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Uid::is_empty")]
    uid: &'a Uid,
    api_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    field_path: &'a str,
}

#[derive(Serialize)]
struct WireSource<'a> {
    component: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CountPatch<'a> {
    count: u64,
    last_timestamp: Time,
    /// A combined event shows the latest of the messages that it stands for.
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}
