//! Repairs the record of cluster IPs at the start: what a Service has is marked as taken, and what no Service has is
//! free. Mirrors `pkg/registry/core/service/ipallocator/controller/repairip.go`, which also looks at every change and tells
//! of it in events. Here writes of Services keep both in step, and a marker that somebody deletes is missing until the next
//! start.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::{ADDRESS_ALLOCATOR, ADDRESS_MANAGED_BY};
use serde_json::Value;

use crate::admission::{address_marker, cluster_ips};
use crate::fields::{entry, text};
use crate::kinds::{self, Kind};
use crate::storage::Transaction;

/// What to put and what to remove; markers want a uid and a time.
pub(crate) struct Repair {
    pub(crate) kind: Arc<Kind>,
    pub(crate) missing: Vec<Value>,
    pub(crate) leaked: Vec<String>,
}

pub(crate) fn repair(transaction: &Transaction<'_>) -> Option<Repair> {
    let services = kinds::find("", "Service")?;
    let kind = kinds::find("networking.k8s.io", "IPAddress")?;
    let mut owners: BTreeMap<String, (String, String)> = BTreeMap::new();
    for stored in transaction.list(services, "") {
        let service = stored.value(services);
        let of = |path: &str| text(&service, path).to_owned();
        for address in cluster_ips(&service) {
            // Of two Services with one address the first keeps it.
            let owner = (of("metadata.namespace"), of("metadata.name"));
            owners.entry(address).or_insert(owner);
        }
    }
    let mut leaked = Vec::new();
    for stored in transaction.list(kind, "") {
        let marker = stored.value(kind);
        let name = text(&marker, "metadata.name");
        let by = entry(&marker, "metadata.labels", ADDRESS_MANAGED_BY);
        if by != Some(ADDRESS_ALLOCATOR) {
            continue;
        }
        let parent = (
            text(&marker, "spec.parentRef.namespace").to_owned(),
            text(&marker, "spec.parentRef.name").to_owned(),
        );
        match owners.get(name) {
            Some(owner) if *owner == parent => {
                owners.remove(name);
            }
            _ => leaked.push(name.to_owned()),
        }
    }
    let missing = owners.iter();
    let missing = missing
        .filter_map(|(address, (namespace, name))| address_marker(address, namespace, name))
        .collect();
    Some(Repair {
        kind: kind.clone(),
        missing,
        leaked,
    })
}
