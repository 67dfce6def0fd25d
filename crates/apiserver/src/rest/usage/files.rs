//! What the files of a simulated cluster declare: of pods, and of the world outside. Whoever runs the containers has read
//! them ([`Kubelets`](crate::Kubelets)); annotations win over them.

use std::collections::BTreeMap;

use api::quantity::Quantity;
use api::usage::{Declared, External, Metric, share_of};
use serde_json::Value;

use super::load::{self, Owners, Sharers};
use crate::server::Shared;

/// What files declare of some pods, at one moment.
#[derive(Default)]
pub(super) struct FromFiles {
    /// By namespace and name of the pod; where two speak of the same, the later one wins.
    by_pod: BTreeMap<String, Vec<(Declared, Quantity)>>,
}

/// The pods of one owner that share one load.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    owner: String,
    by: api::Istr,
    metric: Metric,
    container: Option<api::Istr>,
}

impl FromFiles {
    pub(super) fn of(shared: &Shared, pods: &[Value]) -> FromFiles {
        let Some(kubelets) = shared.mounts.kubelets.read().clone() else {
            return FromFiles::default();
        };
        let declared: Vec<(&Value, Vec<Declared>)> = pods
            .iter()
            .map(|pod| (pod, kubelets.usage(pod)))
            .filter(|(_, declared)| !declared.is_empty())
            .collect();
        let mut owners = Owners::new(shared);
        let mut groups: BTreeMap<Group, (Quantity, Sharers)> = BTreeMap::new();
        let mut group_of = |pod: &Value, one: &Declared| {
            let (owner, object) = owners.outermost(pod);
            let group = Group {
                owner,
                by: one.by.clone(),
                metric: one.metric.clone(),
                container: one.container.clone(),
            };
            (group, object)
        };
        for (pod, declared) in &declared {
            for one in declared.iter().filter(|one| one.is_shared) {
                let (group, owner) = group_of(pod, one);
                let load = || (amount(shared, one, &owner), Sharers::default());
                groups.entry(group).or_insert_with(load).1.count(pod);
            }
        }
        let by_pod = declared.iter().map(|(pod, declared)| {
            let amounts = declared.iter().map(|one| {
                let held = one.is_shared.then(|| groups.get(&group_of(pod, one).0));
                let amount = match held.flatten() {
                    Some((load, sharers)) => sharers.part(load, pod),
                    None => amount(shared, one, pod),
                };
                (one.clone(), amount)
            });
            (load::key_of(pod), amounts.collect())
        });
        FromFiles {
            by_pod: by_pod.collect(),
        }
    }

    /// What one of so many containers of a pod uses.
    pub(super) fn of_container(
        &self,
        pod: &str,
        resource: &str,
        container: &str,
        containers: usize,
    ) -> Option<Quantity> {
        let concerns = |one: &Declared| {
            matches!(one.metric, Metric::Resource(name) if name == resource)
                && one
                    .container
                    .as_ref()
                    .is_none_or(|name| *name == *container)
        };
        let mut declared = self.by_pod.get(pod)?.iter().rev();
        let (one, amount) = declared.find(|(one, _)| concerns(one))?;
        Some(match one.is_shared && one.container.is_none() {
            true => share_of(amount, containers),
            false => amount.clone(),
        })
    }

    /// What a metric of a pod is at.
    pub(super) fn of_pod(&self, pod: &str, metric: &str) -> Option<Quantity> {
        let mut declared = self.by_pod.get(pod)?.iter().rev();
        let is_it =
            |one: &Declared| matches!(&one.metric, Metric::Custom(name) if **name == *metric);
        declared
            .find(|(one, _)| is_it(one))
            .map(|(_, amount)| amount.clone())
    }
}

/// What is declared of an object, now.
fn amount(shared: &Shared, one: &Declared, object: &Value) -> Quantity {
    let elapsed = load::elapsed(shared, load::began(object));
    one.curve.at(elapsed.saturating_sub(one.after))
}

/// The values of a metric from outside, and their labels.
pub(super) fn external(
    shared: &Shared,
    namespace: &str,
    metric: &str,
) -> Vec<(External, Quantity)> {
    let Some(kubelets) = shared.mounts.kubelets.read().clone() else {
        return Vec::new();
    };
    let mut found = kubelets.external_metrics();
    found.retain(|one| {
        let is_there = one.namespace.as_ref().is_none_or(|own| **own == *namespace);
        *one.name == *metric && is_there
    });
    let values = found.into_iter().map(|one| {
        let elapsed = load::elapsed(shared, Some(one.since));
        let amount = one.curve.at(elapsed);
        (one, amount)
    });
    values.collect()
}
