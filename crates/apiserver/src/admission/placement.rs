//! Where pods may be put, by plugins that are off unless they are asked for: LimitPodHardAntiAffinityTopology,
//! ExtendedResourceToleration, PodNodeSelector and PodTolerationRestriction. What a namespace's annotations say counts
//! before what a file says of the whole cluster.

mod cluster_wide;

use std::collections::{BTreeMap, BTreeSet};

use api::syntax;
use serde_json::{Value, json};

use super::{Context, Operation, Plugin, Request, built_in};
use crate::fields::{entries, entry, list, list_mut, object_mut, set, text};
use crate::status::{Status, Subject};
pub(super) use cluster_wide::{NodeSelectors, Tolerations};

const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";
const DEFAULT_TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED_TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const HOSTNAME: &str = "kubernetes.io/hostname";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

type Labels = BTreeMap<String, String>;

/// What the plugins change in a pod that is created or updated, in upstream's order around those that are on anyway:
/// selectors of nodes come before priorities and the default tolerations.
pub(super) fn select_nodes(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &mut Value,
) -> Result<(), Status> {
    if request.operation != Operation::Create || !on(context, Plugin::PodNodeSelector) {
        return Ok(());
    }
    let wanted = node_selector_of(context, request.namespace)?;
    if conflicts(&wanted, pod) {
        return Err(conflicting(request));
    }
    let selector = object_mut(pod, "spec.nodeSelector");
    for (key, value) in wanted {
        selector.insert(key, value.into());
    }
    if selector.is_empty() {
        crate::fields::remove(pod, "spec.nodeSelector");
    }
    check_allowed_selector(context, request, pod)
}

/// Whether a pod selects nothing but what the file lets pods of its namespace select.
fn check_allowed_selector(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &Value,
) -> Result<(), Status> {
    let told = &context.settings.plugin_settings.node_selectors.allowed;
    let allowed = told
        .get(request.namespace)
        .filter(|allowed| !allowed.is_empty());
    let Some(allowed) = allowed else {
        return Ok(());
    };
    let mut wanted = entries(pod, "spec.nodeSelector");
    match wanted.all(|(key, value)| {
        allowed
            .get(key)
            .is_some_and(|allowed| value == allowed.as_str())
    }) {
        true => Ok(()),
        false => Err(request
            .forbidden("pod node label selector labels conflict with its namespace whitelist")),
    }
}

/// Tolerations that follow from the namespace, and from what the pod asks for.
pub(super) fn add_tolerations(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &mut Value,
) -> Result<(), Status> {
    if on(context, Plugin::PodTolerationRestriction) {
        restrict(context, request, pod)?;
    }
    if on(context, Plugin::ExtendedResourceToleration) {
        tolerate_extended_resources(pod);
    }
    Ok(())
}

/// What the plugins refuse.
pub(super) fn check(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &Value,
) -> Result<(), Status> {
    if !request.is("", "Pod") || request.subresource.is_some() {
        return Ok(());
    }
    if on(context, Plugin::LimitPodHardAntiAffinityTopology) {
        check_topology(request, pod)?;
    }
    if request.operation == Operation::Create && on(context, Plugin::PodNodeSelector) {
        if conflicts(&node_selector_of(context, request.namespace)?, pod) {
            return Err(conflicting(request));
        }
        check_allowed_selector(context, request, pod)?;
    }
    match on(context, Plugin::PodTolerationRestriction) {
        true => check_tolerations(context, request, pod),
        false => Ok(()),
    }
}

fn on(context: &Context<'_>, plugin: Plugin) -> bool {
    context.settings.plugins.has(plugin)
}

/// Only a node at a time may be kept free of other pods by force.
fn check_topology(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    let path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let mut keys = list(pod, path).iter().map(|term| text(term, "topologyKey"));
    match keys.find(|key| *key != HOSTNAME) {
        Some(key) => Err(request.forbidden(&format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
        ))),
        None => Ok(()),
    }
}

fn conflicting(request: &Request<'_>) -> Status {
    request.forbidden("pod node label selector conflicts with its namespace node label selector")
}

fn conflicts(wanted: &Labels, pod: &Value) -> bool {
    entries(pod, "spec.nodeSelector").any(|(key, value)| {
        let wanted = wanted.get(key);
        wanted.is_some_and(|wanted| value != wanted.as_str())
    })
}

