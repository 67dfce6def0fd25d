//! What the caches say about one set.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Gates;
use api::kinds::{ControllerRevision, DaemonSet, Node, Pod};

use super::eligibility::{Eligibility, Verdict};
use super::pods::{is_updated, template_generation};

pub struct Snapshot {
    pub set: Arc<DaemonSet>,
    /// All nodes by name, and what the set does on each.
    pub nodes: BTreeMap<Arc<str>, (Arc<Node>, Verdict)>,
    /// The set's pods by the node they are on or meant for. Pods that have finished and are being
    /// deleted are nobody's business any more and left out.
    pub pods: BTreeMap<Arc<str>, Vec<Arc<Pod>>>,
    /// Those left out: they still keep their revision alive.
    pub leaving: Vec<Arc<Pod>>,
    /// The hash of the current revision.
    pub hash: Arc<str>,
    /// Old revisions that the history need not hold.
    pub surplus_revisions: Vec<Arc<ControllerRevision>>,
    /// What was created or deleted before has shown up.
    pub may_act: bool,
    pub generation: Option<i64>,
}

impl Snapshot {
    pub fn new(
        set: Arc<DaemonSet>,
        nodes: Vec<Arc<Node>>,
        pods: Vec<Arc<Pod>>,
        hash: &str,
        may_act: bool,
        gates: Gates,
    ) -> Snapshot {
        let eligibility = Eligibility::new(&set, gates);
        let nodes = nodes
            .into_iter()
            .map(|node| {
                let verdict = eligibility.verdict(&node);
                (node.metadata.name.clone(), (node, verdict))
            })
            .collect();
        let (mut placed, mut leaving) = (BTreeMap::<Arc<str>, Vec<Arc<Pod>>>::new(), Vec::new());
        for pod in pods {
            let Some(node) = pod.target_node() else {
                continue;
            };
            if pod.is_finished() && pod.metadata.is_terminating() {
                leaving.push(pod);
                continue;
            }
            match placed.get_mut(node) {
                Some(held) => held.push(pod),
                None => {
                    placed.insert(node.into(), vec![pod]);
                }
            }
        }
        Snapshot {
            generation: template_generation(&set),
            set,
            nodes,
            pods: placed,
            leaving,
            hash: hash.into(),
            surplus_revisions: Vec::new(),
            may_act,
        }
    }

    pub fn is_updated(&self, pod: &Pod) -> bool {
        is_updated(pod, &self.hash, self.generation)
    }

    pub fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    pub fn verdict(&self, node: &str) -> Option<Verdict> {
        self.nodes.get(node).map(|(_, verdict)| *verdict)
    }

    /// On how many nodes the set should run.
    pub fn desired(&self) -> usize {
        let verdicts = self.nodes.values();
        verdicts.filter(|(_, verdict)| verdict.should_run()).count()
    }

    /// All pods that have a node.
    pub fn all_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().flatten()
    }
}
