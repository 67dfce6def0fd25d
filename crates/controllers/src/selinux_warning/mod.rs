//! Pods that could not share a volume on one node, because SELinux would label it for one of them alone. A small
//! controller, which runs only where `--controllers` names it.
//!
//! **Converges**: the metric tells of every pair of pods that use a volume with labels or policies that conflict, wherever
//! they run. Events tell of each pair once, when it comes.
//!
//! **Triggers**: pods that come, are over or go; claims and volumes that are bound, for the pods that name them; drivers
//! that begin or cease to mount with labels.
//!
//! **Writes**: nothing but the events `SELinuxLabelConflict`, `SELinuxChangePolicyConflict` and `MultipleSELinuxLabels`.
//!
//! **Mirrors** `pkg/controller/volume/selinuxwarning`. Volumes that cannot be mounted with a label conflict with nothing, so
//! only those that have to be attached are kept.
//!
//! **Deliberate differences**: a pod whose claim is not bound yet waits for the claim, and is not tried with ever longer
//! waits; nor is one that is told `MultipleSELinuxLabels`, which nothing can change.

mod conflicts;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::kinds::{
    CSI_PREFIX, CsiDriver, Mounted, PersistentVolume, PersistentVolumeClaim, Pod,
    SELINUX_MOUNT_OPTION, SELINUX_RECURSIVE,
};
use api::{Istr, Key, Resource};
use parking_lot::Mutex;
use runtime::events::{EventType, ObjectRef};
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, IndexValue, Loop, Next, Queue, Reconcile, Report, Store,
};

use crate::Descriptor;
use crate::oracle::{Change as Written, Oracle, Verdict, View, World, no_business};
use crate::storage::claim_users::BY_CLAIM;

pub use conflicts::{Conflict, Property, Use, Volumes};

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "selinux_warning",
    caches: &[
        View::of::<Pod>(),
        View::of::<PersistentVolumeClaim>(),
        View::of::<PersistentVolume>(),
        View::of::<CsiDriver>(),
    ],
    queues: &["selinux_warning"],
    metrics: &["selinux_warning_controller_"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<WarningOracle>::default()),
    ..Descriptor::named(
        "selinux-warning-controller",
        "",
        "selinux-warning-controller",
    )
    .gated(&["SELinuxChangePolicy"])
    .off()
};

/// It writes nothing.
#[derive(Default)]
pub struct WarningOracle;

impl Oracle for WarningOracle {
    fn after_write(&self, _: &World, change: &Written) -> Verdict {
        no_business(DESCRIPTOR.name, change)
    }

    fn at_rest(&self, _: &World) -> Verdict {
        Ok(())
    }
}

pub fn controller(context: &Context) -> Controller {
    let informers = &context.informers;
    informers.of::<Pod>().add_index(&BY_CLAIM);
    let pods = informers.store::<Pod>();
    let volumes: Arc<Mutex<Volumes>> = Arc::default();
    measure(context, &volumes);
    let (of_claims, of_volumes, of_drivers) = (pods.clone(), pods.clone(), volumes.clone());
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("selinux_warning")
        .watches::<Pod>(|change, queue| {
            // Nothing that matters changes but the end.
            let is_news = match &change {
                Change::Updated { old, new } => {
                    old.metadata.uid != new.metadata.uid
                        || (new.is_finished() && !old.is_finished())
                }
                _ => true,
            };
            if is_news {
                queue.add(change.object().key());
            }
        })
        .watches::<PersistentVolumeClaim>(move |change, queue| {
            let claim = change.object();
            let was = match &change {
                Change::Updated { old, .. } => Some(&old.spec.volume_name),
                Change::Added(_) => None,
                Change::Deleted(_) => return,
            };
            if !claim.spec.volume_name.is_empty() && was != Some(&claim.spec.volume_name) {
                enqueue(
                    &of_claims,
                    &claim.metadata.namespace,
                    &claim.metadata.name,
                    queue,
                );
            }
        })
        .watches::<PersistentVolume>(move |change, queue| {
            let bound = |volume: &PersistentVolume| {
                let claim = volume.spec.claim_ref.clone();
                claim.filter(|claim| !claim.uid.is_empty())
            };
            let was = match &change {
                Change::Updated { old, .. } => bound(old),
                Change::Added(_) => None,
                Change::Deleted(_) => return,
            };
            if let Some(claim) = bound(change.object())
                && was.is_none_or(|was| was.uid != claim.uid)
            {
                enqueue(&of_volumes, &claim.namespace, &claim.name, queue);
            }
        })
        .watches::<CsiDriver>(move |change, queue| {
            let mounts = |driver: &CsiDriver| driver.spec.selinux_mount.unwrap_or(false);
            let driver = change.object();
            let is_news = match &change {
                Change::Updated { old, new } => mounts(old) != mounts(new),
                Change::Added(_) => true,
                Change::Deleted(driver) => mounts(driver),
            };
            if is_news {
                for pod in of_drivers.lock().pods_of_driver(&driver.metadata.name) {
                    queue.add(pod);
                }
            }
        })
        // UPSTREAM: one worker, without a flag.
        .workers(1)
        .reconciler(Warnings {
            context: context.clone(),
            pods,
            claims: informers.store::<PersistentVolumeClaim>(),
            persistent: informers.store::<PersistentVolume>(),
            drivers: informers.store::<CsiDriver>(),
            volumes,
        })
}

