//! The oracle of StatefulSets: what its checks have to remember, and when each is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kinds::{
    ControllerRevision, DaemonSet, PersistentVolumeClaim, Pod, ReplicaSet, ReplicationController,
    StatefulSet,
};
use api::{Key, LabelSelector, Meta, OwnerRef, Resource};
use serde::Deserialize;

use super::DESCRIPTOR;
use super::identity::{ordinal, ordinals};
use super::invariants::{
    after_ready, born_well, claim_bound, claims_converged, converged, counts_in_time, in_order,
    one_at_a_time, reported, safe,
};
use crate::oracle::{
    Change, Disturbances, Losses, Oracle, Sight, Verdict, View, World, adopted,
    deletes_only_its_own, end_state_line, owner_of, released,
};

const IN_ORDER: &str = "pods of a StatefulSet are created in order";
const ONE_AT_A_TIME: &str = "pods of a StatefulSet are deleted one at a time";
const AVAILABLE: &str = "no pod of a StatefulSet counts as available before its time";
const CLAIM_OWNER: &str = "claims go with the pods that the retention policy names";

const FOREGROUND: &str = "foregroundDeletion";

pub struct StatefulSetOracle {
    /// Who else touched the pods of a set.
    disturbances: Disturbances<StatefulSet>,
    losses: Losses,
    /// Pods that left their set otherwise than by being scaled down, by namespace and name.
    departed: BTreeSet<Key>,
}

impl Default for StatefulSetOracle {
    fn default() -> StatefulSetOracle {
        StatefulSetOracle {
            disturbances: Disturbances::until(is_whole),
            losses: Losses::default(),
            departed: BTreeSet::new(),
        }
    }
}

/// A claim, as far as its volume goes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ClaimVolume {
    metadata: Meta,
    status: ClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
}

api::view!(ClaimVolume, PersistentVolumeClaim::TYPE);

impl Oracle for StatefulSetOracle {
    fn views(&self) -> Vec<View> {
        vec![View::of::<ClaimVolume>()]
    }

    fn observe(&mut self, world: &World, change: &Change) {
        self.disturbances.observe(world, change);
        self.losses.observe(world, change);
        let (before, after) = (change.before::<Pod>(), change.after::<Pod>());
        if let Some(pod) = change.ending::<Pod>()
            && !is_scaled_down(world, change, &pod)
        {
            self.departed.insert(pod.metadata.key());
        }
        let Some(after) = after.map(|pod| pod.metadata.clone()) else {
            return;
        };
        let controller = after.controller();
        let was_controlled = before.map(|pod| pod.metadata.controller().is_some());
        if was_controlled == Some(true) && controller.is_none() {
            self.departed.insert(after.key());
        }
        let Some(owner) = controller.filter(|owner| owner.kind == "StatefulSet") else {
            return;
        };
        if !after.is_terminating() {
            // The set has a pod of this name again, and looks at its claims.
            self.departed.remove(&after.key());
        }
        if was_controlled == Some(false) {
            // UPSTREAM: a set takes pods that it adopts as they are, with gaps between them and some beyond its end.
            self.disturbances.note(&owner.uid);
        }
    }

