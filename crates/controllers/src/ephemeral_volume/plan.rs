//! Which claims a pod lacks, and what they look like. Pure.

use std::sync::Arc;

use api::decision::Line;
use api::json::Node;
use api::kinds::{PersistentVolumeClaim, Pod};
use api::{Istr, Meta};
use serde_json::json;

/// What is to be done about one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Create {
        volume: Istr,
        claim: Istr,
    },
    /// Somebody else's claim has the name.
    Refuse {
        volume: Istr,
        claim: Istr,
    },
}

/// One step for each volume that has no claim of its own, up to the first that cannot have one.
pub fn plan(
    pod: &Pod,
    claim_named: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
) -> Vec<Step> {
    if pod.metadata.is_terminating() {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for volume in pod.volumes().iter().filter(|volume| volume.is_ephemeral) {
        let (name, claim) = (volume.name.clone(), volume.claim_name.clone());
        match claim_named(&claim) {
            Some(held) if held.metadata.is_controlled_by(&pod.metadata.uid) => {}
            Some(_) => {
                steps.push(Step::Refuse {
                    volume: name,
                    claim,
                });
                break;
            }
            None => steps.push(Step::Create {
                volume: name,
                claim,
            }),
        }
    }
    steps
}

impl Step {
    pub fn volume(&self) -> &str {
        match self {
            Step::Create { volume, .. } | Step::Refuse { volume, .. } => volume,
        }
    }

    pub fn line(&self) -> Line {
        match self {
            Step::Create { volume, claim } => {
                let what = format!("creates claim {claim}");
                Line::acts("CreatesClaim", what).because(format!("volume {volume} is ephemeral"))
            }
            Step::Refuse { volume, claim } => {
                let what = format!("claim {claim} of volume {volume} must be created for this pod");
                Line::waits("ClaimOfAnother", what)
                    .because("a claim of that name was not created for it")
                    .hint(format!(
                        "delete claim {claim}, or rename the pod or its volume"
                    ))
            }
        }
    }
}

/// The claim of a volume: what its template in the pod says, in the pod's hands.
pub fn claim_body(pod: &Meta, volume: &str, claim: &str, whole: &Node) -> Node {
    let volumes = whole.get(&["spec", "volumes"]);
    let volumes = match volumes {
        Some(Node::Array(volumes)) => volumes.as_slice(),
        _ => &[],
    };
    let is_named = |held: &&Node| {
        let name = held.get(&["name"]).and_then(Node::as_str);
        name.is_some_and(|name| name == volume)
    };
    let template = volumes.iter().find(is_named);
    let template = template.and_then(|held| held.get(&["ephemeral", "volumeClaimTemplate"]));
    let owner = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let mut body = Node::object();
    body.set(&["apiVersion"], Node::text("v1"));
    body.set(&["kind"], Node::text("PersistentVolumeClaim"));
    body.set(&["metadata", "name"], Node::text(claim));
    body.set(&["metadata", "ownerReferences"], Node::of(&owner));
    for path in [["metadata", "annotations"], ["metadata", "labels"]] {
        if let Some(given) = template.and_then(|template| template.get(&path)) {
            body.set(&path, given.clone());
        }
    }
    let spec = template.and_then(|template| template.get(&["spec"]));
    body.set(&["spec"], spec.cloned().unwrap_or_else(Node::object));
    body
}
