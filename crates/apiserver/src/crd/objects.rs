//! Whether a custom object is what its definition asks for. Mirrors `apiextensions-apiserver/pkg/registry/customresource`.

use super::schema::Ready;
use super::{CustomVersion, ScalePaths, rules, structural};
use crate::kinds::Subresource;
use crate::status::Cause;
use serde_json::Value;

/// What is wrong with an object that is created, or that replaces `old`.
pub(crate) fn validate(
    version: &CustomVersion,
    subresource: Option<Subresource>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let ready = version.schema.ready();
    let schema = &ready.value;
    let is_status = subresource == Some(Subresource::Status);
    let mut causes = if is_status {
        validate_status(&ready, object, old)
    } else {
        structural::validate(&ready, schema, object, old)
    };
    if let Some(scale) = &version.scale {
        if !is_status {
            causes.extend(replicas(object, &scale.spec_replicas));
        }
        causes.extend(scale_status(object, scale));
    }
    if !is_status {
        causes.extend(structural::validate_embedded(schema, object));
    }
    // What was wrong before may stay.
    if old.is_none_or(|old| structural::validate_lists(schema, old).is_empty()) {
        causes.extend(structural::validate_lists(schema, object));
    }
    validate_rules(&ready, object, old, &mut causes);
    causes
}

/// Whoever writes a status answers for nothing else.
fn validate_status(ready: &Ready, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let schema = ready.value["properties"].get("status");
    let (Some(schema), Some(status)) = (schema, object.get("status")) else {
        return Vec::new();
    };
    let old = old.and_then(|old| old.get("status"));
    let mut causes = structural::validate(ready, schema, status, old);
    for cause in &mut causes {
        cause.field = match cause.field.as_str() {
            "<nil>" => "status".to_owned(),
            below => format!("status.{below}"),
        };
    }
    causes
}

/// Rules are looked at only where they can rely on the schema.
fn validate_rules(ready: &Ready, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    const BLOCKING: [&str; 4] = [
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    if !ready.rules.any(&ready.value) {
        return;
    }
    let blocks = |cause: &Cause| BLOCKING.contains(&cause.reason.as_str());
    if causes.iter().any(blocks) {
        let why = "Invalid value: \"null\": some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        causes.push(Cause::new("<nil>", "FieldValueInvalid", why));
    } else {
        causes.extend(rules::validate(ready, object, old).causes);
    }
}

fn scale_status(object: &Value, scale: &ScalePaths) -> Vec<Cause> {
    let mut causes: Vec<Cause> = replicas(object, &scale.status_replicas)
        .into_iter()
        .collect();
    if let Some(path) = &scale.label_selector
        && let Some(found) = found_at(object, path)
        && !found.is_string()
    {
        let why = accessor(path, found, "string");
        causes.push(invalid(path, "\"\"", &why));
    }
    causes
}

/// A number of replicas: whole, not negative, and no more than 32 bits hold.
fn replicas(object: &Value, path: &str) -> Option<Cause> {
    let found = found_at(object, path)?;
    let Some(number) = found.as_i64() else {
        return Some(invalid(path, "0", &accessor(path, found, "int64")));
    };
    if number < 0 {
        let why = "should be a non-negative integer";
        return Some(invalid(path, &number.to_string(), why));
    }
    let most = i64::from(i32::MAX);
    (number > most).then(|| {
        let why = format!("should be less than or equal to {most}");
        invalid(path, &number.to_string(), &why)
    })
}

fn found_at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut steps = path.trim_start_matches('.').split('.');
    steps.try_fold(object, |value, step| value.get(step))
}

fn invalid(path: &str, shown: &str, why: &str) -> Cause {
    let message = format!("Invalid value: {shown}: {why}");
    Cause::new(path, "FieldValueInvalid", message)
}

/// What Go says of a value of another type.
fn accessor(path: &str, found: &Value, wanted: &str) -> String {
    let (shown, kind) = match found {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) if number.is_i64() => (number.to_string(), "int64"),
        Value::Number(number) => (number.to_string(), "float64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (found.to_string(), "[]interface {}"),
        Value::Object(_) => (found.to_string(), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}
