//! The oracle of Deployments: what its checks have to remember, and when each is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::kinds::{Deployment, Pod, ReplicaSet};
use api::{MicroTime, Resource, Uid};

use super::DESCRIPTOR;
use super::invariants::{
    Seen, bounds, converged, has_shared_out, keeps_enough, progressing_is_true, recreates,
    reported, rolled_back, safe, scaled_in_proportion, surplus,
};
use crate::oracle::{
    Change, Generations, LAG, Oracle, REACTION, Sight, Verdict, World, adopted,
    deletes_only_its_own, owner_of, released, versions,
};

const RECREATED: &str = "Recreate never has pods of two templates";
const TOLD: &str = "a rollout is complete, or stuck, when its Deployment says so";
const SHARED: &str = "sets of a Deployment are scaled in proportion";
const ROLLED_BACK: &str = "a Deployment goes back to the revision that was asked for";

#[derive(Default)]
pub struct DeploymentOracle {
    /// The bounds that each generation has set.
    bounds: Generations,
    /// Of each ReplicaSet: how many pods its status promised beyond what it asks for, and until when.
    surplus: BTreeMap<Uid, (MicroTime, i32)>,
    /// When a Deployment was last asked for something else, or one of its sets changed.
    progressed_at: BTreeMap<Uid, MicroTime>,
    /// Deployments that adopted a set which has pods, and have not given it a size of their own yet.
    adopters: BTreeSet<Uid>,
}

impl Oracle for DeploymentOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        if let Some(deployment) = change.after::<Deployment>() {
            let (least, most) = bounds(&deployment);
            self.bounds.note(&deployment.metadata, least, most);
            let before = change.before::<Deployment>();
            let generation = before.map(|before| before.metadata.generation);
            if generation != Some(deployment.metadata.generation) {
                self.note_progress(&deployment.metadata.uid, world.now());
            }
        }
        if let Some(set) = change.before::<ReplicaSet>() {
            self.note_surplus(&set, world.now());
        }
        if let Some((before, after)) = change.updated::<ReplicaSet>() {
            self.note_adopter(world, &before, &after);
        }
        let sets = [change.before::<ReplicaSet>(), change.after()];
        for set in sets.into_iter().flatten() {
            if let Some(owner) = set.metadata.controller() {
                self.note_progress(&owner.uid, world.now());
            }
        }
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        deletes_only_its_own(DESCRIPTOR.name, &Deployment::TYPE.kind, change)?;
        if let Some((before, after)) = change.updated::<Deployment>() {
            return check_told(world, &before, &after);
        }
        if let Some((before, after)) = change.updated::<ReplicaSet>() {
            check_shared(world, &before, &after)?;
        }
        let before = change.before::<ReplicaSet>();
        match change.after::<ReplicaSet>() {
            Some(after) => {
                self.check_resized(world, before.map_or(0, |before| before.replicas()), &after)
            }
            None => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for deployment in world.store::<Deployment>().list() {
            let sets = world.owned_by(&deployment.metadata.uid);
            converged(&deployment, &sets)?;
        }
        self.in_time(world)?;
        self.even_if_paused(world)
    }

    fn in_time(&self, world: &World) -> Verdict {
        adopted(world, selects)
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        for deployment in world.store::<Deployment>().list() {
            let meta = &deployment.metadata;
            let sets = world.owned_by::<ReplicaSet>(&meta.uid);
            let pods = sets
                .iter()
                .flat_map(|set| world.owned_by(&set.metadata.uid));
            let progressed_at = self.progressed_at.get(&meta.uid).copied();
            let progressed_at = progressed_at.unwrap_or(meta.created_at.micro());
            let seen = Seen {
                sets: &sets,
                pods: &pods.collect::<Vec<_>>(),
                gates: world.run.gates,
                now: world.now(),
                // A new leader gives every rollout no more time: the condition says since when it counts.
                progressed_at: progressed_at.plus(world.delay()),
            };
            if world.is_namespace_alive(&meta.namespace) {
                reported(&deployment, &seen)?;
            }
        }
        released(world, selects)
    }

    fn end_state(&self, world: &World) -> Vec<String> {
        let line = |held: &Arc<Deployment>| {
            let sets = world.owned_by::<ReplicaSet>(&held.metadata.uid);
            let pods = sets
                .iter()
                .flat_map(|set| world.owned_by(&set.metadata.uid));
            format!(
                "deployment {}: {} wanted, {} updated, {} available, {}",
                held.metadata.key(),
                held.replicas(),
                held.status.updated_replicas,
                held.status.available_replicas,
                versions(&pods.collect::<Vec<_>>(), true),
            )
        };
        world
            .store::<Deployment>()
            .list()
            .iter()
            .map(line)
            .collect()
    }
}

impl DeploymentOracle {
    fn note_progress(&mut self, deployment: &Uid, at: MicroTime) {
        self.progressed_at.insert(deployment.clone(), at);
    }

    fn note_adopter(&mut self, world: &World, before: &ReplicaSet, after: &ReplicaSet) {
        let Some(deployment) = owner_of::<Deployment>(world, &after.metadata) else {
            return;
        };
        let uid = &deployment.metadata.uid;
        let sets = world.owned_by::<ReplicaSet>(uid);
        if before.metadata.controller().is_none() && after.replicas() > 0 {
            self.adopters.insert(uid.clone());
        } else if has_shared_out(&deployment, &sets) && safe(&deployment, &sets, 0).is_ok() {
            self.adopters.remove(uid);
        }
    }

