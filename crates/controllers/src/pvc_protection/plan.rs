//! Who uses a claim, and what is said about it. Pure.

use std::sync::Arc;

use api::decision::Line;
use api::json::Node;
use api::kinds::{ClaimCondition, PersistentVolumeClaim, Pod};
use api::{ObjectId, Time};

use crate::storage::claim_users::stands_for;
use crate::storage::protection::Need;

/// The type of the condition that says since when nobody uses a claim.
const UNUSED: &str = "Unused";

/// What counts as using a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A pod on a node, also one that is over: its kubelet may have the volume mounted. A pod that nobody has bound is
    /// never started with a claim that is being deleted.
    Deletion,
    /// Any pod whose containers run, or will.
    Reference,
}

/// The first of these pods that uses the claim.
pub fn user_among<'a>(
    pods: &'a [Arc<Pod>],
    claim: &PersistentVolumeClaim,
    how: Use,
) -> Option<&'a Arc<Pod>> {
    pods.iter().find(|pod| uses(pod, claim, how))
}

pub fn uses(pod: &Pod, claim: &PersistentVolumeClaim, how: Use) -> bool {
    let counts = match how {
        Use::Deletion => !pod.node_name.is_empty(),
        Use::Reference => !pod.has_left_volumes(),
    };
    let mut volumes = pod.volumes().iter();
    counts
        && volumes.any(|volume| {
            // The claim may be what a finalizer of the pod waits for: a pod that its kubelet is done with does not keep
            // the claim that was created for it.
            let is_released = how == Use::Deletion && volume.is_ephemeral && is_shut_down(pod);
            stands_for(pod, volume, claim) && !is_released
        })
}

/// Could a claim lose its finalizer because of this change of a pod?
pub fn may_free_claims(pod: &Pod) -> bool {
    pod.has_left_volumes() || pod.node_name.is_empty()
}

/// Its kubelet is done with it, or it was deleted by force: only its finalizers keep it.
fn is_shut_down(pod: &Pod) -> bool {
    let meta = &pod.metadata;
    meta.is_terminating() && meta.deletion_grace_period_seconds == Some(0)
}

pub fn condition(claim: &PersistentVolumeClaim) -> Option<&ClaimCondition> {
    claim.condition(UNUSED)
}

/// Puts the condition into a claim, in the place of the one that it has.
pub fn set_unused(claim: &mut Node, unused: bool, now: Time) {
    let (status, reason, message) = match unused {
        true => (
            "True",
            "NoPodsUsingPVC",
            "No pods are currently referencing this PVC",
        ),
        false => (
            "False",
            "PodUsingPVC",
            "A pod is currently referencing this PVC",
        ),
    };
    let said = Node::of(&serde_json::json!({
        "type": UNUSED, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    }));
    let conditions = claim.entry(&["status", "conditions"]);
    let is_unused = |held: &Node| {
        let type_ = held.get(&["type"]).and_then(Node::as_str);
        type_.is_some_and(|type_| type_ == UNUSED)
    };
    match conditions {
        Node::Array(held) => match held.iter_mut().find(|held| is_unused(held)) {
            Some(held) => *held = said,
            None => held.push(said),
        },
        other => *other = Node::Array(vec![said]),
    }
}

pub fn waits(pod: &Pod) -> Line {
    let what = format!(
        "is kept until pod {} is gone, which uses it",
        pod.metadata.name
    );
    let line = Line::waits("InUse", what).about(ObjectId::of(pod));
    let hint = format!(
        "kubectl delete pod {} -n {}",
        pod.metadata.name, pod.metadata.namespace
    );
    line.because("data of a pod on a node must not be deleted")
        .hint(hint)
}

pub fn in_use_line(unused: bool) -> Line {
    match unused {
        true => Line::acts("SaysUnused", "notes that no pod uses it"),
        false => Line::acts("SaysUsed", "notes that a pod uses it"),
    }
}

pub fn protects(what: Need) -> Line {
    match what {
        Need::Add => Line::acts("AddsFinalizer", "adds the finalizer that protects it"),
        Need::Remove => Line::acts("RemovesFinalizer", "removes the finalizer that protects it")
            .because("it is being deleted and no pod on a node uses it"),
    }
}
