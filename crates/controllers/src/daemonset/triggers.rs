//! Which changes of nodes enqueue which sets.
//!
//! A node reports every few seconds, and most of what it says moves no pod. Only its labels and
//! taints do, and only sets that would now act, or count otherwise, are enqueued.

use std::sync::Arc;

use api::kinds::{DaemonSet, Node, Pod};
use api::{Gates, Resource};
use runtime::informer::Change;
use runtime::{Queue, Store};

use super::eligibility::Eligibility;
use crate::workload::on_node::pods_on;

pub(super) struct NodeTrigger {
    pub sets: Arc<Store<DaemonSet>>,
    /// Needs the index [`by_node`](crate::workload::on_node::by_node).
    pub pods: Arc<Store<Pod>>,
    pub gates: Gates,
}

impl NodeTrigger {
    pub(super) fn on_change(&self, change: Change<'_, Node>, queue: &Queue) {
        match change {
            Change::Added(node) => self.changed(None, node, queue),
            Change::Updated { old, new } if may_change_placement(old, new) => {
                self.changed(Some(old), new, queue);
            }
            Change::Updated { .. } => {}
            Change::Deleted(node) => self.deleted(node, queue),
        }
    }

    /// Upstream looks only at what the node is now, and passes over a taint that begins to keep new pods away from a
    /// node that has its pod: that is one desired pod less, and one that is misscheduled.
    fn changed(&self, old: Option<&Node>, node: &Node, queue: &Queue) {
        let pods = pods_on(&self.pods, &node.metadata.name);
        for set in self.sets.list() {
            let eligibility = Eligibility::new(&set, self.gates);
            let verdict = eligibility.verdict(node);
            let acts = if is_scheduled(&set, &pods) {
                !verdict.may_stay() || set.status.number_misscheduled > 0
            } else {
                verdict.should_run()
            };
            let should_run = verdict.should_run();
            let counts_otherwise =
                || old.is_some_and(|old| eligibility.verdict(old).should_run() != should_run);
            if acts || counts_otherwise() {
                queue.add(set.key());
            }
        }
    }

    /// Upstream sleeps through this; the counts of pods, and pods that nobody can bind any more, would then wait for
    /// something else to happen.
    fn deleted(&self, node: &Node, queue: &Queue) {
        let pods = pods_on(&self.pods, &node.metadata.name);
        for set in self.sets.list() {
            let verdict = Eligibility::new(&set, self.gates).verdict(node);
            if verdict.should_run() || is_scheduled(&set, &pods) {
                queue.add(set.key());
            }
        }
    }
}

fn is_scheduled(set: &DaemonSet, on_node: &[Arc<Pod>]) -> bool {
    let uid = &set.metadata.uid;
    on_node.iter().any(|pod| pod.metadata.is_controlled_by(uid))
}

/// Nothing else of a node decides about daemon pods.
pub(super) fn may_change_placement(old: &Node, new: &Node) -> bool {
    old.metadata.labels != new.metadata.labels || old.spec.taints != new.spec.taints
}
