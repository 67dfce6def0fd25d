//! Pods as a StatefulSet makes and repairs them. Pure.

use api::Template;
use api::json::Node;
use api::kinds::{Pod, StatefulSet};
use serde_json::{Value, json};

use super::identity::{POD_INDEX, POD_NAME, REVISION, claim_name, claim_templates, pod_name};
use crate::workload::claim::controller_reference;
use crate::workload::pod_body;
use crate::workload::pods::{PodName, pod_name_base};

/// The pod with this ordinal, of this template and revision.
pub(super) fn new_pod(
    set: &StatefulSet,
    template: &Template,
    revision: &str,
    ordinal: i32,
) -> Node {
    let name = pod_name(set, ordinal);
    let mut pod = pod_body(
        template,
        PodName::Exactly(&name),
        &controller_reference(set),
    );
    // UPSTREAM: the base is there although the name is given.
    let base = pod_name_base(&set.metadata.name);
    pod.set(&["metadata", "generateName"], Node::text(&base));
    pod.set(
        &["metadata", "namespace"],
        Node::text(&set.metadata.namespace),
    );
    pod.set(&["metadata", "labels", POD_NAME], Node::text(&name));
    let index = ordinal.to_string();
    pod.set(&["metadata", "labels", POD_INDEX], Node::text(&index));
    pod.set(&["metadata", "labels", REVISION], Node::text(revision));
    pod.set(&["spec", "hostname"], Node::text(&name));
    if set.spec.service_name.is_empty() {
        pod.remove(&["spec", "subdomain"]);
    } else {
        let service = Node::text(&set.spec.service_name);
        pod.set(&["spec", "subdomain"], service);
    }
    set_volumes(set, &mut pod, ordinal);
    pod
}

/// One volume for each claim template, in place of volumes of the same names.
fn set_volumes(set: &StatefulSet, pod: &mut Node, ordinal: i32) {
    let templates: Vec<String> = claim_templates(set).collect();
    if templates.is_empty() {
        return;
    }
    let mut volumes: Vec<Node> = templates
        .iter()
        .map(|template| Node::of(&claim_volume(set, template, ordinal)))
        .collect();
    if let Some(Node::Array(held)) = pod.remove(&["spec", "volumes"]) {
        volumes.extend(held.into_iter().filter(|volume| {
            let name = volume.get(&["name"]).and_then(Node::as_str);
            !name.is_some_and(|name| templates.iter().any(|template| *template == name))
        }));
    }
    pod.set(&["spec", "volumes"], Node::Array(volumes));
}

fn claim_volume(set: &StatefulSet, template: &str, ordinal: i32) -> Value {
    let claim = claim_name(set, template, ordinal);
    json!({"name": template, "persistentVolumeClaim": {"claimName": claim}})
}

/// The strategic merge patch that gives a pod its identity and its volumes back.
///
/// The API server lets nobody change the volumes of a pod: it answers with an error, which becomes
/// an event that tells the user to delete the pod.
pub(super) fn repair_patch(set: &StatefulSet, pod: &Pod, ordinal: i32, storage: bool) -> Value {
    let mut patch = json!({
        "metadata": {
            "uid": pod.metadata.uid,
            "labels": {POD_NAME: pod.metadata.name, POD_INDEX: ordinal.to_string()},
        },
    });
    if storage {
        let volumes: Vec<Value> = claim_templates(set)
            .map(|template| claim_volume(set, &template, ordinal))
            .collect();
        patch["spec"] = json!({"volumes": volumes});
    }
    patch
}
