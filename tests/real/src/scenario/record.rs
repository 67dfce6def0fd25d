//! What a scenario left behind and what was written on the way, in comparable form.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;

use super::normalise::{self, Names};
use super::resources;
use crate::audit::Entry;
use crate::http::Api;

/// Everything that two managers must agree on, line by line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Final objects as JSON, keyed by `kind/name`; several of one name are numbered.
    pub objects: BTreeMap<String, Value>,
    /// `type reason object source: message` and how often.
    pub events: BTreeMap<String, u64>,
    /// Per object and condition type the states it went through, as `Status(Reason)`; with a star, where the time of its
    /// last transition moved although its status had not.
    pub conditions: BTreeMap<String, Vec<String>>,
    /// Creations and deletions of the pods whose order is promised.
    pub order: Vec<String>,
    /// Successful writes by `verb resource`; every kind of change to an existing object counts as one verb.
    pub writes: BTreeMap<String, u64>,
    /// Writes that the server refused, by `verb resource: code`.
    pub refused: BTreeMap<String, u64>,
}

impl Record {
    /// What can be seen without knowing who asked for what: users delete pods, too.
    pub fn without_requests(&self) -> Record {
        let mut record = self.clone();
        record.writes.clear();
        record.refused.clear();
        record.order.retain(|act| act.starts_with("create "));
        record
    }

    pub(crate) fn take(api: &Api, namespace: &str, writes: &[Entry]) -> Result<Record> {
        let names = Names::learn(namespace, writes);
        let succeeded: Vec<&Entry> = writes
            .iter()
            .filter(|entry| (200..300).contains(&entry.code()))
            .collect();
        let objects = objects(api, namespace, &names)?;
        Ok(Record {
            events: events(api, namespace, &names)?,
            conditions: conditions(&succeeded, &names),
            order: order(&succeeded, &objects),
            writes: counts(&succeeded),
            refused: refusals(writes),
            objects,
        })
    }
}

fn objects(api: &Api, namespace: &str, names: &Names) -> Result<BTreeMap<String, Value>> {
    let mut found = Vec::new();
    let mut namespaces = vec![namespace.to_owned()];
    let own = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        name.strip_prefix(namespace)?
            .starts_with('-')
            .then(|| name.to_owned())
    };
    let mut all = Vec::new();
    for kind in resources::recorded().filter(|kind| !kind.namespaced) {
        let kind = &*kind.target;
        for object in api.list(&resources::collection(kind, "")?)? {
            let Some(name) = own(&object) else {
                continue;
            };
            if kind == "namespace" {
                namespaces.push(name);
            }
            all.push((kind, object));
        }
    }
    for namespace in &namespaces {
        for kind in resources::recorded().filter(|kind| kind.namespaced) {
            let kind = &*kind.target;
            let objects = api.list(&resources::collection(kind, namespace)?)?;
            all.extend(objects.into_iter().map(|object| (kind, object)));
        }
    }
    for (kind, mut object) in all {
        normalise::hide_content(kind, &mut object);
        let mut object = names.object(&object);
        normalise::sort_unordered(kind, &mut object);
        normalise::level_endpoints(kind, &mut object);
        let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
        found.push((format!("{kind}/{name}"), object.to_string(), object));
    }
    // Pods of one template have one normal name: order them by content before they are numbered.
    found.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    let mut objects = BTreeMap::new();
    for (key, _, object) in found {
        let number = objects
            .keys()
            .filter(|known: &&String| known.split(' ').next() == Some(&key))
            .count()
            + 1;
        objects.insert(
            if number == 1 {
                key
            } else {
                format!("{key} ({number})")
            },
            object,
        );
    }
    Ok(objects)
}

