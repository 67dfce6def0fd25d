//! What users do to jobs that are deleted some time after their end.

use api::kinds::Job;
use serde_json::json;

use crate::oracle::{Actions, Draw, Target, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(finish)];

/// A job that was over before it began, and has some seconds to live.
fn finish(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("job-{}", draw.number);
    let container = json!({"name": "c", "image": "app:0"});
    let fields = json!({"spec": {
        "suspend": true, "ttlSecondsAfterFinished": draw.rng.below(40),
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }});
    vec![
        UserAction::create::<Job>(draw.namespace, &name, fields),
        UserAction::FinishJob(Target::of::<Job>(draw.namespace, &name)),
    ]
}
