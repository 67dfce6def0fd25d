//! What users do to admission policies.

use api::kinds::ValidatingAdmissionPolicy;
use serde_json::{Value, json};

use crate::oracle::{Actions, Draw, UserAction};

pub(super) const ACTIONS: [Actions; 1] = [Actions::of(write_policies)];

/// An expression that does not fit the schema of Deployments.
pub(super) const WRONG: &str = "object.spec.replicas > '1'";

/// A policy that is right or wrong, then the other way round, or gone. Nothing binds it: it refuses nothing.
fn write_policies(draw: &Draw<'_>) -> Vec<UserAction> {
    let name = format!("policy-{}", draw.number);
    let wrong = draw.rng.below(2) == 0;
    let spec = |wrong: bool| -> Value {
        let second = if wrong {
            WRONG
        } else {
            "object.spec.replicas > 1"
        };
        json!({
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]},
            "validations": [
                {"expression": "object.spec.replicas >= 0"},
                {"expression": second},
            ],
        })
    };
    let last = match draw.rng.below(3) {
        0 => UserAction::delete::<ValidatingAdmissionPolicy>("", &name),
        _ => {
            let patch = json!({"spec": spec(!wrong)});
            UserAction::change::<ValidatingAdmissionPolicy>("", &name, patch, "changes")
        }
    };
    vec![
        UserAction::create::<ValidatingAdmissionPolicy>("", &name, json!({"spec": spec(wrong)})),
        last,
    ]
}
