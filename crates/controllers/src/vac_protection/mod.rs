//! Attributes classes that stay as long as a volume or a claim names them. A small controller.
//!
//! **Converges**: every VolumeAttributesClass has the finalizer `kubernetes.io/vac-protection`; one that is being
//! deleted loses it once no volume names it, and no claim in its spec, as its current class, or as the one that it
//! changes to.
//!
//! **Triggers**: a class that lacks the finalizer, and any change of one that is being deleted; a volume or a claim that
//! no longer names a class.
//!
//! **Writes**: the class's finalizers, by an update of the whole: the role has no patch.
//!
//! **Mirrors** `pkg/controller/volume/vacprotection`.
//!
//! UPSTREAM: only caches are asked. A claim that is created while its class is deleted may come too late; whoever
//! provisions for it then says that the class is not there.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::Line;
use api::kinds::{PersistentVolume, PersistentVolumeClaim, VAC_PROTECTION, VolumeAttributesClass};
use api::{Istr, Key, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, Index, IndexValue, Loop, Next, Queue, Reconcile, Report,
    Store,
};

use crate::Descriptor;
use crate::oracle::View;
use crate::storage::live::Live;
use crate::storage::protection::{self, Need, need};

pub use invariants::ClassProtectionOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[
        View::of::<PersistentVolumeClaim>(),
        View::of::<PersistentVolume>(),
        View::of::<VolumeAttributesClass>(),
    ],
    decides_about: &[VolumeAttributesClass::TYPE],
    queues: &["vacprotection"],
    gates: &["VolumeAttributesClass"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<ClassProtectionOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "volumeattributesclass-protection-controller",
        "",
        "volumeattributesclass-protection-controller",
    )
};

const VOLUMES_BY_CLASS: Index<PersistentVolume> = Index {
    name: "attributes class",
    values: |volume, found| {
        for class in classes_of_volume(volume) {
            found(IndexValue::Text(class.clone()));
        }
    },
};

const CLAIMS_BY_CLASS: Index<PersistentVolumeClaim> = Index {
    name: "attributes class",
    values: |claim, found| {
        for class in claim.attributes_classes() {
            found(IndexValue::Text(class.clone()));
        }
    },
};

fn classes_of_volume(volume: &PersistentVolume) -> impl Iterator<Item = &Istr> {
    let class = volume.spec.volume_attributes_class_name.as_ref();
    class.into_iter().filter(|name| !name.is_empty())
}

pub fn controller(context: &Context) -> Controller {
    let volumes = context.informers.of::<PersistentVolume>();
    let claims = context.informers.of::<PersistentVolumeClaim>();
    volumes.add_index(&VOLUMES_BY_CLASS);
    claims.add_index(&CLAIMS_BY_CLASS);
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("vacprotection")
        .watches::<VolumeAttributesClass>(|change, queue| {
            let class = change.object();
            let is_gone = matches!(change, Change::Deleted(_));
            if !is_gone && need(&class.metadata, VAC_PROTECTION).is_some() {
                queue.add(class.key());
            }
        })
        .watches::<PersistentVolumeClaim>(|change, queue| {
            enqueue_dropped(change, queue, |claim| {
                claim.attributes_classes().cloned().collect()
            });
        })
        .watches::<PersistentVolume>(|change, queue| {
            enqueue_dropped(change, queue, |volume| {
                classes_of_volume(volume).cloned().collect()
            });
        })
        // UPSTREAM: one worker, without a flag.
        .workers(1)
        .reconciler(ClassProtection {
            context: context.clone(),
            volumes: volumes.store().clone(),
            claims: claims.store().clone(),
            classes: context.informers.store::<VolumeAttributesClass>(),
        })
}

/// Enqueues the classes that an object no longer names.
fn enqueue_dropped<K>(change: Change<'_, K>, queue: &Queue, named: fn(&K) -> Vec<Istr>) {
    let (before, after) = match change {
        Change::Added(_) => return,
        Change::Updated { old, new } => (named(old), named(new)),
        Change::Deleted(gone) => (named(gone), Vec::new()),
    };
    for class in before.iter().filter(|class| !after.contains(class)) {
        queue.add(Key::new("", class));
    }
}

pub struct ClassProtection {
    context: Context,
    volumes: Arc<Store<PersistentVolume>>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    classes: Arc<Store<VolumeAttributesClass>>,
}

impl Reconcile for ClassProtection {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(class) = self.classes.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let Some(needed) = need(&class.metadata, VAC_PROTECTION) else {
            return Ok(Next::AwaitChange);
        };
        let user = match needed {
            Need::Remove => self.user(&class),
            Need::Add => None,
        };
        let line = match (&user, needed) {
            (Some(user), _) => Line::waits("InUse", format!("is kept as long as {user} names it")),
            (None, Need::Add) => Line::acts("AddsFinalizer", "adds the finalizer that protects it"),
            (None, Need::Remove) => {
                Line::acts("RemovesFinalizer", "removes the finalizer that protects it")
                    .because("it is being deleted and neither a volume nor a claim names it")
            }
        };
        report.decide(ObjectId::of(&*class), [line]);
        let client = &self.context.client;
        if user.is_none()
            && let Some(mut live) = Live::read(client, &class.metadata).await?
        {
            let live: &mut Live<VolumeAttributesClass> = &mut live;
            protection::apply(client, live, VAC_PROTECTION, needed).await?;
        }
        Ok(Next::AwaitChange)
    }
}

impl ClassProtection {
    /// A volume or a claim that names the class.
    fn user(&self, class: &VolumeAttributesClass) -> Option<ObjectId> {
        let name = IndexValue::Text(Istr::new(&class.metadata.name));
        let volumes = self.volumes.by(&VOLUMES_BY_CLASS, &name);
        let claims = self.claims.by(&CLAIMS_BY_CLASS, &name);
        let volume = volumes.first().map(|volume| ObjectId::of(&**volume));
        volume.or_else(|| claims.first().map(|claim| ObjectId::of(&**claim)))
    }
}
