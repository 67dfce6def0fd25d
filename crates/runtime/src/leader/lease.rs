//! The Lease object: read, and written with the resource version that was read.

use std::fmt;
use std::time::Duration;

use api::json::Node;
use api::{MicroTime, ResourceType, Uid};
use bytes::Bytes;
use client::{Client, WatchOptions, WatchStream};
use serde::Deserialize;

use crate::events::ObjectRef;

/// One lease, and its state when we last read or wrote it.
pub(super) struct Lock {
    client: Client,
    namespace: String,
    name: String,
    /// How long one request may take.
    timeout: Duration,
    seen: Option<Seen>,
}

/// Kept raw, so that a write changes nothing but the fields that belong to the election.
struct Seen {
    raw: Node,
    uid: Uid,
    resource_version: u64,
}

/// Who leads, as the lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty when the lease is free.
    pub(super) holder: String,
    pub(super) duration_seconds: i64,
    pub(super) acquired: Option<MicroTime>,
    pub(super) renewed: Option<MicroTime>,
    pub(super) transitions: i64,
    /// How the API server picks the holder; none where candidates contend among themselves.
    pub(super) strategy: Option<String>,
    /// Whom the API server would rather have: the holder's term is over.
    pub(super) preferred: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Request(#[from] client::Error),
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    #[error("the server's answer is not a Lease")]
    NotALease(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the lease has not been read yet")]
    NotRead,
}

/// How long the server keeps a watch: as long as informers ask for at most.
const WATCH_SECONDS: u32 = 600;

static LEASES: ResourceType =
    ResourceType::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

impl Error {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Error::Request(error) if error.is_not_found())
    }
}

impl Lock {
    pub(super) fn new(client: Client, namespace: &str, name: &str, timeout: Duration) -> Lock {
        Lock {
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            timeout,
            seen: None,
        }
    }

    pub(super) async fn get(&mut self) -> Result<Record, Error> {
        let request = self.client.get(&LEASES, &self.namespace, &self.name);
        let answer = within(self.timeout, request).await?;
        self.keep(&answer)
    }

    pub(super) async fn create(&mut self, record: &Record) -> Result<(), Error> {
        let mut lease = Node::object();
        lease.set(&["apiVersion"], Node::text("coordination.k8s.io/v1"));
        lease.set(&["kind"], Node::text("Lease"));
        lease.set(&["metadata", "name"], Node::text(&self.name));
        lease.set(&["metadata", "namespace"], Node::text(&self.namespace));
        record.write_to(&mut lease);
        let request = self
            .client
            .create(&LEASES, &self.namespace, lease.to_string());
        let answer = within(self.timeout, request).await?;
        self.keep(&answer).map(drop)
    }

    pub(super) async fn update(&mut self, record: &Record) -> Result<(), Error> {
        let mut lease = self.seen.as_ref().ok_or(Error::NotRead)?.raw.clone();
        record.write_to(&mut lease);
        let request = self.client.replace(
            &LEASES,
            &self.namespace,
            &self.name,
            None,
            lease.to_string(),
        );
        let answer = within(self.timeout, request).await?;
        self.keep(&answer).map(drop)
    }

    /// The lease as it changes, the present state first.
    pub(super) async fn watch(&self) -> Result<WatchStream, client::Error> {
        let options = WatchOptions {
            field_selector: Some(format!("metadata.name={}", self.name)),
            timeout_seconds: Some(WATCH_SECONDS),
            ..WatchOptions::default()
        };
        self.client.watch(&LEASES, &self.namespace, &options).await
    }

    /// What events are about; `None` before the lease was seen.
    pub(super) fn object(&self) -> Option<ObjectRef> {
        let seen = self.seen.as_ref()?;
        Some(ObjectRef {
            resource_version: seen.resource_version,
            ..ObjectRef::named(&LEASES, &self.namespace, &self.name, seen.uid.clone())
        })
    }

    fn keep(&mut self, answer: &[u8]) -> Result<Record, Error> {
        let view: View =
            serde_json::from_slice(answer).map_err(|error| Error::NotALease(error.into()))?;
        let text = std::str::from_utf8(answer).map_err(|error| Error::NotALease(error.into()))?;
        let raw = Node::parse(text).map_err(|error| Error::NotALease(error.into()))?;
        self.seen = Some(Seen {
            raw,
            uid: view.metadata.uid,
            resource_version: view.metadata.resource_version.parse().unwrap_or(0),
        });
        Ok(view.spec.into())
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Record {
    /// A lease without a holder.
    pub(super) fn free() -> Record {
        Spec::default().into()
    }

    pub(super) fn read(lease: &[u8]) -> Result<Record, serde_json::Error> {
        serde_json::from_slice::<View>(lease).map(|view| view.spec.into())
    }

    fn write_to(&self, lease: &mut Node) {
        let time = |time: Option<MicroTime>| Node::of(&time);
        lease.set(&["spec", "holderIdentity"], Node::text(&self.holder));
        lease.set(
            &["spec", "leaseDurationSeconds"],
            Node::number(self.duration_seconds),
        );
        lease.set(&["spec", "acquireTime"], time(self.acquired));
        lease.set(&["spec", "renewTime"], time(self.renewed));
        lease.set(
            &["spec", "leaseTransitions"],
            Node::number(self.transitions),
        );
        // UPSTREAM: a candidate that does not take part in coordinated election drops its marks.
        for (field, value) in [
            ("preferredHolder", &self.preferred),
            ("strategy", &self.strategy),
        ] {
            match value {
                Some(value) => lease.set(&["spec", field], Node::text(value)),
                None => drop(lease.remove(&["spec", field])),
            }
        }
    }
}

async fn within(
    timeout: Duration,
    request: impl Future<Output = Result<Bytes, client::Error>>,
) -> Result<Bytes, Error> {
    match tokio::time::timeout(timeout, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::Timeout(timeout)),
    }
}

#[derive(Deserialize)]
struct View {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: Uid,
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<MicroTime>,
    renew_time: Option<MicroTime>,
    lease_transitions: Option<i64>,
    strategy: Option<String>,
    preferred_holder: Option<String>,
}

impl From<Spec> for Record {
    fn from(spec: Spec) -> Record {
        Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or(0),
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            transitions: spec.lease_transitions.unwrap_or(0),
            strategy: spec.strategy,
            preferred: spec.preferred_holder.filter(|name| !name.is_empty()),
        }
    }
}
