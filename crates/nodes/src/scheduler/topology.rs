//! Rules about other pods: affinity, anti-affinity and even spreading, by topology.
//!
//! Each is prepared once per pod into counts by topology value, so that asking about a node is a lookup.

use std::collections::{BTreeMap, BTreeSet};

use api::pod_affinity::{CompiledPodAffinityTerm, PodAffinityTerm};
use api::selector::{LabelSelector, Selector};
use api::{Istr, Key, LabelSet};

use super::cache::{Cache, Placed};
use super::filter::{Rejection, tolerates_node};
use crate::node::Node;
use crate::pod::{Pod, SpreadConstraint, Unsatisfiable};
use api::node_affinity::RequiredNodeAffinity;

/// Required pod affinity and anti-affinity, in both directions.
#[derive(Default)]
pub(super) struct Neighbours {
    /// Topology that existing pods keep this one away from.
    forbidden: BTreeSet<(Istr, Istr)>,
    wanted: Vec<CompiledPodAffinityTerm>,
    /// Where pods are that match all wanted terms.
    near: BTreeSet<(Istr, Istr)>,
    /// No pod matches yet, but this one would itself: the first of its kind.
    is_first: bool,
    unwanted: Vec<CompiledPodAffinityTerm>,
    away_from: BTreeSet<(Istr, Istr)>,
}

pub(super) const EXISTING_ANTI: &str = "node(s) didn't satisfy existing pods anti-affinity rules";
pub(super) const AFFINITY: &str = "node(s) didn't match pod affinity rules";
pub(super) const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
pub(super) const SPREAD: &str = "node(s) didn't match pod topology spread constraints";
pub(super) const SPREAD_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

impl Neighbours {
    pub(super) fn new(cache: &Cache, pod: &Pod, without: &BTreeSet<Key>) -> Neighbours {
        let mut neighbours = Neighbours::default();
        neighbours.learn_forbidden(cache, pod, without);
        let affinity = pod.spec.affinity.as_ref();
        let near = affinity.and_then(|one| one.pod_affinity.as_ref());
        let away = affinity.and_then(|one| one.pod_anti_affinity.as_ref());
        if let Some(near) = near {
            neighbours.wanted = compile(&near.required, &pod.metadata.namespace);
        }
        if let Some(away) = away {
            neighbours.unwanted = compile(&away.required, &pod.metadata.namespace);
        }
        if neighbours.wanted.is_empty() && neighbours.unwanted.is_empty() {
            return neighbours;
        }
        for placed in others(cache, without) {
            let Some(labels) = node_labels(cache, placed) else {
                continue;
            };
            let matches = |term: &CompiledPodAffinityTerm| matches(cache, term, &placed.pod);
            if !neighbours.wanted.is_empty() && neighbours.wanted.iter().all(matches) {
                neighbours.near.extend(
                    neighbours
                        .wanted
                        .iter()
                        .filter_map(|term| pair(term, labels)),
                );
            }
            let unwanted = neighbours.unwanted.iter().filter(|term| matches(term));
            neighbours
                .away_from
                .extend(unwanted.filter_map(|term| pair(term, labels)));
        }
        neighbours.is_first = neighbours.near.is_empty()
            && neighbours
                .wanted
                .iter()
                .all(|term| matches(cache, term, pod));
        neighbours
    }

    fn learn_forbidden(&mut self, cache: &Cache, pod: &Pod, without: &BTreeSet<Key>) {
        for (other, node) in cache.repelling() {
            if without.contains(&other.metadata.key()) {
                continue;
            }
            let anti = other
                .spec
                .affinity
                .as_ref()
                .and_then(|one| one.pod_anti_affinity.as_ref());
            let labels = cache
                .node(node)
                .and_then(|state| Some(state.node.as_ref()?.labels()));
            let (Some(anti), Some(labels)) = (anti, labels) else {
                continue;
            };
            let terms = compile(&anti.required, &other.metadata.namespace);
            let repelled = terms.iter().filter(|term| matches(cache, term, pod));
            self.forbidden
                .extend(repelled.filter_map(|term| pair(term, labels)));
        }
    }

