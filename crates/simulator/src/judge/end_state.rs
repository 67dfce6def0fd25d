//! What a user sees in the end, without names and times: to compare two runs of the same wishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::kinds::{Pod, StatefulSet};
use api::{Meta, Uid};

use super::Mirror;
use crate::scenario::CERTAIN;

impl Mirror {
    /// A line for each workload. What depends on who came first, and not on what was asked for, is
    /// left out: generated names, revisions that are history, the versions of pods that are only
    /// replaced by hand, and whatever overlaps.
    pub(crate) fn end_state(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for held in self.namespaces.list() {
            lines.push(format!("namespace {}", held.metadata.name));
        }
        for held in self.deployments.list() {
            let status = &held.status;
            let sets = self.sets_of(&held.metadata.uid);
            let owners: Vec<&Uid> = sets.iter().map(|set| &set.metadata.uid).collect();
            lines.push(format!(
                "deployment {}: {} wanted, {} updated, {} available, pods {}",
                held.metadata.key(),
                held.replicas(),
                status.updated_replicas,
                status.available_replicas,
                self.versions(&owners, true),
            ));
        }
        for held in self.sets.list() {
            // What a Deployment left behind depends on how far it was.
            let is_left = held.metadata.labels.contains_key("pod-template-hash");
            if held.metadata.controller().is_none() && !is_left {
                lines.push(self.line("replicaset", &held.metadata, held.replicas(), false));
            }
        }
        for held in self.controllers.list() {
            let replicas = controllers::replicaset::ReplicaOwner::replicas(&*held);
            lines.push(self.line("replicationcontroller", &held.metadata, replicas, false));
        }
        // One that is still being deleted waits for ever: whether it came to that depends on how far it was.
        let stays = |held: &&Arc<StatefulSet>| !held.metadata.is_terminating();
        for held in self.stateful.list().iter().filter(stays) {
            let strategy = &held.spec.update_strategy;
            let rolls = !strategy.on_delete && strategy.partition == 0;
            lines.push(self.line("statefulset", &held.metadata, held.replicas(), rolls));
        }
        for held in self.daemons.list() {
            let rolls = !held.spec.update_strategy.on_delete;
            let wanted = held.status.desired_number_scheduled;
            lines.push(self.line("daemonset", &held.metadata, wanted, rolls));
        }
        for held in self.jobs.list() {
            let end = held.finished().map_or("waits", |end| &*end.type_);
            // One that was stopped ends if it had come far enough by then.
            let stopped = held.spec.suspend || held.spec.parallelism == Some(0);
            // If it had, and has a time to live, it is gone.
            if stopped && held.spec.ttl_seconds_after_finished.is_some() {
                continue;
            }
            let certain = held.metadata.labels.contains_key(CERTAIN) && !stopped;
            let end = if certain { end } else { "any" };
            lines.push(format!("job {}: {end}", held.metadata.key()));
        }
        lines.sort();
        lines
    }

    fn line(&self, kind: &str, meta: &Meta, wanted: i32, by_version: bool) -> String {
        let pods = self.versions(&[&meta.uid], by_version);
        format!("{kind} {}: {wanted} wanted, pods {pods}", meta.key())
    }

    /// How many pods there are, of which version.
    fn versions(&self, owners: &[&Uid], by_version: bool) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for owner in owners {
            for pod in self.pods_of(owner).iter().filter(|pod| pod.is_active()) {
                let version = if by_version { version(pod) } else { "any" };
                *counts.entry(version.to_owned()).or_default() += 1;
            }
        }
        format!("{counts:?}")
    }
}

fn version(pod: &Pod) -> &str {
    pod.metadata.labels.get("version").unwrap_or("none")
}
