//! What must hold after every single write.

use std::sync::Arc;

use api::kinds::{Pod, ReplicaSet, StatefulSet};
use api::{Meta, Uid};
use apiserver::Changed;
use bytes::Bytes;
use controllers::replicaset::ReplicaOwner;
use controllers::{
    daemonset, deployment, garbage_collector, namespace, node_lifecycle, pod_gc, replicaset,
    statefulset, taint_eviction,
};
use http::Method;

use super::mirror::Object;
use super::past::Bounds;
use super::{Inner, Place};
use crate::trace::Actor;

type Verdict = Result<(), String>;

const COLLECTOR: &str = "garbage-collector-controller";
const NAMESPACES: &str = "namespace-controller";
const TAINT_EVICTION: &str = taint_eviction::DESCRIPTOR.name;
const POD_COLLECTOR: &str = "pod-garbage-collector-controller";

/// Controllers that touch pods which others own.
const OUTSIDERS: [&str; 4] = [
    COLLECTOR,
    POD_COLLECTOR,
    node_lifecycle::DESCRIPTOR.name,
    taint_eviction::DESCRIPTOR.name,
];

/// After this long every cache has an object, whatever stands still: longer than the longest trouble.
const SEEN_BY_ALL_SECONDS: i64 = 120;

/// Where nothing stands still an object is seen at once; times of objects are whole seconds.
const SEEN_SOON_SECONDS: i64 = 2;

impl Inner {
    /// A request that must not even be sent.
    pub(super) fn check_request(
        &mut self,
        actor: Actor,
        method: &Method,
        place: &Place,
        body: &Bytes,
    ) -> Verdict {
        let Actor::Manager(number, controller) = actor else {
            return Ok(());
        };
        if matches!(place.plural.as_str(), "leases" | "events") || controller.is_empty() {
            return Ok(());
        }
        self.checks += 1;
        if let Some(identity) = self.identities.get(&number)
            && self.mirror.leader.as_ref() != Some(identity)
            && !self.past.is_lease_lost(self.clock.now())
        {
            let leader = self.mirror.leader.as_deref().unwrap_or("nobody");
            return Err(format!(
                "{controller} of {identity} writes to {} although {leader} holds the lease",
                place.plural
            ));
        }
        let by_name = *method == Method::DELETE && place.name.is_some();
        if by_name && controller != NAMESPACES {
            let options: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
            let held = &options["preconditions"];
            if held["uid"].is_null() && held["resourceVersion"].is_null() {
                let name = place.name.as_deref().unwrap_or_default();
                return Err(format!(
                    "{controller} deletes {} {}/{name} by its name alone: another one may have it by now",
                    place.plural, place.namespace
                ));
            }
        }
        Ok(())
    }

    pub(super) fn check_change(
        &mut self,
        by: Option<Actor>,
        changed: &Changed,
        before: Option<&Object>,
        after: Option<&Object>,
    ) -> Verdict {
        self.remember(by, before, after);
        let Some(Actor::Manager(_, controller)) = by else {
            return Ok(());
        };
        self.checks += 1;
        if let (Some(Object::Node(before)), Some(Object::Node(after))) = (before, after)
            && controller == node_lifecycle::DESCRIPTOR.name
        {
            node_lifecycle::safe(before, after)?;
        }
        if self.past.is_forgiven(self.clock.now()) {
            return Ok(());
        }
        self.check_word(before, after)?;
        self.check_deletion(controller, changed, before, after)?;
        self.check_adoption(before, after)?;
        self.check_housekeeping(controller, before, after)?;
        self.check_progress(before, after)?;
        self.check_job(controller, before, after)?;
        match (before, after) {
            (None, Some(Object::Pod(pod))) => self.check_created_pod(pod),
            (Some(Object::Pod(before)), after) if is_ending(Some(&before.metadata), after) => {
                self.check_taken_pod(controller, before)
            }
            (before, Some(Object::Set(after))) => {
                let before = match before {
                    Some(Object::Set(before)) => before.replicas(),
                    _ => 0,
                };
                self.check_resized_set(before, after)
            }
            _ => Ok(()),
        }
    }

