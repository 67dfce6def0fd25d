//! Warnings about pods and their templates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;

use api::collections::HashSet;
use serde_json::Value;

use super::{fractional, renamed_label};
use crate::fields::{at, entries, entry, integer, list, text};

/// A pod: its spec is looked at only when it is new or changed.
pub(super) fn pod(said: &mut Vec<String>, new: &Value, old: Option<&Value>) {
    if old.is_none_or(|old| at(old, "spec") != at(new, "spec")) {
        described(said, "", new);
    }
}

pub(super) fn template(said: &mut Vec<String>, path: &str, template: &Value) {
    described(said, &format!("{path}."), template);
}

/// Places are written out only where something is said: nearly always nothing is, and this runs for every pod.
fn described(said: &mut Vec<String>, prefix: &str, pod: &Value) {
    let (place, spec) = (format_args!("{prefix}spec"), at(pod, "spec"));
    for (key, _) in entries(spec, "nodeSelector") {
        said.extend(renamed_label(key).map(|why| format!("{place}.nodeSelector[{key}]: {why}")));
    }
    if at(spec, "affinity").is_object() {
        affinity(said, &format!("{place}.affinity"), at(spec, "affinity"));
    }
    spread_constraints(said, place, spec);
    annotations(said, prefix, pod);
    addresses_and_secrets(said, place, spec);
    volumes(said, place, spec);
    containers(said, place, spec);
}

fn spread_constraints(said: &mut Vec<String>, place: Arguments<'_>, spec: &Value) {
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let place = format_args!("{place}.topologySpreadConstraints[{index}]");
        let why = renamed_label(text(constraint, "topologyKey"));
        said.extend(why.map(|why| {
            format!(
                "{place}.topologyKey: {} is {why}",
                text(constraint, "topologyKey")
            )
        }));
        if at(constraint, "labelSelector").is_null() {
            said.push(format!(
                "{place}.labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
}

fn annotations(said: &mut Vec<String>, prefix: &str, pod: &Value) {
    let place = |key: &str| format!("{prefix}metadata.annotations[{key}]");
    let critical = "scheduler.alpha.kubernetes.io/critical-pod";
    if entry(pod, "metadata.annotations", critical).is_some() {
        said.push(format!(
            "{}: non-functional in v1.16+; use the \"priorityClassName\" field instead",
            place(critical)
        ));
    }
    for (key, _) in entries(pod, "metadata.annotations") {
        if key.starts_with("container.apparmor.security.beta.kubernetes.io/") {
            said.push(format!(
                "{}: deprecated since v1.30; use the \"appArmorProfile\" field instead",
                place(key)
            ));
        }
        if key.starts_with("seccomp.security.alpha.kubernetes.io/")
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            said.push(format!(
                "{}: non-functional in v1.27+; use the \"seccompProfile\" field instead",
                place(key)
            ));
        }
    }
}

fn affinity(said: &mut Vec<String>, path: &str, affinity: &Value) {
    let required = "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    for (index, term) in list(affinity, required).iter().enumerate() {
        node_term(said, &format!("{path}.{required}[{index}]"), term);
    }
    let preferred = "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(affinity, preferred).iter().enumerate() {
        node_term(
            said,
            &format!("{path}.{preferred}[{index}].preference"),
            at(term, "preference"),
        );
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (name, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                ".podAffinityTerm",
            ),
        ] {
            for (index, term) in list(affinity, &format!("{kind}.{name}")).iter().enumerate() {
                let term = if inner.is_empty() {
                    term
                } else {
                    at(term, "podAffinityTerm")
                };
                if at(term, "labelSelector").is_null() {
                    said.push(format!("{path}.{kind}.{name}[{index}]{inner}.labelSelector: a null labelSelector results in matching no pod"));
                }
            }
        }
    }
}

fn node_term(said: &mut Vec<String>, path: &str, term: &Value) {
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let key = text(expression, "key");
        said.extend(
            renamed_label(key)
                .map(|why| format!("{path}.matchExpressions[{index}].key: {key} is {why}")),
        );
    }
}