    fn forget_lost(&mut self) {
        self.departed.clear();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        deletes_only_its_own(DESCRIPTOR.name, &StatefulSet::TYPE.kind, change)?;
        check_bound(world, change)?;
        if let Some(pod) = change.created::<Pod>() {
            return self.check_created(world, &pod);
        }
        if let Some(set) = change.after::<StatefulSet>() {
            return self.check_available(world, &set);
        }
        match change.ending::<Pod>() {
            Some(pod) => self.check_deleted(world, &pod),
            None => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for set in world.store::<StatefulSet>().list() {
            let (meta, pods) = (&set.metadata, world.owned_by::<Pod>(&set.metadata.uid));
            let never_runs = |pod: &Arc<Pod>| !pod.is_ready() && has_lost_its_volume(world, pod);
            if is_name_taken(world, &set) || pods.iter().any(never_runs) {
                continue;
            }
            let revisions = world.owned_by::<ControllerRevision>(&meta.uid);
            converged(&set, &pods, &revisions, world.now())?;
            claims_converged(&set, &self.looked_after(world, &meta.namespace))?;
        }
        self.in_time(world)?;
        self.even_if_paused(world)
    }

    fn in_time(&self, world: &World) -> Verdict {
        check_adopted(world)
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        for set in world.store::<StatefulSet>().list() {
            let uid = &set.metadata.uid;
            let (pods, revisions) = (world.owned_by(uid), world.owned_by(uid));
            if world.is_namespace_alive(&set.metadata.namespace) {
                reported(&set, &pods, &revisions, world.now())?;
            }
        }
        self.check_released(world)
    }

    /// UPSTREAM: a set whose pod's name is taken waits for ever.
    fn may_fail(&self, world: &World, key: &Key) -> bool {
        let set = world.store::<StatefulSet>().get(key);
        set.is_some_and(|set| is_name_taken(world, &set))
    }

    fn may_stay(&self, world: &World, plural: &str, meta: &Meta) -> bool {
        let is_stuck = |pod: &Arc<Pod>| waits_for_its_claim(world, pod);
        match plural {
            "pods" => {
                let pod = world.store::<Pod>().get(&meta.key());
                pod.is_some_and(|pod| is_stuck(&pod))
            }
            "statefulsets" => {
                let pods = world.owned_by::<Pod>(&meta.uid);
                meta.has_finalizer(FOREGROUND) && pods.iter().any(is_stuck)
            }
            _ => false,
        }
    }

    /// UPSTREAM: a set makes itself, or a pod that goes, the owner of its claims without a live look. That a pod is on its
    /// way out does not matter: its claim is to go as well.
    fn may_adopt_unseen(&self, world: &World, change: &Change) -> bool {
        let Some(claim) = change.after::<PersistentVolumeClaim>() else {
            return false;
        };
        let owner = claim.metadata.controller();
        owner.is_some_and(|owner| owner.kind == "Pod") || world.may_lag::<StatefulSet>()
    }

    fn end_state(&self, world: &World) -> Vec<String> {
        let mut sets = world.store::<StatefulSet>().list();
        // One that is still being deleted waits for ever: whether it came to that depends on how far it was.
        sets.retain(|set| !set.metadata.is_terminating());
        let line = |set: &Arc<StatefulSet>| {
            let meta = &set.metadata;
            if shares_its_pods(world, set) {
                // UPSTREAM: the first controller adopts an orphan. If that is another, its name is taken.
                return format!("statefulset {}: {} wanted", meta.key(), set.replicas());
            }
            let strategy = &set.spec.update_strategy;
            let rolls = !strategy.on_delete && strategy.partition == 0;
            end_state_line(world, "statefulset", meta, set.replicas(), rolls)
        };
        sets.iter().map(line).collect()
    }
}

impl StatefulSetOracle {
    fn check_created(&self, world: &World, pod: &Pod) -> Verdict {
        let meta = &pod.metadata;
        let owner = meta.controller().filter(|it| it.kind == "StatefulSet");
        let Some(owner) = owner else {
            return Ok(());
        };
        let sets = world.store::<StatefulSet>();
        let Some(set) = sets.find(&meta.namespace, &owner.name) else {
            return Ok(());
        };
        let pods = world.owned_by::<Pod>(&owner.uid);
        safe(&set, &pods)?;
        born_well(&set, pod)?;
        world.check(IN_ORDER, self.sight(world, &set, &pods), || {
            in_order(&set, &pods)?;
            after_ready(&set, &pods, pod)
        })
    }

    /// The controller wrote the status of a set: does it count nobody too early?
    fn check_available(&self, world: &World, set: &Arc<StatefulSet>) -> Verdict {
        let (pods, sight) = self.losses.counted(world, set);
        let now = world.latest_now();
        world.check(AVAILABLE, sight, || counts_in_time(set, &pods, now))
    }

