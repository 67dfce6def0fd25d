//! Which claim has which volume. Plain `Reconcile`s.
//!
//! **Converges**: a claim that names no volume gets the smallest free one that suits (size, access modes, class,
//! attributes class, volume mode, selector), or one that names it; without any its provisioner is asked to make one. A
//! claim that names a volume gets that one or waits for it. Of a class with `WaitForFirstConsumer` only the scheduler
//! chooses, by a node for the claim or by naming the claim in a volume. A bound claim keeps its volume, or is `Lost`
//! for ever. A volume whose claim is gone is `Released` and reclaimed: retained, deleted, or recycled by a pod.
//!
//! **Triggers**: any change of a claim or a volume; a claim that is gone enqueues its volume, a volume that is gone its
//! claim; a recycler's pod; time, every `--pvclaimbinder-sync-period` for all.
//!
//! **Writes**: of volumes `claimRef`, annotations, finalizers, phase, and deletes them; of claims `volumeName`,
//! `storageClassName`, annotations, and of their status phase, access modes, capacity and attributes class. Each write
//! carries the revision that was decided on ([`crate::storage::live`]). Creates and deletes recycler pods. Emits
//! `FailedBinding`, `VolumeMismatch`, `ClaimLost`, `ClaimMisbound`, `WaitForFirstConsumer`, `WaitForPodScheduled`,
//! `ExternalProvisioning`, `ProvisioningFailed`, `VolumeFailedDelete`, `VolumeFailedRecycle`, `VolumeRecycled` and
//! `VolumeUnknownReclaimPolicy`.
//!
//! **Mirrors** `pkg/controller/volume/persistentvolume`. Binding is four writes in this order: the volume names the
//! claim, the volume is `Bound`, the claim names the volume, the claim is `Bound`; any of them may be the last before a
//! crash, and the next sync goes on from there. Two loops with several workers each, `latest` for what
//! they write, and `reservations` for what they are about to.
//!
//! **Deliberate differences**: the manager's own disk is no storage: volumes of kind `hostPath` are neither made by
//! `--enable-hostpath-provisioner` nor is anything but the object deleted. A recycler's pod is followed in the cache,
//! not by a watch of its own, so a manager that starts goes on with the one that runs; its events are not repeated. What
//! a claim or a volume waits for is told when it is news, and not every 15 seconds ([`reported`]). Volumes are deleted with
//! their uid as a precondition.

mod actions;
mod annotations;
mod apply;
mod claim;
mod class;
mod invariants;

mod matching;
mod metrics;
mod oracle;
mod reclaim;
mod recycle;
mod reported;
mod reservations;
mod volume;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::{Line, controllers, reasons};
use api::kinds::{PersistentVolume, PersistentVolumeClaim, Pod, StorageClass};
use api::{Istr, Key, ObjectId, Resource};
use runtime::controller::Tick;
use runtime::events::ObjectRef;
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, IndexValue, Loop, Next, Queue, Reconcile, Report, Runnable,
    Store,
};

use self::claim::{Event, Snapshot};
use self::matching::{BY_CLAIM, FreeVolumes, Volumes};
use self::metrics::BinderMetrics;
use self::reported::ReportedEvents;
use self::reservations::Reservations;
use crate::Descriptor;
use crate::config::PersistentVolumeBinder;
use crate::oracle::View;
use crate::storage::claim_users;
use crate::storage::latest::Latest;

pub use oracle::BinderOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: controllers::PERSISTENT_VOLUME_BINDER_EVENTS,
    caches: &[
        View::of::<PersistentVolume>(),
        View::of::<PersistentVolumeClaim>(),
        View::of::<StorageClass>(),
        View::of::<Pod>(),
    ],
    decides_about: &[PersistentVolumeClaim::TYPE, PersistentVolume::TYPE],
    queues: &["claims", "volumes"],
    metrics: &[
        "pv_collector_",
        "volume_operation_errors_total",
        "volume_operation_total_errors",
        "retroactive_storageclass_",
    ],
    build: Some(|ctx| {
        let settings = ctx.config.persistent_volume_binder_controller.clone();
        let loops = controllers(ctx, settings);
        Some(Runnable::together(ctx.controller, loops.into_runnables()))
    }),
    oracle: Some(|| Box::<BinderOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "persistentvolume-binder-controller",
        "persistentvolume-binder",
        "persistent-volume-binder",
    )
};

