//! Eviction: a deletion that disruption budgets may refuse.

use crate::Body;
use crate::admission::Operation;
use crate::kinds::Kind;
use crate::rest::delete::DeleteOptions;
use crate::rest::metadata::is_deleting;
use crate::rest::{Context, response};
use crate::selector::json_selector_matches;
use crate::status::{Cause, Status, Subject};
use crate::storage::{Stored, Transaction};
use api::Time;
use http::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// UPSTREAM: a budget whose list of disrupted pods is this long is not being processed.
const MAX_DISRUPTED_PODS: usize = 2000;

/// How long a client should wait before it asks again.
const RETRY_SECONDS: u32 = 10;

const SEVERAL_BUDGETS: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// A budget, and what becomes of it when a pod is taken from it.
struct Spent {
    kind: Arc<Kind>,
    key: String,
    budget: Value,
}

impl Context {
    pub(super) async fn evict(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.create_options()?;
        let mut eviction = self.decode_part("policy/v1", "Eviction")?;
        self.match_name(&mut eviction)?;
        self.match_namespace(&mut eviction)?;
        self.check_node(&eviction)?;
        // UPSTREAM: an eviction is admitted as what it is, not as the deletion that it leads to.
        let shown = Some(("policy/v1", "Eviction"));
        let eviction = self
            .admit_unstored(Operation::Create, shown, eviction, dry_run)
            .await?;
        let options = &eviction["deleteOptions"];
        if options["ignoreStoreReadErrorWithClusterBreakingPotential"] == true {
            return Err(self.refuse_unsafe_deletion());
        }
        let mut wanted = DeleteOptions::from_body(options)?;
        wanted.dry_run |= dry_run;
        let shared = self.shared.clone();
        let ((), revision) = shared
            .store
            .write(|transaction| self.evict_in(transaction, wanted))?;
        self.wait_durable(revision).await?;
        Ok(response::value(
            201,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        ))
    }

    fn refuse_unsafe_deletion(&self) -> Status {
        let field = "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential";
        let message =
            "Invalid value: true: can not be set for pod eviction, try after removing the option";
        let cause = Cause::new(field, "FieldValueInvalid", message);
        Status::invalid("policy", "Eviction", &self.info.name, vec![cause])
    }

    fn evict_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        mut options: DeleteOptions,
    ) -> Result<(), Status> {
        let key = self.object_key()?;
        let pod = transaction
            .get(&self.stored_kind, &key)
            .ok_or_else(|| Status::not_found(self.subject()))?;
        let value = pod.value(&self.stored_kind);
        let spent = match can_ignore_budgets(&value) {
            true => None,
            false => self.ask_budgets(transaction, &pod, &value)?,
        };
        // Before anything is written: what is written stays, whatever comes after it.
        let working = pod.working(&self.stored_kind);
        self.check_delete_preconditions(&working, &self.info.name, &options)?;
        if !options.dry_run {
            if let Some(Spent { kind, key, budget }) = spent {
                transaction.put(&kind, &key, &budget, None);
            }
            self.mark_disrupted(transaction, &key, value);
            // It was the version that was meant until the condition was set.
            options.resource_version = None;
        }
        self.delete_in(transaction, &key, &options)?;
        Ok(())
    }

    /// Says why the pod ends: Jobs may treat disruptions differently from failures.
    fn mark_disrupted(&self, transaction: &mut Transaction<'_>, key: &str, mut pod: Value) {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.shared.now(),
        });
        let status = crate::fields::object_mut(&mut pod, "status");
        set_condition(status, condition);
        transaction.put(&self.stored_kind, key, &pod, None);
    }

    /// Takes the pod from what its budget allows.
    fn ask_budgets(
        &self,
        transaction: &mut Transaction<'_>,
        pod: &Stored,
        value: &Value,
    ) -> Result<Option<Spent>, Status> {
        let Some(kind) = self
            .registry
            .resource("policy", "v1", "poddisruptionbudgets")
            .cloned()
        else {
            return Ok(None);
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
            return Ok(None);
        };
        if budgets.next().is_some() {
            // UPSTREAM: a failure without a reason.
            return Err(Status::unexpected(SEVERAL_BUDGETS));
        }
        if unhealthy_pod_may_go(&budget, value) {
            return Ok(None);
        }
        check_budget(&budget, stored.name())?;
        self.take_one(&mut budget, pod.name());
        Ok(Some(Spent {
            kind,
            key: stored.key.to_string(),
            budget,
        }))
    }

    fn take_one(&self, budget: &mut Value, pod: &str) {
        let now = Time::from_unix(self.shared.now_seconds()).to_string();
        let generation = budget["status"]["observedGeneration"].clone();
        let status = crate::fields::object_mut(budget, "status");
        let allowed = status.get("disruptionsAllowed").and_then(Value::as_i64);
        let left = allowed.unwrap_or(0) - 1;
        status.insert("disruptionsAllowed".into(), json!(left));
        let pods = status.entry("disruptedPods").or_insert_with(|| json!({}));
        if let Some(pods) = pods.as_object_mut() {
            pods.insert(pod.to_owned(), json!(now));
        }
        if left > 0 {
            return;
        }
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": generation, "lastTransitionTime": now,
        });
        set_condition(status, condition);
    }
}

/// Puts a condition in place of the one of its type. The time of its transition stays if it is none.
fn set_condition(status: &mut Map<String, Value>, mut condition: Value) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    let held = list
        .iter_mut()
        .find(|held| held["type"] == condition["type"]);
    match held {
        Some(held) => {
            if held["status"] == condition["status"] {
                condition["lastTransitionTime"] = held["lastTransitionTime"].take();
            }
            *held = condition;
        }
        None => list.push(condition),
    }
}

/// May one more pod go?
fn check_budget(budget: &Value, name: &str) -> Result<(), Status> {
    let status = &budget["status"];
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let generation = number(&budget["metadata"]["generation"]);
    if number(&status["observedGeneration"]) < generation {
        let refusal = Status::too_many_requests(VIOLATES, RETRY_SECONDS);
        return Err(refusal.with_cause(
            "DisruptionBudget",
            format!("The disruption budget {name} is still being processed by the server."),
        ));
    }
    let allowed = number(&status["disruptionsAllowed"]);
    let subject = Subject {
        group: "policy",
        plural: "poddisruptionbudget",
        name,
    };
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(Status::forbidden(subject, why));
    }
    let disrupted = status["disruptedPods"].as_object();
    if disrupted.is_some_and(|disrupted| disrupted.len() > MAX_DISRUPTED_PODS) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(subject, why));
    }
    if allowed == 0 {
        let refusal = Status::new(429, "TooManyRequests", VIOLATES);
        return Err(refusal.with_cause("DisruptionBudget", why_none_is_allowed(status, name)));
    }
    Ok(())
}

fn why_none_is_allowed(status: &Value, name: &str) -> String {
    let desired = status["desiredHealthy"].as_i64().unwrap_or(0);
    let current = status["currentHealthy"].as_i64().unwrap_or(0);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let told = conditions
        .filter(|held| held["type"] == "DisruptionAllowed" && held["status"] == "False")
        .map(|held| {
            let text = |member: &str| held[member].as_str().unwrap_or_default();
            (text("reason"), text("message"))
        })
        .find(|(_, message)| !message.is_empty());
    match told {
        // What was counted is not to be trusted if the last count failed.
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if current <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        ),
        Some((reason, message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
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
