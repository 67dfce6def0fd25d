//! What a kubelet would do to pods, by hand.

use api::Resource;
use api::kinds::Pod;
use client::DeleteOptions;
use serde_json::{Value, json};

use crate::world::World;

impl World {
    /// Binds the pod to a node and says that it runs and is ready.
    pub async fn make_ready(&self, name: &str) {
        self.pod_status(
            name,
            json!({"phase": "Running", "conditions": [self.ready("True")]}),
        )
        .await;
    }

    pub async fn make_unready(&self, name: &str) {
        self.pod_status(
            name,
            json!({"phase": "Running", "conditions": [self.ready("False")]}),
        )
        .await;
    }

    pub async fn make_failed(&self, name: &str) {
        self.pod_status(
            name,
            json!({"phase": "Failed", "conditions": [self.ready("False")]}),
        )
        .await;
    }

    /// Makes every pod of the default namespace ready that is neither ready nor going away.
    pub async fn make_all_ready(&self) {
        for pod in self.list(&Pod::TYPE).await {
            let going = !pod["metadata"]["deletionTimestamp"].is_null();
            let ready = pod["status"]["conditions"].as_array().is_some_and(|all| {
                all.iter()
                    .any(|one| one["type"] == "Ready" && one["status"] == "True")
            });
            if !going && !ready {
                self.make_ready(name(&pod)).await;
            }
        }
    }

    /// Lets pods that are being deleted go for good.
    pub async fn finish_deletions(&self) {
        let now = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        for pod in self.list(&Pod::TYPE).await {
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.delete_with(&Pod::TYPE, name(&pod), &now).await;
            }
        }
    }

    pub async fn pod_names(&self) -> Vec<String> {
        self.list(&Pod::TYPE)
            .await
            .iter()
            .map(|pod| name(pod).to_string())
            .collect()
    }

    pub async fn pod_status(&self, name: &str, status: Value) {
        self.patch_subresource(&Pod::TYPE, name, Some("status"), json!({"status": status}))
            .await;
    }

    fn ready(&self, status: &str) -> Value {
        let now = self.clock.now().time();
        json!({"type": "Ready", "status": status, "lastTransitionTime": now})
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
