//! Dynamic resource allocation: classes, slices and claims of devices.

use std::collections::BTreeSet;

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
    if mode.text() == "All" && count.integer().is_some_and(|count| count != 0) {
        errors.invalid(&count, "must not be specified when allocationMode is 'All'");
    }
}
