//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::kinds::Pod;

use super::owner::ReplicaOwner;

/// Nothing is left to do: as many active pods as wanted, and a status that says so.
pub fn converged<K: ReplicaOwner>(owner: &K, pods: &[Arc<Pod>]) -> Result<(), String> {
    let meta = owner.meta();
    if meta.is_terminating() {
        return Ok(());
    }
    let active = owned_active(owner, pods);
    let want = usize::try_from(owner.replicas()).unwrap_or(0);
    if active.len() != want {
        return Err(format!(
            "{} has {} pods and wants {want}",
            meta.key(),
            active.len()
        ));
    }
    let status = owner.status();
    let ready = active.iter().filter(|pod| pod.is_ready()).count();
    let said = (
        status.replicas,
        status.ready_replicas,
        status.observed_generation,
    );
    let seen = (want as i32, ready as i32, meta.generation);
    if said != seen {
        return Err(format!(
            "{}: status says (replicas, ready, generation) {said:?}, the pods say {seen:?}",
            meta.key()
        ));
    }
    Ok(())
}

/// Never more pods than wanted plus what a stale view may have added: expectations make it none.
pub fn safe<K: ReplicaOwner>(owner: &K, pods: &[Arc<Pod>], most_wanted: i32) -> Result<(), String> {
    let active = owned_active(owner, pods).len();
    let most = usize::try_from(most_wanted.max(owner.replicas())).unwrap_or(0);
    if active > most {
        return Err(format!(
            "{} has {active} pods and never wanted more than {most}",
            owner.meta().key()
        ));
    }
    Ok(())
}

/// Of two pods the one that is not ready goes first: `taken` was deleted by the controller, `pods` are
/// those that are left. Holds as long as the controller sees them as they are.
pub fn ranked<K: ReplicaOwner>(owner: &K, pods: &[Arc<Pod>], taken: &Pod) -> Result<(), String> {
    if owner.replicas() == 0 {
        // All of them go, in any order.
        return Ok(());
    }
    // A deletion cost is worth less than readiness, so the latter alone decides here.
    let spared = owned_active(owner, pods)
        .into_iter()
        .find(|pod| !pod.is_ready() && pod.metadata.uid != taken.metadata.uid);
    match spared {
        Some(spared) if taken.is_ready() => Err(format!(
            "{} deleted {}, which was ready, and spared {}, which is not",
            owner.meta().key(),
            taken.metadata.name,
            spared.metadata.name
        )),
        _ => Ok(()),
    }
}

fn owned_active<'a, K: ReplicaOwner>(owner: &K, pods: &'a [Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
    let uid = &owner.meta().uid;
    pods.iter()
        .filter(|pod| pod.is_active() && pod.metadata.is_controlled_by(uid))
        .collect()
}
