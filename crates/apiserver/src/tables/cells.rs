//! Cells that are more than a field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::count;
use crate::fields::{at, entries, entry, flag, integer, list, text};
use crate::resources::amounts;

type Compute = fn(&Value, i64) -> Value;

pub(super) fn named(name: &str) -> Option<Compute> {
    Some(match name {
        "data" => |object, _| (count(at(object, "data")) + count(at(object, "binaryData"))).into(),
        "phase" => |object, _| match at(object, "metadata.deletionTimestamp") {
            Value::Null => at(object, "status.phase").clone(),
            _ => "Terminating".into(),
        },
        "containers" => |object, _| joined(object, "spec.template.spec.containers", "name").into(),
        "images" => |object, _| joined(object, "spec.template.spec.containers", "image").into(),
        "selector" => |object, _| selector(at(object, "spec.selector")).into(),
        "map_selector" => |object, _| labels(at(object, "spec.selector")).into(),
        "ready_replicas" => |object, _| {
            let number = |path: &str| integer(object, path).unwrap_or_default();
            format!(
                "{}/{}",
                number("status.readyReplicas"),
                number("spec.replicas")
            )
            .into()
        },
        "template_containers" => {
            |object, _| joined(object, "template.spec.containers", "name").into()
        }
        "template_images" => |object, _| joined(object, "template.spec.containers", "image").into(),
        "template_labels" => |object, _| labels(at(object, "template.metadata.labels")).into(),
        "node_selector" => |object, _| labels(at(object, "spec.template.spec.nodeSelector")).into(),
        "pod_selector" => |object, _| selector(at(object, "spec.podSelector")).into(),
        "controller" => |object, _| controller(object).into(),
        "role_ref" => |object, _| {
            format!(
                "{}/{}",
                text(object, "roleRef.kind"),
                text(object, "roleRef.name")
            )
            .into()
        },
        "subject_users" => |object, _| subjects(object, "User").into(),
        "subject_groups" => |object, _| subjects(object, "Group").into(),
        "subject_accounts" => |object, _| subjects(object, "ServiceAccount").into(),
        "min_available" => |object, _| bound(at(object, "spec.minAvailable")).into(),
        "max_unavailable" => |object, _| bound(at(object, "spec.maxUnavailable")).into(),
        "quota_requests" => |object, _| quota(object, false).into(),
        "quota_limits" => |object, _| quota(object, true).into(),
        "param_kind" => |object, _| match at(object, "spec.paramKind") {
            Value::Null => "<unset>".into(),
            kind => format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")).into(),
        },
        "component_status" => |object, _| match text(health(object), "status") {
            "True" => "Healthy".into(),
            "False" => "Unhealthy".into(),
            _ => "Unknown".into(),
        },
        "component_message" => |object, _| text(health(object), "message").into(),
        "component_error" => |object, _| text(health(object), "error").into(),
        "param_ref" => |object, _| param_ref(object).into(),
        _ => {
            return node(name).or_else(|| storage(name));
        }
    })
}

fn node(name: &str) -> Option<Compute> {
    Some(match name {
        "node_status" => |node, _| {
            let ready = list(node, "status.conditions")
                .iter()
                .rfind(|condition| text(condition, "type") == "Ready");
            let status = match ready.map(|condition| text(condition, "status")) {
                Some("True") => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            };
            let suffix = if flag(node, "spec.unschedulable") {
                ",SchedulingDisabled"
            } else {
                ""
            };
            format!("{status}{suffix}").into()
        },
        "node_roles" => |node, _| {
            let mut roles = BTreeSet::new();
            for (key, value) in entries(node, "metadata.labels") {
                let role = match key.strip_prefix("node-role.kubernetes.io/") {
                    None if key == "kubernetes.io/role" => value.as_str().unwrap_or_default(),
                    role => role.unwrap_or_default(),
                };
                roles.insert(role);
            }
            roles.remove("");
            or_none(roles.into_iter().collect::<Vec<_>>().join(",")).into()
        },
        "node_internal_ip" => |node, _| address(node, "InternalIP").into(),
        "node_external_ip" => |node, _| address(node, "ExternalIP").into(),
        "node_kernel" => |node, _| {
            let kernel = match text(node, "status.nodeInfo.kernelVersion") {
                "" => "<unknown>",
                version => version,
            };
            match text(node, "status.nodeInfo.architecture") {
                "" => kernel.into(),
                architecture => format!("{kernel} ({architecture})").into(),
            }
        },
        "flow_dangling" => |schema, _| {
            let dangling = list(schema, "status.conditions")
                .iter()
                .find(|condition| text(condition, "type") == "Dangling");
            dangling
                .map_or("?", |condition| text(condition, "status"))
                .into()
        },
        "api_service" => |service, _| match at(service, "spec.service") {
            Value::Null => "Local".into(),
            reference => format!(
                "{}/{}",
                text(reference, "namespace"),
                text(reference, "name")
            )
            .into(),
        },
        "api_service_available" => |service, _| {
            let available = list(service, "status.conditions")
                .iter()
                .find(|condition| text(condition, "type") == "Available");
            match available {
                None => "Unknown".into(),
                Some(condition) if text(condition, "status") == "True" => "True".into(),
                Some(condition) => format!(
                    "{} ({})",
                    text(condition, "status"),
                    text(condition, "reason")
                )
                .into(),
            }
        },
        "resource_claim_state" => |claim, _| {
            let mut states = Vec::new();
            let deleted = at(claim, "metadata.deletionTimestamp").is_string();
            if deleted {
                states.push("deleted");
            }
            if at(claim, "status.allocation").is_object() {
                states.push("allocated");
                if !list(claim, "status.reservedFor").is_empty() {
                    states.push("reserved");
                }
            } else if !deleted {
                states.push("pending");
            }
            states.join(",").into()
        },
        _ => return None,
    })
}

