//! One informer per kind for the whole process.

use parking_lot::{Mutex, MutexGuard};
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Resource, ResourceType};
use client::Client;
use tokio::time::Instant;

use super::freshness::Freshness;
use super::metadata::MetadataInformer;
use super::{Informer, StreamOptions, Target, keep_in_step};
use crate::latch::Latch;
use crate::spawn::{Task, spawn};
use crate::stop::Stop;
use crate::store::Store;

/// The informers that controllers share. Ask for a kind while building a controller; all that were
/// asked for run from [`Informers::start`] on.
pub struct Informers {
    client: Client,
    options: StreamOptions,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    by_kind: BTreeMap<&'static str, Entry>,
    running: Option<Stop>,
    tasks: Vec<Task<()>>,
}

struct Entry {
    type_id: TypeId,
    resource: ResourceType,
    by_metadata: Arc<dyn MetadataInformer>,
    informer: Arc<dyn Any + Send + Sync>,
    start: Box<dyn Fn(Stop) -> Task<()> + Send + Sync>,
    clear_listeners: Box<dyn Fn() + Send + Sync>,
    demand_fresh: Box<dyn Fn(Instant) + Send + Sync>,
    started: bool,
    synced: Synced,
}

impl Informers {
    pub fn new(client: Client, options: StreamOptions) -> Informers {
        Informers {
            client,
            options,
            held: Mutex::default(),
        }
    }

    /// The informer for a kind, made when it is asked for the first time.
    pub fn of<K: Resource>(&self) -> Arc<Informer<K>> {
        let mut held = self.lock();
        if let Some(informer) = held.find::<K>() {
            return informer;
        }
        let informer = Arc::new(Informer::<K>::new());
        let mut entry = self.entry(&informer);
        if let Some(stop) = &held.running {
            let task = (entry.start)(stop.clone());
            entry.started = true;
            held.tasks.push(task);
        }
        held.by_kind.insert(std::any::type_name::<K>(), entry);
        informer
    }

    /// The informer of a resource, if any controller uses one: for readers of metadata alone.
    pub fn of_resource(&self, resource: &ResourceType) -> Option<Arc<dyn MetadataInformer>> {
        let held = self.lock();
        let mut entries = held.by_kind.values();
        let found = entries.find(|entry| entry.resource == *resource)?;
        Some(found.by_metadata.clone())
    }

    /// The resources that any controller has asked for.
    pub fn resources(&self) -> Vec<ResourceType> {
        let held = self.lock();
        let entries = held.by_kind.values();
        entries.map(|entry| entry.resource.clone()).collect()
    }

    pub fn store<K: Resource>(&self) -> Arc<Store<K>> {
        self.of::<K>().store().clone()
    }

    fn entry<K: Resource>(&self, informer: &Arc<Informer<K>>) -> Entry {
        let target: Arc<dyn Target> = informer.clone();
        Entry {
            type_id: TypeId::of::<K>(),
            resource: K::TYPE,
            by_metadata: informer.clone(),
            informer: informer.clone(),
            start: starter(target, self.client.clone(), self.options.clone()),
            clear_listeners: {
                let informer = informer.clone();
                Box::new(move || informer.clear_listeners())
            },
            demand_fresh: {
                let informer = informer.clone();
                Box::new(move |since| informer.demand_fresh(since))
            },
            started: false,
            synced: informer.synced(),
        }
    }

    /// Starts every stream that was asked for and does not run yet; later ones start at once.
    pub fn start(&self, stop: &Stop) {
        let mut held = self.lock();
        let Held {
            by_kind,
            tasks,
            running,
        } = &mut *held;
        for entry in by_kind.values_mut().filter(|entry| !entry.started) {
            entry.started = true;
            tasks.push((entry.start)(stop.clone()));
        }
        *running = Some(stop.clone());
    }

    /// Waits until every store holds what the server had when it was listed.
    pub async fn synced(&self) {
        let all: Vec<Synced> = self
            .lock()
            .by_kind
            .values()
            .map(|entry| entry.synced.clone())
            .collect();
        for synced in all {
            synced.wait().await;
        }
    }

    /// Forgets everyone who listens; the stores stay warm. A manager that loses its lease does this,
    /// and builds its controllers anew for the next term.
    pub fn clear_listeners(&self) {
        for entry in self.lock().by_kind.values() {
            (entry.clear_listeners)();
        }
    }

    /// Every store has to be as new as this moment before a controller that waits for it begins. A manager
    /// that takes the lease from another demands this.
    pub fn demand_fresh(&self, since: Instant) {
        for entry in self.lock().by_kind.values() {
            (entry.demand_fresh)(since);
        }
    }

    /// Kinds whose first listing is not complete: for health checks and messages.
    pub fn unsynced(&self) -> Vec<String> {
        self.lock()
            .by_kind
            .values()
            .filter(|entry| !entry.synced.is_done())
            .map(|entry| entry.synced.kind.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }
}

impl Held {
    fn find<K: Resource>(&self) -> Option<Arc<Informer<K>>> {
        let name = std::any::type_name::<K>();
        let entry = self.by_kind.get(name)?;
        assert_eq!(
            entry.type_id,
            TypeId::of::<K>(),
            "two views are both called {name}"
        );
        let informer = entry.informer.clone().downcast();
        Some(informer.unwrap_or_else(|_| unreachable!("the type id was just checked")))
    }
}

/// Starts the stream of one kind.
fn starter(
    target: Arc<dyn Target>,
    client: Client,
    options: StreamOptions,
) -> Box<dyn Fn(Stop) -> Task<()> + Send + Sync> {
    Box::new(move |stop| {
        let (target, client, options) = (target.clone(), client.clone(), options.clone());
        spawn(async move { keep_in_step(&*target, client, options, stop).await })
    })
}

/// Tells when an informer's first listing is complete, and its store as new as was demanded.
#[derive(Clone)]
pub struct Synced {
    kind: String,
    done: Latch,
    freshness: Freshness,
}

impl Synced {
    pub(super) fn new(kind: String, done: Latch, freshness: Freshness) -> Synced {
        Synced {
            kind,
            done,
            freshness,
        }
    }

    /// Is the first listing complete?
    pub fn is_done(&self) -> bool {
        self.done.is_set()
    }

    pub async fn wait(&self) {
        self.done.wait().await;
        self.freshness.met().await;
    }
}
