//! Which changes of nodes wake which sets.
//!
//! A node reports every few seconds, and most of what it says moves no pod. Only its labels and
//! taints do, and only sets that would now act, or count otherwise, are woken.

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
            Change::Added(node) => self.changed(node, queue),
            Change::Updated { old, new } if is_worth_a_look(old, new) => self.changed(new, queue),
            Change::Updated { .. } => {}
            Change::Deleted(node) => self.deleted(node, queue),
        }
    }

    fn changed(&self, node: &Node, queue: &Queue) {
        let pods = pods_on(&self.pods, &node.metadata.name);
        for set in self.sets.list() {
            let verdict = Eligibility::new(&set, self.gates).verdict(node);
            let uid = &set.metadata.uid;
            let scheduled = pods.iter().any(|pod| pod.metadata.is_controlled_by(uid));
            let acts = if scheduled {
                !verdict.may_stay() || set.status.number_misscheduled > 0
            } else {
                verdict.should_run()
            };
            if acts {
                queue.add(set.key());
            }
        }
    }

    /// Upstream sleeps through this; the count of desired pods, and pods that nobody can bind any
    /// more, would then wait for something else to happen.
    fn deleted(&self, node: &Node, queue: &Queue) {
        for set in self.sets.list() {
            let verdict = Eligibility::new(&set, self.gates).verdict(node);
            if verdict.should_run() {
                queue.add(set.key());
            }
        }
    }
}

/// Nothing else of a node decides about daemon pods.
pub(super) fn is_worth_a_look(old: &Node, new: &Node) -> bool {
    old.metadata.labels != new.metadata.labels || old.spec.taints != new.spec.taints
}