fn storage(name: &str) -> Option<Compute> {
    Some(match name {
        "volume_access_modes" => |volume, _| access_modes(list(volume, "spec.accessModes")).into(),
        "volume_claim" => |volume, _| match at(volume, "spec.claimRef") {
            Value::Null => "".into(),
            claim => format!("{}/{}", text(claim, "namespace"), text(claim, "name")).into(),
        },
        "claim_access_modes" => |claim, _| match text(claim, "spec.volumeName") {
            "" => "".into(),
            _ => access_modes(list(claim, "status.accessModes")).into(),
        },
        "claim_capacity" => |claim, _| match (
            text(claim, "spec.volumeName"),
            text(claim, "status.capacity.storage"),
        ) {
            ("", _) => "".into(),
            (_, "") => "0".into(),
            (_, size) => size.into(),
        },
        "storage_class" => |object, _| {
            let beta = entry(
                object,
                "metadata.annotations",
                "volume.beta.kubernetes.io/storage-class",
            );
            beta.unwrap_or_else(|| text(object, "spec.storageClassName"))
                .into()
        },
        "storage_class_name" => |class, _| {
            let keys = [
                "storageclass.kubernetes.io/is-default-class",
                "storageclass.beta.kubernetes.io/is-default-class",
            ];
            let default = keys
                .iter()
                .any(|key| entry(class, "metadata.annotations", key) == Some("true"));
            named_default(class, default).into()
        },
        "driver_tokens" => |driver, _| match at(driver, "spec.tokenRequests") {
            Value::Null => "<unset>".into(),
            _ => joined(driver, "spec.tokenRequests", "audience").into(),
        },
        "driver_modes" => |driver, _| {
            let modes: Vec<_> = list(driver, "spec.volumeLifecycleModes")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            or_none(modes.join(",")).into()
        },
        _ => return None,
    })
}

pub(super) fn or_none(text: String) -> String {
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}

pub(super) fn joined(object: &Value, path: &str, field: &str) -> String {
    list(object, path)
        .iter()
        .map(|item| text(item, field))
        .collect::<Vec<_>>()
        .join(",")
}

pub(super) fn named_default(object: &Value, default: bool) -> String {
    let suffix = if default { " (default)" } else { "" };
    format!("{}{suffix}", text(object, "metadata.name"))
}

/// `a=b,c=d`, or `<none>`.
fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    or_none(
        pairs
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// A label selector as the query string would spell it.
pub(super) fn selector(value: &Value) -> String {
    let Ok(selector) = serde_json::from_value::<api::LabelSelector>(value.clone()) else {
        return if value.is_null() {
            "<none>".to_owned()
        } else {
            "<error>".to_owned()
        };
    };
    match selector.compile() {
        Ok(selector) => or_none(selector.to_string()),
        Err(_) => "<error>".to_owned(),
    }
}

fn controller(object: &Value) -> String {
    let Some(owner) = list(object, "metadata.ownerReferences")
        .iter()
        .find(|owner| flag(owner, "controller"))
    else {
        return "<none>".to_owned();
    };
    let group = text(owner, "apiVersion")
        .split_once('/')
        .map(|(group, _)| format!(".{group}"))
        .unwrap_or_default();
    format!(
        "{}{group}/{}",
        text(owner, "kind").to_lowercase(),
        text(owner, "name")
    )
}

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = list(binding, "subjects")
        .iter()
        .filter(|subject| text(subject, "kind") == kind);
    let name = |subject: &Value| match (kind, text(subject, "namespace")) {
        ("ServiceAccount", namespace) if !namespace.is_empty() => {
            format!("{namespace}/{}", text(subject, "name"))
        }
        _ => text(subject, "name").to_owned(),
    };
    subjects.map(name).collect::<Vec<_>>().join(", ")
}

fn bound(value: &Value) -> String {
    match value {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quota(quota: &Value, limits: bool) -> String {
    let used = amounts(quota, "status.used");
    let show = |(name, hard): (&str, &Value)| {
        let used = used.get(name).map_or("0".to_owned(), ToString::to_string);
        format!("{name}: {used}/{}", hard.as_str().unwrap_or_default())
    };
    let hard =
        entries(quota, "status.hard").filter(|(name, _)| name.starts_with("limits.") == limits);
    hard.map(show).collect::<Vec<_>>().join(", ")
}

fn param_ref(binding: &Value) -> String {
    let reference = at(binding, "spec.paramRef");
    match (text(reference, "namespace"), text(reference, "name")) {
        (_, "") if at(reference, "selector").is_object() => selector(at(reference, "selector")),
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

fn address(node: &Value, ty: &str) -> String {
    let found = list(node, "status.addresses")
        .iter()
        .find(|address| text(address, "type") == ty);
    found
        .map_or("<none>", |found| text(found, "address"))
        .to_owned()
}

fn access_modes(modes: &[Value]) -> String {
    let names = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = names
        .iter()
        .filter(|(mode, _)| modes.iter().any(|given| given == mode));
    given.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The one condition of a ComponentStatus.
fn health(object: &Value) -> &Value {
    let mut conditions = list(object, "conditions").iter();
    let healthy = conditions.find(|condition| text(condition, "type") == "Healthy");
    healthy.unwrap_or(&Value::Null)
}
