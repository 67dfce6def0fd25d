//! Informers: one stream per kind, shared by all who read it.
//!
//! An informer keeps a [`Store`] in step with the API server and notifies its listeners of changes.
//! Listeners run inline, right after the store has changed: there is no buffer between them and the
//! stream that could grow. They must be quick, and they are: a trigger maps a change to keys.

mod backoff;
mod freshness;
mod metadata;
mod reflector;
mod registry;
mod streams;

#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use api::{DecodeError, Resource, ResourceType, Rng};
use bytes::Bytes;
use client::{Client, Encoding};
use tokio::time::Instant;

use crate::latch::Latch;
use crate::mutation;
use crate::stop::Stop;
use crate::store::{Index, Store};
use freshness::Freshness;

pub use metadata::{MetadataChange, MetadataInformer, MetadataListener};
use reflector::Target;
pub use registry::{Informers, Synced};
pub use streams::{MetadataStream, MetadataStreams};

/// What happened to one object.
pub enum Change<'a, K> {
    Added(&'a Arc<K>),
    /// Both states; on a resync they are the same allocation.
    Updated {
        old: &'a Arc<K>,
        new: &'a Arc<K>,
    },
    /// The last state we knew. It may be older than the one that was deleted when the deletion was
    /// only noticed by a new listing.
    Deleted(&'a Arc<K>),
}

impl<'a, K> Change<'a, K> {
    /// The newest state we know.
    pub fn object(&self) -> &'a Arc<K> {
        match self {
            Change::Added(object) | Change::Deleted(object) => object,
            Change::Updated { new, .. } => new,
        }
    }
}

type Listener<K> = Arc<dyn Fn(Change<'_, K>) + Send + Sync>;

pub struct Informer<K> {
    resource: ResourceType,
    /// Asks the server for metadata alone; the view must need no more.
    metadata_only: bool,
    store: Arc<Store<K>>,
    listeners: Mutex<Arc<[Listener<K>]>>,
    synced: Latch,
    freshness: Freshness,
}

/// How a stream behaves; the same for all informers of a process.
#[derive(Clone)]
pub struct StreamOptions {
    pub rng: Rng,
    /// Listeners hear of every object again after this long.
    pub resync: Option<Duration>,
}

impl<K: Resource> Informer<K> {
    pub fn new() -> Informer<K> {
        Informer::of(K::TYPE, false)
    }

    /// For a view that fits many kinds.
    pub fn of(resource: ResourceType, metadata_only: bool) -> Informer<K> {
        Informer {
            resource,
            metadata_only,
            store: Arc::new(Store::new()),
            listeners: Mutex::new(Arc::from([])),
            synced: Latch::default(),
            freshness: Freshness::default(),
        }
    }

    pub fn store(&self) -> &Arc<Store<K>> {
        &self.store
    }

    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    pub fn add_index(&self, index: &Index<K>) {
        self.store.add_index(index);
    }

    /// Adds a listener. One that is added late gets all that is cached, as additions (and may
    /// hear of an object twice).
    pub fn on_change(&self, listener: impl Fn(Change<'_, K>) + Send + Sync + 'static) {
        let listener: Listener<K> = Arc::new(listener);
        {
            let mut held = self.lock_listeners();
            *held = held.iter().cloned().chain([listener.clone()]).collect();
        }
        for object in self.store.list() {
            listener(Change::Added(&object));
        }
    }

    /// Forgets all listeners: those who stop to act stop to listen.
    pub fn clear_listeners(&self) {
        *self.lock_listeners() = Arc::from([]);
    }

    pub fn is_synced(&self) -> bool {
        self.synced.is_set()
    }

    pub fn synced(&self) -> Synced {
        Synced::new(
            self.resource.to_string(),
            self.synced.clone(),
            self.freshness.clone(),
        )
    }

    /// From here on the store counts as synced only when it is as new as this moment.
    pub fn demand_fresh(&self, since: Instant) {
        self.freshness.demand(since);
    }

    /// Keeps the store in step until the signal comes.
    pub async fn run(&self, client: Client, options: StreamOptions, stop: Stop) {
        keep_in_step(self, client, options, stop).await;
    }

    fn decode(bytes: &Bytes, encoding: Encoding) -> Result<K, DecodeError> {
        match encoding {
            Encoding::Json => K::decode(bytes),
            Encoding::Protobuf => K::decode_protobuf(bytes),
        }
    }

    /// Stores an object and notifies the listeners, unless nothing changed that they could read.
    fn put(&self, object: K) {
        let new = Arc::new(object);
        match self.store.put(new.clone()) {
            None => self.notify(|| Change::Added(&new)),
            Some(old) if *old == *new => {}
            Some(_)
                if mutation::on("drop-updates-of-terminating") && new.meta().is_terminating() => {}
            // Deleted and recreated between two looks: these are two objects.
            Some(old) if old.meta().uid != new.meta().uid => {
                self.notify(|| Change::Deleted(&old));
                self.notify(|| Change::Added(&new));
            }
            Some(old) => self.notify(|| Change::Updated {
                old: &old,
                new: &new,
            }),
        }
    }

    /// Removes an object; `last` is its final state where the server sent one.
    fn remove(&self, last: K) {
        let meta = last.meta();
        let version = meta.resource_version;
        if mutation::on("keep-deleted-in-cache") {
            return;
        }
        let known = self.store.remove(&meta.namespace, &meta.name);
        self.store.advance(version);
        if known.is_some() {
            let last = Arc::new(last);
            self.notify(|| Change::Deleted(&last));
        }
    }

    fn notify<'a>(&self, change: impl Fn() -> Change<'a, K>)
    where
        K: 'a,
    {
        let listeners = self.lock_listeners().clone();
        for listener in listeners.iter() {
            listener(change());
        }
    }

    fn lock_listeners(&self) -> MutexGuard<'_, Arc<[Listener<K>]>> {
        self.listeners.lock()
    }
}

