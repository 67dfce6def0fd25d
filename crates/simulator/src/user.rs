//! A user who does what the scenario says, and cleans up in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Job, Metadata, Namespace, Node, Pod, ReplicaSet, ResourceQuota, Secret};
use api::{Resource, ResourceType};
use bytes::Bytes;
use client::{Client, DeleteOptions, Error, ListOptions, Patch, Propagation};
use serde_json::{Value, json};

use crate::scenario::{Labelled, Target, UserAction, all_workloads};

pub(crate) struct User {
    client: Client,
    /// Whether each action was granted, in order: two runs can be compared only if these agree.
    pub(crate) granted: Vec<bool>,
    /// A node that was gone comes back without the labels that it had.
    labels: BTreeMap<usize, &'static str>,
}

/// What was deleted may take a while to be gone; after that the user gives up.
const PATIENCE: Duration = Duration::from_secs(180);
const RETRY: Duration = Duration::from_millis(500);

/// Annotations of versions that never get well.
const AILMENTS: [&str; 3] = [
    "steersman.dev/never-ready",
    "steersman.dev/crash-after",
    "steersman.dev/image-pull-failure",
];

impl User {
    pub(crate) fn new(client: Client) -> User {
        User {
            client,
            granted: Vec::new(),
            labels: BTreeMap::new(),
        }
    }

    /// Does one thing; says how it went.
    pub(crate) async fn act(&mut self, action: &UserAction) -> String {
        let outcome = self.try_until_answered(action).await;
        self.granted.push(outcome.is_ok());
        if let UserAction::LabelNode(node, pool) = action {
            self.labels.insert(*node, pool);
        }
        match outcome {
            Ok(()) => format!("{action}"),
            Err(error) => format!("{action}: refused: {error}"),
        }
    }

