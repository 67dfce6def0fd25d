//! Builds a controller's loop: for this kind, owning that one, watching a third.
//!
//! ```text
//! Loop::of::<ReplicaSet>(context)
//!     .queue("replicaset")
//!     .owns(Owns::<Pod, _>::selected_by(ReplicaSet::selects).expecting(&expectations))
//!     .watches::<Node>(move |change, queue| …)
//!     .workers(5)
//!     .reconciler(ReplicaSets { … })
//! ```
//! Queue, indexes, triggers and the caches that have to be complete first follow from it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use api::{Key, Resource};
use client::writes::State;

use crate::context::Context;
use crate::controller::{Controller, LoopKey, ObjectOf, Reconcile, Tick};
use crate::decisions::Report;
use crate::informer::{Change, Synced};
use crate::queue::Queue;
use crate::rate_limit::Backoff;
use crate::repeats::Repeats;
use crate::triggers::{Owned, Owns, by_controller};

/// A loop that is being built: for objects of kind `O` (or none in particular), on keys of type `K`.
pub struct Loop<O = (), K = Key> {
    context: Context,
    queue: Arc<Queue<K>>,
    workers: usize,
    retries_max: Option<u32>,
    period: Option<Duration>,
    waits_for: Vec<Synced>,
    object: Option<ObjectOf<K>>,
    kind: PhantomData<fn() -> O>,
}

impl Loop {
    /// A loop over the objects of a kind, each of which is woken by any change of itself.
    pub fn of<O: Resource>(context: &Context) -> Loop<O> {
        Loop::on_objects::<O>(context, Backoff::DEFAULT).watches_itself()
    }

    /// A loop over the objects of a kind that does not wake itself by every change, or has a back-off of its own.
    pub fn on_objects<O: Resource>(context: &Context, backoff: Backoff) -> Loop<O> {
        let objects = context.informers.store::<O>();
        let mut built = Loop::new(context, backoff);
        built.object = Some(Arc::new(move |key: &Key| {
            objects.get(key).map(|object| State::of(object.meta()))
        }));
        built
    }

    /// A loop on keys that only its watches, and others, put into the queue.
    pub fn on<K: LoopKey>(context: &Context, backoff: Backoff) -> Loop<(), K> {
        Loop::new(context, backoff)
    }

    /// Work that is due every so often and is about no object in particular; the first time after `first`.
    pub fn every(context: &Context, period: Duration, first: Duration) -> Loop<(), Tick> {
        let mut built = Loop::new(context, Backoff::DEFAULT);
        built.period = Some(period);
        built.queue.add_after(Tick, first);
        built
    }

    /// Work that is done before the other loops of a controller begin, for [`Runnable::prepared_by`].
    ///
    /// [`Runnable::prepared_by`]: crate::Runnable::prepared_by
    pub fn once(context: &Context) -> Loop<(), Tick> {
        let built = Loop::new(context, Backoff::DEFAULT);
        built.queue.add(Tick);
        built
    }
}

impl<O: Resource> Loop<O> {
    fn watches_itself(self) -> Loop<O> {
        self.watches::<O>(|change, queue| queue.add(change.object().key()))
    }

    /// The objects of `O` own objects of `C`: a change of one wakes its owner, and an orphan every owner that
    /// selects it.
    #[must_use]
    pub fn owns<C: Resource>(mut self, owns: Owns<C, O>) -> Loop<O> {
        let owned = self.context.informers.of::<C>();
        owned.add_index(&by_controller());
        self.waits_for.push(owned.synced());
        let trigger = Owned {
            owners: self.context.informers.store::<O>(),
            queue: self.queue.clone(),
            owns,
        };
        owned.on_change(move |change| trigger.on_change(change));
        self
    }
}

impl<O, K: LoopKey> Loop<O, K> {
    fn new(context: &Context, backoff: Backoff) -> Loop<O, K> {
        Loop {
            context: context.clone(),
            queue: Arc::new(Queue::new(backoff)),
            workers: 1,
            retries_max: None,
            period: None,
            waits_for: Vec::new(),
            object: None,
            kind: PhantomData,
        }
    }

    /// Upstream's name for the queue: it is measured under it.
    #[must_use]
    pub fn queue(self, name: &'static str) -> Loop<O, K> {
        self.queue.measure(&self.context.metrics, name);
        self
    }

    /// Changes of another kind wake what the closure puts into the queue.
    #[must_use]
    pub fn watches<C: Resource>(
        mut self,
        wake: impl Fn(Change<'_, C>, &Queue<K>) + Send + Sync + 'static,
    ) -> Loop<O, K> {
        let (informer, queue) = (self.context.informers.of::<C>(), self.queue.clone());
        self.waits_for.push(informer.synced());
        informer.on_change(move |change| wake(change, &queue));
        self
    }

    /// As [`watches`](Loop::watches), where a change decides something before any reconcile: it goes on record like what
    /// the reconciler decides.
    #[must_use]
    pub fn decides_on<C: Resource>(
        self,
        wake: impl Fn(Change<'_, C>, &Queue<K>, &Report<'_>) + Send + Sync + 'static,
    ) -> Loop<O, K> {
        let (name, clock) = (self.context.controller, self.context.clock.clone());
        let decisions = self.context.decisions.clone();
        self.watches::<C>(move |change, queue| {
            wake(change, queue, &Report::new(name, &decisions, clock.now()));
        })
    }

    /// The reconciler reads this kind; its changes enqueue nothing.
    #[must_use]
    pub fn reads<C: Resource>(mut self) -> Loop<O, K> {
        self.waits_for
            .push(self.context.informers.of::<C>().synced());
        self
    }

    #[must_use]
    pub fn workers(mut self, workers: usize) -> Loop<O, K> {
        self.workers = workers;
        self
    }

    /// A key that failed this often in a row is left alone until something changes.
    #[must_use]
    pub fn retries(mut self, most: u32) -> Loop<O, K> {
        self.retries_max = Some(most);
        self
    }

    /// Where others put keys into this loop's queue.
    pub fn handle(&self) -> Arc<Queue<K>> {
        self.queue.clone()
    }

    pub fn reconciler(self, reconciler: impl Reconcile<K>) -> Controller<K> {
        let context = self.context;
        Controller {
            name: context.controller,
            queue: self.queue,
            reconciler: Arc::new(reconciler),
            workers: self.workers,
            retries_max: self.retries_max,
            period: self.period,
            waits_for: self.waits_for,
            metrics: context.metrics.controller(context.controller),
            decisions: context.decisions,
            repeats: Repeats::new(),
            object: self.object,
            recorder: Some(context.recorder),
            clock: context.clock,
        }
    }
}
