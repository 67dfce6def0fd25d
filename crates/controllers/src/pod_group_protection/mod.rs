//! Pod groups that stay as long as one of their pods is active. A small controller, behind the gate `GenericWorkload`.
//!
//! **Converges**: a PodGroup that is being deleted loses the finalizer `scheduling.k8s.io/podgroup-protection` once no pod
//! that is not over names it. Admission adds the finalizer; nobody does so later.
//!
//! **Triggers**: a group that is being deleted and has the finalizer; a pod of a group that is over or gone.
//!
//! **Writes**: the group's finalizers, by an update of the whole: the role has no patch.
//!
//! **Mirrors** `pkg/controller/scheduling/podgroupprotection`.
//!
//! UPSTREAM: only caches are asked. A pod that is created while its group is deleted may come too late.

mod actions;
mod invariants;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::decision::Line;
use api::kinds::{POD_GROUP_PROTECTION, Pod, PodGroup};
use api::{Istr, Key, Meta, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{
    Change, Context, Controller, Error, Index, IndexValue, Loop, Next, Queue, Reconcile, Report,
    Store,
};

use crate::Descriptor;
use crate::oracle::View;
use crate::storage::live::Live;
use crate::storage::protection::{self, Need, need};

pub use invariants::{PodGroupProtectionOracle, converged, safe};

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<PodGroup>(), View::of::<Pod>()],
    decides_about: &[PodGroup::TYPE],
    queues: &["podgroupprotection"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<PodGroupProtectionOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "podgroup-protection-controller",
        "",
        "podgroup-protection-controller",
    )
    .gated(&["GenericWorkload"])
};

/// Pods that are not over, by their group.
const ACTIVE_BY_GROUP: Index<Pod> = Index {
    name: "active in pod group",
    values: |pod, found| {
        if let Some(group) = pod.pod_group()
            && !pod.is_finished()
        {
            let namespace = pod.metadata.namespace.clone();
            found(IndexValue::In(namespace, group.clone()));
        }
    },
};

pub fn controller(context: &Context) -> Controller {
    let pods = context.informers.of::<Pod>();
    pods.add_index(&ACTIVE_BY_GROUP);
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("podgroupprotection")
        .watches::<PodGroup>(|change, queue| {
            let group = change.object();
            if !matches!(change, Change::Deleted(_)) && is_candidate(&group.metadata) {
                queue.add(group.key());
            }
        })
        .watches::<Pod>(|change, queue| on_pod(&change, queue))
        // UPSTREAM: one worker, without a flag.
        .workers(1)
        .reconciler(PodGroupProtection {
            context: context.clone(),
            groups: context.informers.store::<PodGroup>(),
            pods: pods.store().clone(),
        })
}

/// Only what is over or gone can end the protection. A pod may have taken the name of one that is gone meanwhile.
fn on_pod(change: &Change<'_, Pod>, queue: &Queue) {
    let gone = match change {
        Change::Deleted(pod) => Some(*pod),
        Change::Updated { old, new } if old.metadata.uid != new.metadata.uid => Some(*old),
        _ => None,
    };
    let pod = change.object();
    let is_over = !matches!(change, Change::Deleted(_)) && pod.is_finished();
    let over = is_over.then_some(pod);
    for pod in gone.into_iter().chain(over) {
        if let Some(group) = pod.pod_group() {
            queue.add(Key::new(&pod.metadata.namespace, group));
        }
    }
}

/// Is the group being deleted, and held by the finalizer?
fn is_candidate(meta: &Meta) -> bool {
    need(meta, POD_GROUP_PROTECTION) == Some(Need::Remove)
}

pub struct PodGroupProtection {
    context: Context,
    groups: Arc<Store<PodGroup>>,
    pods: Arc<Store<Pod>>,
}

impl Reconcile for PodGroupProtection {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let group = self.groups.get(key);
        let Some(group) = group.filter(|group| is_candidate(&group.metadata)) else {
            return Ok(Next::AwaitChange);
        };
        let index = IndexValue::In(key.namespace.clone(), Istr::new(&key.name));
        let pods = self.pods.by(&ACTIVE_BY_GROUP, &index);
        if let Some(pod) = pods.first() {
            let what = format!("is kept until pod {} is over or gone", pod.metadata.name);
            let line = Line::waits("InUse", what).about(ObjectId::of(&**pod));
            report.decide(
                ObjectId::of(&*group),
                [line.because("its active pods are scheduled by it")],
            );
            return Ok(Next::AwaitChange);
        }
        let line = Line::acts("RemovesFinalizer", "removes the finalizer that protects it")
            .because("it is being deleted and none of its pods is active");
        report.decide(ObjectId::of(&*group), [line]);
        let client = &self.context.client;
        if let Some(mut live) = Live::<PodGroup>::read(client, &group.metadata).await? {
            protection::apply(client, &mut live, POD_GROUP_PROTECTION, Need::Remove).await?;
        }
        Ok(Next::AwaitChange)
    }
}
