//! What the validator finds, with the count by which it picks the alternative that came closest.

use crate::status::Cause;
use api::syntax::go_quote;
use serde_json::Value;

/// No more than these: an object of rubbish must not make an answer of its size.
const MAX_FAULTS: usize = 100;

/// UPSTREAM: a fault of the object itself has no path, and Go prints that.
const NO_PATH: &str = "<nil>";

#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
    /// How many checks went well, as upstream counts.
    pub(super) matches: u32,
}

#[derive(Debug)]
struct Fault {
    cause: Cause,
    /// The validator's own sentence: the same one is not said twice.
    sentence: String,
}

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn into_causes(self) -> Vec<Cause> {
        self.found.into_iter().map(|fault| fault.cause).collect()
    }

    /// What was wrong before and has not changed is let through.
    pub(super) fn forgive(&mut self) {
        self.found.clear();
    }

    pub(super) fn merge(&mut self, other: Faults) {
        self.matches += other.matches;
        other.found.into_iter().for_each(|fault| self.add(fault));
    }

    fn add(&mut self, fault: Fault) {
        let is_known = |known: &Fault| known.sentence == fault.sentence;
        if self.found.len() < MAX_FAULTS && !self.found.iter().any(is_known) {
            self.found.push(fault);
        }
    }

    fn push(&mut self, path: &str, reason: &str, body: String, sentence: String) {
        let path = path.strip_prefix('.').unwrap_or(path);
        let path = if path.is_empty() { NO_PATH } else { path };
        self.add(Fault {
            cause: Cause::new(path, reason, body),
            sentence,
        });
    }

    /// A fault of the value at `path`; `why` completes "spec.size in body ".
    pub(super) fn invalid(&mut self, path: &str, shown: &str, why: &str) {
        let sentence = format!("{path} in body {why}");
        let body = format!("Invalid value: {shown}: {sentence}");
        self.push(path, "FieldValueInvalid", body, sentence);
    }

    /// A fault of which upstream does not say where it is.
    pub(super) fn pathless(&mut self, sentence: String) {
        let body = format!("Invalid value: \"\": {sentence}");
        self.push("", "FieldValueInvalid", body, sentence);
    }

    /// A fault with a sentence of its own.
    pub(super) fn stated(&mut self, path: &str, shown: &str, sentence: String) {
        let body = format!("Invalid value: {shown}: {sentence}");
        self.push(path, "FieldValueInvalid", body, sentence);
    }

    pub(super) fn wrong_type(&mut self, path: &str, wanted: &str, found: &str) {
        let found = go_quote(found);
        let sentence = format!("{path} in body must be of type {wanted}: {found}");
        let body = format!("Invalid value: {found}: {sentence}");
        self.push(path, "FieldValueTypeInvalid", body, sentence);
    }

    pub(super) fn required(&mut self, path: &str) {
        let sentence = format!("{path} in body is required");
        self.push(
            path,
            "FieldValueRequired",
            "Required value".to_owned(),
            sentence,
        );
    }

    pub(super) fn unsupported(&mut self, path: &str, value: &Value, supported: &[Value]) {
        let plain = |value: &Value| match value {
            Value::String(text) => go_quote(text),
            other => go_quote(&other.to_string()),
        };
        let supported: Vec<String> = supported.iter().map(plain).collect();
        let supported = supported.join(", ");
        let body = format!(
            "Unsupported value: {}: supported values: {supported}",
            shown(value)
        );
        let sentence = format!("{path} in body should be one of {supported}");
        self.push(path, "FieldValueNotSupported", body, sentence);
    }

    pub(super) fn too_long(&mut self, path: &str, most: i64) {
        let unit = if most == 1 { "byte" } else { "bytes" };
        let body = format!("Too long: may not be more than {most} {unit}");
        let sentence = format!("{path} in body should be at most {most} chars long");
        self.push(path, "FieldValueTooLong", body, sentence);
    }

    pub(super) fn too_many(&mut self, path: &str, count: usize, most: i64, what: &str) {
        let unit = if most == 1 { "item" } else { "items" };
        let body = format!("Too many: {count}: must have at most {most} {unit}");
        let sentence = format!("{path} in body should have at most {most} {what}");
        self.push(path, "FieldValueTooMany", body, sentence);
    }
}

/// A value as Go prints it in an error.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => go_float(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A float as Go prints it: plain unless it is very large or very small.
pub(super) fn go_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{float:e}");
        let Some((digits, exponent)) = text.split_once('e') else {
            return text;
        };
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float}")
}
