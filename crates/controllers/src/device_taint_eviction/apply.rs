//! The writes. Nothing is decided here.

use api::conditions::Condition;
use api::kinds::{DeviceTaintRule, Pod};
use api::{MicroTime, Resource};
use client::{Client, DeleteOptions, Patch};
use serde_json::json;

use crate::workload::disruption::{disruption_target, is_marked};
use crate::workload::status::revision;

/// The reason that the condition of a pod gives.
const MARK: &str = "DeletionByDeviceTaintManager";

/// UPSTREAM: the manager of the status of rules.
const FIELD_MANAGER: &str = "device-taint-eviction-controller";

/// Says why the pod goes, and deletes it.
pub async fn mark_and_delete(
    client: &Client,
    pod: &Pod,
    now: MicroTime,
) -> Result<(), client::Error> {
    let meta = &pod.metadata;
    let (namespace, name) = (&meta.namespace, &meta.name);
    if !is_marked(pod, MARK) {
        let message = "Device Taint manager: deleting due to NoExecute taint";
        // UPSTREAM: this controller does not tell of which generation it speaks.
        let condition = disruption_target(pod, MARK, message, now, None);
        let patch = json!({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}});
        let patch = Patch::Strategic(patch.to_string().into());
        client
            .patch(&Pod::TYPE, namespace, name, Some("status"), &patch)
            .await?;
    }
    let options = DeleteOptions::exactly(&meta.uid);
    let deleted = client.delete(&Pod::TYPE, namespace, name, &options).await;
    deleted.map(drop)
}

/// Applies the condition to the rule that is meant; gives the new revision.
pub async fn rule_status(
    client: &Client,
    rule: &DeviceTaintRule,
    condition: &Condition,
) -> Result<u64, client::Error> {
    let (resource, meta) = (DeviceTaintRule::TYPE, &rule.metadata);
    let body = json!({
        "apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"name": meta.name, "uid": meta.uid},
        "status": {"conditions": [{
            "type": condition.type_, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "observedGeneration": condition.observed_generation,
            "lastTransitionTime": condition.last_transition_time,
        }]},
    });
    let patch = Patch::Apply {
        body: body.to_string().into(),
        field_manager: FIELD_MANAGER.to_owned(),
        force: true,
    };
    let answer = client
        .patch(&resource, "", &meta.name, Some("status"), &patch)
        .await?;
    Ok(revision(&answer))
}
