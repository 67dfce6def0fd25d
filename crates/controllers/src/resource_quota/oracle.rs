//! Counts everything there is, once more and by hand.

use api::amounts::{self, Amounts};
use api::kinds::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use api::quantity::Format;
use api::quota::{self, DeviceClasses, Evaluator, Item};
use api::{Quantity, Resource};

use super::{DESCRIPTOR, converged, invariants, safe};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct ResourceQuotaOracle {
    /// The first time that more was granted than allowed.
    overrun: Option<String>,
}

impl Oracle for ResourceQuotaOracle {
    fn observe(&mut self, _: &World, change: &Change) {
        if let Some((before, after)) = change.updated::<ResourceQuota>()
            && !change.is_by(DESCRIPTOR.name)
            && let Err(problem) = invariants::fits(&before, &after)
        {
            self.overrun.get_or_insert(problem);
        }
    }

    fn after_write(&self, _: &World, change: &Change) -> Verdict {
        match change.updated::<ResourceQuota>() {
            Some((before, after)) => safe(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let quotas = world.store::<ResourceQuota>().list();
        let mut alive = quotas
            .iter()
            .filter(|quota| !quota.metadata.is_terminating());
        alive.try_for_each(|quota| converged(quota, &sum(world, quota)))
    }

    fn even_if_paused(&self, _: &World) -> Verdict {
        match &self.overrun {
            Some(problem) => Err(problem.clone()),
            None => Ok(()),
        }
    }

    fn end_state(&self, world: &World) -> Vec<String> {
        let quotas = world.store::<ResourceQuota>().list();
        let lines = quotas
            .iter()
            .map(|quota| format!("ResourceQuota {}", quota.key()));
        lines.collect()
    }
}

/// What is used of a quota. What only time decides is left out.
fn sum(world: &World, quota: &ResourceQuota) -> Amounts {
    let mut sum = Amounts::new();
    let namespace = &quota.metadata.namespace;
    let pods = world.store::<Pod>().in_namespace(namespace);
    if !pods.iter().any(|pod| pod.is_terminating()) {
        add(
            world,
            quota,
            "pods",
            pods.iter().map(|pod| Item::Pod(pod)),
            &mut sum,
        );
    }
    let services = world.store::<Service>().in_namespace(namespace);
    let services = services.iter().map(|service| Item::Service(service));
    add(world, quota, "services", services, &mut sum);
    let claims = world.store::<PersistentVolumeClaim>();
    let claims = claims.in_namespace(namespace);
    let claims = claims.iter().map(|claim| Item::Claim(claim));
    add(world, quota, "persistentvolumeclaims", claims, &mut sum);
    for name in quota.spec.hard.keys() {
        let Some((_, plural)) = quota::counted_kind(name) else {
            continue;
        };
        // Leases and events are not kept here.
        if sum.contains_key(name) || ["pods", "leases", "events"].contains(&plural) {
            continue;
        }
        let held = world.all_metadata();
        let held = held.filter(|(held, meta)| *held == plural && meta.namespace == *namespace);
        let number = i64::try_from(held.count()).unwrap_or(i64::MAX);
        sum.insert(name.clone(), Quantity::new(number, Format::DecimalSi));
    }
    sum
}

fn add<'a>(
    world: &World,
    quota: &ResourceQuota,
    plural: &str,
    items: impl Iterator<Item = Item<'a>>,
    sum: &mut Amounts,
) {
    let evaluator = Evaluator::of("", plural);
    let hard = &quota.spec.hard;
    for name in evaluator.tracked(hard.keys(), &DeviceClasses::default()) {
        sum.entry(name.clone()).or_default();
    }
    for item in items.filter(|item| quota::matches(quota, item)) {
        amounts::add(sum, &evaluator.usage(&item, world.now()));
    }
    sum.retain(|name, _| hard.contains_key(name));
}
