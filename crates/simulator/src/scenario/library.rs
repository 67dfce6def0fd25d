//! Scenarios with a name: what users do every day, one thing at a time.
//!
//! They have no faults of their own. They are for `--scenario`, where the seed brings the faults, and
//! for crashes after each single write.

use std::time::Duration;

use api::kinds::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet};
use api::{Resource, ResourceType, Rng};
use client::Propagation;
use serde_json::{Value, json};

use super::version_patch;
use super::{Action, Fault, Scenario, Step, Target, UserAction};
use crate::faults::FaultRates;

/// A scenario of the library: its name, what it is about, and its actions with their seconds.
pub struct Named {
    pub name: &'static str,
    pub about: &'static str,
    actions: fn() -> Vec<(u64, UserAction)>,
}

pub const LIBRARY: [Named; 12] = [
    Named {
        name: "rolling-update",
        about: "a Deployment of 4 gets a new version, and then another one half way",
        actions: || {
            vec![
                (
                    0,
                    create::<Deployment>(deployment(
                        4,
                        json!({"maxSurge": 1, "maxUnavailable": 1}),
                    )),
                ),
                (20, version::<Deployment>(1)),
                (23, version::<Deployment>(2)),
            ]
        },
    },
    Named {
        name: "recreate",
        about: "a Deployment that recreates gets a new version",
        actions: || {
            let mut spec = deployment(3, json!(null));
            spec["strategy"] = json!({"type": "Recreate"});
            vec![
                (0, create::<Deployment>(spec)),
                (20, version::<Deployment>(1)),
            ]
        },
    },
    Named {
        name: "scale",
        about: "a Deployment goes from 2 to 6 to 1",
        actions: || {
            vec![
                (
                    0,
                    create::<Deployment>(deployment(
                        2,
                        json!({"maxSurge": 1, "maxUnavailable": 0}),
                    )),
                ),
                (15, scale::<Deployment>(6)),
                (25, scale::<Deployment>(1)),
            ]
        },
    },
    Named {
        name: "pause-undo",
        about: "a rollout is paused half way, resumed, and undone",
        actions: || {
            let pause = |paused: bool| {
                change::<Deployment>(json!({"spec": {"paused": paused}}), "pauses or resumes")
            };
            vec![
                (
                    0,
                    create::<Deployment>(deployment(
                        4,
                        json!({"maxSurge": 1, "maxUnavailable": 1}),
                    )),
                ),
                (20, version::<Deployment>(1)),
                (22, pause(true)),
                (30, pause(false)),
                (32, version::<Deployment>(0)),
            ]
        },
    },
    Named {
        name: "orphan-adopt",
        about: "a ReplicaSet is deleted without its pods, and a new one adopts them",
        actions: || {
            let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template()});
            vec![
                (0, create::<ReplicaSet>(spec.clone())),
                (
                    15,
                    UserAction::Delete(target::<ReplicaSet>(), Propagation::Orphan),
                ),
                (20, create::<ReplicaSet>(spec)),
                (30, UserAction::StrayPod(target::<ReplicaSet>(), 0)),
            ]
        },
    },
    Named {
        name: "stateful-update",
        about: "a StatefulSet of 3 with claims gets a new version and shrinks",
        actions: || {
            vec![
                (0, create::<StatefulSet>(stateful(3))),
                (40, version::<StatefulSet>(1)),
                (80, scale::<StatefulSet>(1)),
            ]
        },
    },
    Named {
        name: "daemons",
        about: "a DaemonSet gets a new version while nodes are tainted and untainted",
        actions: || {
            let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template()});
            vec![
                (0, create::<DaemonSet>(spec)),
                (15, version::<DaemonSet>(1)),
                (17, UserAction::TaintNode(0, Some("NoSchedule"))),
                (30, UserAction::TaintNode(0, None)),
                (35, UserAction::DeletePod(target::<DaemonSet>(), 1)),
            ]
        },
    },
    Named {
        name: "cascade",
        about: "a Deployment is deleted in the foreground, comes back, and is deleted in the background",
        actions: || {
            let spec = deployment(3, json!({"maxSurge": 1, "maxUnavailable": 0}));
            vec![
                (0, create::<Deployment>(spec.clone())),
                (
                    15,
                    UserAction::Delete(target::<Deployment>(), Propagation::Foreground),
                ),
                (20, create::<Deployment>(spec)),
                (
                    40,
                    UserAction::Delete(target::<Deployment>(), Propagation::Background),
                ),
            ]
        },
    },
    Named {
        name: "namespace",
        about: "a namespace with a Deployment in it is deleted",
        actions: || {
            let spec = deployment(2, json!({"maxSurge": 1, "maxUnavailable": 0}));
            let target = Target {
                namespace: "shop",
                ..target::<Deployment>()
            };
            let object = object(&target.resource, "shop", spec);
            vec![
                (0, UserAction::CreateNamespace("shop")),
                (1, UserAction::Create(target, object)),
                (20, UserAction::DeleteNamespace("shop")),
            ]
        },
    },
    Named {
        name: "job",
        about: "a Job of 4 loses a pod, is suspended and resumed, and its time to live passes",
        actions: || {
            let suspend =
                |on: bool| change::<Job>(json!({"spec": {"suspend": on}}), "suspends or resumes");
            let mut spec = job(json!({"steersman.dev/run-for": "6s"}));
            spec["ttlSecondsAfterFinished"] = json!(30);
            vec![
                (0, create::<Job>(spec)),
                (3, UserAction::DeletePod(target::<Job>(), 0)),
                (12, suspend(true)),
                (20, suspend(false)),
            ]
        },
    },
    Named {
        name: "indexed-job",
        about: "one index of a Job fails repeatedly until it counts as failed, and the others succeed",
        actions: || {
            let fails =
                json!({"steersman.dev/run-for": "2s", "steersman.dev/exit-code-by-index": "1=7"});
            let mut spec = job(fails);
            spec["completionMode"] = json!("Indexed");
            spec["backoffLimitPerIndex"] = json!(1);
            vec![(0, create::<Job>(spec))]
        },
    },
    Named {
        name: "cron-job",
        about: "a CronJob that forbids concurrency is due for four minutes, and its runs outlast the next one",
        actions: || {
            let container = json!({"name": "c", "image": "job:0", "command": ["sleep", "90"]});
            let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
            // Simulated time begins at New Year: these minutes come once.
            let spec = json!({
                "schedule": "1-4 0 1 1 *", "concurrencyPolicy": "Forbid",
                "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": {"template": template}},
            });
            vec![(0, create::<CronJob>(spec))]
        },
    },
];

