//! A seeded user: creates workloads and changes their mind.

use api::Rng;
use api::kinds::{Deployment, Namespace, Pod, ReplicaSet};
use api::{Resource, ResourceType};
use client::{Client, DeleteOptions, ListOptions, Patch, Propagation};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "default";

pub(crate) struct User {
    client: Client,
    rng: Rng,
    made: usize,
}

/// No run has more workloads than this: small worlds find bugs faster.
const WORKLOADS_MAX: usize = 4;

impl User {
    pub(crate) fn new(client: Client, rng: Rng) -> User {
        User {
            client,
            rng,
            made: 0,
        }
    }

    /// What other controllers would have made: a namespace with its service account.
    pub(crate) async fn settle_in(&self) {
        let accounts = ResourceType::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
        for (resource, namespace) in [(&Namespace::TYPE, ""), (&accounts, NAMESPACE)] {
            let object = json!({
                "apiVersion": resource.api_version(), "kind": resource.kind,
                "metadata": {"name": "default"},
            });
            // They may be there already.
            let _ = self
                .client
                .create(resource, namespace, object.to_string())
                .await;
        }
    }

    /// Does one thing; says what.
    pub(crate) async fn act(&mut self) -> String {
        if self.made < WORKLOADS_MAX && (self.made == 0 || self.rng.chance(3)) {
            return self.create().await;
        }
        let name = format!("w{}", self.rng.below(self.made));
        match self.rng.below(8) {
            0 | 1 => {
                let replicas = self.rng.below(8);
                self.patch(&name, json!({"spec": {"replicas": replicas}}))
                    .await;
                format!("scales {name} to {replicas}")
            }
            2 | 3 => {
                let image = format!("app:{}", self.rng.below(4));
                let container = json!([{"name": "c", "image": image}]);
                self.patch(
                    &name,
                    json!({"spec": {"template": {"spec": {"containers": container}}}}),
                )
                .await;
                format!("sets {name} to {image}")
            }
            4 => {
                let paused = self.rng.chance(2);
                self.patch(&name, json!({"spec": {"paused": paused}})).await;
                format!("pauses {name}: {paused}")
            }
            5 | 6 => self.delete_some_pod().await,
            _ => self.orphan_some_pod().await,
        }
    }

    /// Leaves nothing paused: a paused rollout never completes.
    pub(crate) async fn resume_all(&self) {
        for number in 0..self.made {
            self.patch(&format!("w{number}"), json!({"spec": {"paused": false}}))
                .await;
        }
    }

    async fn create(&mut self) -> String {
        let name = format!("w{}", self.made);
        self.made += 1;
        let rng = &self.rng;
        let replicas = rng.below(7);
        let min_ready = if rng.chance(3) { rng.below(15) } else { 0 };
        let labels = json!({"app": name});
        let template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "app:0"}]},
        });
        let mut spec = json!({
            "replicas": replicas, "minReadySeconds": min_ready,
            "selector": {"matchLabels": labels}, "template": template,
        });
        // Plain ReplicaSets are rarer, but they are where adoption shows.
        let resource = if rng.chance(4) {
            ReplicaSet::TYPE
        } else {
            Deployment::TYPE
        };
        if resource == Deployment::TYPE {
            spec["strategy"] = match rng.below(3) {
                0 => json!({"type": "Recreate"}),
                1 => {
                    json!({"rollingUpdate": {"maxSurge": rng.below(3) + 1, "maxUnavailable": rng.below(3)}})
                }
                _ => json!({"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "50%"}}),
            };
            spec["revisionHistoryLimit"] = json!(rng.below(4));
        }
        let object = json!({
            "apiVersion": "apps/v1", "kind": resource.kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let made = self
            .client
            .create(&resource, NAMESPACE, object.to_string())
            .await;
        format!(
            "creates {} {name} with {replicas} replicas: {}",
            resource.kind,
            made.is_ok()
        )
    }

    /// A workload is a Deployment or a ReplicaSet: whichever has the name.
    async fn patch(&self, name: &str, patch: Value) {
        for resource in [Deployment::TYPE, ReplicaSet::TYPE] {
            let body = Patch::Strategic(patch.to_string().into());
            // The other kind has no such object, and a ReplicaSet knows no pause: both are fine.
            let _ = self
                .client
                .patch(&resource, NAMESPACE, name, None, &body)
                .await;
        }
    }

    async fn some_pod(&self) -> Option<String> {
        let page = self
            .client
            .list(&Pod::TYPE, NAMESPACE, &ListOptions::default())
            .await
            .ok()?;
        let count = page.items.len();
        let chosen = page.items.get(self.rng.below(count.max(1)))?;
        let pod = Pod::decode(chosen).ok()?;
        Some(pod.metadata.name.to_string())
    }

    async fn delete_some_pod(&self) -> String {
        let Some(name) = self.some_pod().await else {
            return "finds no pod to delete".into();
        };
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let deleted = self
            .client
            .delete(&Pod::TYPE, NAMESPACE, &name, &options)
            .await;
        format!("deletes pod {name}: {}", deleted.is_ok())
    }

    async fn orphan_some_pod(&self) -> String {
        let Some(name) = self.some_pod().await else {
            return "finds no pod to relabel".into();
        };
        let patch = Patch::Merge(
            json!({"metadata": {"labels": {"app": "stray"}}})
                .to_string()
                .into(),
        );
        let patched = self
            .client
            .patch(&Pod::TYPE, NAMESPACE, &name, None, &patch)
            .await;
        format!("relabels pod {name}: {}", patched.is_ok())
    }
}
