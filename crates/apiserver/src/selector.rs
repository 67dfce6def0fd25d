//! Label and field selectors as query parameters carry them.

use crate::kinds::Kind;
use crate::status::Status;
use crate::storage::Stored;
use serde_json::Value;

/// A label selector and a field selector; both must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selector {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq)]
enum LabelRequirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
    Greater(String, i64),
    Less(String, i64),
}

#[derive(Clone, Debug, PartialEq)]
struct FieldRequirement {
    field: String,
    equal: bool,
    value: String,
}

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Selector, Status> {
        let labels = parse_labels(labels)
            .map_err(|why| Status::bad_request(format!("unable to parse requirement: {why}")))?;
        let fields = parse_fields(fields).map_err(Status::bad_request)?;
        for requirement in &fields {
            let field = requirement.field.as_str();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && kind.namespaced)
                || kind
                    .selectable_fields
                    .iter()
                    .any(|candidate| candidate == field);
            if !known {
                return Err(Status::bad_request(unknown_field(kind, field)));
            }
        }
        Ok(Selector { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, kind: &Kind, object: &Stored) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.matches(|key| object.label(key)))
            && self
                .fields
                .iter()
                .all(|requirement| requirement.matches(kind, object))
    }
}

/// UPSTREAM: kinds with selectors of their own say less.
fn unknown_field(kind: &Kind, field: &str) -> String {
    if !kind.selectable_fields.is_empty() {
        return format!("field label not supported: {field}");
    }
    let namespace = if kind.namespaced {
        ", \"metadata.namespace\""
    } else {
        ""
    };
    format!("\"{field}\" is not a known field selector: only \"metadata.name\"{namespace}")
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

impl LabelRequirement {
    fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let number = |key: &str| label(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            LabelRequirement::In(key, values) => {
                label(key).is_some_and(|value| values.iter().any(|v| v == value))
            }
            LabelRequirement::NotIn(key, values) => {
                !label(key).is_some_and(|value| values.iter().any(|v| v == value))
            }
            LabelRequirement::Exists(key) => label(key).is_some(),
            LabelRequirement::DoesNotExist(key) => label(key).is_none(),
            LabelRequirement::Greater(key, bound) => {
                number(key).is_some_and(|value| value > *bound)
            }
            LabelRequirement::Less(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

impl FieldRequirement {
    fn matches(&self, kind: &Kind, object: &Stored) -> bool {
        let value = match self.field.as_str() {
            "metadata.name" => object.name(),
            "metadata.namespace" => object.namespace(),
            field => match kind
                .selectable_fields
                .iter()
                .position(|candidate| candidate == field)
            {
                Some(index) => object.field(index).unwrap_or_default(),
                None => "",
            },
        };
        (value == self.value) == self.equal
    }
}

/// The text of a selectable field of an object: booleans and numbers print, what is missing is empty or the
/// kind's default.
pub(crate) fn field_value(kind: &Kind, value: &Value, field: &str) -> String {
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

fn event_field(value: &Value, field: &str) -> String {
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
        "reportingComponent" => text(
            &value["reportingComponent"],
            &text(&value["reportingController"], ""),
        ),
        _ if !core => text(
            at(value, &field.replacen("involvedObject", "regarding", 1)),
            "",
        ),
        _ => text(at(value, field), ""),
    }
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.trim_start_matches('.')
        .split('.')
        .fold(value, |value, member| &value[member])
}

fn text(value: &Value, missing: &str) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        _ => missing.to_owned(),
    }
}

fn parse_fields(text: &str) -> Result<Vec<FieldRequirement>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (field, equal, value) = if let Some((field, value)) = part.split_once("!=") {
                (field, false, value)
            } else if let Some((field, value)) = part.split_once("==") {
                (field, true, value)
            } else if let Some((field, value)) = part.split_once('=') {
                (field, true, value)
            } else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ));
            };
            Ok(FieldRequirement {
                field: field.into(),
                equal,
                value: value.into(),
            })
        })
        .collect()
}

fn parse_labels(text: &str) -> Result<Vec<LabelRequirement>, String> {
    split_outside_parentheses(text)
        .into_iter()
        .map(|part| parse_label(part.trim()))
        .collect()
}

fn parse_label(part: &str) -> Result<LabelRequirement, String> {
    if let Some(key) = part.strip_prefix('!') {
        return Ok(LabelRequirement::DoesNotExist(label_key(key)?));
    }
    if let Some((head, list)) = part.split_once('(') {
        let list = list
            .strip_suffix(')')
            .ok_or_else(|| format!("\"{part}\": expected: ')'"))?;
        let values = list
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => Ok(LabelRequirement::In(label_key(key)?, values)),
            (Some(key), Some("notin"), None) => {
                Ok(LabelRequirement::NotIn(label_key(key)?, values))
            }
            _ => Err(format!("found '{head}', expected: in, notin")),
        };
    }
    let comparison = [("!=", false), ("==", true), ("=", true)];
    if let Some((operator, equal)) = comparison
        .into_iter()
        .find(|(operator, _)| part.contains(operator))
    {
        let (key, value) = part.split_once(operator).unwrap_or((part, ""));
        let (key, values) = (label_key(key)?, vec![value.trim().to_owned()]);
        return Ok(if equal {
            LabelRequirement::In(key, values)
        } else {
            LabelRequirement::NotIn(key, values)
        });
    }
    if let Some((key, bound)) = part.split_once('>') {
        return Ok(LabelRequirement::Greater(
            label_key(key)?,
            label_bound(bound)?,
        ));
    }
    if let Some((key, bound)) = part.split_once('<') {
        return Ok(LabelRequirement::Less(label_key(key)?, label_bound(bound)?));
    }
    Ok(LabelRequirement::Exists(label_key(part)?))
}

fn label_bound(text: &str) -> Result<i64, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("for 'Gt', 'Lt' operators, the value must be an integer: \"{text}\""))
}

fn label_key(text: &str) -> Result<String, String> {
    let key = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if key.is_empty() || !key.chars().all(plain) {
        return Err(format!("found '{key}', expected: identifier"));
    }
    Ok(key.to_owned())
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
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
