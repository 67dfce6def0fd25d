//! What is allowed but unwise or on its way out, said in `Warning` headers. Mirrors `WarningsOnCreate`
//! of upstream's strategies and `pkg/api/*/warnings.go`.

mod addresses;
mod definitions;
mod idle;
mod pod;
#[cfg(test)]
mod tests;

use std::fmt::Arguments;

use serde_json::Value;

pub(crate) use idle::{in_a_box, of as without_effect};

use crate::fields::{at, entry, integer, list, text};
use crate::kinds::Kind;
use crate::resources;

const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Usage that cannot be read would be taken for none at all.
fn usage(kind: &Kind, new: &Value, said: &mut Vec<String>) {
    let template = kind
        .pod_template()
        .map(|path| format!("{path}.metadata.annotations"));
    let places = std::iter::once("metadata.annotations".to_owned()).chain(template);
    for place in places {
        for (key, value) in crate::fields::entries(new, &place) {
            let value = value.as_str().unwrap_or_default();
            if let Some(why) = crate::rest::usage::problem_of(key, value) {
                said.push(format!("{place}[{key}]: {why}; it has no effect"));
            }
        }
    }
    if kind.is("", "ConfigMap") {
        let is_external = at(new, "metadata.labels")[crate::rest::usage::IS_EXTERNAL] == "true";
        for (key, value) in crate::fields::entries(new, "data").filter(|_| is_external) {
            let value = value.as_str().unwrap_or_default();
            if let Err(why) = api::usage::Curve::parse(value) {
                said.push(format!("data[{key}]: {why}; it is no metric"));
            }
        }
    }
}

/// The warnings for an object that is created, or that replaces `old`.
pub fn of(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(version) = kind.custom() {
        said = definitions::finalizers(new, old);
        // What rules find wrong and nobody has touched is only spoken of.
        if let Some(old) = old {
            let found =
                crate::crd::rules::validate(&version.schema.ready(), new, Some(old)).warnings;
            said.extend(found);
        }
        return said;
    }
    if let Some(path) = kind.pod_template() {
        let generation = |object| integer(object, "metadata.generation");
        let changed = old.is_none_or(|old| generation(old) != generation(new));
        if changed {
            pod::template(&mut said, path, at(new, path));
        }
    }
    if old.is_none() {
        name(kind, new, &mut said);
    }
    usage(kind, new, &mut said);
    match (&*kind.group, &*kind.kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            said.extend(definitions::formats(new, old));
        }
        ("", "Pod") => pod::pod(&mut said, new, old),
        ("", _) => core(kind, new, &mut said),
        ("apps", "StatefulSet")
            if integer(new, "spec.revisionHistoryLimit").is_some_and(|limit| limit < 0) =>
        {
            said.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
        }
        ("batch", "Job") => {
            let number = |path: &str| integer(new, path).unwrap_or_default();
            let indexed = text(new, "spec.completionMode") == "Indexed";
            if indexed
                && number("spec.completions") > 100_000
                && number("spec.parallelism") > 10_000
            {
                said.push("spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail".to_owned());
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            if text(new, "addressType") == "FQDN" {
                said.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
            }
            addresses::slice(new, &mut said);
        }
        ("networking.k8s.io", "Ingress")
            if entry(new, "metadata.annotations", "kubernetes.io/ingress.class").is_some() =>
        {
            said.push("annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead".to_owned());
        }
        ("storage.k8s.io", "StorageClass") => topologies(new, &mut said),
        ("node.k8s.io", "RuntimeClass") => {
            for (key, _) in crate::fields::entries(new, "scheduling.nodeSelector") {
                said.extend(
                    renamed_label(key).map(|why| format!("scheduling.nodeSelector: {why}")),
                );
            }
        }
        _ => {}
    }
    said
}

