//! Informers of any kind, seen by the metadata of their objects alone.

use std::sync::Arc;

use api::{Meta, Resource};

use super::{Change, Informer, Synced};

/// What happened to an object of any kind.
#[derive(Clone, Copy)]
pub enum MetadataChange<'a> {
    Added(&'a Meta),
    Updated {
        old: &'a Meta,
        new: &'a Meta,
    },
    /// The same as before, once more.
    Resynced(&'a Meta),
    Deleted(&'a Meta),
}

pub type MetadataListener = Box<dyn Fn(MetadataChange<'_>) + Send + Sync>;

/// Whoever is interested in objects of all kinds shares the streams of those who need more of them.
pub trait MetadataInformer: Send + Sync {
    fn on_metadata_change(&self, listener: MetadataListener);
    fn find_metadata(&self, namespace: &str, name: &str) -> Option<Meta>;
    /// Of all objects.
    fn all_metadata(&self) -> Vec<Meta>;
    fn metadata_synced(&self) -> Synced;
    fn count_in_namespace(&self, namespace: &str) -> usize;
    /// The revision of the server that the cache has reached.
    fn revision(&self) -> u64;
}

impl<K: Resource> MetadataInformer for Informer<K> {
    fn on_metadata_change(&self, listener: MetadataListener) {
        self.on_change(move |change| {
            listener(match change {
                Change::Added(new) => MetadataChange::Added(new.meta()),
                Change::Updated { old, new } if Arc::ptr_eq(old, new) => {
                    MetadataChange::Resynced(new.meta())
                }
                Change::Updated { old, new } => MetadataChange::Updated {
                    old: old.meta(),
                    new: new.meta(),
                },
                Change::Deleted(last) => MetadataChange::Deleted(last.meta()),
            });
        });
    }

    fn find_metadata(&self, namespace: &str, name: &str) -> Option<Meta> {
        Some(self.store().find(namespace, name)?.meta().clone())
    }

    fn all_metadata(&self) -> Vec<Meta> {
        let objects = self.store().list();
        objects.iter().map(|object| object.meta().clone()).collect()
    }

    fn metadata_synced(&self) -> Synced {
        self.synced()
    }

    fn count_in_namespace(&self, namespace: &str) -> usize {
        self.store().count_in_namespace(namespace)
    }

    fn revision(&self) -> u64 {
        self.store().resource_version()
    }
}
