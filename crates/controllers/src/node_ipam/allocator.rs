//! Who has which range: the sets, what they measure, and what is being written.

use std::collections::{BTreeMap, BTreeSet};

use api::kinds::Node;
use api::{Cidr, Key, Resource};
use prometheus::{GaugeVec, HistogramVec, IntCounterVec};
use runtime::metrics::{Metrics, Stability};

use super::cidr_set::{CidrSet, CidrSetError};
use super::ranges::Ranges;

pub(super) struct Allocator {
    sets: Vec<CidrSet>,
    /// What was reserved for nodes whose cached state does not show it yet.
    reserved: BTreeMap<Key, Vec<Cidr>>,
    /// Nodes for which nothing was left.
    waiting: BTreeSet<Key>,
    measures: Measures,
}

/// What a node is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It has its ranges.
    Nothing,
    Write(Vec<Cidr>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("failed to allocate cidr from cluster cidr at idx:{index}: {error}")]
    Exhausted { index: usize, error: CidrSetError },
    #[error("failed to parse node {node}, CIDR {cidr}")]
    NotCidr { node: String, cidr: String },
    #[error(
        "node:{node} has an allocated cidr: {cidr} at index:{index} that does not exist in cluster cidrs configuration"
    )]
    NoSuchSet {
        node: String,
        cidr: String,
        index: usize,
    },
    #[error("failed to mark cidr[{cidr}] at idx [{index}] as occupied for node: {node}: {error}")]
    OutOfRange {
        node: String,
        cidr: Cidr,
        index: usize,
        error: CidrSetError,
    },
}

impl Allocator {
    pub(super) fn new(ranges: Ranges, metrics: &Metrics) -> Allocator {
        let measures = Measures::new(metrics);
        for set in &ranges.0 {
            let label = [set.cluster().to_string()];
            measures.max.with_label_values(&label).set(set.max() as f64);
            measures.usage.with_label_values(&label).set(set.usage());
        }
        Allocator {
            sets: ranges.0,
            reserved: BTreeMap::new(),
            waiting: BTreeSet::new(),
            measures,
        }
    }

    /// Finds ranges for a node that has none; marks those as taken that it has.
    pub(super) fn assign(&mut self, node: &Node) -> Result<Step, Refusal> {
        let key = node.key();
        if !node.spec.pod_cidrs.is_empty() {
            self.confirm(&key, &node.spec.pod_cidrs);
            return self.occupy(node).map(|()| Step::Nothing);
        }
        // Asked for again until the node shows it: the same ranges, whatever became of the first request.
        if let Some(reserved) = self.reserved.get(&key) {
            return Ok(Step::Write(reserved.clone()));
        }
        let mut cidrs: Vec<Cidr> = Vec::new();
        for index in 0..self.sets.len() {
            match self.sets[index].allocate_next() {
                Ok(allocation) => {
                    self.measures
                        .allocated(&self.sets[index], 1, Some(allocation.tries));
                    cidrs.push(allocation.cidr);
                }
                Err(error) => {
                    self.release(&cidrs);
                    self.waiting.insert(key);
                    return Err(Refusal::Exhausted { index, error });
                }
            }
        }
        self.waiting.remove(&key);
        self.reserved.insert(key, cidrs.clone());
        Ok(Step::Write(cidrs))
    }

    /// The API server has refused them for good. Gives the nodes that may try again.
    pub(super) fn refused(&mut self, key: &Key) -> Vec<Key> {
        match self.reserved.remove(key) {
            Some(reserved) => self.release(&reserved),
            None => Vec::new(),
        }
    }

    /// A node is gone, or no longer has what it had. Gives the nodes that may try again.
    pub(super) fn gone(&mut self, node: &Node) -> Vec<Key> {
        self.waiting.remove(&node.key());
        let mut cidrs: Vec<Cidr> = Vec::new();
        match self.reserved.remove(&node.key()) {
            Some(reserved) if node.spec.pod_cidrs.is_empty() => cidrs = reserved,
            _ => {
                let held = node.spec.pod_cidrs.iter();
                cidrs.extend(held.filter_map(|text| Cidr::parse(text)));
            }
        }
        self.release(&cidrs)
    }

