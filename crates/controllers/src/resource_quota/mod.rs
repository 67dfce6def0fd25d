//! How much of each ResourceQuota is used. A small controller: two loops over quotas, and one that asks for new kinds.
//!
//! **Converges**: `status.hard` of every quota says what its spec says, and `status.used` the sum of what the objects of
//! its namespace use that its scopes choose. What an object uses is `api::quota`'s to say, by whose rules the API server
//! refuses what does not fit.
//!
//! **Triggers**: a new quota, and one whose `spec.hard` changes; objects that go, and pods, services and claims that use
//! less or move to another scope; objects that come and that the last count may lack, a second later; time, where a pod
//! that is being deleted is about to stop counting; everything every `--resource-quota-sync-period`. Kinds come and go
//! with their definitions: discovery is asked every 30 seconds, and a kind is watched while a quota names it.
//!
//! **Writes**: puts the status of quotas.
//!
//! **Mirrors** `pkg/controller/resourcequota`, `pkg/quota/v1` and `apiserver/pkg/quota/v1`. Quotas that nobody has
//! counted go into a queue of their own, so that a namespace opens up while a full recount is under way.
//!
//! **Deliberate differences**: a kind is watched only while a quota names it, upstream watches all there are. Objects
//! that come within five seconds of a count, or are older than it, enqueue their quotas too: if we counted before our cache
//! had seen them, upstream's `used` is too small until the next full recount. Nor is `used` lowered while something that
//! was reserved may be on its way to the cache, but not for longer than two seconds ([`reservations`]). A kind that begins to
//! be served is counted at once. There is no queue of changes (`resource_quota_controller_resource_changes`) between the
//! watches and the quotas.

mod actions;
mod count;
mod invariants;
mod monitors;
mod oracle;
mod plan;
mod reason;
mod reservations;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use api::collections::HashSet;
use api::decision::Explain;
use api::kinds::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use api::quota::{self, Evaluator, Item};
use api::{Gate, Key, Meta, MicroTime, ObjectId, Resource};
use parking_lot::Mutex;
use runtime::controller::Tick;
use runtime::informer::{MetadataChange, MetadataListener, MetadataStreams};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Error, Loop, Next, Queue, Reconcile, Report, Runnable, Store};

use crate::oracle::View;
use crate::workload::Consistency;
use crate::workload::status::put_status;
use crate::{Descriptor, discovery};

pub use count::{Count, Usage};
pub use invariants::{converged, safe};
pub use oracle::ResourceQuotaOracle;
pub use plan::{Plan, plan};
pub use reason::Reason;

use count::Recount;
use monitors::Monitors;
use reservations::Reservations;

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[
        View::of::<ResourceQuota>(),
        View::of::<Pod>(),
        View::of::<Service>(),
        View::of::<PersistentVolumeClaim>(),
    ],
    decides_about: &[ResourceQuota::TYPE],
    queues: &["resourcequota_primary", "resourcequota_priority"],
    build: Some(|ctx| {
        let config = &ctx.config.resource_quota_controller;
        let workers = ctx.workers(config.concurrent_syncs);
        let resync = config.sync_period.to_std();
        Some(controller(ctx, &ctx.environment.streams, workers, resync))
    }),
    oracle: Some(|| Box::<ResourceQuotaOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "resourcequota-controller",
        "resourcequota",
        "resourcequota-controller",
    )
};

/// How often discovery is asked for kinds that came or went. Upstream's number.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);

/// How long the first answer of discovery is waited for: without it pods and services can still be counted.
const FIRST_DISCOVERY: Duration = Duration::from_secs(30);

/// What comes was counted by the API server. A look at whether we agree may wait, and be one look at many.
const AFTER_ADDITION: Duration = Duration::from_secs(1);

/// How often a cache that is behind the quota is looked at again.
const STALE_RETRY: Duration = Duration::from_millis(100);