    /// Notes what later checks need to know of the past.
    fn remember(&mut self, by: Option<Actor>, before: Option<&Object>, after: Option<&Object>) {
        let now = self.clock.now();
        let (uid, bounds) = match after {
            Some(Object::Set(set)) => (&set.metadata.uid, exactly(&set.metadata, set.replicas())),
            Some(Object::Controller(set)) => (
                &set.metadata.uid,
                exactly(&set.metadata, ReplicaOwner::replicas(&**set)),
            ),
            Some(Object::Job(job)) => {
                (&job.metadata.uid, exactly(&job.metadata, job.parallelism()))
            }
            Some(Object::Deployment(deployment)) => {
                let (least, most) = deployment::bounds(deployment);
                let generation = deployment.metadata.generation;
                (
                    &deployment.metadata.uid,
                    Bounds {
                        generation,
                        most,
                        least,
                    },
                )
            }
            _ => (
                &Uid::default(),
                Bounds {
                    generation: -1,
                    most: 0,
                    least: 0,
                },
            ),
        };
        if bounds.generation >= 0 {
            self.past.note_bounds(uid, bounds);
        }
        self.remember_success(before, after);
        if let Some(Object::Job(job)) = after {
            let (uid, suspended) = (&job.metadata.uid, job.spec.suspend);
            self.past.note_suspension(uid, suspended, now);
        }
        if let Some(Object::Set(set)) = before {
            let surplus = deployment::surplus(set);
            self.past.note_surplus(&set.metadata.uid, surplus, now);
        }
        let meta = before.map(Object::meta);
        if let Some(meta) = meta.filter(|meta| is_ending(Some(meta), after)) {
            self.past.note_end(&meta.uid, now);
        }
        self.remember_orphaning(by, before, after);
        self.remember_disturbance(by, before, after);
    }

    /// Who is to leave its dependents behind.
    fn remember_orphaning(
        &mut self,
        by: Option<Actor>,
        before: Option<&Object>,
        after: Option<&Object>,
    ) {
        let orphans = |meta: &&Meta| meta.is_terminating() && meta.has_finalizer("orphan");
        if let Some(meta) = after.map(Object::meta).filter(orphans) {
            self.past.note_orphaning(&meta.uid, self.clock.now());
        } else if let Some(meta) = before.map(Object::meta).filter(orphans)
            && !matches!(by, Some(Actor::Manager(_, COLLECTOR)))
        {
            // UPSTREAM: whoever deletes it once more, with another policy, takes the finalizer away: the last word counts.
            self.past.forget_orphaning(&meta.uid);
        }
    }

    /// Whose pods are not as their controller alone would have them.
    fn remember_disturbance(
        &mut self,
        by: Option<Actor>,
        before: Option<&Object>,
        after: Option<&Object>,
    ) {
        let (Some(before), Some(Object::Pod(pod))) = (before, after.or(before)) else {
            return;
        };
        let Some(owner) = pod.metadata.controller() else {
            return;
        };
        let own = matches!(by, Some(Actor::Manager(_, name)) if !OUTSIDERS.contains(&name));
        let lively = by == Some(Actor::Nodes) && !is_worse(Some(before), after);
        // UPSTREAM: a set takes pods that it adopts as they are, with gaps between them and some beyond its end.
        let adopted = owner.kind == "StatefulSet" && before.meta().controller().is_none();
        if adopted || !own && !lively {
            self.past.disturb(&owner.uid, self.clock.now());
        }
    }

