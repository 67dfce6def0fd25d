//! Dynamic resource allocation: classes, slices and claims of devices.

use std::collections::BTreeSet;

use api::kinds::RESERVED_FOR_MAX;
use api::syntax;
use serde_json::Value;

use super::place::{Errors, Place};

pub(super) fn class(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    for selector in spec.field("selectors").items() {
        let expression = selector.field("cel");
        if !expression.is_set() {
            errors.required(&expression, "");
        }
    }
    for config in spec.field("config").items() {
        let opaque = config.field("opaque");
        if !opaque.is_set() {
            errors.required(&opaque, "");
        } else {
            driver(errors, &opaque.field("driver"));
        }
    }
}

fn driver(errors: &mut Errors, driver: &Place<'_>) {
    if driver.text().is_empty() {
        errors.required(driver, "");
    } else {
        errors.syntax(driver, syntax::validate_dns1123_subdomain);
    }
}

pub(super) fn slice(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    driver(errors, &spec.field("driver"));
    let pool = spec.field("pool");
    errors.need(&pool.field("name"));
    let (count, generation) = (pool.field("resourceSliceCount"), pool.field("generation"));
    if count.integer().unwrap_or_default() <= 0 {
        errors.invalid(&count, "must be greater than zero");
    }
    if generation.integer().is_some_and(|number| number < 0) {
        errors.invalid(&generation, "must be greater than or equal to zero");
    }
    place_of_devices(errors, &spec);
    let mut names = BTreeSet::new();
    for device in spec.field("devices").items() {
        let name = device.field("name");
        errors.name(&name, syntax::validate_dns1123_label);
        if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
            // UPSTREAM: it is the device that is the duplicate, not its name.
            errors.duplicate(&device.showing(name.value));
        }
        for held in device.field("taints").items() {
            taint(errors, &held);
        }
        for (_, attribute) in device.field("attributes").entries() {
            let given = attribute.value.as_object().map_or(0, serde_json::Map::len);
            if given != 1 {
                let empty = Value::from("");
                let shown = if given == 0 {
                    attribute.showing(&empty)
                } else {
                    attribute
                };
                errors.invalid(&shown, "exactly one value must be specified");
            }
        }
    }
}

/// The devices are on one node, on some or on all: one way to say it, and only one.
fn place_of_devices(errors: &mut Errors, spec: &Place<'_>) {
    const WAYS: [&str; 4] = [
        "nodeName",
        "nodeSelector",
        "allNodes",
        "perDeviceNodeSelection",
    ];
    let all = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let given: Vec<String> = WAYS
        .iter()
        .filter(|way| !spec.field(way).is_empty() || spec.field(way).flag())
        .map(|way| format!("`{way}`"))
        .collect();
    match given.len() {
        0 => errors.required(spec, all),
        1 => {}
        _ => {
            let shown = Value::from(format!("{{{}}}", given.join(", ")));
            let why = format!("{all}, but multiple fields are set");
            errors.invalid(&spec.showing(&shown), &why);
        }
    }
    let node = spec.field("nodeName");
    if node.is_set() && node.text().is_empty() {
        errors.invalid(&node, "must be either unset or set to a non-empty string");
    }
}

