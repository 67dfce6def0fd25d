//! The requests of this controller.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Node, Pod};
use api::{MicroTime, Resource, Time};
use client::{Error, Patch};
use runtime::events::{EventType, ObjectRef};
use serde_json::{Value, json};

use super::taints::{self, Change};
use super::{Health, Lifecycle};

/// UPSTREAM: a node that others write to at the same time is tried five times, a tenth of a second apart.
const EDIT_TRIES: usize = 5;
const EDIT_AGAIN: Duration = Duration::from_millis(100);

impl Lifecycle {
    /// Patches a node until it is as `patch` wants it: `patch` says what to write, or nothing when there is
    /// nothing to do. Starts from the node as it is known and asks for it when others have changed it. Gives
    /// the node as it is then.
    pub(super) async fn edit(
        &self,
        mut node: Arc<Node>,
        patch: impl Fn(&Node, Time) -> Option<Value>,
    ) -> Result<Arc<Node>, Error> {
        let mut tries = 1;
        loop {
            let now = self.context.clock.now().time();
            let Some(mut body) = patch(&node, now) else {
                return Ok(node);
            };
            let revision = node.metadata.resource_version.to_string();
            body["metadata"]["resourceVersion"] = json!(revision);
            match self.patch_node(&node, None, &body).await {
                Err(error) if error.is_conflict() && tries < EDIT_TRIES => {
                    tries += 1;
                    tokio::time::sleep(EDIT_AGAIN).await;
                    let found = self.fetch(&node).await?;
                    if found.metadata.uid != node.metadata.uid {
                        // Another one has its name; what was decided was not about it.
                        return Ok(found);
                    }
                    node = found;
                }
                other => return other,
            }
        }
    }

    /// Takes or gives the taints that drive pods away; see [`Lifecycle::edit`]. A node that was changed meanwhile may have
    /// come back: then it gets none.
    pub(super) async fn retaint(
        &self,
        node: Arc<Node>,
        change: &Change,
    ) -> Result<Arc<Node>, Error> {
        self.edit(node, |node, now| {
            if !change.suits(node) {
                return None;
            }
            let taints = change.applied(&node.spec.taints, now)?;
            Some(json!({"spec": {"taints": taints}}))
        })
        .await
    }

    /// Writes what is not known any more of a node whose kubelet stopped posting status, if nobody has changed it since.
    pub(super) async fn mark_unknown(
        &self,
        node: &Node,
        health: &Health,
    ) -> Result<Arc<Node>, Error> {
        let now = self.context.clock.now().time();
        let conditions: Vec<Value> = health
            .unknown
            .iter()
            .map(|unknown| unknown.patch(node, now))
            .collect();
        // Without it, conditions that are patched would move to the front.
        let held = node.status.conditions.iter().map(|held| &*held.type_);
        let new = health.unknown.iter().filter(|one| one.never_reported);
        let order: Vec<Value> = held
            .chain(new.map(|one| one.condition))
            .map(|type_| json!({"type": type_}))
            .collect();
        let body = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version.to_string()},
            "status": {"$setElementOrder/conditions": order, "conditions": conditions},
        });
        self.patch_node(node, Some("status"), &body).await
    }

    /// The node of that name, as the server has it.
    pub(super) async fn fetch(&self, node: &Node) -> Result<Arc<Node>, Error> {
        let found: Node = self.context.client.get_as("", &node.metadata.name).await?;
        Ok(Arc::new(found))
    }

    async fn patch_node(
        &self,
        node: &Node,
        subresource: Option<&str>,
        body: &Value,
    ) -> Result<Arc<Node>, Error> {
        let (client, name) = (&self.context.client, &node.metadata.name);
        let patch = Patch::Strategic(body.to_string().into());
        let answer = client
            .patch(&Node::TYPE, "", name, subresource, &patch)
            .await?;
        // It was written. An answer that cannot be read is no reason to write it again.
        let written = Node::decode(&answer).unwrap_or_else(|_| node.clone());
        Ok(Arc::new(written))
    }

    /// Says of pods that they are not ready, because their node is not. All are tried; the first failure is
    /// told.
    pub(super) async fn mark_pods_unready(
        &self,
        pods: impl IntoIterator<Item = Arc<Pod>>,
    ) -> Result<(), Error> {
        let mut failure = None;
        for pod in pods.into_iter().filter(|pod| pod.is_ready()) {
            let meta = &pod.metadata;
            let patch = unready_patch(&pod, self.context.clock.now());
            let patch = Patch::Strategic(patch.to_string().into());
            let (client, namespace) = (&self.context.client, &meta.namespace);
            let written = client
                .patch(&Pod::TYPE, namespace, &meta.name, Some("status"), &patch)
                .await;
            match written {
                Ok(_) => self.context.recorder.event(
                    &ObjectRef::of(&*pod),
                    EventType::Warning,
                    "NodeNotReady",
                    "Node is not ready",
                ),
                Err(error) if error.is_not_found() => {}
                // Also if another one has its name: the next time the cache shows that one.
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    pub(super) fn node_event(&self, name: &str, uid: &api::Uid, reason: &'static str, said: &str) {
        let node = ObjectRef::named(&Node::TYPE, "", name, uid.clone());
        let recorder = &self.context.recorder;
        recorder.event(
            &node,
            EventType::Normal,
            reason,
            format!("Node {name} {said}"),
        );
    }
}

/// What gives a node the taints that keep new pods away, and labels by their old names.
pub(super) fn scheduling_patch(node: &Node, now: Time) -> Option<Value> {
    let taints = taints::scheduling(node).applied(&node.spec.taints, now);
    let labels = taints::labels(&node.metadata.labels);
    if taints.is_none() && labels.is_empty() {
        return None;
    }
    let mut patch = json!({});
    if let Some(taints) = taints {
        patch["spec"] = json!({"taints": taints});
    }
    for (label, value) in labels {
        patch["metadata"]["labels"][label] = json!(value);
    }
    Some(patch)
}

fn unready_patch(pod: &Pod, now: MicroTime) -> Value {
    json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": {"conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": now.time()},
        ]},
    })
}
