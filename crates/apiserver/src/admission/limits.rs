//! LimitRanger: a namespace's defaults, minima and maxima for containers, pods and claims.

use api::Amounts;
use api::quantity::Quantity;
use serde_json::Value;

use super::{Context, Operation, Request, aggregate, built_in};
use crate::fields::{entries, list, list_mut, object_mut, text};
use crate::kinds::Subresource;
use crate::resources::{self, amounts};
use crate::status::Status;

/// The annotation that tells what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

pub(super) fn set_defaults(context: &Context<'_>, request: &Request<'_>, pod: &mut Value) {
    let mut filled = false;
    for range in context
        .cluster
        .list(built_in("", "LimitRange"), request.namespace)
    {
        let mut said = Vec::new();
        for (path, label) in [
            ("spec.containers", "container"),
            ("spec.initContainers", "init container"),
        ] {
            for container in list_mut(pod, path).into_iter().flatten() {
                fill_container(&range, container, label, &mut said);
            }
        }
        if !said.is_empty() {
            let text = format!("LimitRanger plugin set: {}", said.join("; "));
            object_mut(pod, "metadata.annotations").insert(ANNOTATION.to_owned(), text.into());
            filled = true;
        }
    }
    if filled {
        // A limit brings a request with it.
        crate::defaults::apply(request.kind, pod);
    }
}

fn fill_container(range: &Value, container: &mut Value, label: &str, said: &mut Vec<String>) {
    let name = text(container, "name").to_owned();
    // Requests come first in the annotation.
    for (target, source, noun) in [
        ("requests", "defaultRequest", "request"),
        ("limits", "default", "limit"),
    ] {
        let mut set = Vec::new();
        for item in list(range, "spec.limits")
            .iter()
            .filter(|item| text(item, "type") == "Container")
        {
            for (resource, amount) in entries(item, source) {
                let given = object_mut(container, &format!("resources.{target}"));
                if !given.contains_key(resource) {
                    given.insert(resource.to_owned(), amount.clone());
                    set.push(resource.to_owned());
                }
            }
        }
        if !set.is_empty() {
            set.sort();
            said.push(format!("{} {noun} for {label} {name}", set.join(", ")));
        }
    }
}

pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
) -> Result<(), Status> {
    let is_pod = request.is("", "Pod");
    let applies = match request.subresource {
        Some(Subresource::Resize) => is_pod,
        Some(_) => false,
        None => {
            (is_pod && request.operation == Operation::Create)
                || request.is("", "PersistentVolumeClaim")
        }
    };
    if !applies {
        return Ok(());
    }
    for range in context
        .cluster
        .list(built_in("", "LimitRange"), request.namespace)
    {
        let mut reasons = Vec::new();
        for item in list(&range, "spec.limits") {
            match (text(item, "type"), is_pod) {
                ("Container", true) => {
                    for container in list(object, "spec.containers")
                        .iter()
                        .chain(list(object, "spec.initContainers"))
                    {
                        let (requests, limits) = (
                            amounts(container, "resources.requests"),
                            amounts(container, "resources.limits"),
                        );
                        check_item(item, &requests, &limits, &mut reasons);
                    }
                }
                ("Pod", true) => {
                    check_item(
                        item,
                        &resources::pod_requests(object),
                        &resources::pod_limits(object),
                        &mut reasons,
                    );
                }
                ("PersistentVolumeClaim", false) => check_claim(
                    item,
                    &amounts(object, "spec.resources.requests"),
                    &mut reasons,
                ),
                _ => {}
            }
        }
        if let Some(why) = aggregate(reasons) {
            return Err(request.forbidden(&why));
        }
    }
    Ok(())
}

fn check_item(item: &Value, requests: &Amounts, limits: &Amounts, reasons: &mut Vec<String>) {
    let kind = text(item, "type");
    for (name, least) in amounts(item, "min") {
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => reasons.push(format!(
                "minimum {name} usage per {kind} is {least}.  No request is specified"
            )),
            (Some(request), _) if *request < least => {
                reasons.push(format!(
                    "minimum {name} usage per {kind} is {least}, but request is {request}"
                ));
            }
            (_, Some(limit)) if *limit < least => {
                reasons.push(format!(
                    "minimum {name} usage per {kind} is {least}, but limit is {limit}"
                ));
            }
            _ => {}
        }
    }
    for (name, most) in amounts(item, "max") {
        match (requests.get(&name), limits.get(&name)) {
            (_, None) => reasons.push(format!(
                "maximum {name} usage per {kind} is {most}.  No limit is specified"
            )),
            (_, Some(limit)) if *limit > most => {
                reasons.push(format!(
                    "maximum {name} usage per {kind} is {most}, but limit is {limit}"
                ));
            }
            (Some(request), _) if *request > most => {
                reasons.push(format!(
                    "maximum {name} usage per {kind} is {most}, but request is {request}"
                ));
            }
            _ => {}
        }
    }
    for (name, most) in amounts(item, "maxLimitRequestRatio") {
        reasons.extend(check_ratio(
            kind,
            &name,
            &most,
            requests.get(&name),
            limits.get(&name),
        ));
    }
}

fn check_ratio(
    kind: &str,
    name: &str,
    most: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let head = format!("{name} max limit to request ratio per {kind} is {most}, but");
    let Some(request) = request.filter(|request| !request.is_zero()) else {
        return Some(format!("{head} no request is specified or request is 0"));
    };
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return Some(format!("{head} no limit is specified or limit is 0"));
    };
    let ratio = limit.to_f64() / request.to_f64();
    (ratio > most.to_f64()).then(|| format!("{head} provided ratio is {ratio:.6}"))
}

fn check_claim(item: &Value, requests: &Amounts, reasons: &mut Vec<String>) {
    let kind = text(item, "type");
    for (path, word) in [("min", "minimum"), ("max", "maximum")] {
        for (name, bound) in amounts(item, path) {
            match requests.get(&name) {
                None => reasons.push(format!(
                    "{word} {name} usage per {kind} is {bound}.  No request is specified"
                )),
                Some(request)
                    if (path == "min" && *request < bound)
                        || (path == "max" && *request > bound) =>
                {
                    reasons.push(format!(
                        "{word} {name} usage per {kind} is {bound}, but request is {request}"
                    ));
                }
                Some(_) => {}
            }
        }
    }
}
