//! What enqueues a job, and when; what sends a pod to be freed.

use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::kinds::{Job, Pod};
use client::{DeleteOptions, Propagation};
use runtime::{Change, Metrics, Queue, Store};
use serde_json::{Value, json};
use testkit::World;

use super::super::controller;
use super::super::finalizers::Finalizers;
use super::super::metrics::JobMetrics;
use super::super::state::JobStates;
use super::scenario::job;
use crate::workload::Consistency;

/// Two jobs, `j` and `other`, that select pods of their own name. The workers rest.
struct Watching {
    world: World,
    jobs: Arc<Queue>,
    orphans: Arc<Queue>,
    job: Value,
    other: Value,
}

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

impl Watching {
    async fn new() -> Watching {
        let world = World::new().await;
        let built = controller(&world.context(), 1);
        world.start().await;
        let make = |name: &str| {
            let mut made = job(json!({"manualSelector": true}));
            made["metadata"]["name"] = json!(name);
            made["spec"]["selector"] = json!({"matchLabels": {"app": name}});
            made["spec"]["template"]["metadata"] = json!({"labels": {"app": name}});
            made
        };
        let job = world.create(&Job::TYPE, make("j")).await;
        let other = world.create(&Job::TYPE, make("other")).await;
        let watching = Watching {
            world,
            jobs: built.jobs.queue,
            orphans: built.orphans.queue,
            job,
            other,
        };
        assert_eq!(watching.heard().await, "j now, other now");
        watching
    }

    /// Whom the queues have been told to look at since the last call, and when.
    async fn heard(&self) -> String {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut told = Vec::new();
        for (queue, is_job) in [(&self.jobs, true), (&self.orphans, false)] {
            let contents = queue.contents();
            let ready = contents.ready.iter().map(|key| (key, "now"));
            let later = contents.delayed.iter().map(|(_, key)| (key, "later"));
            for (key, when) in ready.chain(later) {
                let name = &key.name;
                told.push(if is_job {
                    format!("{name} {when}")
                } else {
                    format!("free {name}")
                });
            }
            let empty = Duration::from_secs(2);
            while let Ok(Some(key)) = tokio::time::timeout(empty, queue.get()).await {
                queue.done(&key);
            }
        }
        told.sort();
        told.join(", ")
    }

    async fn pod(&self, app: &str, owners: Value) -> String {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "pod", "labels": {"app": app}, "ownerReferences": owners,
                "finalizers": [FINALIZER],
            },
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
        });
        self.world.create(&Pod::TYPE, pod).await;
        self.heard().await
    }

    async fn patch(&self, metadata: Value) -> String {
        let patch = json!({"metadata": metadata});
        self.world.patch(&Pod::TYPE, "pod", patch).await;
        self.heard().await
    }

    async fn change(&self, spec: Value) -> String {
        let patch = json!({"spec": spec});
        self.world.patch(&Job::TYPE, "j", patch).await;
        self.heard().await
    }

    async fn set_status(&self, status: Value) -> String {
        let patch = json!({"status": status});
        let (kind, part) = (&Job::TYPE, Some("status"));
        self.world.patch_subresource(kind, "j", part, patch).await;
        self.heard().await
    }

    /// Marks the job as failed.
    async fn fail(&self) -> String {
        let now = self.world.clock.now().time();
        let condition = |type_| json!({"type": type_, "status": "True", "lastTransitionTime": now});
        let conditions = [condition("FailureTarget"), condition("Failed")];
        self.set_status(json!({"startTime": now, "conditions": conditions}))
            .await
    }
}

fn owned_by(owner: &Value) -> Value {
    let meta = &owner["metadata"];
    json!([{"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": true}])
}

// Upstream: TestUpdateJobRequeue, TestWatchJobs.
#[tokio::test(start_paused = true)]
async fn a_new_spec_enqueues_at_once_and_a_new_status_later() {
    let watching = Watching::new().await;
    assert_eq!(watching.change(json!({"parallelism": 5})).await, "j now");
    assert_eq!(watching.set_status(json!({"active": 1})).await, "j later");
    watching.world.delete(&Job::TYPE, "j").await;
    assert_eq!(watching.heard().await, "j now");
}

