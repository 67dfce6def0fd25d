//! The ConfigMaps and Secrets that a pod needs to start, and which of them are not there.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, list, text, truth};

/// A ConfigMap or Secret that a pod names and cannot do without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub kind: &'static str,
    pub name: String,
    /// The keys that it must have.
    keys: BTreeSet<String>,
}

/// What is wrong with a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Absent,
    NoKey(String),
}

impl Reference {
    /// What is wrong with it; none where nothing is, or where nobody has read it.
    pub(crate) fn broken(&self, facts: &Facts) -> Option<Broken> {
        if facts.is_absent(self.kind, &self.name) {
            return Some(Broken::Absent);
        }
        let mut held = facts.of_kind(self.kind);
        let held = held.find(|object| text(object, "/metadata/name") == self.name)?;
        let has = |key: &String| {
            ["data", "binaryData"]
                .iter()
                .any(|data| held[data].get(key).is_some())
        };
        let missing = self.keys.iter().find(|key| !has(key))?;
        Some(Broken::NoKey(missing.clone()))
    }
}

/// What pods refer to that cannot start a container or mount a volume: whether it is there says why.
pub fn missing_references(facts: &Facts) -> Vec<Reference> {
    let pods = facts
        .all_of_kind("Pod")
        .filter(|pod| is_held_up(facts, pod));
    let found: BTreeSet<Reference> = pods.flat_map(of).collect();
    found.into_iter().collect()
}

fn is_held_up(facts: &Facts, pod: &Value) -> bool {
    let init = list(pod, "/status/initContainerStatuses").iter();
    let mut statuses = init.chain(list(pod, "/status/containerStatuses"));
    let is_waiting =
        |status: &Value| text(status, "/state/waiting/reason") == "CreateContainerConfigError";
    let is_scheduled =
        condition(pod, "PodScheduled").is_some_and(|held| text(held, "/status") == "True");
    let is_pending = text(pod, "/status/phase") == "Pending";
    statuses.any(is_waiting)
        || (is_scheduled && is_pending && !facts.messages(pod, "FailedMount").is_empty())
}

/// The references of a pod that are not optional.
pub(crate) fn of(pod: &Value) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut add = |kind: &'static str, source: &Value, name: &str, keys: Vec<&str>| {
        let name = text(source, name);
        if !name.is_empty() && !truth(source, "/optional") {
            found.push(Reference {
                kind,
                name: name.to_owned(),
                keys: keys.into_iter().map(str::to_owned).collect(),
            });
        }
    };
    let init = list(pod, "/spec/initContainers").iter();
    for container in init.chain(list(pod, "/spec/containers")) {
        for from in list(container, "/envFrom") {
            add("ConfigMap", &from["configMapRef"], "/name", Vec::new());
            add("Secret", &from["secretRef"], "/name", Vec::new());
        }
        for variable in list(container, "/env") {
            let from = &variable["valueFrom"];
            for (kind, source) in [
                ("ConfigMap", &from["configMapKeyRef"]),
                ("Secret", &from["secretKeyRef"]),
            ] {
                add(kind, source, "/name", vec![text(source, "/key")]);
            }
        }
    }
    for volume in list(pod, "/spec/volumes") {
        let keys = |source: &'_ Value| -> Vec<String> {
            let items = list(source, "/items").iter();
            items.map(|item| text(item, "/key").to_owned()).collect()
        };
        let projected = list(volume, "/projected/sources").iter();
        let mut sources = vec![
            ("ConfigMap", &volume["configMap"], "/name"),
            ("Secret", &volume["secret"], "/secretName"),
        ];
        for one in projected {
            sources.push(("ConfigMap", &one["configMap"], "/name"));
            sources.push(("Secret", &one["secret"], "/name"));
        }
        for (kind, source, name) in sources {
            let keys = keys(source);
            add(
                kind,
                source,
                name,
                keys.iter().map(String::as_str).collect(),
            );
        }
    }
    found
}

/// Does a container have to run as another user than root, and says nobody as which?
pub(crate) fn may_run_as_root(pod: &Value) -> bool {
    let held = |container: &Value, field: &str| {
        let own = container.pointer(&format!("/securityContext/{field}"));
        own.or_else(|| pod.pointer(&format!("/spec/securityContext/{field}")))
            .cloned()
            .unwrap_or_default()
    };
    let is_undecided = |container: &Value| {
        let user = held(container, "runAsUser");
        held(container, "runAsNonRoot") == true && (user.is_null() || user == 0)
    };
    let init = list(pod, "/spec/initContainers").iter();
    let mut containers = init.chain(list(pod, "/spec/containers"));
    containers.any(is_undecided)
}