fn addresses_and_secrets(said: &mut Vec<String>, place: Arguments<'_>, spec: &Value) {
    let mut seen = BTreeSet::new();
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let address = text(alias, "ip");
        if !seen.insert(address) {
            said.push(format!(
                "{place}.hostAliases[{index}].ip: duplicate ip \"{address}\""
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        let name = text(secret, "name");
        let place = format_args!("{place}.imagePullSecrets[{index}].name");
        if name.is_empty() {
            said.push(format!("{place}: invalid empty name \"\""));
        } else if !seen.insert(name) {
            said.push(format!("{place}: duplicate name \"{name}\""));
        }
    }
}

fn volumes(said: &mut Vec<String>, place: Arguments<'_>, spec: &Value) {
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        // A volume has a name and one source.
        for (kind, _) in volume.as_object().into_iter().flatten() {
            let why = match kind.as_str() {
                "gitRepo" => "deprecated in v1.11, and disabled by default in v1.33+",
                "scaleIO" => "deprecated in v1.16, non-functional in v1.22+",
                "flocker" | "storageos" | "quobyte" => {
                    "deprecated in v1.22, non-functional in v1.25+"
                }
                "photonPersistentDisk" => "deprecated in v1.11, non-functional in v1.16+",
                "glusterfs" => "deprecated in v1.25, non-functional in v1.26+",
                "cephfs" | "rbd" => "deprecated in v1.28, non-functional in v1.31+",
                _ => continue,
            };
            said.push(format!("{place}.volumes[{index}].{kind}: {why}"));
        }
    }
}

fn containers(said: &mut Vec<String>, place: Arguments<'_>, spec: &Value) {
    let mut ports: BTreeMap<(String, i64), String> = BTreeMap::new();
    for name in ["initContainers", "containers"] {
        for (index, container) in list(spec, name).iter().enumerate() {
            let place = format_args!("{place}.{name}[{index}]");
            let resources = at(container, "resources");
            for list_name in ["limits", "requests"] {
                for resource in ["memory", "ephemeral-storage"] {
                    let amount = &resources[list_name][resource];
                    if !amount.is_null() {
                        let place = format_args!("{place}.resources.{list_name}");
                        fractional(said, place, resource, amount);
                    }
                }
            }
            environment(said, place, container);
            if name == "containers" {
                container_ports(said, place, container, &mut ports);
            }
        }
    }
}

fn environment(said: &mut Vec<String>, place: Arguments<'_>, container: &Value) {
    let variables = list(container, "env");
    let mut seen = HashSet::with_capacity_and_hasher(variables.len(), Default::default());
    for (index, variable) in variables.iter().enumerate() {
        let name = text(variable, "name");
        // A variable made of another of that name is a way to extend it.
        let extends = || text(variable, "value").contains(&format!("$({name})"));
        if !seen.insert(name) && !extends() {
            said.push(format!("{place}.env[{index}]: hides previous definition of \"{name}\", which may be dropped when using apply"));
        }
    }
}

fn container_ports(
    said: &mut Vec<String>,
    place: Arguments<'_>,
    container: &Value,
    ports: &mut BTreeMap<(String, i64), String>,
) {
    for (index, port) in list(container, "ports").iter().enumerate() {
        let number = integer(port, "containerPort").unwrap_or_default();
        let host = integer(port, "hostPort").unwrap_or_default();
        let here = format!("{place}.ports[{index}]");
        if !text(port, "hostIP").is_empty() && host == 0 {
            let (name, protocol, ip) = (
                text(port, "name"),
                text(port, "protocol"),
                text(port, "hostIP"),
            );
            said.push(format!(
                "{here}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"
            ));
        }
        if host != 0 {
            continue;
        }
        match ports.entry((text(port, "protocol").to_owned(), number)) {
            std::collections::btree_map::Entry::Occupied(first) => {
                said.push(format!(
                    "{here}: duplicate port definition with {}",
                    first.get()
                ));
            }
            std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(here)),
        }
    }
}