fn namespace_annotation(
    context: &Context<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<String>, Status> {
    let kind = built_in("", "Namespace");
    let missing = || {
        Status::not_found(Subject {
            group: "",
            plural: "namespaces",
            name: namespace,
        })
    };
    let namespace = context.cluster.get(kind, "", namespace);
    let namespace = namespace.ok_or_else(missing)?;
    Ok(entry(&namespace, "metadata.annotations", key).map(str::to_owned))
}

fn node_selector_of(context: &Context<'_>, namespace: &str) -> Result<Labels, Status> {
    let given = namespace_annotation(context, namespace, NODE_SELECTOR)?;
    match given {
        Some(given) => parse_labels(&given).map_err(Status::unexpected),
        None => Ok(context
            .settings
            .plugin_settings
            .node_selectors
            .default
            .clone()),
    }
}

/// `key=value,key=value`
fn parse_labels(selector: &str) -> Result<Labels, String> {
    let mut labels = Labels::new();
    for label in selector.split(',').filter(|_| !selector.is_empty()) {
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = parts[..] else {
            return Err(format!("invalid selector: [{}]", parts.join(" ")));
        };
        let (key, value) = (key.trim(), value.trim());
        let invalid = |path: &str, given: &str, faults: Vec<String>| {
            let quoted = api::syntax::go_quote(given);
            format!("{path}: Invalid value: {quoted}: {}", faults.join("; "))
        };
        let faults = syntax::validate_qualified_name(key);
        if !faults.is_empty() {
            return Err(invalid("<nil>", key, faults));
        }
        let faults = syntax::validate_label_value(value);
        if !faults.is_empty() {
            return Err(invalid(&format!("values[{key}]"), value, faults));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

/// PodTolerationRestriction: what a namespace's pods tolerate by default, and what any pod may that asks for something.
fn restrict(context: &Context<'_>, request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
    let mut extra = match request.operation {
        Operation::Create => {
            let of_namespace = tolerations_of(context, request.namespace, DEFAULT_TOLERATIONS)?;
            of_namespace.unwrap_or_else(|| told(context).default.clone())
        }
        _ => Vec::new(),
    };
    if crate::resources::qos_class(pod) != "BestEffort" {
        extra.push(json!({"key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"}));
    }
    if !extra.is_empty() {
        let mut all = list(pod, "spec.tolerations").to_vec();
        all.extend(extra);
        set(pod, "spec.tolerations", merged(&all));
    }
    check_tolerations(context, request, pod)
}

fn check_tolerations(
    context: &Context<'_>,
    request: &Request<'_>,
    pod: &Value,
) -> Result<(), Status> {
    let given = list(pod, "spec.tolerations");
    if given.is_empty() {
        return Ok(());
    }
    let of_namespace = tolerations_of(context, request.namespace, ALLOWED_TOLERATIONS)?;
    let (allowed, scope) = match &of_namespace {
        Some(allowed) => (allowed, "namespace"),
        None => (&told(context).allowed, "cluster"),
    };
    let is_allowed = |given: &Value| allowed.iter().any(|allowed| covers(allowed, given));
    match allowed.is_empty() || given.iter().all(is_allowed) {
        true => Ok(()),
        // UPSTREAM: no status of its own, so it is the server's fault.
        false => Err(Status::unexpected(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        ))),
    }
}

fn told<'a>(context: &Context<'a>) -> &'a Tolerations {
    &context.settings.plugin_settings.tolerations
}

fn tolerations_of(
    context: &Context<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<Vec<Value>>, Status> {
    let Some(given) = namespace_annotation(context, namespace, key)? else {
        return Ok(None);
    };
    if given.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let tolerations = serde_json::from_str(&given);
    let tolerations = tolerations.map_err(|error| Status::unexpected(error.to_string()))?;
    Ok(Some(tolerations))
}

/// Of two of which one tolerates all that the other does, that one stays; of two alike the first.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, given) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|held| covers(held, given));
        let mut later = all[index + 1..].iter();
        if !is_covered && !later.any(|later| later != given && covers(later, given)) {
            merged.push(given.clone());
        }
    }
    merged
}

/// Whether one tolerates all that the other does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let part = |name: &str| (text(wide, name), text(narrow, name));
    let (operator, narrow_operator) = part("operator");
    let (key, narrow_key) = part("key");
    if key != narrow_key && !(key.is_empty() && operator == "Exists") {
        return false;
    }
    let (effect, narrow_effect) = part("effect");
    if effect != narrow_effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(longest) = wide["tolerationSeconds"].as_i64()
        && narrow["tolerationSeconds"]
            .as_i64()
            .is_none_or(|seconds| seconds > longest)
    {
        return false;
    }
    match operator {
        "Exists" => true,
        "Equal" | "" => narrow_operator == "Equal" && text(wide, "value") == text(narrow, "value"),
        _ => false,
    }
}

/// ExtendedResourceToleration: nodes with such resources are kept for those who ask for them.
fn tolerate_extended_resources(pod: &mut Value) {
    let mut names = BTreeSet::new();
    for path in ["spec.containers", "spec.initContainers"] {
        for container in list(pod, path) {
            let asked = entries(container, "resources.requests").map(|(name, _)| name);
            names.extend(asked.filter(|name| is_extended(name)).map(str::to_owned));
        }
    }
    for name in names {
        let toleration = json!({"key": name, "operator": "Exists", "effect": "NoSchedule"});
        // UPSTREAM: key, effect, operator and value say whether two tolerations are the same one.
        let is_same = |held: &Value| {
            ["key", "effect", "operator", "value"]
                .iter()
                .all(|part| text(held, part) == text(&toleration, part))
        };
        match list_mut(pod, "spec.tolerations") {
            Some(held) => match held.iter_mut().find(|held| is_same(held)) {
                Some(held) => *held = toleration,
                None => held.push(toleration),
            },
            None => set(pod, "spec.tolerations", vec![toleration]),
        }
    }
}

fn is_extended(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    let quota_name = format!("requests.{name}");
    !is_native
        && !name.starts_with("requests.")
        && syntax::validate_qualified_name(&quota_name).is_empty()
}
