//! Small readers of JSON objects.

use api::selector::{LabelSelector, Selector};
use api::{LabelSet, Time};
use serde::Deserialize;
use serde_json::Value;

use crate::facts::kind_of;

/// The text at a pointer such as `/metadata/name`; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(crate) fn truth(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool) == Some(true)
}

pub(crate) fn time(value: &Value, pointer: &str) -> Option<Time> {
    Time::parse(text(value, pointer))
}

pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The condition of a type, if it is there.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == type_)
}

/// The labels at a pointer.
pub fn labels(value: &Value, pointer: &str) -> LabelSet {
    value
        .pointer(pointer)
        .and_then(|labels| LabelSet::deserialize(labels).ok())
        .unwrap_or_default()
}

/// Whom a workload's, a budget's or a Service's selector selects; `None` where it has none that can be read.
pub fn selector_of(object: &Value) -> Option<Selector> {
    let selector = object.pointer("/spec/selector")?;
    if selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none() {
        let plain = labels(object, "/spec/selector");
        if plain.is_empty() && kind_of(object) == "PodDisruptionBudget" {
            // An empty selector selects nothing for a workload, and everything for a budget.
            return Some(Selector::everything());
        }
        return (!plain.is_empty()).then(|| Selector::from_labels(&plain));
    }
    compiled(selector)
}

/// A selector of labels and expressions.
pub(crate) fn compiled(selector: &Value) -> Option<Selector> {
    LabelSelector::deserialize(selector).ok()?.compile().ok()
}
