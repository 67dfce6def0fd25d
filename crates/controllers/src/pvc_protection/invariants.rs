//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::{PVC_PROTECTION, PersistentVolumeClaim, Pod};
use api::{MicroTime, Uid};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};
use crate::storage::protection::{Need, need};

#[derive(Default)]
pub struct ClaimProtectionOracle {
    /// When each pod came to its node.
    bound_at: BTreeMap<Uid, MicroTime>,
}

impl Oracle for ClaimProtectionOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        match (change.before::<Pod>(), change.after::<Pod>()) {
            (_, Some(pod)) if !pod.node_name.is_empty() => {
                let bound_at = self.bound_at.entry(pod.metadata.uid.clone());
                bound_at.or_insert(world.now());
            }
            (Some(pod), None) => {
                self.bound_at.remove(&pod.metadata.uid);
            }
            _ => {}
        }
    }

    fn forget_lost(&mut self) {
        // Who came back is bound, and nobody could know.
        self.bound_at.clear();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        let before = change.before::<PersistentVolumeClaim>();
        let Some(before) = before else {
            return no_business(DESCRIPTOR.name, change);
        };
        let after = change.after::<PersistentVolumeClaim>();
        // The pods were listed a moment before the finalizer went, whatever the caches say.
        let mut pods = world.store::<Pod>().list();
        pods.retain(|pod| {
            let bound_at = self.bound_at.get(&pod.metadata.uid);
            bound_at.is_some_and(|at| world.now().since(*at) > world.reaction())
        });
        safe(&before, after.as_deref(), &pods)
    }

    fn in_time(&self, world: &World) -> Verdict {
        let pods = world.store::<Pod>().list();
        let mut claims = world.store::<PersistentVolumeClaim>().list();
        claims.retain(|claim| claim.metadata.is_terminating());
        claims.iter().try_for_each(|claim| converged(claim, &pods))
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let pods = world.store::<Pod>().list();
        let claims = world.store::<PersistentVolumeClaim>().list();
        claims.iter().try_for_each(|claim| converged(claim, &pods))
    }
}

/// Nothing of a claim changes but its protection and what its status says of its use, and no claim loses its protection
/// that a pod on a node uses. `after` is none if that made it go.
pub fn safe(
    before: &PersistentVolumeClaim,
    after: Option<&PersistentVolumeClaim>,
    pods: &[Arc<Pod>],
) -> Result<(), String> {
    let key = before.metadata.key();
    if let Some(after) = after {
        let mut expected = before.clone();
        expected.metadata.finalizers = after.metadata.finalizers.clone();
        expected.metadata.resource_version = after.metadata.resource_version;
        expected.status.conditions = after.status.conditions.clone();
        if expected != *after {
            return Err(format!("more than the protection of {key} was changed"));
        }
    }
    let is_protected = |claim: &PersistentVolumeClaim| claim.metadata.has_finalizer(PVC_PROTECTION);
    if !is_protected(before) || after.is_some_and(is_protected) {
        return Ok(());
    }
    if !before.metadata.is_terminating() {
        return Err(format!("claim {key} lost its protection for no reason"));
    }
    match holder(pods, before) {
        Some(pod) => Err(format!(
            "claim {key} lost its protection while {} uses it",
            pod.metadata.name
        )),
        None => Ok(()),
    }
}

/// A pod on whose node the claim may be mounted, reckoned apart from the plan.
fn holder<'a>(pods: &'a [Arc<Pod>], claim: &PersistentVolumeClaim) -> Option<&'a Arc<Pod>> {
    let names = |pod: &Pod| {
        let is_shut_down = pod.metadata.deletion_grace_period_seconds == Some(0);
        pod.volumes().iter().any(|volume| {
            let is_its_own = match volume.is_ephemeral {
                true => claim.metadata.is_controlled_by(&pod.metadata.uid) && !is_shut_down,
                false => true,
            };
            *volume.claim_name == *claim.metadata.name && is_its_own
        })
    };
    pods.iter().find(|pod| {
        !pod.node_name.is_empty()
            && pod.metadata.namespace == claim.metadata.namespace
            && names(pod)
    })
}

/// Every claim is protected, and none that nobody uses is kept from being deleted.
pub fn converged(claim: &PersistentVolumeClaim, pods: &[Arc<Pod>]) -> Result<(), String> {
    let key = claim.metadata.key();
    match need(&claim.metadata, PVC_PROTECTION) {
        Some(Need::Add) => Err(format!("claim {key} is not protected")),
        Some(Need::Remove) if holder(pods, claim).is_none() => {
            Err(format!("claim {key} is kept though no pod uses it"))
        }
        _ => Ok(()),
    }
}
