//! What users do with Jobs: random legal ones, and changes to them.
//!
//! How a job ends may depend on when its pods were deleted, on deadlines and on luck. Where it cannot, the label
//! [`CERTAIN`] says so, and its end must be the same with and without faults.

use api::kinds::Job;
use api::{Resource, Rng};
use serde_json::{Value, json};

use super::oracle::CERTAIN;
use crate::oracle::{Target, Workloads};

pub(super) const WORKLOADS: Workloads = Workloads {
    resource: Job::TYPE,
    draw,
    change: |rng, _| change(rng),
    // One that may not run never comes to an end. Its template cannot be changed.
    finish: Some(|| json!({"spec": {"suspend": false}})),
};

/// More failures than faults can make in a run: pods that are deleted or lost count as failed.
const GENEROUS: usize = 100;

/// Small numbers find the same bugs sooner.
const COMPLETIONS_MAX: usize = 5;

/// How the pods of a job fare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Succeed,
    Fail,
    /// The second index fails and the others do not.
    OneFails,
}

fn draw(rng: &Rng, target: &Target, app: &str) -> Value {
    let completions = (!rng.chance(4)).then(|| 1 + rng.below(COMPLETIONS_MAX));
    let indexed = completions.is_some() && rng.chance(2);
    let fate = match rng.below(5) {
        0 => Fate::Fail,
        1 if indexed && completions > Some(1) => Fate::OneFails,
        _ => Fate::Succeed,
    };
    let restarts = rng.chance(4);
    let mut spec =
        json!({"parallelism": rng.below(4), "template": template(rng, app, fate, restarts)});
    if let Some(completions) = completions {
        spec["completions"] = json!(completions);
    }
    if indexed {
        spec["completionMode"] = json!("Indexed");
    }
    let mut certain = draw_limits(rng, &mut spec, indexed, restarts, fate);
    let is_early = draw_policies(rng, &mut spec, indexed, restarts);
    // Whether the others succeed before one fails is a matter of luck.
    certain &= !(is_early && fate == Fate::OneFails);
    if rng.chance(4) {
        spec["suspend"] = json!(true);
    }
    if rng.chance(4) {
        spec["ttlSecondsAfterFinished"] = json!(rng.below(40));
    }
    let mut object = target.object(json!({"spec": spec}));
    if certain {
        object["metadata"]["labels"] = json!({CERTAIN: "true"});
    }
    object
}

/// Takes the label from a job that was to fail, if its pods are among those that somebody kills.
///
/// UPSTREAM: a job that fails deletes its other pods before it has written so. If that write meets a conflict, pods that
/// have ended well since are enough for a job without completions.
pub fn doubt_if_killed(object: &mut Value, killed: &[String]) {
    let template = &object["spec"]["template"]["metadata"];
    let app = template["labels"]["app"].as_str();
    let is_killed = app.is_some_and(|app| killed.iter().any(|killed| killed == app));
    let says = |key: &str| !template["annotations"][key].is_null();
    let fails = says("steersman.dev/exit-code") || says("steersman.dev/exit-code-by-index");
    let is_queue = object["spec"]["completions"].is_null();
    if object["kind"] == "Job"
        && (is_killed || is_queue)
        && fails
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("labels");
    }
}

/// A change that is legal at any time: the patch, and what it is in words.
fn change(rng: &Rng) -> (Value, String) {
    match rng.below(4) {
        0 | 1 => {
            let parallelism = rng.below(5);
            let what = format!("sets parallelism {parallelism}");
            (json!({"spec": {"parallelism": parallelism}}), what)
        }
        2 => (json!({"spec": {"suspend": true}}), "suspends".to_owned()),
        _ => (json!({"spec": {"suspend": false}}), "resumes".to_owned()),
    }
}

fn template(rng: &Rng, app: &str, fate: Fate, restarts: bool) -> Value {
    let mut annotations = json!({"steersman.dev/run-for": format!("{}s", 1 + rng.below(15))});
    match fate {
        Fate::Succeed => {}
        Fate::Fail => annotations["steersman.dev/exit-code"] = json!("42"),
        Fate::OneFails => annotations["steersman.dev/exit-code-by-index"] = json!("1=42"),
    }
    json!({
        "metadata": {"labels": {"app": app, "version": "0"}, "annotations": annotations},
        "spec": {
            "restartPolicy": if restarts { "OnFailure" } else { "Never" },
            "terminationGracePeriodSeconds": 5 + rng.below(26),
            "containers": [{"name": "c", "image": "app:0"}],
        },
    })
}

/// Back-off limits and deadlines. True if they cannot decide how it ends.
fn draw_limits(rng: &Rng, spec: &mut Value, indexed: bool, restarts: bool, fate: Fate) -> bool {
    // The waits between failures double: with more than four of them nobody would see the end.
    let few = rng.below(4);
    let mut certain = true;
    if fate == Fate::Succeed && !rng.chance(4) {
        spec["backoffLimit"] = json!(GENEROUS);
    } else {
        spec["backoffLimit"] = json!(few);
        certain = fate == Fate::Fail;
    }
    if indexed && !restarts && rng.chance(2) {
        spec["backoffLimitPerIndex"] = json!(rng.below(2));
        spec["backoffLimit"] = json!(GENEROUS);
        certain = fate != Fate::Succeed;
        if rng.chance(2) {
            spec["maxFailedIndexes"] = json!(rng.below(2));
        }
    }
    if rng.chance(5) {
        spec["activeDeadlineSeconds"] = json!(20 + rng.below(60));
        certain = false;
    }
    certain
}

/// Policies. True if some successes are enough.
fn draw_policies(rng: &Rng, spec: &mut Value, indexed: bool, restarts: bool) -> bool {
    if !restarts && rng.chance(3) {
        let per_index = !spec["backoffLimitPerIndex"].is_null() && rng.chance(2);
        let action = if per_index { "FailIndex" } else { "FailJob" };
        spec["podFailurePolicy"] = json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": action, "onExitCodes": {"operator": "In", "values": [42]}},
        ]});
        spec["podReplacementPolicy"] = json!("Failed");
    } else if rng.chance(3) {
        let policy = ["Failed", "TerminatingOrFailed"][rng.below(2)];
        spec["podReplacementPolicy"] = json!(policy);
    }
    let is_early = indexed && rng.chance(3);
    if is_early {
        spec["successPolicy"] = match rng.chance(2) {
            true => json!({"rules": [{"succeededIndexes": "0"}]}),
            false => json!({"rules": [{"succeededCount": 1}]}),
        };
    }
    is_early
}
