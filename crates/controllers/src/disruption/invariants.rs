//! What must hold: whenever a status is written ([`safe`]), whenever a pod is evicted ([`taken`], [`kept`]), and once
//! nothing changes any more ([`converged`]).
//!
//! Pods are counted here once more, by another way than the controller's.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::{Deployment, Pod, PodDisruptionBudget, ReplicaSet};
use api::kinds::{ReplicationController, StatefulSet};
use api::{IntOrString, Resource, Uid};

use crate::oracle::{Verdict, World, owner_of};

/// A status that the controller wrote allows no more than it says is healthy beyond what must be, and changes nothing
/// but the status.
pub fn safe(before: &PodDisruptionBudget, after: &PodDisruptionBudget) -> Verdict {
    let fail = |problem: &str| Err(format!("budget {}: {problem}", after.metadata.key()));
    if before.spec != after.spec || before.metadata != after.metadata {
        return fail("more than its status was changed");
    }
    let status = &after.status;
    let spare = status
        .current_healthy
        .saturating_sub(status.desired_healthy);
    if status.disruptions_allowed > spare.max(0) {
        return fail("it allows more evictions than there are healthy pods to spare");
    }
    let known = &before.status.disrupted_pods;
    if status
        .disrupted_pods
        .keys()
        .any(|pod| !known.contains_key(pod))
    {
        return fail("it lists a pod whose eviction nobody asked for");
    }
    Ok(())
}

/// The API server lets a pod go where one may, and takes it from what may go.
pub(super) fn taken(before: &PodDisruptionBudget, after: &PodDisruptionBudget) -> Verdict {
    let known = &before.status.disrupted_pods;
    let disrupted = after.status.disrupted_pods.keys();
    let count = disrupted.filter(|pod| !known.contains_key(*pod)).count();
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let (had, left) = (
        before.status.disruptions_allowed,
        after.status.disruptions_allowed,
    );
    match count == 0 || (left >= 0 && had.saturating_sub(count) == left) {
        true => Ok(()),
        false => Err(format!(
            "budget {}: {had} evictions were allowed before {count} of them, and {left} after",
            after.metadata.key()
        )),
    }
}

/// Enough pods are healthy after an eviction.
pub(super) fn kept(world: &World, budget: &PodDisruptionBudget, evicted: &Pod) -> Verdict {
    let pods = pods_under(world, budget);
    let Some((_, desired)) = desired(world, budget, &pods) else {
        return Ok(());
    };
    let is_left = |pod: &&Arc<Pod>| is_healthy(pod) && pod.metadata.uid != evicted.metadata.uid;
    let left = pods.iter().filter(is_left).count();
    match i64::try_from(left).unwrap_or(i64::MAX) >= desired {
        true => Ok(()),
        false => Err(format!(
            "pod {} was evicted, and budget {} is left with {left} healthy pods of {desired}",
            evicted.metadata.key(),
            budget.metadata.name
        )),
    }
}

/// The status is what an independent count gives.
pub fn converged(world: &World, budget: &PodDisruptionBudget) -> Verdict {
    let fail = |problem: String| Err(format!("budget {}: {problem}", budget.metadata.key()));
    let pods = pods_under(world, budget);
    let status = &budget.status;
    let Some((expected, desired)) = desired(world, budget, &pods) else {
        return match status.disruptions_allowed {
            0 => Ok(()),
            allowed => fail(format!(
                "allows {allowed} although its pods cannot be counted"
            )),
        };
    };
    let is_counted = |pod: &&Arc<Pod>| {
        is_healthy(pod) && !status.disrupted_pods.contains_key(&pod.metadata.name)
    };
    let healthy = i64::try_from(pods.iter().filter(is_counted).count()).unwrap_or(i64::MAX);
    let allowed = match expected {
        ..=0 => 0,
        _ => (healthy - desired).max(0),
    };
    let counted = [expected, desired, healthy, allowed];
    let written = [
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
    ];
    if counted != written.map(i64::from) {
        return fail(format!(
            "expected, desired, healthy, allowed are {counted:?}, its status says {written:?}"
        ));
    }
    if status.observed_generation != budget.metadata.generation {
        return fail("its status is of an older generation".to_owned());
    }
    match status
        .disrupted_pods
        .keys()
        .find(|name| !is_pod(&pods, name))
    {
        Some(name) => fail(format!("it waits for pod {name}, which is gone")),
        None => Ok(()),
    }
}

fn is_pod(pods: &[Arc<Pod>], name: &str) -> bool {
    let mut live = pods.iter().filter(|pod| !pod.metadata.is_terminating());
    live.any(|pod| *pod.metadata.name == *name)
}

pub(super) fn is_healthy(pod: &Pod) -> bool {
    pod.is_ready() && !pod.metadata.is_terminating()
}

fn pods_under(world: &World, budget: &PodDisruptionBudget) -> Vec<Arc<Pod>> {
    let namespace = &budget.metadata.namespace;
    world
        .store::<Pod>()
        .select(namespace, |pod| budget.selects(&pod.metadata.labels))
}

/// How many pods are expected and how many have to be healthy; none if that cannot be known.
fn desired(world: &World, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> Option<(i64, i64)> {
    let spec = &budget.spec;
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    match (&spec.min_available, &spec.max_unavailable) {
        (Some(IntOrString::Int(least)), None) => return Some((count, i64::from(*least))),
        (None, None) => return Some((0, 0)),
        _ => {}
    }
    let mut scales: BTreeMap<Uid, i64> = BTreeMap::new();
    for pod in pods
        .iter()
        .filter(|pod| pod.metadata.controller().is_some())
    {
        let (uid, replicas) = scale_of(world, pod)?;
        scales.insert(uid, i64::from(replicas));
    }
    let expected: i64 = scales.values().sum();
    let part = |value: &IntOrString| match value {
        IntOrString::Int(value) => Some(i64::from(*value)),
        IntOrString::Text(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some((expected * percent + 99).div_euclid(100))
        }
    };
    Some(match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => (expected, (expected - part(most)?).max(0)),
        (None, Some(least)) => (expected, part(least)?),
        (None, None) => (0, 0),
    })
}

fn scale_of(world: &World, pod: &Pod) -> Option<(Uid, i32)> {
    let meta = &pod.metadata;
    if let Some(set) = owner_of::<ReplicaSet>(world, meta) {
        return Some(match owner_of::<Deployment>(world, &set.metadata) {
            Some(above) => scaled(&*above, above.spec.replicas),
            None => scaled(&*set, set.spec.replicas),
        });
    }
    if let Some(set) = owner_of::<StatefulSet>(world, meta) {
        return Some(scaled(&*set, set.spec.replicas));
    }
    let owner = owner_of::<ReplicationController>(world, meta)?;
    Some(scaled(&*owner, owner.spec.replicas))
}

fn scaled<K: Resource>(owner: &K, replicas: Option<i32>) -> (Uid, i32) {
    (owner.meta().uid.clone(), replicas.unwrap_or(1))
}
