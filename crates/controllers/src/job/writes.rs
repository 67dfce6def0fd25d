//! What is sent for a job's pods: their bodies, and how their finalizer is removed.

use api::Resource;
use api::json::Node;
use api::kinds::{
    JOB_COMPLETION_INDEX, JOB_INDEX_FAILURE_COUNT, JOB_INDEX_IGNORED_FAILURE_COUNT, JOB_TRACKING,
    Job, Pod,
};
use bytes::Bytes;
use client::{Client, Error, Patch};
use serde_json::json;

use super::assess::{IndexState, failure_count, ignored_failure_count};
use super::policy;
use crate::workload::claim::controller_reference;
use crate::workload::pod_body;
use crate::workload::pods::{PodName, pod_name_base};
use crate::workload::status::revision;

/// The environment variable by which a container knows its index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Five random characters make the longest generated name 63 long, which is what a host name may be.
const GENERATED_BASE_MAX: usize = 58;

/// The pods that a job asks for.
pub struct NewPods<'a> {
    job: &'a Job,
    /// All but what depends on the index.
    base: Node,
}

impl<'a> NewPods<'a> {
    /// `group` is the PodGroup by which they are scheduled together.
    pub fn of(job: &'a Job, group: Option<&str>) -> NewPods<'a> {
        let name = pod_name_base(&job.metadata.name);
        let template = &job.spec.template;
        let owner = controller_reference(job);
        let mut base = pod_body(template, PodName::Generate(&name), &owner);
        if !template.finalizers().any(|held| held == JOB_TRACKING) {
            push(
                base.entry(&["metadata", "finalizers"]),
                Node::text(JOB_TRACKING),
            );
        }
        if job.is_indexed() {
            for list in ["initContainers", "containers"] {
                if let Node::Array(containers) = base.entry(&["spec", list]) {
                    containers.iter_mut().for_each(set_index_environment);
                } else {
                    base.remove(&["spec", list]);
                }
            }
        }
        if let Some(group) = group {
            // UPSTREAM: the group is meant to be an owner of the pods as well, but what the template says of owners
            // never gets into a pod.
            let group = Node::of(&json!({"podGroupName": group}));
            base.set(&["spec", "schedulingGroup"], group);
        }
        NewPods { job, base }
    }

    /// The same for all pods of a job without indexes.
    pub fn any(&self) -> Bytes {
        self.base.to_string().into()
    }

    pub fn for_index(&self, index: u32, state: &IndexState) -> Bytes {
        let mut pod = self.base.clone();
        let text = Node::text(&index.to_string());
        let name = &self.job.metadata.name;
        pod.set(
            &["metadata", "generateName"],
            Node::text(&generate_name(name, index)),
        );
        pod.set(&["metadata", "labels", JOB_COMPLETION_INDEX], text.clone());
        pod.set(&["metadata", "annotations", JOB_COMPLETION_INDEX], text);
        pod.set(
            &["spec", "hostname"],
            Node::text(&format!("{name}-{index}")),
        );
        if self.job.spec.backoff_limit_per_index.is_some() {
            let (counted, ignored) = self.failures(index, state);
            let mut annotate = |key, number: i32| {
                let text = Node::text(&number.to_string());
                pod.set(&["metadata", "annotations", key], text);
            };
            annotate(JOB_INDEX_FAILURE_COUNT, counted);
            if ignored > 0 {
                annotate(JOB_INDEX_IGNORED_FAILURE_COUNT, ignored);
            }
        }
        pod.to_string().into()
    }

    /// How often the index has failed, with the pod that is replaced: as far as it counts, and beyond.
    fn failures(&self, index: u32, state: &IndexState) -> (i32, i32) {
        let Some(replaced) = state.delayed.get(&index) else {
            return (0, 0);
        };
        let (counted, ignored) = (failure_count(replaced), ignored_failure_count(replaced));
        let policy = self.job.spec.pod_failure_policy.as_deref();
        match policy::counts(policy, replaced) {
            true => (counted.saturating_add(1), ignored),
            false => (counted, ignored.saturating_add(1)),
        }
    }
}

/// Gives a container the variable, unless it has it already.
fn set_index_environment(container: &mut Node) {
    let environment = container.entry(&["env"]);
    if let Node::Array(held) = &*environment {
        let is_there = |one: &Node| {
            let name = one.get(&["name"]).and_then(Node::as_str);
            name.as_deref() == Some(INDEX_VARIABLE)
        };
        if held.iter().any(is_there) {
            return;
        }
    }
    let path = format!("metadata.labels['{JOB_COMPLETION_INDEX}']");
    let variable = json!({
        "name": INDEX_VARIABLE,
        "valueFrom": {"fieldRef": {"fieldPath": path}},
    });
    push(environment, Node::of(&variable));
}

/// Appends to a list, which is made if it is not there.
fn push(list: &mut Node, item: Node) {
    match list {
        Node::Array(items) => items.push(item),
        other => *other = Node::Array(vec![item]),
    }
}

fn generate_name(job: &str, index: u32) -> String {
    let suffix = format!("-{index}-");
    let room = GENERATED_BASE_MAX.saturating_sub(suffix.len());
    // Names of jobs are ASCII.
    format!("{}{suffix}", job.get(..room).unwrap_or(job))
}

/// Takes the finalizer off a pod; gives the revision.
pub async fn remove_finalizer(client: &Client, pod: &Pod) -> Result<u64, Error> {
    let meta = &pod.metadata;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}});
    let patch = Patch::Strategic(patch.to_string().into());
    let answer = client
        .patch_metadata_only(&Pod::TYPE, &meta.namespace, &meta.name, &patch)
        .await?;
    Ok(revision(&answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Upstream: TestPodGenerateNameWithIndex.
    #[test]
    fn a_generated_name_has_room_for_its_index() {
        assert_eq!(generate_name("job", 7), "job-7-");
        let long = "a".repeat(60);
        let name = generate_name(&long, 123_456);
        assert_eq!((name.len(), name.ends_with("a-123456-")), (58, true));
        assert_eq!(
            generate_name(&"a".repeat(55), 1),
            format!("{}-1-", "a".repeat(55))
        );
    }
}