fn enqueue(pods: &Store<Pod>, namespace: &str, claim: &str, queue: &Queue) {
    let index = IndexValue::In(Istr::new(namespace), Istr::new(claim));
    for pod in pods.by(&BY_CLAIM, &index) {
        queue.add(pod.key());
    }
}

/// Tells of every pair that conflicts, in both directions.
fn measure(context: &Context, volumes: &Arc<Mutex<Volumes>>) {
    let pairs = context.metrics.gauge(
        "selinux_warning_controller_selinux_volume_conflict",
        "Conflict between two Pods using the same volume",
        Stability::Alpha,
        &[
            "property",
            "pod1_namespace",
            "pod1_name",
            "pod1_value",
            "pod2_namespace",
            "pod2_name",
            "pod2_value",
        ],
    );
    let counted = Arc::downgrade(volumes);
    context.metrics.before_scrape(move || {
        let Some(volumes) = counted.upgrade() else {
            return false;
        };
        pairs.reset();
        for conflict in volumes.lock().conflicts() {
            let (one, two) = (&conflict.pod, &conflict.other);
            let labels: [&str; 7] = [
                conflict.property.name(),
                &one.namespace,
                &one.name,
                &conflict.value,
                &two.namespace,
                &two.name,
                &conflict.other_value,
            ];
            pairs.with_label_values(&labels).set(1.0);
        }
        true
    });
}

struct Warnings {
    context: Context,
    pods: Arc<Store<Pod>>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    persistent: Arc<Store<PersistentVolume>>,
    drivers: Arc<Store<CsiDriver>>,
    volumes: Arc<Mutex<Volumes>>,
}

impl Reconcile for Warnings {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        let pod = self.pods.get(key).filter(|pod| !pod.is_finished());
        let Some(pod) = pod else {
            self.volumes.lock().remove(key);
            return Ok(Next::AwaitChange);
        };
        let mounts = pod.se_linux().map_or(&[][..], |asked| &asked.mounts);
        for Mounted {
            volume: mount,
            labels,
        } in mounts
        {
            let Some(volume) = self.volume(&pod, mount) else {
                continue;
            };
            if labels.len() > 1 {
                let message = format!(
                    "Volume \"{mount}\" is mounted twice with different SELinux labels inside this pod"
                );
                self.event(&pod, EventType::Warning, "MultipleSELinuxLabels", message);
                continue;
            }
            let label = labels.first().cloned().unwrap_or_default();
            self.sync_volume(&pod, volume, label);
        }
        Ok(Next::AwaitChange)
    }
}

impl Warnings {
    /// What lists of attached volumes call the volume behind a mount; of one that has a claim once that is bound.
    fn volume(&self, pod: &Pod, mount: &Istr) -> Option<Istr> {
        let mut claims = pod.volumes().iter();
        let Some(held) = claims.find(|volume| volume.name == *mount) else {
            let mut inline = pod.inline_volumes().iter();
            let held = inline.find(|volume| volume.name == *mount)?;
            return Some(held.unique_name.clone());
        };
        let claim = self
            .claims
            .find(&pod.metadata.namespace, &held.claim_name)?;
        let volume = self.persistent.find("", &claim.spec.volume_name)?;
        let bound = volume.spec.claim_ref.as_ref();
        let is_ours = bound.is_some_and(|bound| bound.uid == claim.metadata.uid);
        is_ours.then(|| volume.unique_name()).flatten()
    }

    fn sync_volume(&self, pod: &Pod, name: Istr, label: Istr) {
        let driver = name.strip_prefix(CSI_PREFIX);
        let driver = driver.and_then(|rest| Some(Istr::new(rest.split_once('^')?.0)));
        let can_mount = match &driver {
            Some(driver) => {
                let found = self.drivers.find("", driver);
                found.is_some_and(|found| found.spec.selinux_mount.unwrap_or(false))
            }
            // FC and iSCSI; FlexVolumes are mounted as their drivers like.
            None => !name.starts_with("flexvolume:"),
        };
        let asked = pod.se_linux().and_then(|asked| asked.change_policy.clone());
        let is_recursive = asked
            .as_ref()
            .is_some_and(|asked| *asked == *SELINUX_RECURSIVE);
        let label = match can_mount && !is_recursive {
            true => label,
            false => Istr::default(),
        };
        let policy = match label.is_empty() {
            true => Istr::new(SELINUX_RECURSIVE),
            false => asked.unwrap_or_else(|| Istr::new(SELINUX_MOUNT_OPTION)),
        };
        let used = Use { label, policy };
        let key = pod.metadata.key();
        let conflicts = self.volumes.lock().add(&name, driver, &key, used);
        for conflict in conflicts {
            let of = &conflict.pod;
            let Some(pod) = self.pods.get(of) else {
                // One of them is gone, so nothing conflicts any more.
                return;
            };
            let reason = conflict.property.reason();
            self.event(&pod, EventType::Normal, reason, conflict.message());
        }
    }

    fn event(&self, pod: &Pod, kind: EventType, reason: &'static str, message: String) {
        let object = ObjectRef::new(&Pod::TYPE, &pod.metadata);
        self.context.recorder.event(&object, kind, reason, message);
    }
}
