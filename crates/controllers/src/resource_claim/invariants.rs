//! What must hold of claims and of those who use them. Pure.

use api::kinds::{ClaimConsumer, POD_CLAIM_NAME, Pod, PodClaim, ResourceClaim};

use super::plan::{Known, Requester, Step, is_pod, plan};
use super::release::is_done;
use crate::oracle::Verdict;

/// A claim is created for an entry of its pod that names a template, and bears the entry's name.
pub fn safe_claim(claim: &ResourceClaim, pod: &Pod) -> Verdict {
    let entry = claim.metadata.annotation(POD_CLAIM_NAME);
    let is_meant = |held: &PodClaim| held.template().is_some() && Some(held.name.as_str()) == entry;
    match pod.claims().iter().any(is_meant) {
        true => Ok(()),
        false => Err(format!(
            "claim {} was created for pod {}, which has no such claim",
            claim.metadata.key(),
            pod.metadata.name
        )),
    }
}

/// Nobody loses a claim that it may still use, and devices stay as long as anybody uses them. `user` is the pod of a
/// consumer's name.
pub fn safe_release<'a>(
    before: &ResourceClaim,
    after: &ResourceClaim,
    user: impl Fn(&ClaimConsumer) -> Option<&'a Pod>,
) -> Verdict {
    let (old, new) = (&before.status, &after.status);
    let removed = |consumer: &&ClaimConsumer| !new.reserved_for.contains(consumer);
    for consumer in old.reserved_for.iter().filter(removed) {
        let is_used =
            user(consumer).is_some_and(|pod| pod.metadata.uid == consumer.uid && !is_done(pod));
        if is_used || !is_pod(consumer) {
            return Err(format!(
                "claim {} was taken from {}, which uses it",
                before.metadata.key(),
                consumer.name
            ));
        }
    }
    let was_deallocated = old.allocation.is_some() && new.allocation.is_none();
    match was_deallocated && !new.reserved_for.is_empty() {
        true => Err(format!(
            "claim {} lost its devices, which are in use",
            before.metadata.key()
        )),
        false => Ok(()),
    }
}

/// The pod lacks no claim that it could have, and its status tells of each.
pub fn converged(pod: &Pod, known: Known<'_>) -> Verdict {
    let steps = plan(Requester::Pod { pod, group: None }, known);
    let mut open = steps
        .iter()
        .filter(|step| !matches!(step, Step::Wait(_) | Step::Refuse { .. }));
    match open.next() {
        Some(step) => Err(format!(
            "pod {} is not served: {}",
            pod.metadata.key(),
            step.line()
        )),
        None => Ok(()),
    }
}

/// No consumer of the claim is over, and it is not kept for a pod that is. `user` as above.
pub fn released<'a>(claim: &ResourceClaim, user: impl Fn(&str) -> Option<&'a Pod>) -> Verdict {
    let is_over = |consumer: &&ClaimConsumer| {
        let pod = user(&consumer.name).filter(|pod| pod.metadata.uid == consumer.uid);
        is_pod(consumer) && pod.is_none_or(is_done)
    };
    if let Some(consumer) = claim.status.reserved_for.iter().find(is_over) {
        return Err(format!(
            "claim {} is reserved for {}, which is over",
            claim.metadata.key(),
            consumer.name
        ));
    }
    let owner = claim
        .metadata
        .controller()
        .filter(|owner| owner.kind == "Pod");
    let owner = owner.and_then(|owner| user(&owner.name));
    match owner.is_some_and(is_done) && !claim.metadata.is_terminating() {
        true => Err(format!(
            "claim {} is kept for a pod that is over",
            claim.metadata.key()
        )),
        false => Ok(()),
    }
}
