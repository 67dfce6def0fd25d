//! The annotation in which kubectl writes down what it applied by itself, before there was server-side apply.
//!
//! kubectl may take over what it applied then, and while the annotation is there it is kept in step: an apply by the
//! client that compared with an older one would undo what was applied since.
// UPSTREAM: k8s.io/apimachinery/pkg/util/managedfields/internal/lastapplied{manager,updater}.go

use super::compare::{Comparison, fields_of};
use super::schema::Place;
use super::set::FieldSet;
use crate::validation::ANNOTATIONS_MAX;
use serde_json::Value;

/// The manager under which kubectl applies. Whoever wants none of this applies under another name.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that were applied and are as they were applied: a dispute about them is none.
pub(super) fn fields(place: Place<'_>, api_version: &str, live: &Value) -> FieldSet {
    let annotation = live["metadata"]["annotations"][ANNOTATION].as_str();
    let Some(Ok(applied)) = annotation.map(serde_json::from_str::<Value>) else {
        return FieldSet::default();
    };
    if applied["apiVersion"] != api_version {
        return FieldSet::default();
    }
    let since = Comparison::of(place, &applied, live);
    fields_of(place, &applied)
        .difference(&since.modified)
        .difference(&since.added)
        .difference(&since.removed)
}

/// Writes the configuration that was just applied into the annotation, if there is one.
pub(super) fn update(merged: &mut Value, config: &Value) {
    let annotations = merged.pointer_mut("/metadata/annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return;
    };
    let is_there = annotations
        .get(ANNOTATION)
        .and_then(Value::as_str)
        .is_some_and(|applied| !applied.is_empty());
    if !is_there {
        return;
    }
    annotations.insert(ANNOTATION.to_owned(), Value::from(text_of(config)));
    let sizes = annotations
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len));
    // UPSTREAM: without it, rather than not at all.
    if sizes.sum::<usize>() > ANNOTATIONS_MAX {
        annotations.remove(ANNOTATION);
    }
}

/// The stored object with what an apply noted on it, if it changed nothing else at its own version.
// UPSTREAM: such an object is not converted to that version and back, which could change the order of its lists.
pub(crate) fn unless_changed(stored: &Value, live: &Value, applied: &Value) -> Option<Value> {
    let noted = |object: &Value| {
        let mut object = object.clone();
        copy(
            &mut object["metadata"],
            &applied["metadata"],
            "managedFields",
        );
        let is_there = !object["metadata"]["annotations"][ANNOTATION].is_null();
        if let Some(annotations) = object
            .pointer_mut("/metadata/annotations")
            .filter(|_| is_there)
        {
            copy(annotations, &applied["metadata"]["annotations"], ANNOTATION);
        }
        object
    };
    (noted(live) == *applied).then(|| noted(stored))
}

fn copy(to: &mut Value, from: &Value, name: &str) {
    let Some(to) = to.as_object_mut() else {
        return;
    };
    match from.get(name) {
        Some(value) => to.insert(name.to_owned(), value.clone()),
        None => to.remove(name),
    };
}

/// As Go prints it: on a line of its own, without characters that mean something in HTML.
fn text_of(config: &Value) -> String {
    let mut config = config.clone();
    let annotations = config.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    // They can only be in strings.
    let mut text = config.to_string();
    for (letter, escape) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if text.contains(letter) {
            text = text.replace(letter, escape);
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_annotation_follows_where_it_is() {
        let config =
            json!({"kind": "K", "metadata": {"annotations": {"a": "<&>", ANNOTATION: "x"}}});
        let check = |annotations: Value, expected: Value| {
            let mut merged = json!({"metadata": {"annotations": annotations}});
            update(&mut merged, &config);
            assert_eq!(merged["metadata"]["annotations"], expected);
        };
        check(json!({"b": "c"}), json!({"b": "c"}));
        check(json!({ANNOTATION: ""}), json!({ANNOTATION: ""}));
        check(json!(null), json!(null));
        let text = r#"{"kind":"K","metadata":{"annotations":{"a":"\u003c\u0026\u003e"}}}"#
            .to_owned()
            + "\n";
        check(json!({ANNOTATION: "{}"}), json!({ANNOTATION: text}));
        let long = "x".repeat(ANNOTATIONS_MAX);
        check(json!({ANNOTATION: "{}", "b": long}), json!({"b": long}));
    }
}