    /// The controller deleted a pod: were enough left?
    fn check_deleted(&self, world: &World, pod: &Pod) -> Verdict {
        match owner_of::<StatefulSet>(world, &pod.metadata) {
            Some(set) => {
                let pods = world.owned_by(&set.metadata.uid);
                let sight = self.sight(world, &set, &pods);
                world.check(ONE_AT_A_TIME, sight, || one_at_a_time(&set, &pods, pod))
            }
            None => Ok(()),
        }
    }

    /// Could the controller see the set and its pods, and did nobody else touch them?
    fn sight(&self, world: &World, set: &Arc<StatefulSet>, pods: &[Arc<Pod>]) -> Sight {
        let meta = &set.metadata;
        let is_touched = self.disturbances.is_disturbed(&meta.uid);
        let sight = Sight::unless(is_touched).max(world.sight(pods));
        sight.max(world.sight(std::slice::from_ref(set)))
    }

    fn check_released(&self, world: &World) -> Verdict {
        released(world, |set: &StatefulSet, pod: &Pod| {
            set.spec.selector.matches(&pod.metadata.labels)
        })
    }

    /// Claims of a namespace, but for those of pods that left their set, as long as it has no other of that name.
    ///
    /// UPSTREAM: a set looks at the claims of the pods that it has, and at those of condemned ones not before all others are
    /// there and ready. The claim of a pod that was taken from it, or that somebody deleted before that, stays as it is,
    /// whatever the retention policy says.
    pub(super) fn looked_after(
        &self,
        world: &World,
        namespace: &str,
    ) -> Vec<Arc<PersistentVolumeClaim>> {
        let mut claims = world
            .store::<PersistentVolumeClaim>()
            .in_namespace(namespace);
        claims.retain(|claim| {
            let name = &claim.metadata.name;
            let is_of = |pod: &str| name.strip_suffix(pod).is_some_and(|it| it.ends_with('-'));
            let mut departed = self.departed.iter();
            !departed.any(|pod| pod.namespace == *namespace && is_of(&pod.name))
        });
        claims
    }
}

/// Did the set delete a pod that it no longer wants? Then it has looked at its claims before.
fn is_scaled_down(world: &World, change: &Change, pod: &Pod) -> bool {
    let set = owner_of::<StatefulSet>(world, &pod.metadata);
    let is_wanted = |set: &StatefulSet| {
        let place = ordinal(set, pod);
        place.is_some_and(|place| ordinals(set).contains(&place))
    };
    change.is_by(DESCRIPTOR.name) && set.is_some_and(|set| !is_wanted(&set))
}

/// A set adopts pods that bear its name, and revisions. UPSTREAM: of the latter it releases none.
fn check_adopted(world: &World) -> Verdict {
    adopted(world, |set: &StatefulSet, pod: &Pod| {
        let meta = &pod.metadata;
        let place = meta.name.rsplit_once('-');
        let is_named = place.is_some_and(|(name, place)| {
            *name == *set.metadata.name && place.parse::<u32>().is_ok()
        });
        is_named && set.spec.selector.matches(&meta.labels)
    })?;
    adopted(world, |set: &StatefulSet, held: &ControllerRevision| {
        set.spec.selector.matches(&held.metadata.labels)
    })
}

/// Is every ordinal there and ready, and no other pod?
fn is_whole(set: &StatefulSet, pods: &[Arc<Pod>]) -> bool {
    let start = set.spec.ordinals.start;
    let mut ordinals = start..start.saturating_add(set.replicas());
    let is_there = |pod: &Arc<Pod>| pod.is_ready() && !pod.metadata.is_terminating();
    let name_of = |ordinal: i32| format!("{}-{ordinal}", set.metadata.name);
    i32::try_from(pods.len()) == Ok(set.replicas())
        && ordinals.all(|ordinal| {
            let name = name_of(ordinal);
            pods.iter()
                .any(|pod| *pod.metadata.name == *name && is_there(pod))
        })
}

/// A claim got a pod for its owner: rightly?
fn check_bound(world: &World, change: &Change) -> Verdict {
    let Some((before, claim)) = change.updated::<PersistentVolumeClaim>() else {
        return Ok(());
    };
    let meta = &claim.metadata;
    let owner = meta.controller().filter(|owner| owner.kind == "Pod");
    let (None, Some(owner)) = (before.metadata.controller(), owner) else {
        return Ok(());
    };
    let sight = Sight::unless(world.may_lag::<StatefulSet>() || world.may_lag::<Pod>());
    let sets = world.store::<StatefulSet>().in_namespace(&meta.namespace);
    world.check(CLAIM_OWNER, sight, || {
        sets.iter()
            .try_for_each(|set| claim_bound(set, &claim, owner))
    })
}

/// UPSTREAM: a claim that has lost its volume never gets another. That happens when the server loses the volume, and
/// whoever binds them still sees it.
fn has_lost_its_volume(world: &World, pod: &Pod) -> bool {
    let claims = world.store::<ClaimVolume>();
    pod.volumes().iter().any(|volume| {
        let claim = claims.find(&pod.metadata.namespace, &volume.claim_name);
        claim.is_some_and(|claim| claim.status.phase == "Lost")
    })
}

/// Could another workload adopt the pods of the set?
fn shares_its_pods(world: &World, set: &StatefulSet) -> bool {
    let labels = set.spec.template.labels();
    let selects = |selector: &LabelSelector| selector.matches(labels);
    has_neighbour::<ReplicaSet>(world, set, |it| selects(&it.spec.selector))
        || has_neighbour::<DaemonSet>(world, set, |it| selects(&it.spec.selector))
        || has_neighbour::<StatefulSet>(world, set, |it| selects(&it.spec.selector))
        || has_neighbour::<ReplicationController>(world, set, |it| {
            let mut selector = it.spec.selector.iter();
            selector.all(|(key, value)| labels.get(key) == Some(value))
        })
}

/// Is there such an object in the namespace of the set, beside the set itself?
fn has_neighbour<K: Resource>(
    world: &World,
    set: &StatefulSet,
    is_meant: impl Fn(&K) -> bool,
) -> bool {
    let (own, all) = (&set.metadata, world.store::<K>());
    let neighbours = all.in_namespace(&own.namespace);
    let mut others = neighbours.iter().filter(|it| it.meta().uid != own.uid);
    others.any(|it| is_meant(it))
}

/// A pod that another controller has adopted, or that the set does not select, may bear a name that a StatefulSet
/// needs: then the set waits for ever, as it does upstream.
fn is_name_taken(world: &World, set: &StatefulSet) -> bool {
    let meta = &set.metadata;
    let start = set.spec.ordinals.start;
    let wanted = start..start.saturating_add(set.replicas());
    let is_of_set = |pod: &Pod| {
        let place = pod.metadata.name.strip_prefix(&*meta.name);
        let place = place.and_then(|rest| rest.strip_prefix('-'));
        let place = place.and_then(|digits| digits.parse::<i32>().ok());
        place.is_some_and(|place| wanted.contains(&place))
    };
    let is_anothers = |pod: &Pod| match pod.metadata.controller() {
        Some(owner) => owner.uid != meta.uid,
        None => !set.spec.selector.matches(&pod.metadata.labels),
    };
    let pods = world.store::<Pod>().in_namespace(&meta.namespace);
    pods.iter().any(|pod| is_of_set(pod) && is_anothers(pod))
}

/// UPSTREAM: a pod that a smaller set makes go owns the claims that go with it. If the set is deleted in the foreground
/// then, so is the pod: it waits until its claims are gone, and they until no pod uses them, for ever.
fn waits_for_its_claim(world: &World, pod: &Pod) -> bool {
    let meta = &pod.metadata;
    let blocks =
        |owner: &OwnerRef| owner.uid == meta.uid && owner.block_owner_deletion == Some(true);
    let claims = world.store::<PersistentVolumeClaim>();
    let claims = claims.in_namespace(&meta.namespace);
    let mut claims = claims.iter().map(|claim| &claim.metadata);
    let uses = |claim: &Meta| {
        let mut volumes = pod.volumes().iter();
        volumes.any(|volume| *volume.claim_name == *claim.name)
    };
    meta.has_finalizer(FOREGROUND)
        && claims
            .any(|claim| claim.is_terminating() && uses(claim) && claim.owners.iter().any(blocks))
}
