//! Which pods go first when there are too many.
//!
//! Upstream's order, in full: unassigned before assigned; pending before unknown before running;
//! not ready before ready; lower deletion cost first; more pods of the same workload on the node
//! first; ready for less time first, in logarithmic buckets; more restarts first; newer first, in
//! logarithmic buckets.

use std::borrow::Cow;
use std::sync::Arc;

use api::collections::HashMap;
use api::decision::{Line, counted};
use api::kinds::{Phase, Pod};
use api::{Gate, Gates, Istr, MicroTime, ObjectId, Time};

/// A pod that was chosen, and what spoke for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub pod: ObjectId,
    pub because: Because,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Because {
    NotScheduled,
    Phase(Phase),
    NotReady,
    DeletionCost(i32),
    DoubledUp { node: Istr, others: usize },
    Youngest,
}

/// The pods, first to be deleted first, each with what speaks for it.
pub(super) fn rank_for_deletion(
    pods: &[Arc<Pod>],
    related: &[Arc<Pod>],
    now: MicroTime,
    gates: Gates,
) -> Vec<(Arc<Pod>, Because)> {
    let mut on_node: HashMap<&str, usize> = HashMap::default();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(&pod.node_name).or_default() += 1;
    }
    let mut ranked: Vec<Ranked> = pods
        .iter()
        .map(|pod| Ranked {
            pod,
            on_node: on_node.get(pod.node_name.as_str()).copied().unwrap_or(0),
        })
        .collect();
    let order = Order { now, gates };
    merge_sort(&mut ranked, &|a, b| order.before(a, b));
    ranked
        .into_iter()
        .map(|ranked| (ranked.pod.clone(), ranked.explain(gates)))
        .collect()
}

/// How many times as old as the youngest ready pod each ready pod is that was chosen: a figure that
/// tells how well scaling down spares the young.
pub(super) fn age_ratios(active: &[Arc<Pod>], chosen: &[Arc<Pod>], now: MicroTime) -> Vec<f64> {
    let age = |pod: &Arc<Pod>| now.since(pod.metadata.created_at).as_millis();
    let ready = |pods: &[Arc<Pod>]| {
        let ready = pods.iter().filter(|pod| pod.is_ready());
        ready.map(age).collect::<Vec<u128>>()
    };
    // A pod that is not a millisecond old has no ratio.
    let Some(youngest @ 1..) = ready(active).into_iter().min() else {
        return Vec::new();
    };
    // UPSTREAM: whole numbers.
    let ratio = |age: u128| (age / youngest) as f64;
    ready(chosen).into_iter().map(ratio).collect()
}

#[derive(Clone, Copy)]
struct Ranked<'a> {
    pod: &'a Arc<Pod>,
    /// Active pods of the same workload on the pod's node, itself included.
    on_node: usize,
}

struct Order {
    now: MicroTime,
    gates: Gates,
}

impl Order {
    fn before(&self, a: &Ranked<'_>, b: &Ranked<'_>) -> bool {
        let (one, two) = (&**a.pod, &**b.pod);
        if one.node_name.is_empty() != two.node_name.is_empty() {
            return one.node_name.is_empty();
        }
        if one.status.phase.progress() != two.status.phase.progress() {
            return one.status.phase.progress() < two.status.phase.progress();
        }
        if one.is_ready() != two.is_ready() {
            return !one.is_ready();
        }
        if self.gates.enabled(Gate::PodDeletionCost) && one.deletion_cost() != two.deletion_cost() {
            return one.deletion_cost() < two.deletion_cost();
        }
        if a.on_node != b.on_node {
            return a.on_node > b.on_node;
        }
        if one.is_ready()
            && two.is_ready()
            && one.status.ready_changed_at != two.status.ready_changed_at
        {
            return self.later(
                one,
                two,
                one.status.ready_changed_at,
                two.status.ready_changed_at,
            );
        }
        let restarts = |pod: &Pod| (pod.status.restarts, pod.status.sidecar_restarts);
        if restarts(one) != restarts(two) {
            return restarts(one) > restarts(two);
        }
        let created =
            |pod: &Pod| Some(pod.metadata.created_at).filter(|time| *time != Time::default());
        created(one) != created(two) && self.later(one, two, created(one), created(two))
    }

    /// Is `one` younger? In buckets that double in length, and by uid within a bucket: so that
    /// scaling down does not always hit the newest pod.
    fn later(&self, one: &Pod, two: &Pod, first: Option<Time>, second: Option<Time>) -> bool {
        let (Some(first), Some(second)) = (first, second) else {
            return first.is_none();
        };
        if !self.gates.enabled(Gate::LogarithmicScaleDown) {
            return first > second;
        }
        let bucket = |time: Time| match self.now.since(time).as_nanos() {
            0 => -1,
            nanos => i64::from(nanos.ilog2()),
        };
        match bucket(first).cmp(&bucket(second)) {
            std::cmp::Ordering::Equal => one.metadata.uid < two.metadata.uid,
            other => other.is_lt(),
        }
    }
}

impl Ranked<'_> {
    fn explain(&self, gates: Gates) -> Because {
        let pod = &**self.pod;
        let cost = pod.deletion_cost();
        if pod.node_name.is_empty() {
            Because::NotScheduled
        } else if pod.status.phase.progress() < Phase::Running.progress() {
            Because::Phase(pod.status.phase)
        } else if !pod.is_ready() {
            Because::NotReady
        } else if gates.enabled(Gate::PodDeletionCost) && cost != 0 {
            Because::DeletionCost(cost)
        } else if self.on_node > 1 {
            Because::DoubledUp {
                node: pod.node_name.clone(),
                others: self.on_node - 1,
            }
        } else {
            Because::Youngest
        }
    }
}

impl From<&Chosen> for Line {
    fn from(chosen: &Chosen) -> Line {
        let why = match &chosen.because {
            Because::NotScheduled => "it is not scheduled".into(),
            Because::Phase(phase) => Cow::from(format!("its phase is {phase:?}")),
            Because::NotReady => "it is not ready".into(),
            Because::DeletionCost(cost) => format!("its deletion cost is {cost}").into(),
            Because::DoubledUp { node, others } => {
                let pods = counted(*others, "more pod");
                format!("{node} has {pods} of the workload").into()
            }
            Because::Youngest => "it has been ready, or alive, for the shortest time".into(),
        };
        Line::acts("Deletes", format!("deletes {}", chosen.pod.name))
            .because(why)
            .about(chosen.pod.clone())
    }
}

/// A stable sort that bears with an order that is not total: within a time bucket upstream's order
/// can go in circles (by uid here, by restarts there), which the standard library answers with a panic.
fn merge_sort<T: Copy>(items: &mut [T], before: &impl Fn(&T, &T) -> bool) {
    if items.len() < 2 {
        return;
    }
    let middle = items.len() / 2;
    merge_sort(&mut items[..middle], before);
    merge_sort(&mut items[middle..], before);
    let (left, right) = (items[..middle].to_vec(), items[middle..].to_vec());
    let (mut l, mut r) = (0, 0);
    for slot in items.iter_mut() {
        let take_right = l == left.len() || (r < right.len() && before(&right[r], &left[l]));
        *slot = if take_right { right[r] } else { left[l] };
        r += usize::from(take_right);
        l += usize::from(!take_right);
    }
}