/// Names that end up in host names should be DNS labels.
fn name(kind: &Kind, object: &Value, said: &mut Vec<String>) {
    let what = match (&*kind.group, &*kind.kind) {
        ("", "Pod") => "the Pod's hostname",
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet") | ("batch", _) => {
            "Pod names and hostnames"
        }
        _ => return,
    };
    let name = text(object, "metadata.name");
    let faults = if name.contains('.') {
        vec!["must not contain dots".to_owned()]
    } else {
        api::syntax::validate_dns1123_label(name)
    };
    if !faults.is_empty() {
        let faults = faults.join(", ");
        said.push(format!("metadata.name: this is used in {what}, which can result in surprising behavior; a DNS label is recommended: [{faults}]"));
    }
}

fn core(kind: &Kind, object: &Value, said: &mut Vec<String>) {
    match &*kind.kind {
        "Endpoints" => {
            said.push(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                    .to_owned(),
            );
            addresses::endpoints(object, said);
        }
        "Service" => service(object, said),
        "Node" if !text(object, "spec.externalID").is_empty() => {
            said.push(
                "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
            );
        }
        "PersistentVolume" => {
            beta_class(object, said);
            if text(object, "spec.persistentVolumeReclaimPolicy") == "Recycle" {
                said.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
            }
        }
        "PersistentVolumeClaim" => {
            beta_class(object, said);
            fractional(
                said,
                format_args!("spec.resources.requests"),
                "storage",
                at(object, "spec.resources.requests.storage"),
            );
        }
        "ServiceAccount"
            if entry(
                object,
                "metadata.annotations",
                "kubernetes.io/enforce-mountable-secrets",
            )
            .is_some() =>
        {
            said.push("metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets".to_owned());
        }
        _ => {}
    }
}

fn beta_class(object: &Value, said: &mut Vec<String>) {
    if entry(object, "metadata.annotations", BETA_STORAGE_CLASS).is_some() {
        said.push(format!("metadata.annotations[{BETA_STORAGE_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"));
    }
}

fn service(service: &Value, said: &mut Vec<String>) {
    if entry(
        service,
        "metadata.annotations",
        "service.kubernetes.io/topology-aware-hints",
    )
    .is_some()
    {
        said.push("annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead".to_owned());
    }
    if !list(service, "spec.externalIPs").is_empty() {
        said.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    if text(service, "spec.trafficDistribution") == "PreferClose" {
        let advice =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        said.push(advice.to_owned());
    }
    let headless = text(service, "spec.clusterIP") == "None";
    if headless && !text(service, "spec.loadBalancerIP").is_empty() {
        said.push("spec.loadBalancerIP is ignored for headless services".to_owned());
    }
    if headless && text(service, "spec.sessionAffinity") == "ClientIP" {
        said.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
}

fn topologies(class: &Value, said: &mut Vec<String>) {
    for (index, topology) in list(class, "allowedTopologies").iter().enumerate() {
        for (inner, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
            let why = renamed_label(text(expression, "key"));
            said.extend(why.map(|why| {
                format!("allowedTopologies[{index}].matchLabelExpressions[{inner}].key: {why}")
            }));
        }
    }
}

/// Labels that lost their `beta`.
fn renamed_label(key: &str) -> Option<String> {
    let (since, new) = match key {
        "beta.kubernetes.io/arch" => ("v1.14", "kubernetes.io/arch"),
        "beta.kubernetes.io/os" => ("v1.14", "kubernetes.io/os"),
        "failure-domain.beta.kubernetes.io/region" => ("v1.17", "topology.kubernetes.io/region"),
        "failure-domain.beta.kubernetes.io/zone" => ("v1.17", "topology.kubernetes.io/zone"),
        "beta.kubernetes.io/instance-type" => ("v1.17", "node.kubernetes.io/instance-type"),
        _ => return None,
    };
    Some(format!("deprecated since {since}; use \"{new}\" instead"))
}

/// Bytes come whole.
fn fractional(said: &mut Vec<String>, path: Arguments<'_>, name: &str, amount: &Value) {
    if resources::quantity(amount).is_some_and(|amount| !resources::is_whole(&amount)) {
        let shown = amount.as_str().unwrap_or_default();
        said.push(format!(
            "{path}[{name}]: fractional byte value \"{shown}\" is invalid, must be an integer"
        ));
    }
}