/// Of each loop. A claim takes four writes, one after the other; upstream has one worker, which waits for each. As what one has
/// chosen is reserved, several do not choose the same volume.
const WORKERS: usize = 8;

/// The loops of the controller.
pub struct Loops {
    pub claims: Controller,
    pub volumes: Controller,
    pub resync: Controller<Tick>,
}

impl Loops {
    fn into_runnables(self) -> Vec<Runnable> {
        vec![self.claims.into(), self.volumes.into(), self.resync.into()]
    }
}

pub fn controllers(context: &Context, settings: PersistentVolumeBinder) -> Loops {
    let informers = &context.informers;
    let (volumes, pods) = (informers.of::<PersistentVolume>(), informers.of::<Pod>());
    volumes.add_index(&BY_CLAIM);
    pods.add_index(&claim_users::BY_CLAIM);
    let free = Arc::new(FreeVolumes::default());
    let indexed = free.clone();
    volumes.on_change(move |change| indexed.on_change(change));
    let for_claims = Loop::on::<Key>(context, Backoff::DEFAULT).queue("claims");
    let for_volumes = Loop::on::<Key>(context, Backoff::DEFAULT).queue("volumes");
    let (claim_queue, volume_queue) = (for_claims.handle(), for_volumes.handle());
    let period = settings.sync_period.to_std();
    let binder = Arc::new(Binder {
        context: context.clone(),
        claims: Latest::new(informers.store::<PersistentVolumeClaim>()),
        volumes: Latest::new(volumes.store().clone()),
        classes: informers.store::<StorageClass>(),
        pods: pods.store().clone(),
        free,
        reserved: Reservations::default(),
        settings,
        metrics: BinderMetrics::new(context),
        reported: ReportedEvents::default(),
        claim_queue: claim_queue.clone(),
        volume_queue: volume_queue.clone(),
    });
    let counted = Arc::downgrade(&binder);
    context.metrics.before_scrape(move || {
        let binder = counted.upgrade();
        binder.is_some_and(|binder| {
            let (volumes, claims) = (binder.volumes.store(), binder.claims.store());
            binder.metrics.count(volumes, claims);
            true
        })
    });
    let claims = for_claims
        .watches::<PersistentVolumeClaim>(move |change, queue| {
            queue.add(change.object().key());
            if let Change::Deleted(claim) = change
                && !claim.spec.volume_name.is_empty()
            {
                volume_queue.add(Key::new("", &claim.spec.volume_name));
            }
        })
        .reads::<PersistentVolume>()
        .reads::<StorageClass>()
        .reads::<Pod>()
        .workers(WORKERS)
        .reconciler(ForClaims(binder.clone()));
    let volumes = for_volumes
        .watches::<PersistentVolume>(move |change, queue| {
            queue.add(change.object().key());
            if let Change::Deleted(volume) = change
                && let Some(held) = &volume.spec.claim_ref
            {
                claim_queue.add(Key::new(&held.namespace, &held.name));
            }
        })
        .watches::<Pod>(|change, queue| {
            if let Some(volume) = reclaim::recycled_by(change.object()) {
                queue.add(Key::new("", volume));
            }
        })
        .reads::<PersistentVolumeClaim>()
        .reads::<StorageClass>()
        .workers(WORKERS)
        .reconciler(ForVolumes(binder.clone()));
    let resync = Loop::every(context, period, Duration::ZERO)
        .reads::<PersistentVolumeClaim>()
        .reads::<PersistentVolume>()
        .reconciler(Resync(binder));
    Loops {
        claims,
        volumes,
        resync,
    }
}

