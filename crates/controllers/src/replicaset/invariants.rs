//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::marker::PhantomData;
use std::sync::Arc;

use api::Key;
use api::kinds::Pod;

use super::owner::ReplicaOwner;
use crate::oracle::{
    Change, Generations, Oracle, Verdict, World, deletes_only_its_own, end_state_line, released,
};

const RANKED: &str = "pods that are not ready are deleted first";

/// Remembers how many pods each generation of an owner has wanted.
pub struct ReplicaOracle<K> {
    wanted: Generations,
    owners: PhantomData<fn() -> K>,
}

impl<K> Default for ReplicaOracle<K> {
    fn default() -> ReplicaOracle<K> {
        ReplicaOracle {
            wanted: Generations::default(),
            owners: PhantomData,
        }
    }
}

impl<K: ReplicaOwner> Oracle for ReplicaOracle<K> {
    fn observe(&mut self, _world: &World, change: &Change) {
        if let Some(owner) = change.after::<K>() {
            let replicas = owner.replicas();
            self.wanted.note(owner.meta(), replicas, replicas);
        }
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        deletes_only_its_own(K::CONTROLLER, &K::TYPE.kind, change)?;
        if let Some(pod) = change.created::<Pod>() {
            return self.check_created(world, &pod);
        }
        match change.ending::<Pod>() {
            Some(pod) => check_deleted::<K>(world, &pod),
            None => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for owner in world.store::<K>().list() {
            converged(&*owner, &world.owned_by(&owner.meta().uid))?;
        }
        released(world, K::selects)?;
        let orphan = |pod: &&Arc<Pod>| pod.metadata.controller().is_none() && pod.is_active();
        let pods = world.store::<Pod>().list();
        pods.iter()
            .filter(orphan)
            .try_for_each(|pod| check_adopted::<K>(world, pod))
    }

    fn settled(&self, world: &World) -> Verdict {
        for owner in world.store::<K>().list() {
            if world.is_namespace_alive(&owner.meta().namespace) {
                converged(&*owner, &world.owned_by(&owner.meta().uid))?;
            }
        }
        released(world, K::selects)
    }

    fn exists(&self, world: &World, key: &Key) -> Option<bool> {
        Some(world.store::<K>().get(key).is_some())
    }

    fn end_state(&self, world: &World) -> Vec<String> {
        let kind = K::TYPE.kind.to_lowercase();
        let mut owners = world.store::<K>().list();
        owners.retain(|owner| {
            // What a Deployment left behind depends on how far it was.
            let is_left = owner.meta().labels.contains_key("pod-template-hash");
            owner.meta().controller().is_none() && !is_left
        });
        let line =
            |owner: &Arc<K>| end_state_line(world, &kind, owner.meta(), owner.replicas(), false);
        owners.iter().map(line).collect()
    }
}

impl<K: ReplicaOwner> ReplicaOracle<K> {
    fn check_created(&self, world: &World, pod: &Pod) -> Verdict {
        let meta = &pod.metadata;
        let Some(owner) = meta.controller().filter(|it| *it.kind == *K::TYPE.kind) else {
            return Ok(());
        };
        let Some(held) = world.store::<K>().find(&meta.namespace, &owner.name) else {
            return Ok(());
        };
        let observed = world.surely_observed(held.status().observed_generation);
        let most = self.wanted.most_since(&owner.uid, observed);
        let slack = world.unacknowledged(&owner.uid);
        safe(&*held, &world.owned_by(&owner.uid), most + slack)
    }
}

/// The controller deleted a pod: the right one?
fn check_deleted<K: ReplicaOwner>(world: &World, pod: &Pod) -> Verdict {
    let meta = &pod.metadata;
    let Some(owner) = meta.controller() else {
        return Ok(());
    };
    let found = world.store::<K>().find(&meta.namespace, &owner.name);
    let Some(held) = found else {
        return Ok(());
    };
    let pods = world.owned_by(&owner.uid);
    world.check(RANKED, world.sight(&pods), || ranked(&*held, &pods, pod))
}

/// Nobody selects a pod that belongs to nobody.
fn check_adopted<K: ReplicaOwner>(world: &World, pod: &Pod) -> Verdict {
    let meta = &pod.metadata;
    let owners = world.store::<K>().in_namespace(&meta.namespace);
    match owners.iter().find(|owner| owner.selects(&meta.labels)) {
        Some(owner) => Err(format!(
            "{} is selected by {} and was not adopted",
            meta.key(),
            owner.meta().name
        )),
        None => Ok(()),
    }
}

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