    pub(super) fn check(&self, node: &Node) -> Result<(), Rejection> {
        let labels = node.labels();
        for term in &self.wanted {
            let Some(pair) = pair(term, labels) else {
                return Err(Rejection::lasting(AFFINITY, Rejection::BY_ASSIGNED));
            };
            if !self.near.contains(&pair) && !self.is_first {
                return Err(Rejection::lasting(AFFINITY, Rejection::BY_ASSIGNED));
            }
        }
        let is_away = |term: &CompiledPodAffinityTerm| {
            pair(term, labels).is_none_or(|pair| !self.away_from.contains(&pair))
        };
        if !self.unwanted.iter().all(is_away) {
            return Err(Rejection::by_pods(ANTI_AFFINITY));
        }
        let is_forbidden =
            |(key, value): &(Istr, Istr)| labels.get(key).is_some_and(|held| *value == *held);
        if self.forbidden.iter().any(is_forbidden) {
            return Err(Rejection::by_pods(EXISTING_ANTI));
        }
        Ok(())
    }
}

/// One hard spread constraint, counted.
pub(super) struct Spread {
    key: Istr,
    max_skew: i64,
    counts: BTreeMap<Istr, i64>,
    least: i64,
    /// The pod itself counts where it goes.
    own: i64,
}

impl Spread {
    /// Counts for each constraint of the given kind.
    pub(super) fn of(
        cache: &Cache,
        pod: &Pod,
        kind: Unsatisfiable,
        required: &RequiredNodeAffinity,
        without: &BTreeSet<Key>,
    ) -> Vec<Spread> {
        let constraints: Vec<&SpreadConstraint> = pod
            .spec
            .spread
            .iter()
            .filter(|one| one.when_unsatisfiable == kind)
            .collect();
        constraints
            .iter()
            .map(|one| Spread::new(cache, pod, one, &constraints, required, without))
            .collect()
    }

    fn new(
        cache: &Cache,
        pod: &Pod,
        constraint: &SpreadConstraint,
        all: &[&SpreadConstraint],
        required: &RequiredNodeAffinity,
        without: &BTreeSet<Key>,
    ) -> Spread {
        let selector = selector_of(constraint, &pod.metadata.labels);
        let mut counts: BTreeMap<Istr, i64> = BTreeMap::new();
        let mut eligible: BTreeMap<&str, Istr> = BTreeMap::new();
        for (node, _) in cache.nodes() {
            let has_keys = all
                .iter()
                .all(|one| node.labels().contains_key(&one.topology_key));
            if has_keys && counts_node(constraint, pod, node, required) {
                let value = Istr::from(
                    node.labels()
                        .get(&constraint.topology_key)
                        .unwrap_or_default(),
                );
                counts.entry(value.clone()).or_insert(0);
                eligible.insert(node.name(), value);
            }
        }
        for placed in cache.in_namespace(&pod.metadata.namespace) {
            let meta = &placed.pod.metadata;
            if meta.is_terminating()
                || !selector.matches(&meta.labels)
                || without.contains(&meta.key())
            {
                continue;
            }
            if let Some(value) = eligible.get(placed.node.as_str())
                && let Some(count) = counts.get_mut(value)
            {
                *count += 1;
            }
        }
        let domains_wanted = usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1);
        let least = match counts.len() < domains_wanted {
            true => 0,
            false => counts.values().copied().min().unwrap_or(0),
        };
        Spread {
            key: constraint.topology_key.clone(),
            max_skew: i64::from(constraint.max_skew.max(1)),
            own: i64::from(selector.matches(&pod.metadata.labels)),
            counts,
            least,
        }
    }

    pub(super) fn check(&self, node: &Node) -> Result<(), Rejection> {
        let Some(value) = node.labels().get(&self.key) else {
            return Err(Rejection::lasting(SPREAD_LABEL, Rejection::BY_NODE));
        };
        let count = self.counts.get(value).copied().unwrap_or(0);
        match count + self.own - self.least > self.max_skew {
            true => Err(Rejection::by_pods(SPREAD)),
            false => Ok(()),
        }
    }

    /// How many matching pods are where this node is; for scoring.
    pub(super) fn count(&self, node: &Node) -> i64 {
        let value = node.labels().get(&self.key);
        let held = value.and_then(|value| self.counts.get(value));
        // A node that is in no domain is as bad as the fullest one.
        held.copied()
            .unwrap_or_else(|| self.counts.values().copied().max().unwrap_or(0))
    }
}