pub struct Binder {
    context: Context,
    claims: Latest<PersistentVolumeClaim>,
    volumes: Latest<PersistentVolume>,
    classes: Arc<Store<StorageClass>>,
    pods: Arc<Store<Pod>>,
    free: Arc<FreeVolumes>,
    reserved: Reservations,
    settings: PersistentVolumeBinder,
    metrics: BinderMetrics,
    reported: ReportedEvents,
    claim_queue: Arc<Queue>,
    volume_queue: Arc<Queue>,
}

struct ForClaims(Arc<Binder>);
struct ForVolumes(Arc<Binder>);
struct Resync(Arc<Binder>);

impl Reconcile for ForClaims {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_claim(key, report).await
    }
}

impl Reconcile for ForVolumes {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_volume(key, report).await
    }
}

impl Reconcile<Tick> for Resync {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        let Resync(binder) = self;
        for claim in binder.claims.store().list() {
            binder.claim_queue.add(claim.key());
        }
        for volume in binder.volumes.store().list() {
            binder.volume_queue.add(volume.key());
        }
        Ok(Next::AwaitChange)
    }
}

impl Binder {
    async fn sync_claim(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(claim) = self.claims.get(key) else {
            self.reported.forget(key);
            return Ok(Next::AwaitChange);
        };
        let claim = self.anneal_claim(claim).await?;
        let plan = self.plan_claim(&claim);
        let lines = plan.line.iter().cloned().chain(self.explain(&claim, &plan));
        let lines: Vec<Line> = lines.collect();
        if !lines.is_empty() {
            report.decide(ObjectId::of(&*claim), lines);
        }
        if plan.action == claim::Action::Pending || plan.action == claim::Action::Nothing {
            self.emit(&*claim, plan.event.as_ref());
        }
        match &plan.action {
            claim::Action::Nothing => {}
            claim::Action::Bind(volume) => {
                self.reported.forget(key);
                self.bind(volume, &claim, report).await?;
            }
            claim::Action::Pending => self.put_claim_status(&claim, "Pending", None).await?,
            claim::Action::Lose => {
                self.put_claim_status(&claim, "Lost", None).await?;
                self.emit(&*claim, plan.event.as_ref());
            }
            claim::Action::AssignClass(class) => self.assign_class(&claim, class).await?,
            claim::Action::AskProvisioner(provisioner) => {
                self.ask_provisioner(&claim, provisioner).await?;
                self.emit(&*claim, plan.event.as_ref());
            }
            claim::Action::Fail(message) => {
                self.emit(&*claim, plan.event.as_ref());
                return Err(Error::Retry(message.clone()));
            }
        }
        Ok(Next::AwaitChange)
    }

    fn plan_claim(&self, claim: &PersistentVolumeClaim) -> claim::Plan {
        let volume = |name: &str| self.volumes.get(&Key::new("", name));
        let naming = |key: &Key| self.volumes_naming(key);
        let unreserved = |name: &str| volume(name).filter(|_| !self.reserved.contains(name));
        let volumes = Volumes {
            gates: self.context.gates,
            free: &self.free,
            get: &unreserved,
            naming: &naming,
        };
        claim::plan(
            claim,
            &Snapshot {
                gates: self.context.gates,
                class: self.classes.find("", class::of_claim(claim)),
                default_class: &|| {
                    let classes = self.classes.list();
                    let found = class::default_of(&classes);
                    found.map(|class| Istr::new(&class.metadata.name))
                },
                volume: &volume,
                find: &|is_delayed| matching::find(claim, is_delayed, &volumes),
                unscheduled: &|| self.unscheduled(claim),
                is_dynamic: self
                    .settings
                    .volume_configuration
                    .enable_dynamic_provisioning,
            },
        )
    }

    /// Volumes whose reference names the claim, as far as the cache has seen, each as new as it is known.
    fn volumes_naming(&self, claim: &Key) -> Vec<Arc<PersistentVolume>> {
        let value = IndexValue::In(claim.namespace.clone(), Istr::new(&claim.name));
        let found = self.volumes.store().by(&BY_CLAIM, &value);
        let newest = found
            .iter()
            .filter_map(|held| self.volumes.get(&held.key()));
        newest.collect()
    }