impl<K: Resource> Target for Informer<K> {
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn metadata_only(&self) -> bool {
        self.metadata_only
    }

    fn protobuf(&self) -> bool {
        K::PROTOBUF
    }

    fn is_synced(&self) -> bool {
        self.synced.is_set()
    }

    fn upsert(&self, object: &Bytes, encoding: Encoding) -> Result<u64, DecodeError> {
        let object = Self::decode(object, encoding)?;
        let revision = object.meta().resource_version;
        self.put(object);
        Ok(revision)
    }

    fn delete(&self, object: &Bytes, encoding: Encoding) -> Result<u64, DecodeError> {
        let object = Self::decode(object, encoding)?;
        let revision = object.meta().resource_version;
        self.remove(object);
        Ok(revision)
    }

    fn begin_relist(&self) {
        self.store.begin_relist();
    }

    fn end_relist(&self, revision: u64, asked_at: Instant) {
        self.store.reset_version(revision);
        for gone in self.store.end_relist() {
            if !mutation::on("drop-synthetic-deletes") {
                self.notify(|| Change::Deleted(&gone));
            }
        }
        self.synced.set();
        self.freshness.prove(asked_at);
    }

    fn advance(&self, revision: u64) {
        self.store.advance(revision);
    }

    fn resync(&self) {
        for object in self.store.list() {
            self.notify(|| Change::Updated {
                old: &object,
                new: &object,
            });
        }
    }

    fn len(&self) -> usize {
        self.store.len()
    }

    fn revision(&self) -> u64 {
        self.store.resource_version()
    }

    fn freshness(&self) -> &Freshness {
        &self.freshness
    }
}

/// What [`Informer::run`] does for any kind.
async fn keep_in_step(target: &dyn Target, client: Client, options: StreamOptions, stop: Stop) {
    stop.or(reflector::run(target, &client, &options)).await;
}

impl<K: Resource> Default for Informer<K> {
    fn default() -> Informer<K> {
        Informer::new()
    }
}
