//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use std::marker::PhantomData;
use std::sync::Arc;

use api::kinds::Pod;
use api::{Gate, Gates, Key, MicroTime, conditions};

use super::owner::ReplicaOwner;
use crate::oracle::{
    Change, Generations, Losses, Oracle, Verdict, World, adopted, count, deletes_only_its_own,
    end_state_line, is_available, released, says,
};

const RANKED: &str = "pods that are not ready are deleted first";
const AVAILABLE: &str = "no pod of a ReplicaSet counts as available before its time";

/// Remembers how many pods each generation of an owner has wanted.
pub struct ReplicaOracle<K> {
    wanted: Generations,
    losses: Losses,
    owners: PhantomData<fn() -> K>,
}

impl<K> Default for ReplicaOracle<K> {
    fn default() -> ReplicaOracle<K> {
        ReplicaOracle {
            wanted: Generations::default(),
            losses: Losses::default(),
            owners: PhantomData,
        }
    }
}

impl<K: ReplicaOwner> Oracle for ReplicaOracle<K> {
    fn observe(&mut self, world: &World, change: &Change) {
        self.losses.observe(world, change);
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
        if let Some(owner) = change.after::<K>() {
            return self.check_available(world, &owner);
        }
        match change.ending::<Pod>() {
            Some(pod) => check_deleted::<K>(world, &pod),
            None => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        self.in_time(world)?;
        self.even_if_paused(world)
    }

    fn in_time(&self, world: &World) -> Verdict {
        adopted(world, |owner: &K, pod: &Pod| {
            pod.is_active() && owner.selects(&pod.metadata.labels)
        })
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        let (gates, now) = (world.run.gates, world.now());
        for owner in world.store::<K>().list() {
            if world.is_namespace_alive(&owner.meta().namespace) {
                converged(&*owner, &world.owned_by(&owner.meta().uid), gates, now)?;
            }
        }
        // UPSTREAM: a pod that has ended, or is about to, stays whose it was.
        released(world, |owner: &K, pod: &Pod| {
            !pod.is_active() || owner.selects(&pod.metadata.labels)
        })
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
    /// The controller wrote the status of an owner: does it count nobody too early?
    fn check_available(&self, world: &World, owner: &Arc<K>) -> Verdict {
        let (pods, sight) = self.losses.counted(world, owner);
        let now = world.latest_now();
        world.check(AVAILABLE, sight, || counts_in_time(&**owner, &pods, now))
    }

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

/// No more pods are said to be available than have been ready for `minReadySeconds`. Holds as long as the controller
/// sees them as they are.
pub fn counts_in_time<K: ReplicaOwner>(
    owner: &K,
    pods: &[Arc<Pod>],
    now: MicroTime,
) -> Result<(), String> {
    // UPSTREAM: the status counts those that it has just deleted, too.
    let is_due = |pod: &&Arc<Pod>| {
        pod.metadata.is_controlled_by(&owner.meta().uid)
            && is_available(pod, owner.min_ready_seconds(), now)
    };
    let (said, most) = (
        owner.status().available_replicas,
        count(pods.iter().filter(is_due)),
    );
    match said > most {
        true => Err(format!(
            "{}: status says {said} available pods, {most} have been ready for long enough",
            owner.meta().key()
        )),
        false => Ok(()),
    }
}

/// Nothing is left to do: as many active pods as wanted, and a status that says so.
pub fn converged<K: ReplicaOwner>(
    owner: &K,
    pods: &[Arc<Pod>],
    gates: Gates,
    now: MicroTime,
) -> Result<(), String> {
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
    reported(owner, pods, gates, now)
}

/// The status counts the pods as they are, and reports no failure: a set with all its pods has none.
fn reported<K: ReplicaOwner>(
    owner: &K,
    pods: &[Arc<Pod>],
    gates: Gates,
    now: MicroTime,
) -> Result<(), String> {
    let (meta, status) = (owner.meta(), owner.status());
    let active = owned_active(owner, pods);
    let counted = |is_counted: &dyn Fn(&Pod) -> bool| {
        let counted = active.iter().filter(|pod| is_counted(pod));
        count(counted)
    };
    let template = owner.template().labels();
    let is_labelled = |pod: &Pod| {
        let mut labels = template.iter();
        labels.all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
    };
    let is_leaving = |pod: &&Arc<Pod>| {
        let held = pod.metadata.is_controlled_by(&meta.uid);
        held && pod.is_terminating() && owner.selects(&pod.metadata.labels)
    };
    let tells = K::TYPE.kind == "ReplicaSet"
        && gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas);
    let key = meta.key();
    says(&key, "replicas", status.replicas, count(&active))?;
    let labelled = counted(&is_labelled);
    says(
        &key,
        "fullyLabeledReplicas",
        status.fully_labeled_replicas,
        labelled,
    )?;
    let ready = counted(&Pod::is_ready);
    says(&key, "readyReplicas", status.ready_replicas, ready)?;
    let available = counted(&|pod| is_available(pod, owner.min_ready_seconds(), now));
    says(
        &key,
        "availableReplicas",
        status.available_replicas,
        available,
    )?;
    let terminating = tells.then(|| count(pods.iter().filter(is_leaving)));
    says(
        &key,
        "terminatingReplicas",
        status.terminating_replicas,
        terminating,
    )?;
    let generation = status.observed_generation;
    says(&key, "observedGeneration", generation, meta.generation)?;
    let failure = conditions::find(&status.conditions, "ReplicaFailure");
    says(
        &key,
        "ReplicaFailure",
        failure.map(|held| &*held.reason),
        None,
    )
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
/// those that are left. Deletions of one sync are sent together, and any of them may come later or fail, so those that
/// are spared only count once too few are left to go. Holds as long as the controller sees them as they are.
pub fn ranked<K: ReplicaOwner>(owner: &K, pods: &[Arc<Pod>], taken: &Pod) -> Result<(), String> {
    if owner.replicas() == 0 {
        // All of them go, in any order.
        return Ok(());
    }
    // A deletion cost is worth less than readiness, so the latter alone decides here.
    let mut left = owned_active(owner, pods);
    left.retain(|pod| pod.metadata.uid != taken.metadata.uid);
    let wanted = usize::try_from(owner.replicas()).unwrap_or(0);
    let to_go = left.len().saturating_sub(wanted);
    left.retain(|pod| !pod.is_ready());
    match left.first() {
        Some(spared) if taken.is_ready() && left.len() > to_go => Err(format!(
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
