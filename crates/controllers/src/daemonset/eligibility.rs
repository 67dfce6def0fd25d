//! Which nodes a set's pods may run on. Pure.

use std::fmt;

use api::kinds::{DaemonSet, Node};
use api::node_affinity::RequiredNodeAffinity;
use api::taints::{TaintEffect, Toleration, TolerationOperator, find_untolerated};
use api::{Gate, Gates};

/// A set's demands on nodes, compiled to be asked about many of them.
pub struct Eligibility<'a> {
    node_name: &'a str,
    affinity: RequiredNodeAffinity,
    tolerations: Vec<Toleration>,
    comparison_operators: bool,
}

/// What a set does on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It should run there.
    Runs,
    /// It does not start there, but what runs there stays. The taint, by its place on the node.
    Stays(usize),
    /// A taint that nothing tolerates drives it away.
    Repelled(usize),
    /// The template names another node.
    OtherNode,
    /// The node is not what selector and affinity of the template ask for.
    Unmatched,
}

impl<'a> Eligibility<'a> {
    pub fn new(set: &'a DaemonSet, gates: Gates) -> Eligibility<'a> {
        let placement = &*set.spec.placement;
        let mut tolerations = placement.tolerations.clone();
        tolerations.extend(automatic_tolerations(placement.host_network));
        Eligibility {
            node_name: &placement.node_name,
            affinity: RequiredNodeAffinity::new(
                &placement.node_selector,
                placement.affinity.as_ref(),
            ),
            tolerations,
            comparison_operators: gates.enabled(Gate::TaintTolerationComparisonOperators),
        }
    }

    pub fn verdict(&self, node: &Node) -> Verdict {
        let (name, labels) = (&*node.metadata.name, &node.metadata.labels);
        if !self.node_name.is_empty() && self.node_name != name {
            return Verdict::OtherNode;
        }
        // UPSTREAM: a malformed term matches nothing and is no error.
        if !self.affinity.matches(name, labels).unwrap_or(false) {
            return Verdict::Unmatched;
        }
        if let Some(at) = self.untolerated(node, &[TaintEffect::NoExecute]) {
            return Verdict::Repelled(at);
        }
        match self.untolerated(node, &[TaintEffect::NoSchedule]) {
            Some(at) => Verdict::Stays(at),
            None => Verdict::Runs,
        }
    }

    fn untolerated(&self, node: &Node, effects: &[TaintEffect]) -> Option<usize> {
        let taints = &node.spec.taints;
        let found = find_untolerated(
            &self.tolerations,
            taints,
            |taint| effects.contains(&taint.effect),
            self.comparison_operators,
        )?;
        taints.iter().position(|taint| taint == found)
    }
}

impl Verdict {
    pub fn should_run(self) -> bool {
        self == Verdict::Runs
    }

    pub fn may_stay(self) -> bool {
        matches!(self, Verdict::Runs | Verdict::Stays(_))
    }

    /// Why the set does not start on the node.
    pub fn explain(self, node: &Node) -> Unfit {
        let taint = |at: usize| {
            let taint = node.spec.taints.get(at);
            taint.map_or_else(String::new, |taint| taint.to_string())
        };
        match self {
            Verdict::Runs => Unfit::Fits,
            Verdict::Stays(at) | Verdict::Repelled(at) => Unfit::Taint(taint(at)),
            Verdict::OtherNode => Unfit::OtherNode,
            Verdict::Unmatched => Unfit::Unmatched,
        }
    }
}

/// Why a node is not for a set, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    Fits,
    Taint(String),
    OtherNode,
    Unmatched,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Fits => write!(f, "the node fits"),
            Unfit::Taint(taint) => write!(f, "the taint {taint} is not tolerated"),
            Unfit::OtherNode => write!(f, "the template names another node"),
            Unfit::Unmatched => write!(
                f,
                "the node does not match the node selector and affinity of the template"
            ),
        }
    }
}

/// What every daemon pod tolerates without being told: trouble with the node is its business.
pub fn automatic_tolerations(host_network: bool) -> impl Iterator<Item = Toleration> {
    use TaintEffect::{NoExecute, NoSchedule};
    let always = [
        ("node.kubernetes.io/not-ready", NoExecute),
        ("node.kubernetes.io/unreachable", NoExecute),
        ("node.kubernetes.io/disk-pressure", NoSchedule),
        ("node.kubernetes.io/memory-pressure", NoSchedule),
        ("node.kubernetes.io/pid-pressure", NoSchedule),
        ("node.kubernetes.io/unschedulable", NoSchedule),
    ];
    let network = host_network.then_some(("node.kubernetes.io/network-unavailable", NoSchedule));
    always
        .into_iter()
        .chain(network)
        .map(|(key, effect)| Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            effect,
            ..Toleration::default()
        })
}