    /// Whoever deletes must have the right to.
    fn check_deletion(
        &mut self,
        controller: &str,
        changed: &Changed,
        before: Option<&Object>,
        after: Option<&Object>,
    ) -> Verdict {
        let Some(before) = before.filter(|before| is_ending(Some(before.meta()), after)) else {
            return Ok(());
        };
        let meta = before.meta();
        match controller {
            COLLECTOR if after.is_none() && meta.is_terminating() => Ok(()),
            COLLECTOR => {
                self.check_spared(meta)?;
                let others = self.mirror.metas.values().map(|(_, meta)| meta);
                garbage_collector::safe(meta, others.filter(|other| other.uid != meta.uid))
            }
            NAMESPACES => {
                let held = self.mirror.namespaces.find("", &meta.namespace);
                namespace::safe(held.as_deref(), meta)
            }
            POD_COLLECTOR => {
                let Object::Pod(pod) = before else {
                    return Err(format!(
                        "{controller} deleted {} {}",
                        changed.plural,
                        meta.key()
                    ));
                };
                pod_gc::safe(pod, &self.mirror.nodes.list())
            }
            TAINT_EVICTION => match before {
                Object::Pod(pod) => {
                    let node = self.mirror.nodes.find("", &pod.node_name);
                    taint_eviction::safe(pod, node.as_deref(), None, self.clock.now(), false)
                }
                _ => Err(format!(
                    "{controller} deleted {} {}",
                    changed.plural,
                    meta.key()
                )),
            },
            _ => check_ownership(controller, changed, before),
        }
    }

    /// The collector lets nothing go before it has done what was asked for.
    fn check_word(&self, before: Option<&Object>, after: Option<&Object>) -> Verdict {
        let Some(before) = before.map(Object::meta).filter(|_| after.is_none()) else {
            return Ok(());
        };
        let asked_at = before.deleted_at.unwrap_or_default();
        let others = self.mirror.metas.values().map(|(_, meta)| meta);
        let seen = others.filter(|meta| self.was_seen(meta, asked_at));
        garbage_collector::kept_its_word(before, seen)
    }

    /// What was to be left behind is not collected afterwards.
    fn check_spared(&self, deleted: &Meta) -> Verdict {
        let spared_by = deleted.owners.iter().find(|owner| {
            let asked_at = self.past.orphaned_at(&owner.uid);
            asked_at.is_some_and(|at| self.was_seen(deleted, at.time()))
        });
        match spared_by {
            Some(owner) => Err(format!(
                "{} was collected, although {} {} was to leave it behind",
                deleted.key(),
                owner.kind,
                owner.name
            )),
            None => Ok(()),
        }
    }

    /// What a controller makes while its owner is being deleted may come too late for the collector, upstream's as
    /// ours: it can only keep its word to dependents that it could have seen when it was asked.
    fn was_seen(&self, meta: &Meta, asked_at: api::Time) -> bool {
        let delay = match self.views_may_lag {
            true => SEEN_BY_ALL_SECONDS,
            false => SEEN_SOON_SECONDS,
        };
        meta.created_at.unix() + delay <= asked_at.unix()
    }

    /// Nobody is adopted by the dead.
    fn check_adoption(&self, before: Option<&Object>, after: Option<&Object>) -> Verdict {
        let (Some(before), Some(object)) = (before.map(Object::meta), after) else {
            return Ok(());
        };
        let after = object.meta();
        let Some(owner) = after.controller().filter(|_| before.controller().is_none()) else {
            return Ok(());
        };
        if let (Object::Claim(claim), "Pod") = (object, owner.kind.as_str()) {
            let sets = self.mirror.stateful.in_namespace(&after.namespace);
            let mut sets = sets.iter().filter(|_| !self.views_may_lag);
            return sets.try_for_each(|set| statefulset::claim_bound(set, claim, owner));
        }
        // UPSTREAM: a set makes itself the owner of its claims without a live look.
        let is_policy = matches!(object, Object::Claim(_));
        if is_policy && self.views_may_lag {
            return Ok(());
        }
        if self.past.is_long_gone(&owner.uid, self.clock.now()) {
            return Err(format!(
                "{} was adopted by {} {}, which is being deleted or gone",
                after.key(),
                owner.kind,
                owner.name
            ));
        }
        Ok(())
    }