// Upstream: TestAddPod, TestUpdatePod, TestDeletePod, TestWatchPods.
#[tokio::test(start_paused = true)]
async fn a_pod_enqueues_its_job_later_whatever_its_labels() {
    let watching = Watching::new().await;
    assert_eq!(watching.pod("j", owned_by(&watching.job)).await, "j later");
    let relabel = json!({"labels": {"app": "other"}});
    assert_eq!(watching.patch(relabel).await, "j later");
    watching.world.delete(&Pod::TYPE, "pod").await;
    assert_eq!(watching.heard().await, "j later");
    assert_eq!(watching.patch(json!({"finalizers": null})).await, "j later");
}

// Upstream: TestAddPodOrphan, TestUpdatePodOrphanWithNewLabels, TestJobPodLookup.
#[tokio::test(start_paused = true)]
async fn an_orphan_is_released_and_enqueues_who_selects_it() {
    let watching = Watching::new().await;
    assert_eq!(watching.pod("j", json!([])).await, "free pod, j later");
    let relabel = |app| json!({"labels": {"app": app}});
    assert_eq!(
        watching.patch(relabel("other")).await,
        "free pod, other later"
    );
    assert_eq!(watching.patch(relabel("nobody")).await, "free pod");
    assert_eq!(watching.patch(json!({"finalizers": null})).await, "");
}

// Upstream: TestUpdatePodChangeControllerRef, TestUpdatePodRelease.
#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_hands_enqueues_both() {
    let watching = Watching::new().await;
    watching.pod("j", owned_by(&watching.job)).await;
    let moved = json!({"ownerReferences": owned_by(&watching.other)});
    assert_eq!(watching.patch(moved).await, "j later, other later");
    let released = json!({"ownerReferences": null});
    assert_eq!(
        watching.patch(released).await,
        "free pod, j later, other later"
    );
}

// Upstream: TestDeletePodOrphan, TestWatchOrphanPods, TestFinalizerCleanup.
#[tokio::test(start_paused = true)]
async fn pods_of_a_job_that_is_over_are_freed() {
    let watching = Watching::new().await;
    watching.pod("j", owned_by(&watching.job)).await;
    assert_eq!(watching.fail().await, "free pod");
    let shown = json!({"labels": {"app": "j", "again": "yes"}});
    assert_eq!(watching.patch(shown).await, "free pod, j later");
    watching.world.delete(&Pod::TYPE, "pod").await;
    assert_eq!(watching.heard().await, "free pod");
    let gone = Watching::new().await;
    gone.pod("j", owned_by(&gone.job)).await;
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    gone.world.delete_with(&Job::TYPE, "j", &options).await;
    assert_eq!(gone.heard().await, "free pod, j now");
    let orphaned = Watching::new().await;
    orphaned.pod("j", json!([])).await;
    orphaned.world.delete(&Pod::TYPE, "pod").await;
    assert_eq!(orphaned.heard().await, "free pod");
}

/// A listing that is slow may show the job after its pods.
#[tokio::test(start_paused = true)]
async fn pods_that_are_seen_before_their_job_are_freed_if_it_is_over() {
    let watching = Watching::new().await;
    watching.pod("j", owned_by(&watching.job)).await;
    watching.fail().await;
    let seen = watching.world.informers.of::<Job>();
    let job = seen.store().find("default", "j").unwrap();
    let finalizers = Finalizers {
        jobs: Arc::new(Store::new()),
        pods: watching.world.informers.of::<Pod>().store().clone(),
        orphans: watching.orphans.clone(),
        states: Arc::new(JobStates::new(
            Arc::default(),
            Arc::new(Consistency::always()),
        )),
        metrics: Arc::new(JobMetrics::new(&Metrics::new())),
    };
    let pod = finalizers.pods.find("default", "pod").unwrap();
    finalizers.on_pod(Change::Added(&pod));
    assert_eq!(watching.heard().await, "", "whose it is is not known");
    finalizers.jobs.put(job.clone());
    finalizers.on_job(Change::Added(&job));
    assert_eq!(watching.heard().await, "free pod");
}
