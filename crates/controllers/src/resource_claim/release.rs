//! What becomes of a claim when those who used it are done. Pure.

use api::decision::{Line, agree, counted};
use api::kinds::{CLAIM_DELETE_PROTECTION, ClaimConsumer, Pod, ResourceClaim};
use api::{Istr, Uid};

/// Whether somebody who may use a claim still does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Stays,
    /// It is gone, or will never run.
    Gone,
    /// The cache does not know it, which may be because it is new.
    Unknown,
}

/// What is to be written, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// Consumers that go.
    pub removed: Vec<Uid>,
    pub deallocate: bool,
    pub remove_finalizer: bool,
    pub delete: Option<Unused>,
}

/// The pod that a claim was created for, which does not need it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    pub pod: Istr,
}

/// `gone` are consumers that do not use it any more; `owner` is the pod of the name of the one that it was created for.
pub fn plan(claim: &ResourceClaim, gone: &[Uid], owner: Option<&Pod>) -> Release {
    let status = &claim.status;
    let is_gone = |consumer: &&ClaimConsumer| gone.contains(&consumer.uid);
    let removed: Vec<Uid> = status
        .reserved_for
        .iter()
        .filter(is_gone)
        .map(|consumer| consumer.uid.clone())
        .collect();
    let is_unused = removed.len() == status.reserved_for.len();
    let is_protected = claim.metadata.has_finalizer(CLAIM_DELETE_PROTECTION);
    let is_allocated = status.allocation.is_some();
    // Devices go back when the last consumer goes, not before anybody came; and before the claim itself may go.
    let has_emptied = !removed.is_empty() && is_unused;
    let must_go = claim.metadata.is_terminating() && is_unused;
    let deallocate = is_protected && is_allocated && (has_emptied || must_go);
    let was_touched = !removed.is_empty() || must_go;
    Release {
        remove_finalizer: is_protected && was_touched && (deallocate || !is_allocated),
        deallocate,
        removed,
        delete: owner
            .filter(|_| is_unused && !claim.metadata.is_terminating())
            .and_then(|pod| unused(claim, pod)),
    }
}

fn unused(claim: &ResourceClaim, pod: &Pod) -> Option<Unused> {
    let owner = claim.metadata.controller()?;
    let is_other = pod.metadata.uid != owner.uid;
    (is_other || is_done(pod)).then(|| Unused {
        pod: owner.name.clone(),
    })
}

/// No container of it runs, or will.
pub fn is_done(pod: &Pod) -> bool {
    pod.is_finished() || (pod.metadata.is_terminating() && pod.node_name.is_empty())
}

impl Release {
    pub fn is_empty(&self) -> bool {
        *self == Release::default()
    }

    pub fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let removed = self.removed.len();
        if removed > 0 {
            let what = format!("removes {}", counted(removed, "consumer"));
            let why = format!(
                "{} not use it any more",
                agree(removed, "it does", "they do")
            );
            lines.push(Line::acts("RemovesConsumers", what).because(why));
        }
        if self.deallocate {
            let line = Line::acts("Deallocates", "gives its devices back");
            lines.push(line.because("it is not used any more"));
        }
        if self.remove_finalizer {
            let line = Line::acts("RemovesFinalizer", "removes its finalizer");
            lines.push(line.because("no devices are allocated for it"));
        }
        if let Some(Unused { pod }) = &self.delete {
            let why = format!("pod {pod}, which it was created for, does not need it any more");
            lines.push(Line::acts("Deletes", "deletes it").because(why));
        }
        lines
    }
}