/// `streams` are those of kinds that nobody caches; `resync` is none for never.
pub fn controller(
    context: &Context,
    streams: &MetadataStreams,
    workers: usize,
    resync: Duration,
) -> Runnable {
    let primary = Loop::on::<Key>(context, Backoff::DEFAULT).queue("resourcequota_primary");
    let priority = Loop::on::<Key>(context, Backoff::DEFAULT).queue("resourcequota_priority");
    let quotas = Arc::new_cyclic(|this| Quotas {
        context: context.clone(),
        quotas: context.informers.store::<ResourceQuota>(),
        pods: context.informers.store::<Pod>(),
        services: context.informers.store::<Service>(),
        claims: context.informers.store::<PersistentVolumeClaim>(),
        primary: primary.handle(),
        priority: priority.handle(),
        monitors: Mutex::new(Monitors::new(context.informers.clone(), streams.clone())),
        extended: context.gates.enabled(Gate::DRAExtendedResource),
        busy: Mutex::default(),
        reservations: Reservations::default(),
        consistency: Consistency::always().of::<ResourceQuota>(context),
        this: this.clone(),
    });
    let on_quota = Arc::downgrade(&quotas);
    let primary = primary
        .watches::<ResourceQuota>(move |change, _| {
            on_quota
                .upgrade()
                .iter()
                .for_each(|it| it.on_quota(&change));
        })
        .watches::<Pod>(on_change(&quotas, "pods", |pod| Item::Pod(pod)))
        .watches::<Service>(on_change(&quotas, "services", |service| {
            Item::Service(service)
        }))
        .watches::<PersistentVolumeClaim>(on_change(&quotas, "persistentvolumeclaims", |claim| {
            Item::Claim(claim)
        }))
        .workers(workers);
    let priority = priority
        .reads::<ResourceQuota>()
        .reads::<Pod>()
        .reads::<Service>()
        .reads::<PersistentVolumeClaim>()
        .workers(workers);
    let discovering = Loop::every(context, DISCOVERY_PERIOD, DISCOVERY_PERIOD);
    let mut loops = vec![
        primary.reconciler(Syncs(quotas.clone())).into(),
        priority.reconciler(Syncs(quotas.clone())).into(),
        discovering.reconciler(Discovers(quotas.clone())).into(),
    ];
    if !resync.is_zero() {
        let recounting = Loop::every(context, resync, resync);
        loops.push(recounting.reconciler(Recounts(quotas.clone())).into());
    }
    let preparing = Loop::once(context).reconciler(Prepares(quotas));
    Runnable::together(context.controller, loops).prepared_by(preparing)
}

/// What enqueues the quotas of a namespace when a pod, a service or a claim changes.
fn on_change<K: Resource>(
    quotas: &Arc<Quotas>,
    plural: &str,
    item: fn(&K) -> Item<'_>,
) -> impl Fn(Change<'_, K>, &Queue) + Send + Sync + 'static {
    let (quotas, evaluator) = (
        Arc::downgrade(quotas),
        Evaluator::of("", plural).gated(quotas.context.gates),
    );
    move |change, _| {
        let Some(quotas) = quotas.upgrade() else {
            return;
        };
        let namespace = &change.object().meta().namespace;
        match change {
            Change::Added(object) => quotas.on_addition(object.meta(), &evaluator),
            Change::Deleted(_) => quotas.enqueue(namespace, &evaluator),
            Change::Updated { old, new } => {
                let now = quotas.context.clock.now();
                match count::recount(&evaluator, &item(old), &item(new), now) {
                    Recount::Never => {}
                    Recount::Now => quotas.enqueue(namespace, &evaluator),
                    Recount::At(until) => quotas.enqueue_after(namespace, &evaluator, until, now),
                }
            }
        }
    }
}

pub struct Quotas {
    context: Context,
    quotas: Arc<Store<ResourceQuota>>,
    pods: Arc<Store<Pod>>,
    services: Arc<Store<Service>>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    primary: Arc<Queue>,
    priority: Arc<Queue>,
    monitors: Mutex<Monitors>,
    /// Devices count in the notation of extended resources, too.
    extended: bool,
    /// A quota may be in both queues, and is in one hand.
    busy: Mutex<HashSet<Key>>,
    reservations: Reservations,
    consistency: Consistency,
    this: Weak<Quotas>,
}

/// A quota that is in hand, until this goes: also if the sync of it panics.
struct Held<'a>(&'a Mutex<HashSet<Key>>, &'a Key);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(self.1);
    }
}

struct Prepares(Arc<Quotas>);
struct Syncs(Arc<Quotas>);
struct Discovers(Arc<Quotas>);
struct Recounts(Arc<Quotas>);

impl Reconcile<Tick> for Prepares {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        self.0.discover_first().await;
        Ok(Next::AwaitChange)
    }
}

impl Reconcile for Syncs {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(_held) = self.0.hold(key) else {
            return Ok(Next::After(STALE_RETRY));
        };
        self.0.sync(key, report).await
    }
}

impl Reconcile<Tick> for Discovers {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        self.0.discover().await;
        Ok(Next::AwaitChange)
    }
}

impl Reconcile<Tick> for Recounts {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        for quota in self.0.quotas.list() {
            self.0.primary.add(quota.key());
        }
        Ok(Next::AwaitChange)
    }
}

impl Quotas {
    /// None if the other loop has it in hand.
    fn hold<'a>(&'a self, key: &'a Key) -> Option<Held<'a>> {
        let is_free = self.busy.lock().insert(key.clone());
        is_free.then(|| Held(&self.busy, key))
    }

