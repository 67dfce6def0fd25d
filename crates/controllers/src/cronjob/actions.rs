//! What users do with CronJobs.

use api::kinds::CronJob;
use serde_json::json;

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(schedule)];

/// The minutes after midnight of New Year: simulated time begins then, so that a schedule of these minutes runs a few
/// times and comes to rest, for a year.
const FIRST_MINUTES: &str = "1-8 0 1 1 *";

/// A CronJob that runs every minute for a while, under one of the policies; then it is suspended, given another policy,
/// or deleted.
fn schedule(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("cron-{}", draw.number);
    let policies = ["Allow", "Forbid", "Replace"];
    let policy = policies[draw.rng.below(3)];
    // Some runs are still at work when the next one is due.
    let seconds = [1, 20, 90][draw.rng.below(3)];
    let container =
        json!({"name": "c", "image": "job:0", "command": ["sleep", seconds.to_string()]});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let mut fields = json!({"spec": {
        "schedule": FIRST_MINUTES, "concurrencyPolicy": policy,
        "successfulJobsHistoryLimit": draw.rng.below(3), "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": template}},
    }});
    if draw.rng.chance(3) {
        fields["spec"]["startingDeadlineSeconds"] = json!(30);
    }
    let mut actions = vec![UserAction::create::<CronJob>(draw.namespace, &name, fields)];
    let change = |patch, what| UserAction::change::<CronJob>(draw.namespace, &name, patch, what);
    match draw.rng.below(5) {
        0 => actions.push(UserAction::delete::<CronJob>(draw.namespace, &name)),
        1 => actions.push(change(json!({"spec": {"suspend": true}}), "suspends")),
        2 => {
            let patch = json!({"spec": {"concurrencyPolicy": "Forbid"}});
            actions.push(change(patch, "forbids concurrency"));
        }
        _ => {}
    }
    actions
}