    fn note_surplus(&mut self, set: &ReplicaSet, at: MicroTime) {
        let (uid, surplus) = (&set.metadata.uid, surplus(set));
        if surplus > 0 {
            let held = self.surplus_within(uid, at, true);
            self.surplus.insert(uid.clone(), (at, surplus.max(held)));
        }
    }

    /// The surplus that a controller may still see, whose view may lag.
    fn surplus_within(&self, set: &Uid, now: MicroTime, lag: bool) -> i32 {
        let window = if lag { LAG } else { REACTION };
        let held = self.surplus.get(set);
        held.filter(|(at, _)| now.since(*at) <= window)
            .map_or(0, |(_, surplus)| *surplus)
    }

    fn check_resized(&self, world: &World, before: i32, set: &ReplicaSet) -> Verdict {
        let Some(deployment) = owner_of::<Deployment>(world, &set.metadata) else {
            return Ok(());
        };
        let uid = &deployment.metadata.uid;
        let sets = world.owned_by(uid);
        let observed = world.surely_observed(deployment.status.observed_generation);
        let Some((least, most)) = self.bounds.since(uid, observed) else {
            return Ok(());
        };
        if set.replicas() > before {
            if before == 0 {
                check_recreated(world, &deployment, &sets, set)?;
            }
            // UPSTREAM: an adopted set notes of which whole it was a part, and that is another one's. Its share of the new
            // whole may be larger than it is, although there are too many pods in all; that is made up for afterwards.
            let is_adopter = self.adopters.contains(uid);
            safe(&deployment, &sets, if is_adopter { i32::MAX } else { most })
        } else if set.replicas() < before {
            keeps_enough(&deployment, &sets, least - self.promised(world, set, &sets))
        } else {
            Ok(())
        }
    }

    /// How many pods the statuses of these sets have promised beyond what the sets ask for, before `resized`
    /// was resized and as far back as a controller may look.
    fn promised(&self, world: &World, resized: &ReplicaSet, sets: &[Arc<ReplicaSet>]) -> i32 {
        let (now, lag) = (world.now(), world.may_lag::<ReplicaSet>());
        let held = |set: &Arc<ReplicaSet>| {
            let uid = &set.metadata.uid;
            let is_other = *uid != resized.metadata.uid;
            let present = surplus(set) * i32::from(is_other);
            present.max(self.surplus_within(uid, now, lag))
        };
        sets.iter().map(held).sum()
    }
}

fn selects(deployment: &Deployment, set: &ReplicaSet) -> bool {
    deployment.spec.selector.matches(&set.metadata.labels)
}

/// Could the controller see the Deployment and its sets?
fn sight(world: &World, deployment: &Arc<Deployment>, sets: &[Arc<ReplicaSet>]) -> Sight {
    let sight = world.sight(std::slice::from_ref(deployment));
    sight.max(world.sight(sets))
}

/// The controller wrote a Deployment: is what it says of the rollout true, and did it leave the template alone?
fn check_told(world: &World, before: &Deployment, after: &Arc<Deployment>) -> Verdict {
    let sets = world.owned_by::<ReplicaSet>(&after.metadata.uid);
    let sight = sight(world, after, &sets);
    world.check(TOLD, sight, || {
        progressing_is_true(before, after, &sets, world.latest_now())
    })?;
    let concerns = before.rollback_to().is_some() || before.spec.template != after.spec.template;
    match concerns {
        true => world.check(ROLLED_BACK, sight, || rolled_back(before, after, &sets)),
        false => Ok(()),
    }
}

/// The controller wrote a set: is that its share of another size?
fn check_shared(world: &World, before: &ReplicaSet, after: &ReplicaSet) -> Verdict {
    let Some(deployment) = owner_of::<Deployment>(world, &after.metadata) else {
        return Ok(());
    };
    let sets = world.owned_by::<ReplicaSet>(&deployment.metadata.uid);
    let sight = sight(world, &deployment, &sets);
    world.check(SHARED, sight, || {
        scaled_in_proportion(&deployment, &sets, before, after)
    })
}

/// A set gets its first pods: with the strategy Recreate, none of another template may be left. Whether it gets them from its
/// own controller at once is that one's business.
fn check_recreated(
    world: &World,
    deployment: &Arc<Deployment>,
    sets: &[Arc<ReplicaSet>],
    set: &ReplicaSet,
) -> Verdict {
    let others = sets
        .iter()
        .filter(|other| other.metadata.uid != set.metadata.uid);
    let pods: Vec<Arc<Pod>> = others
        .flat_map(|other| world.owned_by(&other.metadata.uid))
        .collect();
    let sight = world.sight(&pods).max(world.sight(sets));
    let sight = sight.max(world.sight(std::slice::from_ref(deployment)));
    let has_pods = |set: &ReplicaSet| {
        let pods = world.owned_by::<Pod>(&set.metadata.uid);
        // One that is on its way out may still hold what the new one needs.
        pods.iter().any(|pod| !pod.is_finished())
    };
    world.check(RECREATED, sight, || {
        recreates(deployment, sets, set, has_pods)
    })
}
