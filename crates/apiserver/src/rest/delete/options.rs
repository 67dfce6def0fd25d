//! What a deletion asks for, from its query and its body.

use crate::rest::query::Query;
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

    pub(super) fn from_query(query: &Query) -> Result<DeleteOptions, Status> {
        let text = |key: &str| Some(query.get(key).to_owned()).filter(|value| !value.is_empty());
        let options = DeleteOptions {
            grace_seconds: query.number("gracePeriodSeconds")?,
            propagation: text("propagationPolicy"),
            orphan_dependents: text("orphanDependents").map(|value| value == "true"),
            ..DeleteOptions::default()
        };
        options.checked(query.dry_run())
    }

    pub(crate) fn from_body(body: &Value) -> Result<DeleteOptions, Status> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let options = DeleteOptions {
            grace_seconds: body["gracePeriodSeconds"].as_i64(),
            propagation: text(&body["propagationPolicy"]),
            orphan_dependents: body["orphanDependents"].as_bool(),
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            ..DeleteOptions::default()
        };
        let dry_run = body["dryRun"].as_array().map_or(&[][..], Vec::as_slice);
        options.checked(match dry_run.iter().all(|value| value == "All") {
            true => Ok(!dry_run.is_empty()),
            false => Err(Cause::new(
                "dryRun",
                "FieldValueNotSupported",
                format!(
                    "Unsupported value: {}: supported values: \"All\"",
                    body["dryRun"]
                ),
            )),
        })
    }

    fn checked(mut self, dry_run: Result<bool, Cause>) -> Result<DeleteOptions, Status> {
        let mut causes = Vec::new();
        let mut refuse = |reason, message| {
            causes.push(Cause::new("propagationPolicy", reason, message));
        };
        if let Some(policy) = &self.propagation {
            if self.orphan_dependents.is_some() {
                let message = format!(
                    "Invalid value: \"{policy}\": orphanDependents and deletionPropagation cannot be both set"
                );
                refuse("FieldValueInvalid", message);
            }
            if !matches!(policy.as_str(), "Orphan" | "Background" | "Foreground") {
                let message = format!(
                    "Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                );
                refuse("FieldValueNotSupported", message);
            }
        }
        match dry_run {
            Ok(dry_run) => self.dry_run = dry_run,
            Err(cause) => causes.push(cause),
        }
        match causes.is_empty() {
            true => Ok(self),
            false => Err(Status::invalid_options("DeleteOptions", causes)),
        }
    }
}
