//! All objects of a cluster at one moment, found by discovery, and what was written between two moments.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::http::Api;

/// What is written all the time, or is told apart elsewhere: signs of life, events (see [`events`]) and what is no object.
pub const LEFT_OUT: [&str; 4] = ["leases", "leasecandidates", "events", "componentstatuses"];

/// Every object by its path.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
    /// Lists every collection that the server has, at the version that it prefers.
    pub fn take(api: &Api) -> Result<Snapshot> {
        let mut objects = BTreeMap::new();
        for collection in collections(api)? {
            for object in api.list(&collection)? {
                let metadata = &object["metadata"];
                let namespace = metadata["namespace"].as_str().unwrap_or("");
                let name = metadata["name"].as_str().context("an object has a name")?;
                objects.insert(format!("{collection} {namespace}/{name}"), object);
            }
        }
        Ok(Snapshot(objects))
    }

    /// Without what belongs to a namespace.
    pub fn without_namespace(mut self, namespace: &str) -> Snapshot {
        let inside = format!(" {namespace}/");
        self.0.retain(|path, _| !path.contains(&inside));
        self
    }

    /// The kinds of which there is an object, as the last part of their collection.
    pub fn kinds(&self) -> BTreeSet<&str> {
        let collections = self.0.keys().filter_map(|path| path.split(' ').next());
        collections
            .filter_map(|path| path.rsplit('/').next())
            .collect()
    }

    /// What came, went or was rewritten until `later`, by path; for what was rewritten, the fields that differ.
    pub fn changes(&self, later: &Snapshot) -> BTreeMap<String, String> {
        let mut changes = BTreeMap::new();
        let paths: BTreeSet<&String> = self.0.keys().chain(later.0.keys()).collect();
        for path in paths {
            let told = match (self.0.get(path), later.0.get(path)) {
                (None, _) => "created".to_owned(),
                (_, None) => "deleted".to_owned(),
                (Some(old), Some(new)) => {
                    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                    if version(old) == version(new) {
                        continue;
                    }
                    let mut fields = Vec::new();
                    differing("", old, new, &mut fields);
                    format!("rewritten: {}", fields.join(", "))
                }
            };
            changes.insert(path.clone(), told);
        }
        changes
    }
}

/// The fields of two objects that differ, as paths with both values. The revision differs anyway.
fn differing(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys.into_iter().filter(|key| *key != "resourceVersion") {
                let value = |fields: &serde_json::Map<String, Value>| {
                    fields.get(key).cloned().unwrap_or(Value::Null)
                };
                differing(&format!("{path}.{key}"), &value(old), &value(new), found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differing(&format!("{path}[{index}]"), old, new, found);
            }
        }
        _ if old != new => found.push(format!("{path}: {old} -> {new}")),
        _ => {}
    }
}

/// The paths of all collections that can be listed.
fn collections(api: &Api) -> Result<Vec<String>> {
    let mut groups = vec!["/api/v1".to_owned()];
    for group in api.get("/apis")?["groups"].as_array().into_iter().flatten() {
        let version = group["preferredVersion"]["groupVersion"].as_str();
        groups.push(format!(
            "/apis/{}",
            version.context("a group has a version")?
        ));
    }
    let mut found = Vec::new();
    for group in groups {
        let listed = api.get(&group)?;
        for resource in listed["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap_or("");
            let verbs = resource["verbs"].as_array();
            let can_list = verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            if can_list && !name.contains('/') && !LEFT_OUT.contains(&name) {
                found.push(format!("{group}/{name}"));
            }
        }
    }
    Ok(found)
}

/// How often each event was given, outside of one namespace: by namespace, type, reason, object and message.
pub fn events(api: &Api, except: &str) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for event in api.list("/api/v1/events")? {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let namespace = text(&event["metadata"]["namespace"]);
        if namespace == except {
            continue;
        }
        let involved = &event["involvedObject"];
        let line = format!(
            "{namespace} {} {} {}/{}: {}",
            text(&event["type"]),
            text(&event["reason"]),
            text(&involved["kind"]),
            text(&involved["name"]),
            text(&event["message"]),
        );
        *counts.entry(line).or_default() += event["count"].as_u64().unwrap_or(1).max(1);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(objects: &[(&str, Value)]) -> Snapshot {
        let objects = objects.iter();
        Snapshot(
            objects
                .map(|(path, object)| ((*path).to_owned(), object.clone()))
                .collect(),
        )
    }

    #[test]
    fn changes_are_what_has_another_revision() {
        let object = |revision: &str, replicas: u32| json!({"metadata": {"resourceVersion": revision}, "spec": {"replicas": [replicas]}});
        let old = snapshot(&[
            ("/api/v1/pods n/a", object("1", 1)),
            ("/api/v1/pods n/b", object("2", 1)),
            ("/api/v1/pods n/c", object("3", 1)),
        ]);
        let new = snapshot(&[
            ("/api/v1/pods n/a", object("1", 1)),
            ("/api/v1/pods n/b", object("4", 2)),
            ("/api/v1/nodes /d", object("5", 1)),
        ]);
        let changes: Vec<String> = old
            .changes(&new)
            .into_iter()
            .map(|(path, told)| format!("{path} {told}"))
            .collect();
        assert_eq!(
            changes,
            [
                "/api/v1/nodes /d created",
                "/api/v1/pods n/b rewritten: .spec.replicas[0]: 1 -> 2",
                "/api/v1/pods n/c deleted",
            ]
        );
        assert_eq!(Vec::from_iter(new.kinds()), ["nodes", "pods"]);
        assert!(new.clone().without_namespace("n").changes(&new).len() == 2);
    }
}
