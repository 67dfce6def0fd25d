//! What the simulator holds the controller, and the eviction of pods, to.

use std::collections::BTreeMap;

use api::kinds::{
    Deployment, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, StatefulSet,
};
use api::{Istr, MicroTime, Resource, Uid};

use super::DESCRIPTOR;
use super::invariants::{converged, is_healthy, kept, safe, taken};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct DisruptionOracle {
    /// When something other than an eviction last made a budget of a namespace tighter, or its pods fewer.
    disturbed_at: BTreeMap<Istr, MicroTime>,
    /// When the controller last wrote the status of each budget.
    written_at: BTreeMap<Uid, MicroTime>,
    /// Evictions are users' writes, which no controller answers for: what was wrong is told with the next check.
    broken: Option<String>,
}

impl Oracle for DisruptionOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        let Some(meta) = change.meta() else {
            return;
        };
        let (namespace, now) = (meta.namespace.clone(), world.now());
        if change.is_by(DESCRIPTOR.name) {
            if change.after::<PodDisruptionBudget>().is_some() {
                self.written_at.insert(meta.uid.clone(), now);
            }
            return;
        }
        if let Some((before, after)) = change.updated::<PodDisruptionBudget>()
            && let Err(problem) = taken(&before, &after)
        {
            self.broken.get_or_insert(problem);
        }
        if let Some(pod) = evicted(change) {
            self.check_evicted(world, &pod);
        } else if is_disturbed(change) {
            self.disturbed_at.insert(namespace, now);
        }
    }

    fn forget_lost(&mut self) {
        self.written_at.clear();
    }

    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        self.verdict()?;
        if let Some((before, after)) = change.updated::<PodDisruptionBudget>() {
            return safe(&before, &after);
        }
        let Some((before, after)) = change.updated::<Pod>() else {
            return no_business(DESCRIPTOR.name, change);
        };
        let is_announced = |pod: &Pod| {
            pod.condition(TARGET)
                .is_some_and(|held| held.status == "True")
        };
        match is_announced(&before) && !is_announced(&after) && !before.metadata.is_terminating() {
            true => Ok(()),
            false => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        self.verdict().and_then(|()| all_converged(world))
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        self.verdict().and_then(|()| all_converged(world))
    }
}

const TARGET: &str = "DisruptionTarget";

impl DisruptionOracle {
    fn verdict(&self) -> Verdict {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// A healthy pod is evicted by leave of a budget alone, and only if enough others are left. The controller counts what it has
    /// seen: it answers for evictions once it has written what came of the last disturbance.
    fn check_evicted(&mut self, world: &World, pod: &Pod) {
        let meta = &pod.metadata;
        let budgets = world
            .store::<PodDisruptionBudget>()
            .select(&meta.namespace, |budget| budget.selects(&meta.labels));
        let [budget] = &*budgets else {
            return;
        };
        let unseen = world.delay() + world.reaction();
        let disturbed_at = self.disturbed_at.get(&meta.namespace);
        let is_counted = self.written_at.get(&budget.metadata.uid).is_some_and(|at| {
            disturbed_at.is_none_or(|disturbed_at| disturbed_at.plus(unseen) < *at)
        });
        let verdict = match budget.status.disrupted_pods.contains_key(&meta.name) {
            false => Err(format!(
                "pod {} was evicted, and budget {} was not asked",
                meta.key(),
                budget.metadata.name
            )),
            true if is_counted && !world.is_forgiven() => kept(world, budget, pod),
            true => Ok(()),
        };
        if let Err(problem) = verdict {
            self.broken.get_or_insert(problem);
        }
    }
}

fn all_converged(world: &World) -> Verdict {
    let budgets = world.store::<PodDisruptionBudget>().list();
    let mut budgets = budgets
        .iter()
        .filter(|budget| world.is_namespace_alive(&budget.metadata.namespace));
    budgets.try_for_each(|budget| converged(world, budget))
}

/// A pod that was healthy until its eviction was allowed.
fn evicted(change: &Change) -> Option<std::sync::Arc<Pod>> {
    let (before, after) = change.updated::<Pod>()?;
    let is_marked = |pod: &Pod| {
        pod.condition(TARGET)
            .is_some_and(|held| held.status == "True" && held.reason == "EvictionByEvictionAPI")
    };
    (is_healthy(&before) && !is_marked(&before) && is_marked(&after)).then_some(before)
}

/// May a budget count fewer healthy pods than before, or ask for more, by something that was no eviction?
fn is_disturbed(change: &Change) -> bool {
    if let Some(before) = change.before::<Pod>() {
        let after = change.after::<Pod>();
        return is_healthy(&before)
            && after.is_none_or(|after| {
                let (before, now) = (&before.metadata, &after.metadata);
                !is_healthy(&after) || now.labels != before.labels || now.owners != before.owners
            });
    }
    if let Some((before, after)) = change.updated::<PodDisruptionBudget>() {
        return before.spec != after.spec;
    }
    change.after::<PodDisruptionBudget>().is_some()
        || is_scaled::<ReplicaSet>(change, |owner| owner.spec.replicas)
        || is_scaled::<Deployment>(change, |owner| owner.spec.replicas)
        || is_scaled::<StatefulSet>(change, |owner| owner.spec.replicas)
        || is_scaled::<ReplicationController>(change, |owner| owner.spec.replicas)
}

fn is_scaled<K: Resource>(change: &Change, replicas: fn(&K) -> Option<i32>) -> bool {
    match (change.before::<K>(), change.after::<K>()) {
        (Some(before), Some(after)) => {
            replicas(&before) != replicas(&after) || before.meta().owners != after.meta().owners
        }
        (None, None) => false,
        _ => true,
    }
}