/// The sum of the weights of preferred terms that hold, by topology value.
pub(super) struct Preferences(BTreeMap<(Istr, Istr), i64>);

impl Preferences {
    pub(super) fn new(cache: &Cache, pod: &Pod) -> Preferences {
        let mut weights: BTreeMap<(Istr, Istr), i64> = BTreeMap::new();
        let Some(affinity) = &pod.spec.affinity else {
            return Preferences(weights);
        };
        let sides = [
            (&affinity.pod_affinity, 1),
            (&affinity.pod_anti_affinity, -1),
        ];
        for (side, sign) in sides {
            let terms = side.iter().flat_map(|side| side.preferred.iter());
            for weighted in terms {
                let Ok(term) = weighted.pod_affinity_term.compile(&pod.metadata.namespace) else {
                    continue;
                };
                let matching = cache
                    .all_pods()
                    .filter(|placed| matches(cache, &term, &placed.pod));
                for pair in matching.filter_map(|placed| pair(&term, node_labels(cache, placed)?)) {
                    *weights.entry(pair).or_insert(0) += sign * i64::from(weighted.weight);
                }
            }
        }
        Preferences(weights)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn score(&self, node: &Node) -> i64 {
        let holds = |(key, value): &(Istr, Istr)| {
            node.labels().get(key).is_some_and(|held| *value == *held)
        };
        self.0
            .iter()
            .filter(|(pair, _)| holds(pair))
            .map(|(_, weight)| weight)
            .sum()
    }
}

fn others<'a>(cache: &'a Cache, without: &'a BTreeSet<Key>) -> impl Iterator<Item = &'a Placed> {
    cache
        .all_pods()
        .filter(|placed| without.is_empty() || !without.contains(&placed.pod.metadata.key()))
}

fn compile(terms: &[PodAffinityTerm], namespace: &str) -> Vec<CompiledPodAffinityTerm> {
    // The API server refuses terms that do not compile.
    terms
        .iter()
        .filter_map(|term| term.compile(namespace).ok())
        .collect()
}

fn matches(cache: &Cache, term: &CompiledPodAffinityTerm, pod: &Pod) -> bool {
    let meta = &pod.metadata;
    let labels = || {
        cache
            .namespaces
            .get(&meta.namespace)
            .cloned()
            .unwrap_or_default()
    };
    term.matches(&meta.namespace, &meta.labels, labels)
}

fn node_labels<'a>(cache: &'a Cache, placed: &Placed) -> Option<&'a LabelSet> {
    Some(cache.node(&placed.node)?.node.as_ref()?.labels())
}

/// Where a node is, in the topology that a term speaks of.
fn pair(term: &CompiledPodAffinityTerm, labels: &LabelSet) -> Option<(Istr, Istr)> {
    let key = term.topology_key();
    labels
        .get(key)
        .map(|value| (Istr::from(key), Istr::from(value)))
}

fn selector_of(constraint: &SpreadConstraint, labels: &LabelSet) -> Selector {
    let Ok(selector) = LabelSelector::compile_optional(constraint.label_selector.as_ref()) else {
        return Selector::nothing();
    };
    let same: LabelSet = constraint
        .match_label_keys
        .iter()
        .filter_map(|key| Some((key.as_str(), labels.get(key)?)))
        .collect();
    selector.and(Selector::from_labels(&same).requirements().iter().cloned())
}

fn counts_node(
    constraint: &SpreadConstraint,
    pod: &Pod,
    node: &Node,
    required: &RequiredNodeAffinity,
) -> bool {
    let ignores = |policy: &Option<Istr>| policy.as_deref() == Some("Ignore");
    let honors_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
    let fits = ignores(&constraint.node_affinity_policy)
        || required
            .matches(node.name(), node.labels())
            .unwrap_or(false);
    fits && (!honors_taints || tolerates_node(pod, node))
}