    fn unscheduled(&self, claim: &PersistentVolumeClaim) -> Vec<String> {
        let mut pods = self
            .pods
            .by(&claim_users::BY_CLAIM, &claim_users::users_of(claim));
        pods.retain(|pod| !pod.is_finished() && pod.node_name.is_empty());
        let names = pods.iter().map(|pod| pod.metadata.name.to_string());
        names.collect()
    }

    /// Why each of some free volumes does not suit a claim that waits for one.
    fn explain(&self, claim: &PersistentVolumeClaim, plan: &claim::Plan) -> Vec<Line> {
        let is_waiting = |line: &Line| {
            [reasons::NO_VOLUME, reasons::WAITS_FOR_PROVISIONER].contains(&&*line.reason)
        };
        if !plan.line.as_ref().is_some_and(is_waiting) {
            return Vec::new();
        }
        let some = self.free.some(class::of_claim(claim));
        let some = some.iter().map(|name| Key::new("", name));
        let some: Vec<_> = some.filter_map(|key| self.volumes.get(&key)).collect();
        let told = matching::explain(claim, &some, self.context.gates);
        let line = |(volume, why): (Istr, String)| {
            Line::states("PassedOver", format!("volume {volume} is passed over")).because(why)
        };
        told.into_iter().map(line).collect()
    }

    async fn sync_volume(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(volume) = self.volumes.get(key) else {
            self.reported.forget(key);
            return Ok(Next::AwaitChange);
        };
        let volume = self.anneal_volume(volume).await?;
        let claim = self.claim_of(&volume).await?;
        match volume::plan(&volume, claim.as_deref()) {
            volume::Action::Phase(phase) => {
                self.reported.forget(key);
                self.put_phase(&volume, phase, "").await?;
            }
            volume::Action::Reclaim => self.reclaim(&volume, report).await?,
            volume::Action::EnqueueClaim(claim) => self.claim_queue.add(claim),
            volume::Action::Unbind => {
                let line = Line::acts("Unbinds", "is taken back from its claim")
                    .because("the claim is bound to another volume");
                report.decide(ObjectId::of(&*volume), [line]);
                self.unbind(&volume).await?;
            }
            volume::Action::Mismatch {
                volume: for_volume,
                claim: for_claim,
            } => {
                self.emit(&*volume, Some(&for_volume));
                if let Some(claim) = &claim {
                    self.emit(&**claim, Some(&for_claim));
                }
            }
        }
        Ok(Next::AwaitChange)
    }

    /// The very claim that a volume's reference means. That it is gone only the API server can say, and is asked once.
    async fn claim_of(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, Error> {
        let held = volume.spec.claim_ref.as_ref();
        let Some(held) = held.filter(|held| !held.uid.is_empty()) else {
            return Ok(None);
        };
        let is_its = |claim: &PersistentVolumeClaim| claim.metadata.uid == held.uid;
        let cached = self.claims.get(&Key::new(&held.namespace, &held.name));
        match &cached {
            Some(claim) if is_its(claim) => return Ok(cached),
            None if matches!(&*volume.status.phase, "Released" | "Failed") => return Ok(None),
            _ => {}
        }
        let client = &self.context.client;
        let live = client.get_as::<PersistentVolumeClaim>(&held.namespace, &held.name);
        match live.await {
            Ok(claim) if is_its(&claim) => Ok(Some(Arc::new(claim))),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Emits the event, if it is news.
    fn emit<K: Resource>(&self, object: &K, event: Option<&Event>) {
        let meta = object.meta();
        let is_news = |event: &&Event| self.reported.is_news(meta, event);
        if let Some(event) = event.filter(is_news) {
            let (recorder, object) = (&self.context.recorder, ObjectRef::of(object));
            recorder.event(
                &object,
                event.event_type,
                event.reason,
                event.message.clone(),
            );
        }
    }
}
