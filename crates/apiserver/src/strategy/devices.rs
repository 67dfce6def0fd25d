//! When devices were tainted: tolerations are counted from there.

use serde_json::Value;

use crate::fields::{at, list_mut, object_mut, set};

/// UPSTREAM: a default of the type; here the strategy does it, because defaults know no clock.
pub(super) fn stamp_taints(object: &mut Value, now: &str) {
    let devices = list_mut(object, "spec.devices").into_iter().flatten();
    for taint in devices.flat_map(|device| list_mut(device, "taints").into_iter().flatten()) {
        stamp(taint, now);
    }
    if object["spec"]["taint"].is_object() {
        stamp(&mut object["spec"]["taint"], now);
    }
}

fn stamp(taint: &mut Value, now: &str) {
    if taint["timeAdded"].is_null() {
        object_mut(taint, "").insert("timeAdded".to_owned(), now.into());
    }
}

/// The time of a rule whose effect changes starts over, unless its author says when.
pub(super) fn prepare_rule_update(new: &mut Value, old: &Value, now: &str) {
    stamp_taints(new, now);
    let is_kept = |path: &str| at(new, path) == at(old, path);
    if !is_kept("spec.taint.effect") && is_kept("spec.taint.timeAdded") {
        set(new, "spec.taint.timeAdded", now);
    }
}
