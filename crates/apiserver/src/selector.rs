//! Label and field selectors as query parameters carry them.

use crate::kinds::Kind;
use crate::status::Status;
use crate::storage::Stored;
use api::selector::{FieldRequirement, FieldSelector};
use serde_json::Value;
use std::borrow::Cow;

/// A label selector and a field selector; both must match.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    labels: api::selector::Selector,
    /// By the names under which objects are stored.
    fields: Vec<FieldRequirement>,
}

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Selector, Status> {
        let bad = |why: &dyn std::fmt::Display| Status::bad_request(why.to_string());
        let labels = api::selector::Selector::parse(labels).map_err(|why| bad(&why))?;
        let fields = FieldSelector::parse(fields).map_err(|why| bad(&why))?;
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && selects_namespace(kind))
                || kind
                    .selectable_fields
                    .iter()
                    .any(|candidate| candidate == field);
            if !known {
                return Err(Status::bad_request(unknown_field(kind, field)));
            }
        }
        let stored = |requirement: &FieldRequirement| FieldRequirement {
            field: stored_name(kind, &requirement.field),
            ..requirement.clone()
        };
        let fields = fields.requirements().iter().map(stored).collect();
        Ok(Selector { labels, fields })
    }

    /// The same without what depends on the version at which an object is looked at: labels and names stay.
    pub(crate) fn of_any_version(&self) -> Selector {
        let mut fields = self.fields.clone();
        fields.retain(|requirement| requirement.field.starts_with("metadata."));
        Selector {
            labels: self.labels.clone(),
            fields,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, kind: &Kind, object: &Stored) -> bool {
        self.labels.matches_by(|key| object.label(key))
            && self
                .fields
                .iter()
                .all(|requirement| matches_field(requirement, kind, object))
    }
}

/// What a selectable field is called where the object is stored: events of both groups are those of the core group.
fn stored_name(kind: &Kind, field: &str) -> String {
    if !kind.is("events.k8s.io", "Event") {
        return field.to_owned();
    }
    match field.strip_prefix("regarding.") {
        Some(below) => format!("involvedObject.{below}"),
        None if field == "reportingController" => "reportingComponent".to_owned(),
        None => field.to_owned(),
    }
}

/// UPSTREAM: cluster-scoped kinds without selectors of their own know the field as well; it is empty.
fn selects_namespace(kind: &Kind) -> bool {
    kind.namespaced || (kind.custom().is_none() && kind.selectable_fields.is_empty())
}

/// UPSTREAM: kinds with selectors of their own say less, each in its own words.
fn unknown_field(kind: &Kind, field: &str) -> String {
    if kind.is("batch", "Job") {
        return format!("field label \"{field}\" not supported for Job");
    }
    if kind.is("resource.k8s.io", "ResourceSlice") {
        let api_version = kind.api_version();
        return format!(
            "field label not supported for {api_version}, Kind={}: {field}",
            kind.kind
        );
    }
    if !kind.selectable_fields.is_empty() || kind.custom().is_some() {
        return format!("field label not supported: {field}");
    }
    format!(
        "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    )
}

/// Whether a label selector in its JSON form (`matchLabels`, `matchExpressions`) selects the labels.
/// A missing selector selects nothing, an empty one everything.
pub(crate) fn json_selector_matches(selector: &Value, object: &Stored) -> bool {
    let Some(selector) = selector.as_object() else {
        return false;
    };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let equal = labels
        .into_iter()
        .flatten()
        .all(|(key, value)| object.label(key) == value.as_str());
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    equal
        && expressions
            .into_iter()
            .flatten()
            .all(|expression| json_expression_matches(expression, object))
}

fn json_expression_matches(expression: &Value, object: &Stored) -> bool {
    let key = expression["key"].as_str().unwrap_or_default();
    let values = expression["values"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let listed = |value: &str| {
        values
            .iter()
            .any(|candidate| candidate.as_str() == Some(value))
    };
    match (
        expression["operator"].as_str().unwrap_or_default(),
        object.label(key),
    ) {
        ("In", value) => value.is_some_and(listed),
        ("NotIn", value) => !value.is_some_and(listed),
        ("Exists", value) => value.is_some(),
        ("DoesNotExist", value) => value.is_none(),
        _ => false,
    }
}

fn matches_field(requirement: &FieldRequirement, kind: &Kind, object: &Stored) -> bool {
    let value = match requirement.field.as_str() {
        "metadata.name" => Cow::Borrowed(object.name()),
        "metadata.namespace" => Cow::Borrowed(object.namespace()),
        field => match kind
            .selectable_fields
            .iter()
            .position(|candidate| candidate == field)
        {
            Some(index) => object.field(kind, index),
            None => Cow::Borrowed(""),
        },
    };
    (value == requirement.value) != requirement.negated
}

/// The text of a selectable field of an object: booleans and numbers print, what is missing is empty or the
/// kind's default.
pub(crate) fn field_value<'a>(kind: &Kind, value: &'a Value, field: &str) -> Cow<'a, str> {
    let core_event = kind.storage.0.is_empty() && kind.kind == "Event";
    if core_event {
        return event_field(value, field);
    }
    match field {
        "status.successful" => return text(&value["status"]["succeeded"], "0"),
        "status.replicas" => return text(&value["status"]["replicas"], "0"),
        "spec.unschedulable" | "spec.hostNetwork" => return text(at(value, field), "false"),
        "status.podIPs" => return text(&value["status"]["podIPs"][0]["ip"], ""),
        _ => {}
    }
    text(at(value, field), "")
}

