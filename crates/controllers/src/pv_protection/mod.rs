//! Volumes that stay as long as a claim is bound to them. A small controller.
//!
//! **Converges**: every volume has the finalizer `kubernetes.io/pv-protection`; one that is being deleted loses it once
//! its phase is not `Bound`.
//!
//! **Triggers**: a volume that lacks the finalizer, and any change of one that is being deleted.
//!
//! **Writes**: the volume's finalizers, by an update of the whole: the role has no patch.
//!
//! **Mirrors** `pkg/controller/volume/pvprotection`. That the phase says whether a claim is bound is what the binder
//! sees to.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::Line;
use api::kinds::{PV_PROTECTION, PersistentVolume};
use api::{Key, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};

use crate::Descriptor;
use crate::oracle::View;
use crate::storage::live::Live;
use crate::storage::protection::{self, Need, need};

pub use invariants::VolumeProtectionOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<PersistentVolume>()],
    decides_about: &[PersistentVolume::TYPE],
    queues: &["pvprotection"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<VolumeProtectionOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "persistentvolume-protection-controller",
        "pv-protection",
        "pv-protection-controller",
    )
};

pub fn controller(context: &Context) -> Controller {
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("pvprotection")
        .watches::<PersistentVolume>(|change, queue| {
            let volume = change.object();
            let is_gone = matches!(change, Change::Deleted(_));
            if !is_gone && need(&volume.metadata, PV_PROTECTION).is_some() {
                queue.add(volume.key());
            }
        })
        // UPSTREAM: one worker, without a flag.
        .workers(1)
        .reconciler(VolumeProtection {
            context: context.clone(),
            volumes: context.informers.store::<PersistentVolume>(),
        })
}

pub struct VolumeProtection {
    context: Context,
    volumes: Arc<Store<PersistentVolume>>,
}

/// What becomes of the volume's finalizer; none if it stays as it is.
fn plan(volume: &PersistentVolume) -> Option<Need> {
    need(&volume.metadata, PV_PROTECTION)
        .filter(|needed| *needed == Need::Add || volume.status.phase != "Bound")
}

impl Reconcile for VolumeProtection {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(volume) = self.volumes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        if need(&volume.metadata, PV_PROTECTION).is_none() {
            return Ok(Next::AwaitChange);
        }
        let planned = plan(&volume);
        report.decide(ObjectId::of(&*volume), [explain(&volume, planned)]);
        if planned.is_none() {
            return Ok(Next::AwaitChange);
        }
        let client = &self.context.client;
        if let Some(mut live) = Live::of(client, &volume).await?
            // Somebody may have bound it since.
            && let Some(needed) = plan(&live.view)
        {
            protection::apply(client, &mut live, PV_PROTECTION, needed).await?;
        }
        Ok(Next::AwaitChange)
    }
}

fn explain(volume: &PersistentVolume, planned: Option<Need>) -> Line {
    let held = volume.spec.claim_ref.as_ref();
    match (planned, held) {
        (Some(Need::Add), _) => Line::acts("AddsFinalizer", "adds the finalizer that protects it"),
        (Some(Need::Remove), _) => {
            Line::acts("RemovesFinalizer", "removes the finalizer that protects it")
                .because("it is being deleted and no claim is bound to it")
        }
        (None, Some(claim)) => {
            let (namespace, name) = (&claim.namespace, &claim.name);
            let what =
                format!("is kept until claim {namespace}/{name} is gone, which is bound to it");
            Line::waits("InUse", what).hint(format!("kubectl delete pvc {name} -n {namespace}"))
        }
        (None, None) => Line::waits("InUse", "is kept until its phase is not Bound any more"),
    }
}