    /// What a controller says to have seen, it cannot unsee.
    fn check_progress(&self, before: Option<&Object>, after: Option<&Object>) -> Verdict {
        let (Some(before), Some(after)) = (before, after) else {
            return Ok(());
        };
        match (before.observed(), after.observed()) {
            (Some(was), Some(is)) if is < was => Err(format!(
                "{}: observedGeneration went from {was} back to {is}",
                after.meta().key()
            )),
            _ => Ok(()),
        }
    }

    fn check_created_pod(&mut self, pod: &Pod) -> Verdict {
        let Some(owner) = pod.metadata.controller() else {
            return Ok(());
        };
        let (namespace, name) = (&pod.metadata.namespace, &owner.name);
        let pods = self.mirror.pods_of(&owner.uid);
        let slack = self.gremlin.ambiguous(&owner.uid);
        match owner.kind.as_str() {
            "ReplicaSet" => {
                let Some(set) = self.mirror.sets.find(namespace, name) else {
                    return Ok(());
                };
                let most = self.most(&owner.uid, set.status.observed_generation);
                replicaset::safe(&*set, &pods, most + slack)?;
                self.check_recreate(&set)
            }
            "ReplicationController" => {
                let Some(set) = self.mirror.controllers.find(namespace, name) else {
                    return Ok(());
                };
                let most = self.most(&owner.uid, set.status.observed_generation);
                replicaset::safe(&*set, &pods, most + slack)
            }
            "StatefulSet" => {
                let Some(set) = self.mirror.stateful.find(namespace, name) else {
                    return Ok(());
                };
                statefulset::safe(&set, &pods)?;
                statefulset::born_well(&set, pod)?;
                if self.is_blameless(&set) {
                    return Ok(());
                }
                statefulset::in_order(&set, &pods)?;
                statefulset::after_ready(&set, &pods, pod)
            }
            "Job" => self.check_job_pod(pod, owner, slack),
            "DaemonSet" if slack == 0 => match self.mirror.daemons.find(namespace, name) {
                Some(set) => daemonset::born_alone(&set, &pods, pod),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A controller took a pod away: were enough left?
    fn check_taken_pod(&mut self, controller: &str, pod: &Pod) -> Verdict {
        let Some(owner) = pod.metadata.controller() else {
            return Ok(());
        };
        if controller == "replicaset-controller" && !self.views_may_lag {
            let found = self.mirror.sets.find(&pod.metadata.namespace, &owner.name);
            let pods = self.mirror.pods_of(&owner.uid);
            return found.map_or(Ok(()), |set| replicaset::ranked(&*set, &pods, pod));
        }
        if controller != "statefulset-controller" {
            return Ok(());
        }
        let found = self
            .mirror
            .stateful
            .find(&pod.metadata.namespace, &owner.name);
        let Some(set) = found.filter(|set| set.metadata.uid == owner.uid) else {
            return Ok(());
        };
        match self.is_blameless(&set) {
            true => Ok(()),
            false => statefulset::one_at_a_time(&set, &self.mirror.pods_of(&owner.uid), pod),
        }
    }

    /// Did somebody else touch the pods, or could the controller not see them?
    fn is_blameless(&self, set: &StatefulSet) -> bool {
        let (meta, now) = (&set.metadata, self.clock.now());
        self.views_may_lag
            || meta.generation != set.status.observed_generation
            || !self.past.is_undisturbed(&meta.uid, now)
    }

    fn check_resized_set(&mut self, before: i32, set: &ReplicaSet) -> Verdict {
        let Some(deployment) = self.mirror.deployment_of(set) else {
            return Ok(());
        };
        let uid = &deployment.metadata.uid;
        let sets = self.mirror.sets_of(uid);
        let observed = deployment.status.observed_generation;
        let Some((least, most)) = self.past.bounds_since(uid, self.seen(observed)) else {
            return Ok(());
        };
        if set.replicas() > before {
            deployment::safe(&deployment, &sets, most)
        } else if set.replicas() < before {
            deployment::keeps_enough(&deployment, &sets, least - self.surplus(set, &sets))
        } else {
            Ok(())
        }
    }

    /// How many pods the statuses of these sets have promised beyond what the sets ask for, before `resized`
    /// was resized and as far back as a controller may look.
    fn surplus(&self, resized: &ReplicaSet, sets: &[Arc<ReplicaSet>]) -> i32 {
        let (now, lag) = (self.clock.now(), self.views_may_lag);
        let held = |set: &Arc<ReplicaSet>| {
            let uid = &set.metadata.uid;
            let is_other = *uid != resized.metadata.uid;
            let present = deployment::surplus(set) * i32::from(is_other);
            present.max(self.past.surplus(uid, now, lag))
        };
        sets.iter().map(held).sum()
    }

    /// A Deployment that recreates has no pods of two templates.
    fn check_recreate(&self, set: &ReplicaSet) -> Verdict {
        let Some(deployment) = self.mirror.deployment_of(set) else {
            return Ok(());
        };
        let uid = &deployment.metadata.uid;
        if self.views_may_lag
            || !self
                .past
                .is_undisturbed(&set.metadata.uid, self.clock.now())
        {
            return Ok(());
        }
        let sets = self.mirror.sets_of(uid);
        let has_pods = |set: &ReplicaSet| {
            let pods = self.mirror.pods_of(&set.metadata.uid);
            // One that is on its way out may still hold what the new one needs.
            pods.iter().any(|pod| !pod.is_finished())
        };
        deployment::recreates(&deployment, &sets, set, has_pods)
    }

    /// The most that a replica owner may want, as far as its controller may know.
    pub(super) fn most(&self, owner: &Uid, observed: i64) -> i32 {
        let bounds = self.past.bounds_since(owner, self.seen(observed));
        bounds.map_or(i32::MAX / 2, |(_, most)| most)
    }

    /// What was observed by one manager says nothing about what another has seen.
    fn seen(&self, observed: i64) -> i64 {
        match self.identities.len() {
            0 | 1 => observed,
            _ => 0,
        }
    }
}

fn exactly(meta: &Meta, replicas: i32) -> Bounds {
    Bounds {
        generation: meta.generation,
        most: replicas,
        least: replicas,
    }
}

/// Did the object begin to go away, or go, in this change?
fn is_ending(before: Option<&Meta>, after: Option<&Object>) -> bool {
    let was_ending = before.is_some_and(Meta::is_terminating);
    let ends = after.is_none_or(|after| after.meta().is_terminating());
    ends && !was_ending
}

/// Did the nodes do something to the pod that its owner has to make up for?
fn is_worse(before: Option<&Object>, after: Option<&Object>) -> bool {
    match (before, after) {
        (Some(Object::Pod(before)), Some(Object::Pod(after))) => {
            (before.is_ready() && !after.is_ready())
                || (!before.is_finished() && after.is_finished())
        }
        (Some(Object::Pod(before)), None) => !before.metadata.is_terminating(),
        _ => false,
    }
}

/// A workload controller deletes nothing but its own.
fn check_ownership(controller: &str, changed: &Changed, before: &Object) -> Verdict {
    let kind = match controller {
        "replicaset-controller" => "ReplicaSet",
        "replicationcontroller-controller" => "ReplicationController",
        "statefulset-controller" => "StatefulSet",
        "daemonset-controller" => "DaemonSet",
        "deployment-controller" => "Deployment",
        "job-controller" => "Job",
        _ => return Ok(()),
    };
    let meta = before.meta();
    // An owner that was taken away a moment ago may not have been missed yet.
    match meta.controller() {
        Some(owner) if owner.kind != kind => Err(format!(
            "{controller} deleted {} {}, which belongs to {} {}",
            changed.plural,
            meta.key(),
            owner.kind,
            owner.name
        )),
        _ => Ok(()),
    }
}
