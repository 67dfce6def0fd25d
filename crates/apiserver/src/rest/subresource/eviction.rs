//! Eviction: a deletion that disruption budgets may refuse.

use crate::Body;
use crate::rest::body::{parse, settle_type};
use crate::rest::delete::DeleteOptions;
use crate::rest::metadata::is_deleting;
use crate::rest::{Context, response};
use crate::selector::json_selector_matches;
use crate::status::Status;
use crate::storage::{Stored, Transaction};
use api::Time;
use http::Response;
use serde_json::{Value, json};

/// UPSTREAM: a budget whose list of disrupted pods is this long is not being processed.
const MAX_DISRUPTED_PODS: usize = 2000;

/// How long a client should wait before it asks again.
const RETRY_SECONDS: u32 = 10;

impl Context {
    pub(super) async fn evict(&mut self) -> Result<Response<Body>, Status> {
        let mut eviction = parse(&self.headers, &self.body, "Eviction")?;
        settle_type(&mut eviction, "policy/v1", "Eviction")?;
        self.settle_name(&mut eviction)?;
        self.settle_namespace(&mut eviction)?;
        self.check_node(&eviction)?;
        let mut options = DeleteOptions {
            dry_run: self.info.query.dry_run("CreateOptions")?,
            ..DeleteOptions::default()
        };
        if eviction["deleteOptions"].is_object() {
            options.merge_body(&eviction["deleteOptions"])?;
        }
        let shared = self.shared.clone();
        let ((), revision) = shared
            .store
            .write(|transaction| self.evict_in(transaction, &options))?;
        self.settle(revision).await?;
        Ok(response::value(
            201,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        ))
    }

    fn evict_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let key = self.key(&self.info.name);
        let pod = transaction
            .get(&self.stored_kind, &key)
            .ok_or_else(|| Status::not_found(self.subject()))?;
        let value = pod.value(&self.stored_kind);
        if !can_ignore_budgets(&value) {
            self.spend_budget(transaction, &pod, &value, options.dry_run)?;
        }
        if !options.dry_run && !is_deleting(&value) {
            self.mark_disrupted(transaction, &key, value);
        }
        self.delete_in(transaction, &key, options)?;
        Ok(())
    }

    /// Says why the pod ends: Jobs may treat disruptions differently from failures.
    fn mark_disrupted(&self, transaction: &mut Transaction<'_>, key: &str, mut pod: Value) {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.shared.now(),
        });
        let status = crate::fields::object_mut(&mut pod, "status");
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        let Some(list) = conditions.as_array_mut() else {
            return;
        };
        if !list
            .iter()
            .any(|known| known["type"] == "DisruptionTarget" && known["status"] == "True")
        {
            list.retain(|known| known["type"] != "DisruptionTarget");
            list.push(condition);
            transaction.put(&self.stored_kind, key, &pod, None);
        }
    }

    fn spend_budget(
        &self,
        transaction: &mut Transaction<'_>,
        pod: &Stored,
        value: &Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let Some(kind) = self
            .registry
            .resource("policy", "v1", "poddisruptionbudgets")
            .cloned()
        else {
            return Ok(());
        };
        let prefix = format!("{}/", pod.namespace());
        let mut budgets = transaction
            .list(&kind, &prefix)
            .into_iter()
            .filter_map(|stored| {
                let budget = stored.value(&kind);
                json_selector_matches(&budget["spec"]["selector"], pod).then_some((stored, budget))
            });
        let Some((stored, mut budget)) = budgets.next() else {
            return Ok(());
        };
        if budgets.next().is_some() {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if unhealthy_pod_may_go(&budget, value) {
            return Ok(());
        }
        self.take_one(&mut budget, pod.name(), stored.name())?;
        if !dry_run {
            transaction.put(&kind, &stored.key, &budget, None);
        }
        Ok(())
    }

    fn take_one(&self, budget: &mut Value, pod: &str, name: &str) -> Result<(), Status> {
        let now = Time::from_unix(self.shared.now_seconds()).to_string();
        let status = budget["status"].clone();
        let observed = status["observedGeneration"].as_i64().unwrap_or(0);
        if observed < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
            let status = Status::too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                RETRY_SECONDS,
            );
            return Err(status.with_cause(
                "DisruptionBudget",
                format!("The disruption budget {name} is still being processed by the server."),
            ));
        }
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        let disrupted = status["disruptedPods"]
            .as_object()
            .map_or(0, serde_json::Map::len);
        if disrupted > MAX_DISRUPTED_PODS {
            return Err(Status::internal(format!(
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller ({name})"
            )));
        }
        if allowed <= 0 {
            let desired = status["desiredHealthy"].as_i64().unwrap_or(0);
            let current = status["currentHealthy"].as_i64().unwrap_or(0);
            let message = format!(
                "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
            );
            let refusal = Status::new(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
            );
            return Err(refusal.with_cause("DisruptionBudget", message));
        }
        if let Some(status) = budget
            .as_object_mut()
            .and_then(|map| map.get_mut("status"))
            .and_then(Value::as_object_mut)
        {
            status.insert("disruptionsAllowed".into(), json!(allowed - 1));
            let pods = status.entry("disruptedPods").or_insert_with(|| json!({}));
            if let Some(pods) = pods.as_object_mut() {
                pods.insert(pod.to_owned(), json!(now));
            }
        }
        Ok(())
    }
}

/// Pods that no longer, or not yet, count for a budget.
fn can_ignore_budgets(pod: &Value) -> bool {
    is_deleting(pod)
        || matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed" | "Pending")
        )
}

/// UPSTREAM: an unready pod may go if the budget says so, or (by default) if enough others are healthy.
fn unhealthy_pod_may_go(budget: &Value, pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    if ready {
        return false;
    }
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let number = |member: &str| budget["status"][member].as_i64().unwrap_or(0);
    number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy")
}