    /// A server that is down, or a name that is still taken, is worth waiting for.
    async fn try_until_answered(&self, action: &UserAction) -> Result<(), Error> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let outcome = self.attempt(action).await;
            let worth_it = match &outcome {
                Err(error) if error.is_transport() => true,
                Err(error) if is_creation(action) => {
                    error.is_already_exists() || error.is_namespace_terminating()
                }
                Err(error) if matches!(action, UserAction::CreateNamespace(_)) => {
                    error.is_already_exists() && self.is_terminating(action).await
                }
                _ => false,
            };
            if !worth_it || tokio::time::Instant::now() >= end {
                return outcome;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn is_terminating(&self, action: &UserAction) -> bool {
        let UserAction::CreateNamespace(name) = action else {
            return false;
        };
        let held = self.client.get_as::<Namespace>("", name).await;
        held.is_ok_and(|held| held.metadata.is_terminating())
    }

    async fn attempt(&self, action: &UserAction) -> Result<(), Error> {
        match action {
            UserAction::Create(target, object) => {
                self.create(&target.resource, target.namespace, object)
                    .await
            }
            UserAction::CreateSecretOf(owner, object) => {
                let mut object = object.clone();
                let reference = self.reference_to(owner).await?;
                object["metadata"]["ownerReferences"] = json!([reference, ghost()]);
                self.create(&Secret::TYPE, owner.namespace, &object).await
            }
            UserAction::CreatePod(target, object) => {
                self.create(&Pod::TYPE, target.namespace, object).await
            }
            UserAction::CreateNamespace(name) => {
                let object =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                self.create(&Namespace::TYPE, "", &object).await
            }
            UserAction::Change(target, patch, _) => {
                self.strategic(&target.resource, target.namespace, &target.name, patch)
                    .await
            }
            UserAction::ChangePart(target, subresource, patch, _) => {
                let patch = Patch::Strategic(Bytes::from(patch.to_string()));
                let (resource, name) = (&target.resource, &*target.name);
                self.client
                    .patch(resource, target.namespace, name, Some(subresource), &patch)
                    .await
                    .map(drop)
            }
            UserAction::Delete(target, policy) => {
                let (resource, name) = (&target.resource, &target.name);
                self.delete(resource, target.namespace, name, *policy).await
            }
            UserAction::ChangeEach(objects, patch, _) => {
                for name in self.names_of(objects).await? {
                    let patched =
                        self.strategic(&objects.resource, objects.namespace, &name, patch);
                    unless_gone(patched.await)?;
                }
                Ok(())
            }
            UserAction::DeleteEach(objects) => {
                let (resource, namespace) = (&objects.resource, objects.namespace);
                for name in self.names_of(objects).await? {
                    let deleted = self.delete(resource, namespace, &name, Propagation::Background);
                    unless_gone(deleted.await)?;
                }
                Ok(())
            }
            UserAction::DeleteNamespace(name) => {
                self.delete(&Namespace::TYPE, "", name, Propagation::Background)
                    .await
            }
            UserAction::LabelNode(node, pool) => {
                let patch = json!({"metadata": {"labels": {"pool": pool}}});
                self.patch_node(*node, &patch).await
            }
            UserAction::TaintNode(node, effect) => {
                let taint = |effect: &&str| json!({"key": UserAction::TAINT, "value": "true", "effect": effect});
                let taints: Vec<Value> = effect.iter().map(taint).collect();
                self.patch_node(*node, &json!({"spec": {"taints": taints}}))
                    .await
            }
            UserAction::DrainNode(node) => self.drain(*node).await,
            UserAction::DeleteNode(node) => {
                let name = format!("node-{node}");
                self.delete(&Node::TYPE, "", &name, Propagation::Background)
                    .await
            }
            UserAction::FinishJob(target) => self.finish_job(target).await,
            UserAction::DeletePod(target, nth)
            | UserAction::EvictPod(target, nth)
            | UserAction::StrayPod(target, nth)
            | UserAction::DisownPod(target, nth)
            | UserAction::AddGhostOwner(target, nth) => match self.nth_pod(target, *nth).await? {
                Some(pod) => self.touch(action, &pod).await,
                None => Ok(()),
            },
        }
    }

    /// As a Job controller would say it. A second is long enough for a job.
    async fn finish_job(&self, target: &Target) -> Result<(), Error> {
        let (namespace, name) = (target.namespace, &*target.name);
        let job = self.client.get_as::<Job>(namespace, name).await?;
        let at = job.metadata.created_at;
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": at, "lastTransitionTime": at});
        let status = json!({
            "startTime": at, "completionTime": at, "succeeded": 1, "uncountedTerminatedPods": {},
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        });
        let patch = Patch::Merge(json!({"status": status}).to_string().into());
        let patched = self
            .client
            .patch(&Job::TYPE, namespace, name, Some("status"), &patch)
            .await;
        patched.map(drop)
    }

    /// As `kubectl drain --ignore-daemonsets` does, without waiting.
    async fn drain(&self, node: usize) -> Result<(), Error> {
        self.patch_node(node, &json!({"spec": {"unschedulable": true}}))
            .await?;
        let name = format!("node-{node}");
        for pod in self.all::<Pod>().await? {
            let owner = pod.metadata.controller();
            let is_daemon = owner.is_some_and(|owner| owner.kind == "DaemonSet");
            if *pod.node_name == *name && !is_daemon {
                // It may be gone by now.
                let _ = self.evict(&pod).await;
            }
        }
        Ok(())
    }

    async fn evict(&self, pod: &Pod) -> Result<(), Error> {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": &**name, "namespace": namespace},
        });
        let body = Bytes::from(eviction.to_string());
        let evicted = self
            .client
            .create_subresource(&Pod::TYPE, namespace, name, "eviction", body)
            .await;
        evicted.map(drop)
    }

    async fn reference_to(&self, owner: &Target) -> Result<Value, Error> {
        let (resource, name) = (&owner.resource, &owner.name);
        let held = self.client.get(resource, owner.namespace, name).await?;
        let held: Value = serde_json::from_slice(&held).unwrap_or_default();
        Ok(json!({
            "apiVersion": resource.api_version(), "kind": resource.kind, "name": name,
            "uid": held["metadata"]["uid"],
        }))
    }

    async fn touch(&self, action: &UserAction, pod: &Pod) -> Result<(), Error> {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let patch = match action {
            UserAction::StrayPod(..) => json!({"metadata": {"labels": {"app": "stray"}}}),
            UserAction::DisownPod(..) => json!({"metadata": {"ownerReferences": null}}),
            UserAction::AddGhostOwner(..) => {
                let mut owners = json!(&*pod.metadata.owners);
                if let Value::Array(owners) = &mut owners {
                    owners.push(ghost());
                }
                json!({"metadata": {"ownerReferences": owners}})
            }
            UserAction::EvictPod(..) => return self.evict(pod).await,
            _ => {
                return self
                    .delete(&Pod::TYPE, namespace, name, Propagation::Background)
                    .await;
            }
        };
        let patch = Patch::Merge(patch.to_string().into());
        let patched = self
            .client
            .patch(&Pod::TYPE, namespace, name, None, &patch)
            .await;
        patched.map(drop)
    }

    /// Pods of a workload, oldest first; there may be fewer.
    async fn nth_pod(&self, target: &Target, nth: usize) -> Result<Option<Pod>, Error> {
        let mut pods = self.all::<Pod>().await?;
        pods.retain(|pod| {
            let meta = &pod.metadata;
            meta.namespace == target.namespace
                && meta.labels.get("app") == Some(target.name.as_str())
                && !meta.is_terminating()
        });
        pods.sort_by(|one, two| {
            let order = |pod: &Pod| (pod.metadata.created_at, pod.metadata.name.clone());
            order(one).cmp(&order(two))
        });
        let count = pods.len().max(1);
        Ok(pods.into_iter().nth(nth % count))
    }

    async fn names_of(&self, objects: &Labelled) -> Result<Vec<Arc<str>>, Error> {
        let options = ListOptions {
            label_selector: Some(objects.label.clone()),
            ..ListOptions::default()
        };
        let page = self
            .client
            .list(&objects.resource, objects.namespace, &options)
            .await?;
        let metadata = page
            .items
            .iter()
            .filter_map(|item| Metadata::decode(item).ok());
        Ok(metadata.map(|held| held.metadata.name.clone()).collect())
    }

    async fn all<K: Resource>(&self) -> Result<Vec<K>, Error> {
        let page = self
            .client
            .list(&K::TYPE, "", &ListOptions::default())
            .await?;
        let decoded = page.items.iter().filter_map(|item| K::decode(item).ok());
        Ok(decoded.collect())
    }

    async fn create(
        &self,
        resource: &ResourceType,
        namespace: &str,
        object: &Value,
    ) -> Result<(), Error> {
        let made = self
            .client
            .create(resource, namespace, object.to_string())
            .await;
        made.map(drop)
    }

    async fn strategic(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), Error> {
        let patch = Patch::Strategic(patch.to_string().into());
        let patched = self
            .client
            .patch(resource, namespace, name, None, &patch)
            .await;
        patched.map(drop)
    }

    async fn patch_node(&self, node: usize, patch: &Value) -> Result<(), Error> {
        let patch = Patch::Merge(patch.to_string().into());
        let name = format!("node-{node}");
        let patched = self
            .client
            .patch(&Node::TYPE, "", &name, None, &patch)
            .await;
        patched.map(drop)
    }

    async fn delete(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
        policy: Propagation,
    ) -> Result<(), Error> {
        let options = DeleteOptions {
            propagation: Some(policy),
            ..DeleteOptions::default()
        };
        let deleted = self
            .client
            .delete(resource, namespace, name, &options)
            .await;
        deleted.map(drop)
    }

    /// A node's kubelet stops posting status, or the machine is gone.
    pub(crate) async fn annotate_node(&self, node: usize, annotation: &str, on: bool) {
        let value = if on { json!("true") } else { Value::Null };
        let patch = json!({"metadata": {"annotations": {annotation: value}}});
        // A node that is gone cannot be annotated, and need not be.
        let _ = self.patch_node(node, &patch).await;
    }

    /// Leaves nothing behind that can never be finished: nothing paused, no node tainted or cordoned, every workload
    /// at a version that works.
    pub(crate) async fn restore(&self, nodes: usize) {
        for node in 0..nodes {
            self.annotate_node(node, nodes::behaviour::NODE_SILENT, false)
                .await;
            let _ = self
                .patch_node(
                    node,
                    &json!({"spec": {"taints": [], "unschedulable": null}}),
                )
                .await;
            if let Some(pool) = self.labels.get(&node) {
                let patch = json!({"metadata": {"labels": {"pool": pool}}});
                let _ = self.patch_node(node, &patch).await;
            }
        }
        for workloads in all_workloads() {
            if let Some(patch) = workloads.finish {
                self.finish(&workloads.resource, &patch()).await;
            }
        }
        self.raise_quotas().await;
    }

    /// Quotas that keep pods from being created are raised, as their users did before the server lost it.
    async fn raise_quotas(&self) {
        let plenty = json!({"spec": {"hard": {"pods": "1k"}}});
        for quota in self.all::<ResourceQuota>().await.unwrap_or_default() {
            let meta = &quota.metadata;
            if quota.spec.hard.contains_key("pods") {
                let _ = self
                    .strategic(&ResourceQuota::TYPE, &meta.namespace, &meta.name, &plenty)
                    .await;
            }
        }
    }

    async fn finish(&self, resource: &ResourceType, patch: &Value) {
        let options = ListOptions::default();
        let page = self.client.list(resource, "", &options).await;
        let items = page.map(|page| page.items).unwrap_or_default();
        let objects = items.iter().filter_map(|item| Metadata::decode(item).ok());
        for Metadata { metadata: meta } in objects {
            // It may be on its way out.
            let _ = self
                .strategic(resource, &meta.namespace, &meta.name, patch)
                .await;
        }
    }

    /// Takes away what cannot get well by itself: orphans of bad versions, and pods of bad versions that
    /// their sets wait for (an ordered StatefulSet waits forever for a pod that never gets ready).
    pub(crate) async fn tidy(&self) {
        for (set, is_ill) in self.all_with_health::<ReplicaSet>().await {
            if is_ill && set.metadata.controller().is_none() {
                self.remove(&set).await;
            }
        }
        for (pod, is_ill) in self.all_with_health::<Pod>().await {
            let meta = &pod.metadata;
            let owner = meta.controller();
            let is_waited_for = owner.is_none_or(|owner| owner.kind != "ReplicaSet");
            // The name of a pod that left a StatefulSet is still taken. Only what was let go: its owner must do that.
            let is_stray = meta.labels.get("app") == Some("stray") && owner.is_none();
            if (is_waited_for && is_ill || is_stray) && !meta.is_terminating() {
                self.remove(&pod).await;
            }
        }
    }

    async fn remove<K: Resource>(&self, object: &K) {
        let meta = object.meta();
        // It may be gone already.
        let _ = self
            .delete(
                &K::TYPE,
                &meta.namespace,
                &meta.name,
                Propagation::Background,
            )
            .await;
    }

    /// Objects, and whether they are of a version that never gets well. Views leave annotations out.
    async fn all_with_health<K: Resource>(&self) -> Vec<(K, bool)> {
        let page = self
            .client
            .list(&K::TYPE, "", &ListOptions::default())
            .await;
        let items = page.map(|page| page.items).unwrap_or_default();
        let read = |item: &Bytes| {
            let text = String::from_utf8_lossy(item);
            let is_ill = AILMENTS.iter().any(|ailment| text.contains(ailment));
            Some((K::decode(item).ok()?, is_ill))
        };
        items.iter().filter_map(read).collect()
    }
}

/// Somebody else may have deleted it a moment ago.
fn unless_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome,
    }
}

fn is_creation(action: &UserAction) -> bool {
    matches!(
        action,
        UserAction::Create(..) | UserAction::CreateSecretOf(..) | UserAction::CreatePod(..)
    )
}

/// An owner that never was.
fn ghost() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "ghost",
        "uid": "00000000-dead-dead-dead-000000000000",
    })
}
