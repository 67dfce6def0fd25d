//! When the invariants of claims hold.

use std::sync::Arc;

use api::kinds::{Namespace, POD_CLAIM_NAME, Pod, ResourceClaim, ResourceClaimTemplate};

use super::DESCRIPTOR;
use super::invariants::{converged, released, safe_claim, safe_release};
use super::plan::Known;
use super::release::is_done;
use crate::oracle::{Change, Oracle, Verdict, View, World, no_business, owner_of};

#[derive(Default)]
pub struct ResourceClaimOracle;

impl Oracle for ResourceClaimOracle {
    fn views(&self) -> Vec<View> {
        vec![View::of::<Namespace>()]
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        if let Some(claim) = change.created::<ResourceClaim>() {
            return created(world, change, &claim);
        }
        if let Some(claim) = change.ending::<ResourceClaim>() {
            return deleted(world, &claim);
        }
        if let Some((before, after)) = change.updated::<ResourceClaim>() {
            let pods = pods_of(world, &before);
            return safe_release(&before, &after, |consumer| named(&pods, &consumer.name));
        }
        if change.gone::<ResourceClaim>().is_some() {
            // Its finalizer was the last.
            return Ok(());
        }
        match change.updated::<Pod>() {
            Some((before, after)) => only_claims_changed(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let known = Known {
            claims: world.store::<ResourceClaim>(),
            templates: world.store::<ResourceClaimTemplate>(),
            gates: world.run.gates,
        };
        for pod in world.store::<Pod>().list() {
            if world.is_namespace_alive(&pod.metadata.namespace) {
                converged(&pod, known)?;
            }
        }
        for claim in world.store::<ResourceClaim>().list() {
            let pods = pods_of(world, &claim);
            released(&claim, |name| named(&pods, name))?;
        }
        Ok(())
    }
}

fn pods_of(world: &World, claim: &ResourceClaim) -> Vec<Arc<Pod>> {
    world.store::<Pod>().in_namespace(&claim.metadata.namespace)
}

fn named<'a>(pods: &'a [Arc<Pod>], name: &str) -> Option<&'a Pod> {
    let mut pods = pods.iter();
    pods.find(|pod| *pod.metadata.name == *name)
        .map(|pod| &**pod)
}

fn created(world: &World, change: &Change, claim: &ResourceClaim) -> Verdict {
    let Some(owner) = claim.metadata.controller() else {
        return no_business(DESCRIPTOR.name, change);
    };
    // The pod may be gone since; the collector deals with the rest.
    let Some(pod) = owner_of::<Pod>(world, &claim.metadata) else {
        return Ok(());
    };
    safe_claim(claim, &pod)?;
    let entry = claim.metadata.annotation(POD_CLAIM_NAME);
    let siblings = world.owned_by::<ResourceClaim>(&owner.uid);
    let same = siblings
        .iter()
        .filter(|held| held.metadata.annotation(POD_CLAIM_NAME) == entry);
    let allowed = 1 + world.unacknowledged(&owner.uid);
    world.check(
        "a pod gets each claim once",
        world.sight(&siblings),
        || match i32::try_from(same.count()).is_ok_and(|count| count <= allowed) {
            true => Ok(()),
            false => Err(format!(
                "pod {} got a second claim for {}",
                pod.metadata.key(),
                entry.unwrap_or_default()
            )),
        },
    )
}

fn deleted(world: &World, claim: &ResourceClaim) -> Verdict {
    let pods = pods_of(world, claim);
    let owner = claim.metadata.controller();
    let owner = owner
        .and_then(|owner| named(&pods, &owner.name).filter(|pod| pod.metadata.uid == owner.uid));
    match owner {
        Some(pod) if !is_done(pod) => Err(format!(
            "claim {} was deleted, and pod {} needs it",
            claim.metadata.key(),
            pod.metadata.name
        )),
        _ => Ok(()),
    }
}

fn only_claims_changed(before: &Pod, after: &Pod) -> Verdict {
    let plain = |pod: &Pod| {
        let mut own = pod.own.clone().unwrap_or_default();
        own.claims = Box::default();
        own
    };
    let mut expected = before.clone();
    expected.metadata.resource_version = after.metadata.resource_version;
    expected.own = after.own.clone();
    match expected == *after && plain(before) == plain(after) {
        true => Ok(()),
        false => Err(format!(
            "more than the claims of pod {} was changed",
            after.metadata.key()
        )),
    }
}
