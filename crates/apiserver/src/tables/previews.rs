//! Cells of kinds that are not stable yet.

use serde_json::Value;

use super::age;
use crate::fields::{at, entries, integer, list, text};

pub(super) fn named(name: &str) -> Option<fn(&Value, i64) -> Value> {
    Some(match name {
        "pod_group_policy" => |group, _| match at(group, "spec.schedulingPolicy.gang") {
            Value::Null => "Basic".into(),
            _ => "Gang".into(),
        },
        "pod_group_status" => |group, _| pod_group_status(group).into(),
        "pool_total" => |request, _| sum(request, "totalDevices").into(),
        "pool_available" => |request, _| sum(request, "availableDevices").into(),
        "pool_allocated" => |request, _| sum(request, "allocatedDevices").into(),
        "pool_unavailable" => |request, _| sum(request, "unavailableDevices").into(),
        "pool_errors" => |request, _| {
            let pools = list(request, "status.pools").iter();
            let wrong = pools.filter(|pool| !pool["validationError"].is_null());
            counted(request, i64::try_from(wrong.count()).unwrap_or(i64::MAX)).into()
        },
        "pod_certificate_state" => |request, _| {
            let answered = list(request, "status.conditions").last();
            answered.map_or("Pending", |held| text(held, "type")).into()
        },
        "pod_certificate_annotations" => |request, _| {
            let pairs = entries(request, "spec.unverifiedUserAnnotations");
            let pairs =
                pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            match pairs.collect::<Vec<_>>().join(",") {
                none if none.is_empty() => "<none>".into(),
                pairs => pairs.into(),
            }
        },
        "pool_status" => |request, _| pool_status(request).into(),
        "pool_completed" => |request, now| match condition(request, "Complete") {
            Some(done) => age::since(at(done, "lastTransitionTime"), now).into(),
            None => "<none>".into(),
        },
        _ => return None,
    })
}

/// The condition, if it holds.
fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let mut conditions = list(object, "status.conditions").iter();
    conditions.find(|held| text(held, "type") == name && text(held, "status") == "True")
}

fn pod_group_status(group: &Value) -> String {
    let conditions = list(group, "status.conditions");
    let of = |name: &str| conditions.iter().find(|held| text(held, "type") == name);
    match (of("DisruptionTarget"), of("PodGroupScheduled")) {
        (Some(disrupted), _) => text(disrupted, "reason").to_owned(),
        (None, Some(held)) if text(held, "status") == "True" => "Scheduled".to_owned(),
        (None, Some(_)) => "Unschedulable".to_owned(),
        (None, None) => "Pending".to_owned(),
    }
}

fn sum(request: &Value, field: &str) -> String {
    let pools = list(request, "status.pools").iter();
    let total = pools.filter_map(|pool| integer(pool, field)).sum();
    counted(request, total)
}

/// Nothing is counted before there is an answer, or if there is none.
fn counted(request: &Value, count: i64) -> String {
    match at(request, "status").is_null() || condition(request, "Failed").is_some() {
        true => "-".to_owned(),
        false => count.to_string(),
    }
}

fn pool_status(request: &Value) -> String {
    let (all, shown) = (
        integer(request, "status.poolCount").unwrap_or_default(),
        list(request, "status.pools").len(),
    );
    if condition(request, "Complete").is_some() {
        return match usize::try_from(all).is_ok_and(|all| all > shown) {
            true => format!("Complete ({shown}/{all} pools)"),
            false => "Complete".to_owned(),
        };
    }
    match condition(request, "Failed") {
        Some(_) => "Failed".to_owned(),
        None => "Pending".to_owned(),
    }
}