fn events(api: &Api, namespace: &str, names: &Names) -> Result<BTreeMap<String, u64>> {
    let mut events: BTreeMap<String, u64> = BTreeMap::new();
    let mut all = api.list(&format!("/api/v1/namespaces/{namespace}/events"))?;
    // Events of nodes are in the default namespace.
    let own = format!("{namespace}-");
    let of_nodes = api.list("/api/v1/namespaces/default/events")?;
    all.extend(of_nodes.into_iter().filter(|event| {
        let involved = &event["involvedObject"];
        involved["kind"] == "Node"
            && involved["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(&own))
    }));
    // kube-apiserver's own loop, which repairs what it has not written yet itself.
    all.retain(|event| event["reason"] != "ClusterIPNotAllocated");
    for event in all {
        let text = |value: &Value| names.text(value.as_str().unwrap_or(""));
        let involved = &event["involvedObject"];
        // Retries that were more than ten are told together: how many there were is a matter of time.
        let message = text(&event["message"]);
        let message = message
            .strip_prefix(normalise::COMBINED)
            .unwrap_or(&message);
        let message = normalise::without_refused_name(message);
        let line = format!(
            "{} {} {}/{} {}: {}",
            text(&event["type"]),
            text(&event["reason"]),
            text(&involved["kind"]),
            text(&involved["name"]),
            text(&event["source"]["component"]),
            message,
        );
        *events.entry(line).or_default() += event["count"].as_u64().unwrap_or(1).max(1);
    }
    Ok(events)
}

fn conditions(writes: &[&Entry], names: &Names) -> BTreeMap<String, Vec<String>> {
    let mut history: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut last: BTreeMap<String, (String, String)> = BTreeMap::new();
    for entry in writes {
        let Some(object) = &entry.response_object else {
            continue;
        };
        let kind = object["kind"].as_str().unwrap_or("");
        // The conditions of a pod are its kubelet's.
        if kind == "Pod" {
            continue;
        }
        let conditions = object["status"]["conditions"].as_array();
        for condition in conditions.into_iter().flatten() {
            let text = |field: &str| condition[field].as_str().unwrap_or("").to_owned();
            let metadata = |field: &str| object["metadata"][field].as_str().unwrap_or("");
            let transition = (text("status"), text("lastTransitionTime"));
            // By uid: a recreated object has no transitions of its namesake's.
            let before = last.insert(
                format!("{} {}", metadata("uid"), text("type")),
                transition.clone(),
            );
            let moved =
                before.is_some_and(|(status, at)| status == transition.0 && at != transition.1);
            let mut reason = text("reason");
            if normalise::is_progress(&reason) {
                reason = normalise::PROGRESS.to_owned();
            }
            let mut state = format!("{}({reason})", transition.0);
            let name = names.text(metadata("name"));
            let states = history
                .entry(format!("{kind}/{name} {}", text("type")))
                .or_default();
            if moved {
                state.push('*');
            } else if states.last().and_then(|last| last.strip_suffix('*')) == Some(&state) {
                // One more write of the same transition: how many there are is counted elsewhere.
                continue;
            }
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
    }
    history
}

/// Pods with ordinals are created and deleted in an order that users rely on, unless their set is
/// parallel. The pods of a set that is gone were deleted by the garbage collector, in no order.
fn order(writes: &[&Entry], objects: &BTreeMap<String, Value>) -> Vec<String> {
    let ordered: Vec<&str> = writes
        .iter()
        .filter_map(|entry| entry.response_object.as_ref())
        .filter(|object| {
            object["kind"] == "StatefulSet"
                && object["spec"]["podManagementPolicy"] == "OrderedReady"
        })
        .filter_map(|object| object["metadata"]["name"].as_str())
        .collect();
    let mut order = Vec::new();
    for entry in writes.iter().filter(|entry| entry.resource() == "pods") {
        let object = entry.response_object.as_ref().unwrap_or(&Value::Null);
        let reference = entry
            .object_ref
            .as_ref()
            .map_or("", |object| object.name.as_str());
        let name = object["metadata"]["name"].as_str().unwrap_or(reference);
        let set = name.rsplit_once('-').map_or("", |(set, _)| set);
        let exists = objects.contains_key(&format!("statefulset/{set}"));
        let counts = entry.verb == "create" || entry.verb == "delete" && exists;
        if ordered.contains(&set) && counts {
            order.push(format!("{} {name}", entry.verb));
        }
    }
    order
}

fn counts(writes: &[&Entry]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for entry in writes.iter().filter(|entry| entry.resource() != "events") {
        let verb = match entry.verb.as_str() {
            "update" | "patch" => "change",
            verb => verb,
        };
        *counts
            .entry(format!("{verb} {}", entry.resource()))
            .or_default() += 1;
    }
    counts
}

/// What a server without an audit log tells of refusals is left out with the other requests.
fn refusals(writes: &[Entry]) -> BTreeMap<String, u64> {
    let mut refusals = BTreeMap::new();
    let refused = writes.iter().filter(|entry| entry.code() >= 400);
    for entry in refused.filter(|entry| entry.resource() != "events") {
        let line = format!("{} {}: {}", entry.verb, entry.resource(), entry.code());
        *refusals.entry(line).or_default() += 1;
    }
    refusals
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn available(writes: &[(&str, &str, &str)]) -> String {
        let write = |(uid, status, at): &(&str, &str, &str)| Entry {
            response_object: Some(json!({
                "kind": "Deployment",
                "metadata": {"name": "web", "uid": uid},
                "status": {"conditions": [
                    {"type": "Available", "status": status, "reason": "R", "lastTransitionTime": at}
                ]},
            })),
            ..Entry::default()
        };
        let writes: Vec<Entry> = writes.iter().map(write).collect();
        let writes: Vec<&Entry> = writes.iter().collect();
        let names = Names::learn("default", &[]);
        conditions(&writes, &names)["Deployment/web Available"].join(" -> ")
    }

    #[test]
    fn a_transition_time_that_moves_without_a_change_of_status_is_recorded_once() {
        let moved = [("a", "False", "1"), ("a", "False", "2")];
        assert_eq!(available(&moved), "False(R) -> False(R)*");
        let written_again = [moved[0], moved[1], moved[1], ("a", "True", "3")];
        assert_eq!(
            available(&written_again),
            "False(R) -> False(R)* -> True(R)"
        );
    }

    #[test]
    fn a_recreated_object_has_no_transitions_of_its_namesake() {
        let recreated = [("a", "False", "1"), ("b", "False", "2"), ("b", "True", "3")];
        assert_eq!(available(&recreated), "False(R) -> True(R)");
    }
}
