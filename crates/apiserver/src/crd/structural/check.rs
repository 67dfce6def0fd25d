//! Validation of custom objects against their schema, in the words of upstream's validator.

use super::join;
use crate::crd::CustomVersion;
use crate::status::Cause;
use serde_json::Value;
use std::collections::BTreeSet;

/// No more causes than these: an object of rubbish must not make an answer of its size.
const MAX_CAUSES: usize = 100;

/// What is wrong with an object.
pub(crate) fn validate(version: &CustomVersion, object: &Value) -> Vec<Cause> {
    let mut checker = Checker {
        version,
        causes: Vec::new(),
    };
    checker.check(&version.schema, object, "");
    checker.causes
}

struct Checker<'a> {
    version: &'a CustomVersion,
    causes: Vec<Cause>,
}

impl Checker<'_> {
    fn check(&mut self, schema: &Value, value: &Value, path: &str) {
        if self.causes.len() >= MAX_CAUSES || (value.is_null() && schema["nullable"] == true) {
            return;
        }
        if !self.check_type(schema, value, path) {
            return;
        }
        self.check_enum(schema, value, path);
        match value {
            Value::String(text) => self.check_string(schema, text, path),
            Value::Number(number) => {
                self.check_number(schema, number.as_f64().unwrap_or(0.0), value, path)
            }
            Value::Array(items) => self.check_list(schema, items, path),
            Value::Object(_) => self.check_object(schema, value, path),
            _ => {}
        }
        self.check_combinations(schema, value, path);
    }

    fn fail(&mut self, path: &str, reason: &str, message: String) {
        self.causes.push(Cause::new(path, reason, message));
    }

    fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.fail(
            path,
            "FieldValueInvalid",
            format!("Invalid value: {value}: {path} in body {why}"),
        );
    }

    fn check_type(&mut self, schema: &Value, value: &Value, path: &str) -> bool {
        let actual = type_name(value);
        let int_or_string = schema["x-kubernetes-int-or-string"] == true;
        let wanted = match schema["type"].as_str() {
            _ if int_or_string => "integer,string",
            Some(wanted) => wanted,
            None => return true,
        };
        let fits = wanted
            .split(',')
            .any(|wanted| wanted == actual || (wanted == "number" && actual == "integer"));
        if !fits {
            let message = format!(
                "Invalid value: \"{actual}\": {path} in body must be of type {wanted}: \"{actual}\""
            );
            self.fail(path, "FieldValueTypeInvalid", message);
        }
        fits
    }

    fn check_enum(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(values) = schema["enum"].as_array() else {
            return;
        };
        if !values.contains(value) {
            let supported: Vec<String> = values.iter().map(Value::to_string).collect();
            let message = format!(
                "Unsupported value: {value}: supported values: {}",
                supported.join(", ")
            );
            self.fail(path, "FieldValueNotSupported", message);
        }
    }

    fn check_string(&mut self, schema: &Value, text: &str, path: &str) {
        let value = Value::from(text);
        let length = text.chars().count() as u64;
        if schema["maxLength"].as_u64().is_some_and(|max| length > max) {
            self.fail(
                path,
                "FieldValueTooLong",
                format!(
                    "Too long: may not be more than {} bytes",
                    schema["maxLength"]
                ),
            );
        }
        if schema["minLength"].as_u64().is_some_and(|min| length < min) {
            self.invalid(
                path,
                &value,
                &format!("should be at least {} chars long", schema["minLength"]),
            );
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && self
                .version
                .patterns
                .get(pattern)
                .is_some_and(|compiled| !compiled.is_match(text))
        {
            self.invalid(path, &value, &format!("should match '{pattern}'"));
        }
        let well_formed = match schema["format"].as_str() {
            Some("date-time") => api::Time::parse(text).is_some(),
            Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_ok(),
            Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_ok(),
            _ => true,
        };
        if !well_formed {
            let format = schema["format"].as_str().unwrap_or_default();
            self.invalid(path, &value, &format!("must be of type {format}: {value}"));
        }
    }

    fn check_number(&mut self, schema: &Value, number: f64, value: &Value, path: &str) {
        if let Some(max) = schema["maximum"].as_f64() {
            let exclusive = schema["exclusiveMaximum"] == true;
            if number > max || (exclusive && number == max) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                self.invalid(
                    path,
                    value,
                    &format!("should be less than{or_equal} {}", schema["maximum"]),
                );
            }
        }
        if let Some(min) = schema["minimum"].as_f64() {
            let exclusive = schema["exclusiveMinimum"] == true;
            if number < min || (exclusive && number == min) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                self.invalid(
                    path,
                    value,
                    &format!("should be greater than{or_equal} {}", schema["minimum"]),
                );
            }
        }
        if let Some(step) = schema["multipleOf"].as_f64().filter(|step| *step > 0.0)
            && (number / step).fract() != 0.0
        {
            self.invalid(
                path,
                value,
                &format!("should be a multiple of {}", schema["multipleOf"]),
            );
        }
    }

    fn check_list(&mut self, schema: &Value, items: &[Value], path: &str) {
        let count = items.len() as u64;
        if schema["maxItems"].as_u64().is_some_and(|max| count > max) {
            self.fail(
                path,
                "FieldValueTooMany",
                format!(
                    "Too many: {count}: must have at most {} items",
                    schema["maxItems"]
                ),
            );
        }
        if schema["minItems"].as_u64().is_some_and(|min| count < min) {
            self.invalid(
                path,
                &Value::from(count),
                &format!("should have at least {} items", schema["minItems"]),
            );
        }
        let keys: Vec<&str> = match schema["x-kubernetes-list-type"].as_str() {
            Some("map") => schema["x-kubernetes-list-map-keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect(),
            _ => Vec::new(),
        };
        let unique = schema["x-kubernetes-list-type"] == "set"
            || schema["uniqueItems"] == true
            || !keys.is_empty();
        let identity = |item: &Value| -> Value {
            if keys.is_empty() {
                item.clone()
            } else {
                keys.iter()
                    .map(|key| ((*key).to_owned(), item[*key].clone()))
                    .collect()
            }
        };
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if unique && !seen.insert(identity(item).to_string()) {
                self.fail(
                    &path,
                    "FieldValueDuplicate",
                    format!("Duplicate value: {}", identity(item)),
                );
            }
            if let Some(below) = schema.get("items") {
                self.check(below, item, &path);
            }
        }
    }

    fn check_object(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(members) = value.as_object() else {
            return;
        };
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !members.contains_key(name) {
                self.fail(
                    &join(path, name),
                    "FieldValueRequired",
                    "Required value".to_owned(),
                );
            }
        }
        let count = members.len() as u64;
        if schema["maxProperties"]
            .as_u64()
            .is_some_and(|max| count > max)
        {
            self.fail(
                path,
                "FieldValueTooMany",
                format!(
                    "Too many: {count}: must have at most {} items",
                    schema["maxProperties"]
                ),
            );
        }
        if schema["minProperties"]
            .as_u64()
            .is_some_and(|min| count < min)
        {
            self.invalid(
                path,
                &Value::from(count),
                &format!(
                    "should have at least {} properties",
                    schema["minProperties"]
                ),
            );
        }
        let additional = schema
            .get("additionalProperties")
            .filter(|additional| additional.is_object());
        for (name, member) in members {
            if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            if let Some(below) = schema["properties"].get(name).or(additional) {
                self.check(below, member, &join(path, name));
            }
        }
    }

    fn check_combinations(&mut self, schema: &Value, value: &Value, path: &str) {
        let fits = |checker: &Checker<'_>, schema: &Value| {
            let mut trial = Checker {
                version: checker.version,
                causes: Vec::new(),
            };
            trial.check(schema, value, path);
            trial.causes.is_empty()
        };
        for below in schema["allOf"].as_array().into_iter().flatten() {
            self.check(below, value, path);
        }
        if let Some(list) = schema["anyOf"].as_array()
            && !list.iter().any(|below| fits(self, below))
        {
            self.invalid(path, value, "must validate at least one schema (anyOf)");
        }
        if let Some(list) = schema["oneOf"].as_array()
            && list.iter().filter(|below| fits(self, below)).count() != 1
        {
            self.invalid(path, value, "must validate one and only one schema (oneOf)");
        }
        if schema["not"].is_object() && fits(self, &schema["not"]) {
            self.invalid(path, value, "must not validate the schema (not)");
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number)
            if number.is_f64() && number.as_f64().is_some_and(|n| n.fract() != 0.0) =>
        {
            "number"
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
