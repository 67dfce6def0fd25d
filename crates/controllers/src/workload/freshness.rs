//! Are the caches at least as new as our own writes?
//!
//! A reconcile on an older cache would do again what it has just done, so it is put back. Each workload
//! controller has a gate that turns this off, and counts how often it happened.

use api::{Gate, Key, Resource, ResourceType};
use prometheus::IntCounterVec;
use runtime::metrics::Stability;
use runtime::{Error, Store, Written};

use crate::Tools;

pub struct Freshness {
    enabled: bool,
    skips: IntCounterVec,
}

/// What was written of one kind, and how far its cache is.
pub struct Cached<'a> {
    written: &'a Written,
    resource_version: u64,
    kind: ResourceType,
}

impl<'a> Cached<'a> {
    pub fn of<K: Resource>(written: &'a Written, store: &Store<K>) -> Cached<'a> {
        Cached {
            written,
            resource_version: store.resource_version(),
            kind: K::TYPE,
        }
    }
}

impl Freshness {
    /// `family` is upstream's name for the count of syncs that were put back.
    pub fn new(tools: &Tools, gate: Gate, family: &str) -> Freshness {
        Freshness {
            enabled: tools.gates.enabled(gate),
            skips: tools.metrics.counter(
                family,
                "How often an object was put back because a cache was behind our own writes",
                Stability::Alpha,
                &["group", "resource"],
            ),
        }
    }

    /// An error that puts the key back if one of the caches has not seen what was written for it.
    pub fn check<const N: usize>(&self, key: &Key, caches: [Cached<'_>; N]) -> Result<(), Error> {
        if !self.enabled {
            return Ok(());
        }
        let behind = |cached: &Cached<'_>| !cached.written.seen(key, cached.resource_version);
        let Some(Cached { kind, .. }) = caches.into_iter().find(behind) else {
            return Ok(());
        };
        self.skips
            .with_label_values(&[&*kind.group, &*kind.plural])
            .inc();
        Err(Error::Stale {
            resource: kind.plural.into(),
        })
    }
}
