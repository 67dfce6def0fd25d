//! One sync of a job as its pure parts decide it, in short lines; every write gets through.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Job, JobStatus, Pod};
use api::{Gate, Gates, MicroTime, Resource, Time};
use serde_json::{Value, json};

use super::super::Outcome;
use super::super::assess::assess;
use super::super::backoff::Backoff;
use super::super::plan::{Act, Wanted, plan};
use super::super::snapshot::{Remembered, Snapshot};
use super::super::status::{conclude, finish};
use super::super::tracking::{count_released, track};
use super::scenario::brief;
use crate::workload::lines::with_class;

/// All jobs of these tests are looked at at this time.
pub fn now() -> MicroTime {
    Time::from_unix(1_704_067_200 + 3600).micro()
}

/// An hour ago by default; `ago` in seconds.
pub fn at(ago: i64) -> Time {
    Time::from_unix(now().time().unix() - ago)
}

/// `spec | pods`. Words of a spec are fields of the spec or of the status (`failed=2`), `indexed`,
/// `suspend`, `deleting`, `unseen` (an expectation is open), `homeless` (its namespace is being deleted), `backoff=2@5` (failures, seconds ago),
/// `started=30` (seconds ago), `condition=Type`, `not=Type` (a condition that is false), `uncounted=a,b`, `policy=JSON`,
/// `success=JSON`, `off=Gate,Gate`. Pods are those of [`pod`].
pub fn snapshot(text: &str) -> Snapshot {
    let (words, pods) = text.split_once('|').unwrap_or((text, ""));
    let mut job = json!({
        "metadata": {"name": "j", "namespace": "default", "uid": "job", "generation": 1},
        "spec": {"template": {"spec": {"restartPolicy": "Never"}}},
        "status": {"uncountedTerminatedPods": {}},
    });
    let mut remembered = Remembered {
        may_act: true,
        ..Remembered::default()
    };
    let mut gates = Gates::default();
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || json!(value.parse::<i64>().unwrap());
        let names = || json!(value.split(',').collect::<Vec<_>>());
        let (spec, status) = ("spec", "status");
        match key {
            "indexed" => job[spec]["completionMode"] = json!("Indexed"),
            "suspend" => job[spec]["suspend"] = json!(true),
            "onfailure" => job[spec]["template"]["spec"]["restartPolicy"] = json!("OnFailure"),
            "deleting" => job["metadata"]["deletionTimestamp"] = json!(at(1)),
            "unseen" => remembered.may_act = false,
            "homeless" => remembered.namespace_ends = true,
            "leaving" => remembered.leaving = value.split(',').map(Into::into).collect(),
            "started" => job[status]["startTime"] = json!(at(value.parse().unwrap())),
            "replace" => job[spec]["podReplacementPolicy"] = json!(value),
            "policy" => job[spec]["podFailurePolicy"] = json!({"rules": json(value)}),
            "success" => job[spec]["successPolicy"] = json!({"rules": json(value)}),
            "uncounted" => job[status]["uncountedTerminatedPods"]["succeeded"] = names(),
            "lost" => job[status]["uncountedTerminatedPods"]["failed"] = names(),
            "completed" => job[status]["completedIndexes"] = json!(value),
            "failedIndexes" => job[status][key] = json!(value),
            "active" | "ready" | "failed" | "succeeded" | "terminating" => {
                job[status][key] = number()
            }
            "condition" if value == "Suspended" => {
                let held = json!([{"type": value, "status": "True", "reason": "JobSuspended", "message": "Job suspended"}]);
                job[status]["conditions"] = held;
            }
            "condition" => {
                let held =
                    json!([{"type": value, "status": "True", "reason": "Before", "message": "m"}]);
                job[status]["conditions"] = held;
            }
            "not" => {
                let held =
                    json!([{"type": value, "status": "False", "reason": "ByHand", "message": "m"}]);
                job[status]["conditions"] = held;
            }
            "off" => {
                for name in value.split(',') {
                    let gate = Gate::ALL.iter().find(|gate| gate.name() == name);
                    gates = gates.with(*gate.unwrap(), false);
                }
            }
            "backoff" => {
                let (failures, ago) = value.split_once('@').unwrap();
                remembered.backoff = Backoff {
                    failures_since_success: failures.parse().unwrap(),
                    last_failure: Some(at(ago.parse().unwrap())),
                };
            }
            _ => job[spec][key] = number(),
        }
    }
    let job = Job::decode(job.to_string().as_bytes()).unwrap();
    let pods = pods.split_whitespace().map(pod).collect();
    Snapshot::new(Arc::new(job), pods, remembered, gates)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// `a:running,ix=1` and the like: a name, then facts. Facts: a phase; `ready`, `bound`, `going`, `free`