/// The scenario of that name, without any fault.
pub fn find(name: &str) -> Option<Scenario> {
    LIBRARY
        .iter()
        .find(|named| named.name == name)
        .map(Named::scenario)
}

impl Named {
    pub fn scenario(&self) -> Scenario {
        let step = |(seconds, action)| Step {
            at: Duration::from_secs(seconds),
            action: Action::User(action),
        };
        Scenario {
            name: self.name.to_owned(),
            seed: 0,
            nodes: 3,
            managers: 1,
            skew: Duration::ZERO,
            faults: FaultRates::default(),
            is_dual_stack: false,
            crash_after_write: None,
            steps: (self.actions)().into_iter().map(step).collect(),
        }
    }
}

impl Scenario {
    /// The same actions, with the faults that a seed brings.
    pub fn with_faults(mut self, seed: u64) -> Scenario {
        let rng = Rng::from_seed(seed ^ 0x7206_b1ed);
        self.seed = seed;
        self.faults = FaultRates::from_seed(&rng);
        for _ in 0..rng.below(3) {
            let manager = 0;
            let down = Duration::from_millis(rng.below(4000) as u64);
            let at = Duration::from_millis(rng.below(60_000) as u64);
            let action = Action::Fault(Fault::CrashManager { manager, down });
            self.steps.push(Step { at, action });
        }
        self.steps.sort_by_key(|step| step.at);
        self
    }
}

pub(super) fn target<K: Resource>() -> Target {
    Target {
        resource: K::TYPE,
        namespace: "default",
        name: "web".to_owned(),
    }
}

pub(super) fn object(resource: &ResourceType, namespace: &str, spec: Value) -> Value {
    json!({
        "apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"name": "web", "namespace": namespace}, "spec": spec,
    })
}

fn create<K: Resource>(spec: Value) -> UserAction {
    UserAction::Create(target::<K>(), object(&K::TYPE, "default", spec))
}

fn change<K: Resource>(patch: Value, what: &str) -> UserAction {
    UserAction::Change(target::<K>(), patch, what.to_owned())
}

fn version<K: Resource>(version: usize) -> UserAction {
    change::<K>(
        version_patch(version, false),
        &format!("sets version {version}"),
    )
}

fn scale<K: Resource>(replicas: usize) -> UserAction {
    change::<K>(
        json!({"spec": {"replicas": replicas}}),
        &format!("scales to {replicas}"),
    )
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web", "version": "0"}, "annotations": {"steersman.dev/ready-delay": "1s"}},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "app:0"}]},
    })
}

pub(super) fn deployment(replicas: usize, rolling: Value) -> Value {
    json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}, "revisionHistoryLimit": 1,
    })
}

fn job(annotations: Value) -> Value {
    let mut template = template();
    template["metadata"]["annotations"] = annotations;
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"parallelism": 2, "completions": 4, "template": template})
}

fn stateful(replicas: usize) -> Value {
    json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(),
        "serviceName": "web",
        "volumeClaimTemplates": [{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
    })
}