    /// Marks what a node has as taken.
    pub(super) fn occupy(&mut self, node: &Node) -> Result<(), Refusal> {
        let name = || node.metadata.name.to_string();
        for (index, text) in node.spec.pod_cidrs.iter().enumerate() {
            let Some(parsed) = Cidr::parse(text) else {
                return Err(Refusal::NotCidr {
                    node: name(),
                    cidr: text.to_string(),
                });
            };
            let Some(set) = self.sets.get_mut(index) else {
                return Err(Refusal::NoSuchSet {
                    node: name(),
                    cidr: text.to_string(),
                    index,
                });
            };
            let cidr = parsed.masked();
            let new = set.occupy(&cidr).map_err(|error| Refusal::OutOfRange {
                node: name(),
                cidr,
                index,
                error,
            })?;
            self.measures.allocated(&self.sets[index], new, None);
        }
        Ok(())
    }

    /// The node shows what it has: what was reserved for it beyond that is free again.
    fn confirm(&mut self, key: &Key, held: &[api::Istr]) {
        self.waiting.remove(key);
        let Some(reserved) = self.reserved.remove(key) else {
            return;
        };
        let has = |cidr: &Cidr| held.iter().any(|text| **text == *cidr.to_string());
        let surplus: Vec<Cidr> = reserved.into_iter().filter(|cidr| !has(cidr)).collect();
        self.release(&surplus);
    }

    fn release(&mut self, cidrs: &[Cidr]) -> Vec<Key> {
        for cidr in cidrs {
            // A node's range may be of a network that is no longer the cluster's.
            let set = self.sets.iter_mut().find(|set| set.cluster().covers(cidr));
            if let Some(set) = set
                && let Ok(released) = set.release(cidr)
            {
                self.measures.released(set, released);
            }
        }
        match cidrs.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.waiting).into_iter().collect(),
        }
    }
}

/// Upstream's, by the network that is divided.
struct Measures {
    allocations: IntCounterVec,
    releases: IntCounterVec,
    max: GaugeVec,
    usage: GaugeVec,
    tries: HistogramVec,
}

impl Measures {
    fn new(metrics: &Metrics) -> Measures {
        const LABEL: [&str; 1] = ["clusterCIDR"];
        let name = |name: &str| format!("node_ipam_controller_{name}");
        Measures {
            allocations: metrics.counter(
                &name("cidrset_cidrs_allocations_total"),
                "Counter measuring total number of CIDR allocations.",
                Stability::Alpha,
                &LABEL,
            ),
            releases: metrics.counter(
                &name("cidrset_cidrs_releases_total"),
                "Counter measuring total number of CIDR releases.",
                Stability::Alpha,
                &LABEL,
            ),
            // UPSTREAM: the letters of this one are mixed up.
            max: metrics.gauge(
                &name("cirdset_max_cidrs"),
                "Maximum number of CIDRs that can be allocated.",
                Stability::Alpha,
                &LABEL,
            ),
            usage: metrics.gauge(
                &name("cidrset_usage_cidrs"),
                "Gauge measuring percentage of allocated CIDRs.",
                Stability::Alpha,
                &LABEL,
            ),
            // UPSTREAM: this text is another metric's; the tries before a free part was found are meant.
            tries: metrics.histogram(
                &name("cidrset_allocation_tries_per_request"),
                "Number of endpoints added on each Service sync",
                Stability::Alpha,
                &LABEL,
                &[1.0, 5.0, 25.0, 125.0, 625.0],
            ),
        }
    }

    fn allocated(&self, set: &CidrSet, new: u64, tries: Option<u64>) {
        let label = [set.cluster().to_string()];
        self.allocations.with_label_values(&label).inc_by(new);
        self.usage.with_label_values(&label).set(set.usage());
        if let Some(tries) = tries {
            self.tries.with_label_values(&label).observe(tries as f64);
        }
    }

    fn released(&self, set: &CidrSet, released: u64) {
        let label = [set.cluster().to_string()];
        self.releases.with_label_values(&label).inc_by(released);
        self.usage.with_label_values(&label).set(set.usage());
    }
}