/// (no finalizer), `ix=N`, `failures=N`, `ignored=N` (annotations), `restarts=N`, `exit=CODE`,
/// `ended=SECONDS` ago, `condition=TYPE`, `unknown=TYPE`.
pub fn pod(text: &str) -> Arc<Pod> {
    let (name, facts) = text.split_once(':').unwrap_or((text, ""));
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "creationTimestamp": at(3600),
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": {"restartPolicy": "Never"},
        "status": {"conditions": []},
    });
    for fact in facts.split(',').filter(|fact| !fact.is_empty()) {
        let (key, value) = fact.split_once('=').unwrap_or((fact, ""));
        let mut annotate = |key: &str| pod["metadata"]["annotations"][key] = json!(value);
        match key {
            "ix" => annotate("batch.kubernetes.io/job-completion-index"),
            "failures" => annotate("batch.kubernetes.io/job-index-failure-count"),
            "ignored" => annotate("batch.kubernetes.io/job-index-ignored-failure-count"),
            "free" => pod["metadata"]["finalizers"] = Value::Null,
            "going" => pod["metadata"]["deletionTimestamp"] = json!(at(1)),
            "bound" => pod["spec"]["nodeName"] = json!("n1"),
            "restarts" => {
                let count = json!(value.parse::<i32>().unwrap());
                pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": count}]);
            }
            "exit" => {
                let ended =
                    json!({"exitCode": value.parse::<i32>().unwrap(), "finishedAt": at(3600)});
                pod["status"]["containerStatuses"] =
                    json!([{"name": "c", "state": {"terminated": ended}}]);
            }
            "ready" | "ended" | "condition" | "unknown" => {
                let condition = match key {
                    "ready" => json!({"type": "Ready", "status": "True"}),
                    "unknown" => json!({"type": value, "status": "Unknown"}),
                    "condition" => json!({"type": value, "status": "True"}),
                    _ => {
                        let ago = at(value.parse().unwrap());
                        json!({"type": "Ready", "status": "False", "lastTransitionTime": ago})
                    }
                };
                let held = pod["status"]["conditions"].as_array_mut().unwrap();
                held.push(condition);
            }
            phase => {
                let (first, rest) = phase.split_at(1);
                pod["status"]["phase"] = json!(first.to_uppercase() + rest);
            }
        }
    }
    Arc::new(Pod::decode(pod.to_string().as_bytes()).unwrap())
}

/// What the sync does: pods, status before finalizers are removed, of whom they are removed, status after that.
pub fn sync(text: &str) -> String {
    let snapshot = snapshot(text);
    let assessed = assess(&snapshot, now());
    let plan = plan(&snapshot, &assessed, now());
    let names = |pods: &[Arc<Pod>]| {
        let names: Vec<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
        names.join(" ")
    };
    let mut outcome = Outcome::default();
    let mut deleted = |pods: &[Arc<Pod>]| {
        outcome.deleted = i32::try_from(pods.len()).unwrap();
        let ready = pods.iter().filter(|pod| pod.is_ready()).count();
        outcome.deleted_ready = i32::try_from(ready).unwrap();
    };
    let mut lines = Vec::new();
    match &plan.act {
        Act::Hold => lines.push("hold".to_owned()),
        Act::Nothing => {}
        Act::End(pods) => {
            deleted(pods);
            lines.push(format!("end {}", names(pods)));
        }
        Act::Delete(pods) => {
            deleted(pods);
            lines.push(format!("delete {}", names(pods)));
        }
        Act::Wait(wait) => lines.push(format!("wait {wait:?}")),
        Act::Create(wanted) => {
            outcome.created = i32::try_from(wanted.len()).unwrap();
            lines.push(match wanted {
                Wanted::Pods(count) => format!("create {count}"),
                Wanted::Indexes(indexes) => format!("create {indexes:?}"),
            });
        }
    }
    let concluded = conclude(&snapshot, &assessed, &plan, &outcome, now());
    if let Some((reason, _)) = concluded.news {
        lines.push(format!("event {reason}"));
    }
    let mut tracking = track(&snapshot, &assessed, concluded, now());
    let told = |status: &JobStatus| brief(&serde_json::to_value(status).unwrap());
    if tracking.flush {
        lines.push(format!("write {}", told(&tracking.status)));
    }
    if !tracking.release.is_empty() {
        lines.push(format!("untrack {}", names(&tracking.release)));
        for pod in &tracking.release {
            tracking.tracked.remove(&pod.metadata.uid);
        }
    }
    let counted = count_released(&mut tracking.status, &tracking.tracked);
    let end = tracking.end.as_ref().filter(|_| !tracking.more);
    let ended = end.is_some_and(|end| finish(&mut tracking.status, tracking.awaited, end, now()));
    if counted || ended {
        lines.push(format!("write {}", told(&tracking.status)));
    }
    if let Some(left) = assessed
        .deadline_in
        .filter(|left| *left < Duration::from_secs(999))
    {
        lines.push(format!("look again in {left:?}"));
    }
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// What the plan says of itself.
pub fn reason(text: &str) -> String {
    let snapshot = snapshot(text);
    let assessed = assess(&snapshot, now());
    with_class(&plan(&snapshot, &assessed, now()).reasons[0])
}