fn event_field<'a>(value: &'a Value, field: &str) -> Cow<'a, str> {
    let core = value.get("involvedObject").is_some();
    match field {
        // UPSTREAM: the source selector falls back to the reporting component.
        "source" => {
            let source = text(&value["source"]["component"], "");
            if source.is_empty() {
                text(&value["reportingComponent"], "")
            } else {
                source
            }
        }
        "reportingComponent" => match &value["reportingComponent"] {
            Value::Null => text(&value["reportingController"], ""),
            component => text(component, ""),
        },
        _ if !core => text(
            at(value, &field.replacen("involvedObject", "regarding", 1)),
            "",
        ),
        _ => text(at(value, field), ""),
    }
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    crate::fields::at(value, path.trim_start_matches('.'))
}

fn text<'a>(value: &'a Value, missing: &'static str) -> Cow<'a, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Number(number) => Cow::Owned(number.to_string()),
        _ => Cow::Borrowed(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;
    use serde_json::json;

    fn check(labels: &str, fields: &str, expected: bool) {
        let kind = kinds::find("", "Pod").unwrap();
        let value =
            json!({"metadata": {"labels": {"app": "web", "n": "5"}}, "spec": {"nodeName": "a"}});
        let object = Stored::new(kind, "ns/pod".into(), 1, &value, bytes::Bytes::new());
        let selector = Selector::parse(kind, labels, fields).unwrap();
        assert_eq!(
            selector.matches(kind, &object),
            expected,
            "{labels} {fields}"
        );
    }

    #[test]
    fn label_selectors() {
        check("", "", true);
        check("app=web", "", true);
        check("app==web,n!=6", "", true);
        check("app in (db, web),!other", "", true);
        check("app notin (web)", "", false);
        check("missing notin (web)", "", true);
        check("n>4", "", true);
        check("n<4", "", false);
        check("app", "", true);
    }

    #[test]
    fn field_selectors() {
        check("", "metadata.name=pod,spec.nodeName=a", true);
        check("", "spec.nodeName!=a", false);
        check("", "spec.hostNetwork=false", true);
        check("", "metadata.namespace=other", false);
    }

    #[test]
    fn unknown_fields_and_bad_syntax_are_refused() {
        let kind = kinds::find("", "Pod").unwrap();
        for (labels, fields) in [
            ("a in b", ""),
            ("a in (b", ""),
            ("=", ""),
            ("", "spec.foo=1"),
            ("", "x"),
        ] {
            assert_eq!(
                Selector::parse(kind, labels, fields).unwrap_err().code,
                400,
                "{labels} {fields}"
            );
        }
    }
}
