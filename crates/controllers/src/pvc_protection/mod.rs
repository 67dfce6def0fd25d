//! Claims that stay as long as a pod uses them. A small controller.
//!
//! **Converges**: every claim has the finalizer `kubernetes.io/pvc-protection`; one that is being deleted loses it once
//! no pod that is on a node names it. With `PersistentVolumeClaimUnusedSinceTime` every claim has the condition
//! `Unused`, which says since when no pod names it whose containers run, or will.
//!
//! **Triggers**: a claim that lacks the finalizer, is being deleted, or (with the gate) has no condition; a pod that is
//! gone, over, or on no node, for the claims that it names (with the gate any change of a pod).
//!
//! **Writes**: the claim's finalizers, and with the gate its status, each by an update of the whole: the role has no
//! patch.
//!
//! **Mirrors** `pkg/controller/volume/pvcprotection`. The cache may not have seen a pod yet, so before a finalizer goes
//! the pods of the namespace are listed from the API server ([`live_pods`]).
//!
//! **Deliberate differences**: upstream collects the claims of a namespace and lists its pods once for those that it
//! has collected; here one list answers for all claims of the namespace that were being deleted when it began. A claim
//! that lacks both condition and finalizer gets both in one sync, where upstream's second write meets a conflict. A claim
//! that is kept for a pod which the cache has not seen is looked at again, where upstream waits for a
//! change of the pod, which may never be heard of.

mod actions;
mod invariants;
mod live_pods;
mod plan;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{PVC_PROTECTION, PersistentVolumeClaim, Pod};
use api::{Gate, Key, ObjectId, Resource};
use runtime::rate_limit::Backoff;
use runtime::{Change, Context, Controller, Error, Loop, Next, Queue, Reconcile, Report, Store};

use self::live_pods::LivePods;
use self::plan::{Use, condition, may_free_claims, set_unused, user_among};
use crate::Descriptor;
use crate::oracle::View;
use crate::storage::claim_users::{BY_CLAIM, users_of};
use crate::storage::live::Live;
use crate::storage::protection::{self, Need, need};

pub use invariants::ClaimProtectionOracle;

pub const DESCRIPTOR: Descriptor = Descriptor {
    caches: &[View::of::<PersistentVolumeClaim>(), View::of::<Pod>()],
    decides_about: &[PersistentVolumeClaim::TYPE],
    queues: &["pvcprotection"],
    build: Some(|ctx| Some(controller(ctx).into())),
    oracle: Some(|| Box::<ClaimProtectionOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "persistentvolumeclaim-protection-controller",
        "pvc-protection",
        "pvc-protection-controller",
    )
};

pub fn controller(context: &Context) -> Controller {
    let pods = context.informers.of::<Pod>();
    pods.add_index(&BY_CLAIM);
    let says_unused = context
        .gates
        .enabled(Gate::PersistentVolumeClaimUnusedSinceTime);
    Loop::on::<Key>(context, Backoff::DEFAULT)
        .queue("pvcprotection")
        .watches::<PersistentVolumeClaim>(move |change, queue| {
            let claim = change.object();
            let lacks_condition = says_unused && condition(claim).is_none();
            let is_gone = matches!(change, Change::Deleted(_));
            if !is_gone && (lacks_condition || need(&claim.metadata, PVC_PROTECTION).is_some()) {
                queue.add(claim.key());
            }
        })
        .watches::<Pod>(move |change, queue| enqueue_claims(change, says_unused, queue))
        // UPSTREAM: one worker, without a flag.
        .workers(1)
        .reconciler(ClaimProtection {
            context: context.clone(),
            claims: context.informers.store::<PersistentVolumeClaim>(),
            pods: pods.store().clone(),
            live_pods: LivePods::default(),
            says_unused,
        })
}

fn enqueue_claims(change: Change<'_, Pod>, says_unused: bool, queue: &Queue) {
    let pod = change.object();
    let is_gone = matches!(change, Change::Deleted(_));
    if is_gone || says_unused || may_free_claims(pod) {
        for volume in pod.volumes() {
            queue.add(Key::new(&pod.metadata.namespace, &volume.claim_name));
        }
    }
}

/// How soon a claim is looked at again whose user only the API server knows. Caches are seldom so far behind.
const UNSEEN: Duration = Duration::from_secs(10);

pub struct ClaimProtection {
    context: Context,
    claims: Arc<Store<PersistentVolumeClaim>>,
    pods: Arc<Store<Pod>>,
    live_pods: LivePods,
    /// Is the condition `Unused` kept?
    says_unused: bool,
}

impl Reconcile for ClaimProtection {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let Some(claim) = self.claims.get(key) else {
            return Ok(Next::AwaitChange);
        };
        let (mut lines, mut next) = (Vec::new(), Next::AwaitChange);
        let unused = match self.says_unused && !claim.metadata.is_terminating() {
            true => self.changed_use(&claim).await?,
            false => None,
        };
        lines.extend(unused.map(plan::in_use_line));
        let needed = match need(&claim.metadata, PVC_PROTECTION) {
            Some(Need::Remove) => match self.user(&claim, Use::Deletion).await? {
                Some(pod) => {
                    lines.push(plan::waits(&pod));
                    if !self.has_seen(&pod) {
                        next = Next::After(UNSEEN);
                    }
                    None
                }
                None => Some(Need::Remove),
            },
            other => other,
        };
        lines.extend(needed.map(plan::protects));
        if !lines.is_empty() {
            report.decide(ObjectId::of(&*claim), lines);
        }
        if unused.is_some() || needed.is_some() {
            self.write(&claim, unused, needed).await?;
        }
        Ok(next)
    }
}

impl ClaimProtection {
    /// Will a change of the cache tell when the pod is gone? One that came and goes while a watch stands still is never
    /// heard of.
    fn has_seen(&self, pod: &Pod) -> bool {
        let cached = self.pods.get(&pod.metadata.key());
        cached.is_some_and(|cached| cached.metadata.uid == pod.metadata.uid)
    }

    /// Is the claim unused, if its condition does not say so already?
    async fn changed_use(&self, claim: &PersistentVolumeClaim) -> Result<Option<bool>, Error> {
        let unused = self.user(claim, Use::Reference).await?.is_none();
        let said = condition(claim).map(|held| held.status == "True");
        Ok((said != Some(unused)).then_some(unused))
    }

    /// A pod that uses the claim. The cache may say that there is one; that there is none, only the API server.
    async fn user(
        &self,
        claim: &PersistentVolumeClaim,
        how: Use,
    ) -> Result<Option<Arc<Pod>>, Error> {
        let cached = self.pods.by(&BY_CLAIM, &users_of(claim));
        if let Some(pod) = user_among(&cached, claim, how) {
            return Ok(Some(pod.clone()));
        }
        let client = &self.context.client;
        match how {
            Use::Deletion => self.live_pods.user(client, claim, &self.claims).await,
            Use::Reference => {
                let pods = live_pods::list(client, &claim.metadata.namespace).await?;
                Ok(user_among(&pods, claim, how).cloned())
            }
        }
    }

    async fn write(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        unused: Option<bool>,
        needed: Option<Need>,
    ) -> Result<(), Error> {
        let client = &self.context.client;
        let Some(mut live) = Live::of(client, claim).await? else {
            return Ok(());
        };
        if let Some(unused) = unused {
            let now = self.context.clock.now().time();
            let edit = |whole: &mut _| set_unused(whole, unused, now);
            live.put(client, Some("status"), edit).await?;
        }
        if let Some(needed) = needed {
            protection::apply(client, &mut live, PVC_PROTECTION, needed).await?;
        }
        Ok(())
    }
}