pub(super) fn claim(errors: &mut Errors, spec: &Place<'_>) {
    let devices = spec.field("devices");
    let requests = devices.field("requests");
    let mut names = BTreeSet::new();
    for request in requests.items() {
        let name = request.field("name");
        errors.name(&name, syntax::validate_dns1123_label);
        if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
            errors.duplicate(&request.showing(name.value));
        }
        let (exactly, alternatives) = (request.field("exactly"), request.field("firstAvailable"));
        match (exactly.is_set(), !alternatives.is_empty()) {
            (false, false) => errors.required(&request, "exactly one of `exactly` or `firstAvailable` is required"),
            (true, true) => errors.invalid(&request, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"),
            (true, false) => device_request(errors, &exactly),
            (false, true) => alternatives.items().for_each(|request| device_request(errors, &request)),
        }
    }
    for constraint in devices.field("constraints").items() {
        for request in constraint.field("requests").items() {
            let main = request.text().split('/').next().unwrap_or_default();
            if !names.contains(main) {
                errors.invalid(&request, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'");
            }
        }
    }
}

/// What a claim asks for cannot change.
pub(super) fn claim_update(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    errors.immutable(&root.field("spec"), &old["spec"]);
    claim(errors, &root.field("spec"));
}

/// Who may use a claim: nobody before there are devices, everybody once, and not too many.
pub(super) fn claim_status(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let status = root.field("status");
    let (allocation, consumers) = (status.field("allocation"), status.field("reservedFor"));
    let mut seen = BTreeSet::new();
    for consumer in consumers.items() {
        for name in ["resource", "name", "uid"] {
            let field = consumer.field(name);
            if field.text().is_empty() {
                errors.required(&field, "");
            }
        }
        let uid = consumer.field("uid");
        if !seen.insert(uid.text().to_owned()) {
            errors.duplicate(&consumer.showing(uid.value));
        }
    }
    if consumers.len() > RESERVED_FOR_MAX {
        errors.too_many(&consumers, RESERVED_FOR_MAX);
    }
    if !consumers.is_empty() && !allocation.is_set() {
        errors.forbidden(
            &consumers,
            "may not be specified when `allocated` is not set",
        );
    }
    let held = old["status"]["reservedFor"].as_array();
    let is_new = |consumer: Place<'_>| !held.is_some_and(|held| held.contains(consumer.value));
    let is_leaving = root.field("metadata").field("deletionTimestamp").is_set();
    if is_leaving && allocation.is_set() && consumers.items().any(is_new) {
        errors.forbidden(
            &consumers,
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        );
    }
    let before = &old["status"]["allocation"];
    if allocation.is_set() && !before.is_null() {
        errors.immutable(&allocation, before);
    }
}

fn device_request(errors: &mut Errors, request: &Place<'_>) {
    errors.name(
        &request.field("deviceClassName"),
        syntax::validate_dns1123_subdomain,
    );
    let (mode, count) = (request.field("allocationMode"), request.field("count"));
    errors.one_of(&mode, &["All", "ExactCount"]);
    if mode.text() == "ExactCount" && count.integer().unwrap_or_default() <= 0 {
        errors.invalid(&count, "must be greater than zero");
    }
    tolerations(errors, request);
    if mode.text() == "All" && count.integer().is_some_and(|count| count != 0) {
        errors.invalid(&count, "must not be specified when allocationMode is 'All'");
    }
}

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// A rule that taints the devices that it selects.
pub(super) fn taint_rule(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    let selector = spec.field("deviceSelector");
    if selector.field("driver").is_set() {
        driver(errors, &selector.field("driver"));
    }
    if selector.field("pool").is_set() {
        errors.need(&selector.field("pool"));
    }
    if selector.field("device").is_set() {
        errors.name(&selector.field("device"), syntax::validate_dns1123_label);
    }
    taint(errors, &spec.field("taint"));
}

fn taint(errors: &mut Errors, taint: &Place<'_>) {
    errors.name(&taint.field("key"), syntax::validate_qualified_name);
    if !taint.field("value").text().is_empty() {
        errors.syntax(&taint.field("value"), syntax::validate_label_value);
    }
    errors.one_of(&taint.field("effect"), &EFFECTS);
}

fn tolerations(errors: &mut Errors, request: &Place<'_>) {
    for toleration in request.field("tolerations").items() {
        if !toleration.field("key").text().is_empty() {
            errors.syntax(&toleration.field("key"), syntax::validate_qualified_name);
        }
        let value = toleration.field("value");
        match toleration.field("operator").text() {
            "Exists" if !value.text().is_empty() => {
                errors.invalid(&value, "must be empty for operator `Exists`");
            }
            "Equal" => errors.syntax(&value, syntax::validate_label_value),
            _ => errors.one_of(&toleration.field("operator"), &["Equal", "Exists"]),
        }
        if !toleration.field("effect").text().is_empty() {
            errors.one_of(&toleration.field("effect"), &EFFECTS);
        }
    }
}

/// Asks how many devices the pools of a driver have.
pub(super) fn pool_request(errors: &mut Errors, root: &Place<'_>) {
    let spec = root.field("spec");
    driver(errors, &spec.field("driver"));
    if spec.field("poolName").is_set() {
        errors.need(&spec.field("poolName"));
    }
    let limit = spec.field("limit");
    if limit.is_set() {
        // UPSTREAM: a page of answers has at most this many.
        errors.within(&limit, 1, 1000);
    }
}

/// An answer is given once.
pub(super) fn pool_status(errors: &mut Errors, root: &Place<'_>, old: &Value) {
    let status = root.field("status");
    if !old["status"].is_null() {
        errors.immutable(&status, &old["status"]);
    } else if status.is_set() && !status.field("poolCount").is_set() {
        errors.required(&status.field("poolCount"), "");
    }
}
