//! Discovery of what other servers serve, as part of ours.

use super::Remote;
use crate::kinds::Registry;
use crate::server::Shared;
use serde_json::{Value, json};

/// The remote group versions that are not served here, each group with its versions by priority. UPSTREAM: whether they
/// answer or not: who does not know that something is missing takes it for gone.
fn groups<'a>(registry: &Registry, remotes: &'a [Remote]) -> Vec<(&'a str, Vec<&'a Remote>)> {
    let mut groups: Vec<(&str, Vec<&Remote>)> = Vec::new();
    let is_served = |remote: &&Remote| registry.has_group_version(&remote.group, &remote.version);
    let shown = remotes.iter().filter(|remote| !is_served(remote));
    for remote in shown {
        match groups.iter_mut().find(|(group, _)| *group == remote.group) {
            Some((_, versions)) => versions.push(remote),
            None => groups.push((&remote.group, vec![remote])),
        }
    }
    groups
}

/// The `APIGroup`s of other servers, for those that this server has no part in; `kind` is left out in lists.
pub(crate) fn group_values(shared: &Shared, registry: &Registry) -> Vec<Value> {
    let remotes = shared.aggregation.remotes(shared);
    let groups = groups(registry, &remotes).into_iter();
    let foreign = groups.filter(|(group, _)| !registry.has_group(group));
    foreign
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|remote| json!({"groupVersion": format!("{group}/{}", remote.version), "version": remote.version}))
                .collect();
            json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
        })
        .collect()
}

/// The `APIGroupDiscovery`s of other servers. UPSTREAM: a server that does not answer has stale versions.
pub(crate) fn items(shared: &Shared, registry: &Registry) -> Vec<Value> {
    let remotes = shared.aggregation.remotes(shared);
    let known = shared.aggregation.resources.lock();
    let groups = groups(registry, &remotes).into_iter();
    let foreign = groups.filter(|(group, _)| !registry.has_group(group));
    foreign
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|remote| {
                    let list = known.get(&remote.name).unwrap_or(&Value::Null);
                    let freshness = match remote.is_available {
                        true => "Current",
                        false => "Stale",
                    };
                    json!({"version": remote.version, "resources": resources(remote, list), "freshness": freshness})
                })
                .collect();
            json!({"metadata": {"name": group}, "versions": versions})
        })
        .collect()
}

/// Paths below `/openapi/v3/` that other servers answer.
pub(crate) fn open_api_paths(shared: &Shared, registry: &Registry) -> Vec<String> {
    let remotes = shared.aggregation.remotes(shared);
    let groups = groups(registry, &remotes).into_iter();
    groups
        .flat_map(|(group, versions)| {
            let versions = versions.iter().filter(|remote| remote.is_available);
            let path = |remote: &&Remote| format!("apis/{group}/{}", remote.version);
            versions.map(path).collect::<Vec<_>>()
        })
        .collect()
}

/// From an `APIResourceList` to the resources of aggregated discovery.
fn resources(remote: &Remote, list: &Value) -> Vec<Value> {
    let listed = list["resources"].as_array().into_iter().flatten();
    let mut resources: Vec<Value> = Vec::new();
    for entry in listed {
        let text = |member: &str, other: &str| match entry[member].as_str() {
            None | Some("") => other.to_owned(),
            Some(given) => given.to_owned(),
        };
        let kind = json!({"group": text("group", &remote.group), "version": text("version", &remote.version), "kind": text("kind", "")});
        let name = text("name", "");
        if let Some((resource, subresource)) = name.split_once('/') {
            let parent = resources
                .iter_mut()
                .find(|known| known["resource"] == resource);
            if let Some(parent) = parent.and_then(Value::as_object_mut) {
                let subresources = parent.entry("subresources").or_insert_with(|| json!([]));
                if let Some(subresources) = subresources.as_array_mut() {
                    subresources.push(json!({"subresource": subresource, "verbs": entry["verbs"], "responseKind": kind}));
                }
            }
            continue;
        }
        let mut resource = json!({
            "resource": name, "singularResource": text("singularName", ""), "verbs": entry["verbs"], "responseKind": kind,
            "scope": if entry["namespaced"] == true { "Namespaced" } else { "Cluster" },
        });
        for member in ["shortNames", "categories"] {
            if entry[member].is_array() {
                resource[member] = entry[member].clone();
            }
        }
        resources.push(resource);
    }
    resources
}