    /// Finds out what can be counted, but does not wait for it for ever.
    async fn discover_first(&self) {
        let deadline = tokio::time::Instant::now() + FIRST_DISCOVERY;
        while !self.discover().await && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Asks what is served. Kinds that are new are counted where quotas name them; of those that no quota names any
    /// more the watch is closed. False when the server could not be asked.
    async fn discover(&self) -> bool {
        let before = self.monitors.lock().served();
        let Some(known) = discovery::refresh_or_warn(&self.context.client, &before).await else {
            return false;
        };
        let quotas = self.quotas.list();
        let mut monitors = self.monitors.lock();
        let new = monitors.update(known);
        monitors.keep(quotas.iter().flat_map(|quota| quota.spec.hard.keys()));
        drop(monitors);
        for quota in quotas {
            let mut named = quota.spec.hard.keys();
            if named.any(|name| quota::counted_kind(name).is_some_and(|kind| new.contains(kind))) {
                self.primary.add(quota.key());
            }
        }
        true
    }

    fn on_quota(&self, change: &Change<'_, ResourceQuota>) {
        if !matches!(change, Change::Deleted(_)) {
            let now = self.context.clock.now();
            self.reservations.on_seen(change.object(), now);
        }
        match change {
            Change::Added(quota) => self.add(quota),
            // What the API server has reserved is none of our business, nor is what we wrote.
            Change::Updated { old, new } if old.spec.hard == new.spec.hard => {}
            Change::Updated { new, .. } => self.add(new),
            Change::Deleted(quota) => {
                self.reservations.forget(&quota.key());
                self.consistency.forget(&quota.key());
            }
        }
    }

    /// One that nobody has counted yet comes first: until then the API server refuses everything.
    fn add(&self, quota: &ResourceQuota) {
        let monitors = self.monitors.lock();
        let missing = plan::is_uncounted(quota, |name| monitors.can_count(name));
        drop(monitors);
        let queue = if missing {
            &self.priority
        } else {
            &self.primary
        };
        queue.add(quota.key());
    }

    /// Something of a kind goes, or uses less.
    fn enqueue(&self, namespace: &str, evaluator: &Evaluator) {
        for quota in self.tracking(namespace, evaluator) {
            self.primary.add(quota.key());
        }
    }

    /// A pod that is being deleted counts until then, and gives nothing back before it is gone.
    fn enqueue_after(
        &self,
        namespace: &str,
        evaluator: &Evaluator,
        until: MicroTime,
        now: MicroTime,
    ) {
        for quota in self.tracking(namespace, evaluator) {
            self.primary
                .add_after(quota.key(), plan::after_end(until, now));
        }
    }

    /// Something of a kind comes. The API server has reserved quota for it, and one look at many may wait; mostly there is
    /// nothing to look at.
    fn on_addition(&self, meta: &Meta, evaluator: &Evaluator) {
        let now = self.context.clock.now();
        let revision = meta.resource_version;
        for quota in self.tracking(&meta.namespace, evaluator) {
            let key = quota.key();
            if self.reservations.may_lack(&key, revision, now) {
                self.primary.add_after(key, AFTER_ADDITION);
            }
        }
    }

    /// The quotas of a namespace that track something of a kind.
    fn tracking(&self, namespace: &str, evaluator: &Evaluator) -> Vec<Arc<ResourceQuota>> {
        let mut quotas = self.quotas.in_namespace(namespace);
        if !quotas.is_empty() {
            let classes = self.monitors.lock().classes(self.extended);
            quotas.retain(|quota| {
                let mut hard = quota.spec.hard.keys();
                hard.any(|name| evaluator.tracks(name, &classes))
            });
        }
        quotas
    }

    /// Enqueues the quotas that count objects of a kind which nobody else here reads.
    fn listener(&self, evaluator: &Evaluator) -> MetadataListener {
        let (quotas, evaluator) = (self.this.clone(), evaluator.clone());
        Box::new(move |change| {
            let Some(quotas) = quotas.upgrade() else {
                return;
            };
            match change {
                MetadataChange::Added(meta) => quotas.on_addition(meta, &evaluator),
                MetadataChange::Deleted(meta) => quotas.enqueue(&meta.namespace, &evaluator),
                MetadataChange::Updated { .. } | MetadataChange::Resynced(_) => {}
            }
        })
    }

    async fn sync(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.consistency.check(key)?;
        let Some(quota) = self.quotas.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let now = self.context.clock.now();
        let counts = self.count(&quota, now);
        let plan = plan(&quota, &counts, self.reservations.awaited(key, now), now);
        report.decide(ObjectId::of(&*quota), plan.explain());
        if plan.is_stale {
            self.reservations.wait(key, now);
            return Ok(Next::After(STALE_RETRY));
        }
        self.reservations.wait_no_longer(key);
        if let Some(status) = &plan.status {
            let (client, meta) = (&self.context.client, &quota.metadata);
            match put_status::<ResourceQuota>(client, meta, status).await {
                Ok(revision) => {
                    self.reservations.on_counted(key, revision, now);
                    self.consistency.note::<ResourceQuota>(key, revision);
                }
                Err(error) if error.is_not_found() => return Ok(Next::AwaitChange),
                Err(error) => return Err(error.into()),
            }
        }
        match plan.failure() {
            Some(failure) => Err(Error::Retry(failure)),
            None => Ok(plan.next),
        }
    }
}
