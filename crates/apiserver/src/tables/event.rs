//! Cells of events.

use serde_json::Value;

use super::age;
use crate::fields::{at, integer, text};

/// Core events and those of `events.k8s.io` differ in names only.
pub(super) fn named(name: &str) -> Option<fn(&Value, i64) -> Value> {
    Some(match name {
        "event_last_seen" => |event, now| {
            if at(event, "series").is_object() {
                return age::since(at(event, "series.lastObservedTime"), now).into();
            }
            let last = either(event, "lastTimestamp", "deprecatedLastTimestamp");
            if last.is_null() {
                first_seen(event, now).into()
            } else {
                age::since(last, now).into()
            }
        },
        "event_first_seen" => |event, now| first_seen(event, now).into(),
        "event_object" => |event, _| {
            let object = either(event, "involvedObject", "regarding");
            match text(object, "name") {
                "" => text(object, "kind").to_lowercase().into(),
                name => format!("{}/{name}", text(object, "kind").to_lowercase()).into(),
            }
        },
        "event_source" => |event, _| {
            let source = either(event, "source", "deprecatedSource");
            let reporter = either(event, "reportingComponent", "reportingController")
                .as_str()
                .unwrap_or_default();
            let pick = |first: &str, second: &str| {
                if first.is_empty() {
                    second.to_owned()
                } else {
                    first.to_owned()
                }
            };
            let component = pick(text(source, "component"), reporter);
            match pick(text(source, "host"), text(event, "reportingInstance")) {
                host if host.is_empty() => component.into(),
                host => format!("{component}, {host}").into(),
            }
        },
        "event_message" => |event, _| {
            either(event, "message", "note")
                .as_str()
                .unwrap_or_default()
                .trim()
                .into()
        },
        "event_count" => |event, _| {
            let series = integer(event, "series.count");
            let count = series.or_else(|| {
                either(event, "count", "deprecatedCount")
                    .as_i64()
                    .filter(|count| *count != 0)
            });
            count.unwrap_or(1).into()
        },
        _ => return None,
    })
}

fn first_seen(event: &Value, now: i64) -> String {
    match either(event, "firstTimestamp", "deprecatedFirstTimestamp") {
        Value::Null => age::since(at(event, "eventTime"), now),
        time => age::since(time, now),
    }
}

fn either<'a>(value: &'a Value, first: &str, second: &str) -> &'a Value {
    match at(value, first) {
        Value::Null => at(value, second),
        found => found,
    }
}
