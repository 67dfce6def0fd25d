//! What a deletion asks for, from its query and its body.

use crate::status::{Cause, Status};
use serde_json::{Map, Value, json};

/// What a deletion asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) propagation: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// As policies and webhooks see them.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let mut put = |member: &str, given: Option<Value>| {
            if let Some(given) = given {
                value[member] = given;
            }
        };
        put("gracePeriodSeconds", self.grace_seconds.map(Value::from));
        put("orphanDependents", self.orphan_dependents.map(Value::from));
        put(
            "propagationPolicy",
            self.propagation.as_deref().map(Value::from),
        );
        put("dryRun", self.dry_run.then(|| json!(["All"])));
        let mut preconditions = Map::new();
        for (member, wanted) in [
            ("uid", &self.uid),
            ("resourceVersion", &self.resource_version),
        ] {
            if let Some(wanted) = wanted {
                preconditions.insert(member.to_owned(), json!(wanted));
            }
        }
        if !preconditions.is_empty() {
            put("preconditions", Some(Value::Object(preconditions)));
        }
        value
    }

    pub(crate) fn merge_body(&mut self, body: &Value) -> Result<(), Status> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.grace_seconds = body["gracePeriodSeconds"].as_i64().or(self.grace_seconds);
        self.propagation = text(&body["propagationPolicy"]).or(self.propagation.take());
        self.orphan_dependents = body["orphanDependents"]
            .as_bool()
            .or(self.orphan_dependents);
        self.uid = text(&body["preconditions"]["uid"]);
        self.resource_version = text(&body["preconditions"]["resourceVersion"]);
        match body["dryRun"].as_array() {
            Some(list) if list.iter().any(|value| value != "All") => {
                let cause = Cause::new(
                    "dryRun",
                    "FieldValueNotSupported",
                    format!(
                        "Unsupported value: {}: supported values: \"All\"",
                        body["dryRun"]
                    ),
                );
                return Err(Status::invalid_options("DeleteOptions", cause));
            }
            Some(list) => self.dry_run |= !list.is_empty(),
            None => {}
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), Status> {
        let known = ["Orphan", "Background", "Foreground"];
        if let Some(policy) = &self.propagation
            && !known.contains(&policy.as_str())
        {
            let message = format!(
                "Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            let cause = Cause::new("propagationPolicy", "FieldValueNotSupported", message);
            return Err(Status::invalid_options("DeleteOptions", cause));
        }
        if let Some(policy) = &self.propagation
            && self.orphan_dependents.is_some()
        {
            let message = format!(
                "Invalid value: \"{policy}\": orphanDependents and deletionPropagation cannot be both set"
            );
            let cause = Cause::new("propagationPolicy", "FieldValueInvalid", message);
            return Err(Status::invalid_options("DeleteOptions", cause));
        }
        Ok(())
    }
}
