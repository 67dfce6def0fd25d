//! Keeps the record of cluster IPs: what a Service has is marked as taken, and what no Service has is free.
//!
//! Writes of Services keep both in step. What differs comes from somebody who deletes a marker by hand, or from data of
//! another version or server; it is repaired at the start, soon after a marker has changed, and every few minutes. Mirrors
//! `pkg/registry/core/service/ipallocator/controller/repairip.go`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Time;
use api::kinds::{ADDRESS_ALLOCATOR, ADDRESS_MANAGED_BY};
use serde_json::{Value, json};

use crate::admission::{address_marker, cluster_ips};
use crate::fields::{entry, text};
use crate::kinds::{self, Kind};
use crate::rest::{metadata_mut, stamp};
use crate::server::Shared;
use crate::storage::{Stored, Transaction};

/// UPSTREAM: the reporter of the events.
const REPORTER: &str = "ipallocator-repair-controller";
/// UPSTREAM: everything is looked at again so often.
const PERIOD: Duration = Duration::from_secs(180);
/// Services that come together change many markers: they are looked at together.
const PAUSE: Duration = Duration::from_secs(5);
/// UPSTREAM: so long may a marker be there before its Service.
const GRACE_SECONDS: i64 = 60;

/// What is wrong with the record.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// A Service has an address that is not marked as its own.
    Missing { address: String, service: Owner },
    /// A marker names a Service that does not have the address.
    Leaked { address: String, marker: Value },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    namespace: String,
    name: String,
    uid: String,
}

/// Repairs whatever differs, for ever.
pub(crate) async fn keep_repairing(shared: Arc<Shared>) {
    let Some((services, markers)) = kinds() else {
        return std::future::pending().await;
    };
    let changes = shared.store.changes(markers);
    loop {
        let changed = changes.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        // Looked for without holding up anybody who writes.
        let list = |kind| shared.store.list_newest(kind, "");
        let before = shared.now_seconds() - GRACE_SECONDS;
        if !faults(&list(services), &list(markers), before).is_empty() {
            let repaired: Result<_, ()> = shared.store.write(|transaction| {
                repair(&shared, transaction, before);
                Ok(())
            });
            debug_assert!(repaired.is_ok(), "it cannot fail");
        }
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Repairs what differs now. Markers of Services that are not there stay if they came at this second or later.
pub(crate) fn repair(shared: &Shared, transaction: &mut Transaction<'_>, before: i64) {
    let Some((services, markers)) = kinds() else {
        return;
    };
    let list = |kind| transaction.list(kind, "");
    for fault in faults(&list(services), &list(markers), before) {
        tell(shared, transaction, &fault);
        match fault {
            Fault::Leaked { address, .. } => {
                transaction.remove(markers, &address);
            }
            Fault::Missing { address, service } => {
                let marker = address_marker(&address, &service.namespace, &service.name);
                if let Some(mut marker) = marker {
                    metadata_mut(&mut marker);
                    stamp(shared, &mut marker);
                    transaction.put(markers, &address, &marker, None);
                }
            }
        }
    }
}

fn kinds() -> Option<(&'static Arc<Kind>, &'static Arc<Kind>)> {
    let services = kinds::find("", "Service")?;
    Some((services, kinds::find("networking.k8s.io", "IPAddress")?))
}

/// What differs: first what is marked and should not be.
fn faults(services: &[Arc<Stored>], markers: &[Arc<Stored>], before: i64) -> Vec<Fault> {
    let Some((service_kind, marker_kind)) = kinds() else {
        return Vec::new();
    };
    let mut owners: BTreeMap<String, Vec<Owner>> = BTreeMap::new();
    for stored in services {
        let service = stored.value(service_kind);
        let of = |path: &str| text(&service, path).to_owned();
        for address in cluster_ips(&service) {
            owners.entry(address).or_default().push(Owner {
                namespace: of("metadata.namespace"),
                name: of("metadata.name"),
                uid: of("metadata.uid"),
            });
        }
    }
    let mut found = Vec::new();
    for stored in markers {
        let marker = stored.value(marker_kind);
        let address = text(&marker, "metadata.name").to_owned();
        if entry(&marker, "metadata.labels", ADDRESS_MANAGED_BY) != Some(ADDRESS_ALLOCATOR) {
            continue;
        }
        let parent = |member: &str| text(&marker, &format!("spec.parentRef.{member}")).to_owned();
        let (namespace, name) = (parent("namespace"), parent("name"));
        let is_parent = |owner: &Owner| owner.namespace == namespace && owner.name == name;
        match owners.get(&address) {
            Some(held) if held.iter().any(is_parent) => {
                owners.remove(&address);
            }
            None if created_at(&marker) >= before => {}
            _ => found.push(Fault::Leaked { address, marker }),
        }
    }
    // Of several Services with one address that is nobody's the first gets it.
    let missing = owners.into_iter().filter_map(|(address, owners)| {
        let service = owners.into_iter().next()?;
        Some(Fault::Missing { address, service })
    });
    found.extend(missing);
    found
}

fn created_at(marker: &Value) -> i64 {
    let created = Time::parse(text(marker, "metadata.creationTimestamp"));
    created.map_or(i64::MIN, Time::unix)
}

/// The event of a repair, in upstream's words.
fn tell(shared: &Shared, transaction: &mut Transaction<'_>, fault: &Fault) {
    let (regarding, reason, action, note) = match fault {
        Fault::Missing { address, service } => {
            let family = if address.contains(':') {
                "IPv6"
            } else {
                "IPv4"
            };
            let regarding = json!({
                "kind": "Service", "apiVersion": "v1", "namespace": service.namespace, "name": service.name,
                "uid": service.uid,
            });
            let note = format!("Cluster IP [{family}]: {address} is not allocated; repairing");
            (
                regarding,
                "ClusterIPNotAllocated",
                "ClusterIPAllocation",
                note,
            )
        }
        Fault::Leaked { address, marker } => {
            let regarding = json!({
                "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1", "name": address,
                "uid": text(marker, "metadata.uid"),
            });
            let parent = |member: &str| text(marker, &format!("spec.parentRef.{member}"));
            let (namespace, name) = (parent("namespace"), parent("name"));
            let note = format!(
                "IPAddress: {address} for Service {namespace}/{name} appears to have leaked: cleaning up"
            );
            (
                regarding,
                "IPAddressNotAllocated",
                "IPAddressAllocation",
                note,
            )
        }
    };
    let Some(kind) = kinds::find("", "Event") else {
        return;
    };
    let now = shared.clock.now();
    let namespace = match text(&regarding, "namespace") {
        "" => "default",
        namespace => namespace,
    };
    let name = format!(
        "{}.{:x}",
        text(&regarding, "name"),
        now.unix_micros() * 1000
    );
    let key = format!("{namespace}/{name}");
    let mut event = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": regarding, "reason": reason, "message": note, "source": {}, "firstTimestamp": null,
        "lastTimestamp": null, "type": "Warning", "eventTime": now.to_string(), "action": action,
        "reportingComponent": REPORTER, "reportingInstance": REPORTER,
    });
    metadata_mut(&mut event);
    stamp(shared, &mut event);
    let stored = transaction.put(kind, &key, &event, None);
    shared
        .expiry
        .written(shared, transaction, &stored.key, stored.revision);
}
