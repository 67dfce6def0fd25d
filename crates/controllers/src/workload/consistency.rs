//! Are the caches at least as new as our own writes?
//!
//! A reconcile on an older cache would do again what it has just done, so it is put back. Most workload
//! controllers have a gate that turns this off, and count how often it happened.

use std::any::TypeId;

use api::{Gate, Key, Resource, ResourceType};
use prometheus::IntCounterVec;
use runtime::metrics::Stability;
use runtime::{Context, Error, Written};

/// What a controller wrote, by kind, and how far the caches are.
pub struct Consistency {
    enabled: bool,
    skips: Option<IntCounterVec>,
    kinds: Vec<Kind>,
}

struct Kind {
    id: TypeId,
    resource: ResourceType,
    written: Written,
    cached: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Consistency {
    /// `family` is upstream's name for the count of syncs that were put back.
    pub fn gated(context: &Context, gate: Gate, family: &str) -> Consistency {
        let skips = context.metrics.counter(
            family,
            "How often an object was put back because a cache was behind our own writes",
            Stability::Alpha,
            &["group", "resource"],
        );
        Consistency {
            enabled: context.gates.enabled(gate),
            skips: Some(skips),
            kinds: Vec::new(),
        }
    }

    /// For a controller for which upstream has no gate.
    pub fn always() -> Consistency {
        Consistency {
            enabled: true,
            skips: None,
            kinds: Vec::new(),
        }
    }

    /// Objects of this kind are written too.
    #[must_use]
    pub fn of<K: Resource>(mut self, context: &Context) -> Consistency {
        let store = context.informers.store::<K>();
        self.kinds.push(Kind {
            id: TypeId::of::<K>(),
            resource: K::TYPE,
            written: Written::default(),
            cached: Box::new(move || store.resource_version()),
        });
        self
    }

    /// An error that puts the key back if one of the caches has not seen what was written for it.
    pub fn check(&self, key: &Key) -> Result<(), Error> {
        if !self.enabled {
            return Ok(());
        }
        let behind = |kind: &&Kind| !kind.written.seen(key, (kind.cached)());
        let Some(Kind { resource, .. }) = self.kinds.iter().find(behind) else {
            return Ok(());
        };
        if let Some(skips) = &self.skips {
            let labels = [&*resource.group, &*resource.plural];
            skips.with_label_values(&labels).inc();
        }
        Err(Error::Stale {
            resource: resource.plural.to_string(),
        })
    }

    /// The key has written an object of this kind, which has this revision now.
    pub fn note<K: Resource>(&self, key: &Key, resource_version: u64) {
        self.kind::<K>().note(key, resource_version);
    }

    pub fn kind<K: Resource>(&self) -> &Written {
        let kind = self.kinds.iter().find(|kind| kind.id == TypeId::of::<K>());
        let kind = kind.expect("a controller names the kinds that it writes when it is built");
        &kind.written
    }

    pub fn forget(&self, key: &Key) {
        for kind in &self.kinds {
            kind.written.forget(key);
        }
    }
}
