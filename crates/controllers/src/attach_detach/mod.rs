//! Which volume is attached to which node. Plain `Reconcile`s.
//!
//! **Converges**: a volume that a pod on a node needs is attached there: its driver is asked by a VolumeAttachment, or
//! nobody has to be asked (FC, iSCSI). A volume that no pod on a node needs is detached, once the kubelet says that it
//! does not use it; on a node that is not ready no later than after six minutes, and at once where the node is out of
//! service. `status.volumesAttached` of nodes lists what the kubelet may use. A volume that only one node may have is not
//! attached to a second one before it is detached from the first.
//!
//! **Triggers**: pods that come to a node, end or go; claims, volumes, attachments and CSI drivers that change; of nodes
//! health, taints, management, and the lists of what is attached and in use; time: deadlines, back-off, and all every
//! `--attach-detach-reconcile-sync-period`.
//!
//! **Writes**: creates and deletes VolumeAttachments; patches `status.volumesAttached` of nodes; emits
//! `SuccessfulAttachVolume` and `FailedAttachVolume` about pods.
//!
//! **Mirrors** `pkg/controller/volume/attachdetach`, the attaching half of `pkg/volume/csi`, and of
//! `pkg/volume/util/operationexecutor` the events. Upstream keeps a desired and an actual state of the world, fills both
//! from events, and compares them ten times a second; operations wait in goroutines. Here [`caches`] derives both for one
//! volume, [`plan`] compares them, and nothing waits: an attachment that changes enqueues its volume. Only what caches
//! cannot say is kept, in [`memory`] and [`users`]. One loop is on volumes, and writes attachments; another one is on nodes, and writes
//! their lists. A volume is taken off the list, and the API server asked what the kubelet uses, before its attachment
//! goes.
//!
//! **Deliberate differences**: an attachment that is not confirmed keeps other nodes from the volume as much as one that
//! is. A pod on a node that is gone, or whose kubelet attaches by itself, keeps what is attached. An attachment without
//! `status.attached` is told to its pods after two minutes, but for that it is not asked for anew. FlexVolume drivers,
//! which are programs on the manager's own disk, are not called: pods are told.

mod actions;
mod apply;
mod caches;
mod inline;
mod invariants;
mod memory;
mod metrics;
mod names;
mod oracle;
mod plan;
mod reason;
mod triggers;
mod users;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{
    AttachedVolume, CsiDriver, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment,
};
use api::{Istr, Key, Resource};
use runtime::controller::Tick;
use runtime::rate_limit::Backoff;
use runtime::{Context, Controller, Error, Loop, Next, Queue, Reconcile, Report, Runnable};

use self::caches::Caches;
use self::memory::{FIRST_RETRY, LAST_RETRY};
use self::metrics::AttachMetrics;
use self::names::{csi_parts, is_built_in};
use self::plan::Settings;
use crate::Descriptor;
use crate::config;
use crate::oracle::View;
use crate::workload::Consistency;

pub use oracle::AttachDetachOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "attachdetach-controller",
    caches: &[
        View::of::<Pod>(),
        View::of::<Node>(),
        View::of::<PersistentVolumeClaim>(),
        View::of::<PersistentVolume>(),
        View::of::<VolumeAttachment>(),
        View::of::<CsiDriver>(),
    ],
    decides_about: &[Pod::TYPE, PersistentVolume::TYPE],
    queues: &["pvcs"],
    metrics: &[
        "attach_detach_controller_",
        "attachdetach_controller_",
        "storage_count_attachable_",
    ],
    build: Some(|ctx| {
        let settings = ctx.config.attach_detach_controller.clone();
        let loops = controllers(ctx, &settings);
        Some(Runnable::together(ctx.controller, loops.into_runnables()))
    }),
    oracle: Some(|| Box::<AttachDetachOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "persistentvolume-attach-detach-controller",
        "attachdetach",
        "attachdetach-controller",
    )
};

/// How many volumes are dealt with at once. Upstream starts a goroutine for each.
const WORKERS: usize = 10;

/// The loops of the controller.
pub struct Loops {
    pub volumes: Controller<Istr>,
    pub nodes: Controller<Istr>,
    /// None where a flag turns it off.
    pub resync: Option<Controller<Tick>>,
}

impl Loops {
    fn into_runnables(self) -> Vec<Runnable> {
        let resync = self.resync.map(Runnable::from);
        let loops = [self.volumes.into(), self.nodes.into()];
        loops.into_iter().chain(resync).collect()
    }
}

