//! `Status`: how the server says no (and, for deletions, yes). Codes, reasons and wording are upstream's,
//! because clients decide by them whether to retry, relist or give up.

use serde_json::{Map, Value, json};

/// A `meta/v1` Status, also the error type of everything that answers a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// Boxed, because most results are not errors and should stay small.
    pub details: Box<Details>,
    /// A fresh continue token, given along with an expired one.
    pub continue_token: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The resource ("pods"), or the kind for invalid objects: upstream is not consistent either.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: Option<u32>,
    /// A Status that someone else made, which is handed on as it is.
    pub foreign: Option<Value>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    pub field: String,
    /// "FieldValueInvalid", "FieldValueRequired", ...
    pub reason: String,
    pub message: String,
}

impl Cause {
    pub fn new(field: impl Into<String>, reason: &str, message: impl Into<String>) -> Cause {
        Cause {
            field: field.into(),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// Which resource a status speaks of.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub group: &'a str,
    pub plural: &'a str,
    pub name: &'a str,
}

impl Subject<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    fn details(&self) -> Details {
        Details {
            name: self.name.into(),
            group: self.group.into(),
            kind: self.plural.into(),
            ..Details::default()
        }
    }
}

/// UPSTREAM: what a patch of an unknown kind is answered.
pub(crate) const UNSUPPORTED_PATCH: &str = "415: Unsupported Media Type";

impl Status {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            continue_token: None,
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }

    pub fn internal(message: impl Into<String>) -> Status {
        let message = message.into();
        let mut status = Status::new(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        );
        status.details.causes.push(Cause {
            message,
            ..Cause::default()
        });
        status
    }

    /// A body of another type than these.
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::new(415, "UnsupportedMediaType", message)
    }

    pub fn unauthorized() -> Status {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn not_found(subject: Subject<'_>) -> Status {
        let message = format!("{} \"{}\" not found", subject.qualified(), subject.name);
        Status {
            details: Box::new(subject.details()),
            ..Status::new(404, "NotFound", message)
        }
    }

    /// UPSTREAM: errors that are no API errors of their own become a 500 without a reason.
    pub fn unexpected(message: impl Into<String>) -> Status {
        Status::new(500, "", message)
    }

    /// Options in the query or body that cannot be: `kind` is "CreateOptions", "ListOptions", ...
    pub fn invalid_options(kind: &str, causes: Vec<Cause>) -> Status {
        Status::invalid("meta.k8s.io", kind, "", causes)
    }

    /// For paths that lead nowhere.
    pub fn no_such_path() -> Status {
        Status::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    pub fn already_exists(subject: Subject<'_>) -> Status {
        let message = format!(
            "{} \"{}\" already exists",
            subject.qualified(),
            subject.name
        );
        Status {
            details: Box::new(subject.details()),
            ..Status::new(409, "AlreadyExists", message)
        }
    }

    pub fn conflict(subject: Subject<'_>, why: &str) -> Status {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": {why}",
            subject.qualified(),
            subject.name
        );
        Status {
            details: Box::new(subject.details()),
            ..Status::new(409, "Conflict", message)
        }
    }

    pub fn forbidden(subject: Subject<'_>, why: &str) -> Status {
        let message = if subject.plural.is_empty() {
            format!("forbidden: {why}")
        } else if subject.name.is_empty() {
            format!("{} is forbidden: {why}", subject.qualified())
        } else {
            format!(
                "{} \"{}\" is forbidden: {why}",
                subject.qualified(),
                subject.name
            )
        };
        Status {
            details: Box::new(subject.details()),
            ..Status::new(403, "Forbidden", message)
        }
    }

    /// `kind` is the object's kind ("Deployment"); the causes name the fields.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Status {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let details = Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            ..Details::default()
        };
        let message = format!("{qualified} \"{name}\" is invalid: {}", summary(&causes));
        Status {
            details: Box::new(Details { causes, ..details }),
            ..Status::new(422, "Invalid", message)
        }
    }

    pub fn method_not_supported(subject: Subject<'_>, verb: &str) -> Status {
        let message = format!(
            "{verb} is not supported on resources of kind \"{}\"",
            subject.qualified()
        );
        Status {
            details: Box::new(subject.details()),
            ..Status::new(405, "MethodNotAllowed", message)
        }
    }

    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, "Expired", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        let mut status = Status::new(429, "TooManyRequests", message);
        status.details.retry_after_seconds = Some(retry_after_seconds);
        status
    }

    /// A list or get at a revision that does not exist yet.
    pub fn resource_version_too_large(wanted: u64, current: u64) -> Status {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut status = Status::new(504, "Timeout", message);
        status.details.retry_after_seconds = Some(1);
        status.details.causes.push(Cause::new(
            "",
            "ResourceVersionTooLarge",
            "Too large resource version",
        ));
        status
    }

    pub fn with_cause(mut self, reason: &str, message: impl Into<String>) -> Status {
        self.details.causes.push(Cause::new("", reason, message));
        self
    }

    /// A Status that someone else made.
    pub(crate) fn foreign(code: u16, message: String, status: Value) -> Status {
        let mut own = Status::new(code, "", message);
        own.details.foreign = Some(status);
        own
    }

    pub fn to_value(&self) -> Value {
        if let Some(foreign) = &self.details.foreign {
            return foreign.clone();
        }
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), json!(token));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if self.reason.is_empty()
            && let Some(map) = status.as_object_mut()
        {
            map.remove("reason");
        }
        let details = self.details.to_value();
        // UPSTREAM: some answers have details without anything in them.
        let generic = matches!(
            self.reason,
            "NotFound" | "Forbidden" | "MethodNotAllowed" | "Invalid"
        );
        let generic = generic
            || self.message == UNSUPPORTED_PATCH
            || self.message.starts_with("406: Not Acceptable");
        if generic || details.as_object().is_some_and(|map| !map.is_empty()) {
            status["details"] = details;
        }
        status
    }
}

impl Details {
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                map.insert(key.to_owned(), json!(value));
            }
        };
        put("name", &self.name);
        put("group", &self.group);
        put("kind", &self.kind);
        put("uid", &self.uid);
        if !self.causes.is_empty() {
            map.insert(
                "causes".into(),
                self.causes.iter().map(Cause::to_value).collect(),
            );
        }
        if let Some(seconds) = self.retry_after_seconds {
            map.insert("retryAfterSeconds".into(), json!(seconds));
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let fields = [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ];
        let filled = fields.into_iter().filter(|(_, value)| !value.is_empty());
        Value::Object(
            filled
                .map(|(key, value)| (key.to_owned(), json!(value)))
                .collect(),
        )
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.reason, self.code, self.message)
    }
}

impl std::error::Error for Status {}

/// One cause as `field: message`, several in brackets, each once.
pub(crate) fn summary(causes: &[Cause]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for cause in causes {
        let line = format!("{}: {}", cause.field, cause.message);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.len() == 1 {
        lines.remove(0)
    } else {
        format!("[{}]", lines.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wording_is_upstreams() {
        let subject = Subject {
            group: "apps",
            plural: "deployments",
            name: "web",
        };
        assert_eq!(
            Status::not_found(subject).message,
            "deployments.apps \"web\" not found"
        );
        let causes = vec![Cause::new(
            "spec.replicas",
            "FieldValueInvalid",
            "Invalid value: -1: must be positive",
        )];
        let status = Status::invalid("apps", "Deployment", "web", causes);
        assert_eq!(
            status.message,
            "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be positive"
        );
        assert_eq!(
            status.to_value()["details"]["causes"][0]["field"],
            "spec.replicas"
        );
    }
}
