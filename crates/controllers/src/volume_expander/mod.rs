//! Claims that ask for more. A small controller.
//!
//! **Converges**: a bound claim that asks for more than it has is marked for the driver that makes its volume grow, where
//! that driver has taken over from what was built in; for all others an event says who is waited for. Growing is the
//! drivers' work.
//!
//! **Triggers**: a bound claim that is new, or asks for more, or has more than before.
//!
//! **Writes**: the annotation `volume.kubernetes.io/storage-resizer` of claims, by a patch of their status; emits
//! `ExternalExpanding`.
//!
//! **Mirrors** `pkg/controller/volume/expand`. Nothing that is built into kube-controller-manager 1.36 can make a volume
//! grow but flex volumes.
//!
//! **Deliberate differences**: the volume of a claim comes from the cache; upstream reads it for every claim that is bound,
//! and of every bound claim when it starts. A claim that is bound no longer is not tried again. Flex volumes, which only a kubelet can
//! make grow, are waited for as others are.

mod actions;
mod invariants;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::collections::HashSet;
use api::decision::Line;
use api::kinds::{PersistentVolume, PersistentVolumeClaim};
use api::{Key, ObjectId, Resource};
use client::Patch;
use parking_lot::Mutex;
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Reconcile, Report, Store};
use serde_json::json;

use self::plan::{RESIZER, Step, plan};
use crate::Descriptor;
use crate::oracle::View;

pub use invariants::ExpanderOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "volume_expand",
    caches: &[
        View::of::<PersistentVolumeClaim>(),
        View::of::<PersistentVolume>(),
    ],
    decides_about: &[PersistentVolumeClaim::TYPE],
    queues: &["volume_expand"],
    // UPSTREAM: ten workers, without a flag.
    build: Some(|ctx| Some(controller(ctx, 10).into())),
    oracle: Some(|| Box::<ExpanderOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "persistentvolume-expander-controller",
        "persistentvolume-expander",
        "expand-controller",
    )
};

pub fn controller(context: &Context, workers: usize) -> Controller {
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("volume_expand")
        .watches::<PersistentVolumeClaim>(|change, queue| {
            let claim = change.object();
            let has_grown = match change {
                Change::Added(_) | Change::Deleted(_) => true,
                Change::Updated { old, new } => {
                    new.spec.storage > old.spec.storage || new.status.storage > old.status.storage
                }
            };
            if has_grown && claim.status.phase == "Bound" {
                queue.add(claim.key());
            }
        })
        .reads::<PersistentVolume>()
        .workers(workers)
        .reconciler(Expander {
            context: context.clone(),
            claims: context.informers.store::<PersistentVolumeClaim>(),
            volumes: context.informers.store::<PersistentVolume>(),
            waiting: Mutex::default(),
        })
}

pub struct Expander {
    context: Context,
    claims: Arc<Store<PersistentVolumeClaim>>,
    volumes: Arc<Store<PersistentVolume>>,
    /// Claims that ask for more than they have.
    waiting: Mutex<HashSet<Key>>,
}

impl Reconcile for Expander {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let claim = self.claims.get(key);
        let Some(claim) = claim.filter(|claim| claim.status.phase == "Bound") else {
            self.waiting.lock().remove(key);
            return Ok(Next::AwaitChange);
        };
        let name = &claim.spec.volume_name;
        let Some(volume) = self.volumes.find("", name) else {
            return Err(Error::Retry(format!(
                "failed to get PV {name:?}: not found"
            )));
        };
        let step = plan(&claim, &volume).map_err(Error::Retry)?;
        let Some(line) = step.line() else {
            // A claim that was reported as waiting is reported as done.
            if self.waiting.lock().remove(key) {
                let line = Line::states("HasGrown", "has what it requests");
                report.decide(ObjectId::of(&*claim), [line]);
            }
            return Ok(Next::AwaitChange);
        };
        self.waiting.lock().insert(key.clone());
        report.decide(ObjectId::of(&*claim), [line]);
        if let Some(message) = step.message() {
            let (recorder, object) = (&self.context.recorder, ObjectRef::of(&*claim));
            recorder.event(&object, EventType::Normal, "ExternalExpanding", message);
        }
        if let Step::Mark { driver, .. } = step {
            self.mark(&claim, driver).await?;
        }
        Ok(Next::AwaitChange)
    }
}

impl Expander {
    async fn mark(&self, claim: &PersistentVolumeClaim, driver: &str) -> Result<(), Error> {
        let meta = &claim.metadata;
        if meta.annotation(RESIZER) == Some(driver) {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "annotations": {RESIZER: driver}, "resourceVersion": meta.resource_version.to_string(), "uid": meta.uid,
        }});
        let patch = Patch::Strategic(patch.to_string().into());
        let (client, kind) = (&self.context.client, PersistentVolumeClaim::TYPE);
        let (namespace, name) = (&meta.namespace, &meta.name);
        let patched = client
            .patch(&kind, namespace, name, Some("status"), &patch)
            .await;
        if let Err(error) = patched {
            let key = meta.key();
            let message =
                format!("error setting resizer annotation to pvc {key}, with error {error}");
            let (recorder, object) = (&self.context.recorder, ObjectRef::of(claim));
            recorder.event(&object, EventType::Warning, "ExternalExpanding", message);
            return Err(error.into());
        }
        Ok(())
    }
}