pub fn controllers(context: &Context, settings: &config::AttachDetach) -> Loops {
    let backoff = Backoff::exponential(FIRST_RETRY, LAST_RETRY);
    let for_volumes = Loop::on::<Istr>(context, backoff).queue("pvcs");
    let for_nodes = Loop::on::<Istr>(context, backoff);
    let attach_detach = Arc::new(AttachDetach {
        context: context.clone(),
        caches: Caches::new(context),
        consistency: Consistency::always().of::<VolumeAttachment>(context),
        metrics: AttachMetrics::new(context),
        settings: Settings {
            never_by_timeout: settings.disable_force_detach_on_timeout,
        },
        volume_queue: for_volumes.handle(),
        node_queue: for_nodes.handle(),
    });
    attach_detach.measure();
    let volumes = triggers::listen(for_volumes, &attach_detach)
        .workers(WORKERS)
        .reconciler(ForVolumes(attach_detach.clone()));
    let nodes = triggers::wait(for_nodes)
        // Lists of different nodes depend on each other where a volume has no attachment: one worker.
        .workers(1)
        .reconciler(ForNodes(attach_detach.clone()));
    let period = settings.reconciler_sync_loop_period.to_std();
    // UPSTREAM: a shorter period turns it off.
    let is_on = !settings.disable_reconciler_sync && period >= Duration::from_secs(1);
    let resync = is_on.then(|| {
        triggers::wait(Loop::every(context, period, period)).reconciler(Resync(attach_detach))
    });
    Loops {
        volumes,
        nodes,
        resync,
    }
}

pub struct AttachDetach {
    context: Context,
    caches: Caches,
    consistency: Consistency,
    metrics: AttachMetrics,
    settings: Settings,
    volume_queue: Arc<Queue<Istr>>,
    node_queue: Arc<Queue<Istr>>,
}

struct ForVolumes(Arc<AttachDetach>);
struct ForNodes(Arc<AttachDetach>);
struct Resync(Arc<AttachDetach>);

impl Reconcile<Istr> for ForVolumes {
    async fn reconcile(&self, volume: &Istr, report: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_volume(volume, report).await
    }
}

impl Reconcile<Istr> for ForNodes {
    async fn reconcile(&self, node: &Istr, _: &Report<'_>) -> Result<Next, Error> {
        self.0.sync_node(node).await
    }
}

impl Reconcile<Tick> for Resync {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        let Resync(attach_detach) = self;
        for attachment in attach_detach.caches.attachments.list() {
            if let Some(volume) = attach_detach.caches.volume_of(&attachment) {
                attach_detach.volume_queue.add(volume);
            }
        }
        for node in attach_detach.caches.nodes.store().list() {
            attach_detach.node_queue.add(Istr::new(&node.metadata.name));
        }
        Ok(Next::AwaitChange)
    }
}

impl AttachDetach {
    async fn sync_volume(&self, volume: &Istr, report: &Report<'_>) -> Result<Next, Error> {
        self.consistency.check(&Key::new("", volume))?;
        let snapshot = self.caches.snapshot(volume);
        // One reading of the clock for everything that is decided.
        let now = self.context.clock.now();
        let plan = plan::plan(&snapshot, self.settings, now);
        self.caches.memory.note(volume, &plan, now);
        self.apply(&snapshot, &plan, report, now).await
    }

    async fn sync_node(&self, name: &Istr) -> Result<Next, Error> {
        let Some(node) = self.caches.nodes.get(&Key::new("", name)) else {
            return Ok(Next::AwaitChange);
        };
        let now = self.context.clock.now();
        let is_to_be_listed = |volume: &Istr| {
            let snapshot = self.caches.snapshot(volume);
            let plan = plan::plan(&snapshot, self.settings, now);
            plan.lists(&snapshot, name)
        };
        let is_ours = |volume: &str| csi_parts(volume).is_some() || is_built_in(volume);
        let mut volumes = self.caches.volumes_on(name);
        volumes.retain(|volume| is_ours(volume));
        let held = node.status.volumes_attached.iter();
        // What is listed keeps its place; what nobody here understands stays.
        let mut list: Vec<AttachedVolume> = held
            .filter(|held| !is_ours(&held.name) || is_to_be_listed(&held.name))
            .cloned()
            .collect();
        for volume in volumes {
            if !node.lists_attached(&volume) && is_to_be_listed(&volume) {
                list.push(AttachedVolume {
                    name: volume,
                    ..AttachedVolume::default()
                });
            }
        }
        if *list != *node.status.volumes_attached {
            self.put_list(&node, &list).await?;
        }
        Ok(Next::AwaitChange)
    }

    /// Counts what is attached whenever somebody asks.
    fn measure(self: &Arc<Self>) {
        let counted = Arc::downgrade(self);
        self.context.metrics.before_scrape(move || {
            let attach_detach = counted.upgrade();
            attach_detach.is_some_and(|attach_detach| {
                attach_detach.metrics.count(&attach_detach.caches);
                true
            })
        });
    }
}
