//! What pods share: a load that their owner declares, divided among those that are ready.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Time;
use api::quantity::Quantity;
use api::usage::{Curve, share_of};
use serde_json::Value;

use crate::fields::{at, list, text};
use crate::server::Shared;

/// When a load begins, on the object that declares it; without it, when the object was created.
pub(crate) const SINCE: &str = "steersman.dev/load-since";

/// Deployment, ReplicaSet, Pod: the longest line of owners there is, and one more.
const OWNERS_MAX: usize = 4;

/// What an annotation of an object says now; `None` where it says nothing that can be read.
pub(super) fn declared(shared: &Shared, object: &Value, annotation: &str) -> Option<Quantity> {
    let curve = object["metadata"]["annotations"][annotation].as_str()?;
    value(shared, curve, began(object))
}

/// When the curves of an object begin.
pub(super) fn began(object: &Value) -> Option<Time> {
    let since = [
        object["metadata"]["annotations"][SINCE].as_str(),
        Some(text(object, "status.startTime")),
        Some(text(object, "metadata.creationTimestamp")),
    ];
    since.into_iter().flatten().find_map(Time::parse)
}

/// What a curve that began then is at now.
pub(super) fn value(shared: &Shared, curve: &str, since: Option<Time>) -> Option<Quantity> {
    let curve = Curve::parse(curve).ok()?;
    Some(curve.at(elapsed(shared, since)))
}

/// How long ago that was; no time for what is to come.
pub(super) fn elapsed(shared: &Shared, since: Option<Time>) -> Duration {
    let elapsed = since.map_or(0, |since| shared.now_seconds() - since.unix());
    Duration::from_secs(u64::try_from(elapsed).unwrap_or(0))
}

/// What each pod has of the loads that owners declare by this annotation, by namespace and name.
pub(super) fn shares(
    shared: &Shared,
    pods: &[Value],
    annotation: &str,
) -> BTreeMap<String, Quantity> {
    let mut owners = Owners::new(shared);
    let mut by_owner: BTreeMap<String, (Quantity, Vec<&Value>)> = BTreeMap::new();
    for pod in pods {
        if let Some((owner, load)) = owners.load_over(pod, annotation) {
            let held = by_owner.entry(owner).or_insert_with(|| (load, Vec::new()));
            held.1.push(pod);
        }
    }
    let mut found = BTreeMap::new();
    for (load, pods) in by_owner.into_values() {
        let mut sharers = Sharers::default();
        pods.iter().for_each(|pod| sharers.count(pod));
        for pod in pods {
            found.insert(key_of(pod), sharers.part(&load, pod));
        }
    }
    found
}

/// Those who share a load.
#[derive(Default)]
pub(super) struct Sharers {
    all: usize,
    ready: usize,
}

impl Sharers {
    pub(super) fn count(&mut self, pod: &Value) {
        self.all += 1;
        self.ready += usize::from(is_ready(pod));
    }

    /// What one of them has of the load. Traffic goes to pods that are ready; where none is, all of them are busy
    /// becoming so.
    pub(super) fn part(&self, load: &Quantity, pod: &Value) -> Quantity {
        match self.ready {
            0 => share_of(load, self.all),
            ready if is_ready(pod) => share_of(load, ready),
            _ => Quantity::new(0, load.format()),
        }
    }
}

pub(super) fn key_of(object: &Value) -> String {
    let metadata = at(object, "metadata");
    format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"))
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = list(pod, "status.conditions").iter();
    conditions.any(|held| text(held, "type") == "Ready" && text(held, "status") == "True")
}

pub(super) struct Owners<'a> {
    shared: &'a Shared,
    /// By kind and key: an owner of many pods is read once.
    known: BTreeMap<String, Option<Value>>,
}

impl Owners<'_> {
    pub(super) fn new(shared: &Shared) -> Owners<'_> {
        Owners {
            shared,
            known: BTreeMap::new(),
        }
    }

    /// The last in the line of owners that is there, with its kind and name: the pod itself where it has none.
    pub(super) fn outermost(&mut self, pod: &Value) -> (String, Value) {
        let namespace = text(pod, "metadata.namespace").to_owned();
        let mut found = (format!("v1 Pod {}", key_of(pod)), pod.clone());
        for _ in 0..OWNERS_MAX {
            let reference = controller(&found.1).cloned();
            match reference.and_then(|reference| self.read(&namespace, &reference)) {
                Some(owner) => found = owner,
                None => break,
            }
        }
        found
    }

    /// The nearest owner that declares a load, and the load.
    fn load_over(&mut self, pod: &Value, annotation: &str) -> Option<(String, Quantity)> {
        let namespace = text(pod, "metadata.namespace").to_owned();
        let mut reference = controller(pod)?.clone();
        for _ in 0..OWNERS_MAX {
            let (name, owner) = self.read(&namespace, &reference)?;
            if let Some(load) = declared(self.shared, &owner, annotation) {
                return Some((name, load));
            }
            reference = controller(&owner)?.clone();
        }
        None
    }

    fn read(&mut self, namespace: &str, reference: &Value) -> Option<(String, Value)> {
        let (version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
        let name = format!("{version} {kind} {namespace}/{}", text(reference, "name"));
        let found = self.known.entry(name.clone()).or_insert_with(|| {
            let registry = self.shared.registry();
            let kind = registry.kind(version, kind)?;
            let stored_kind = crate::convert::storage_kind(&registry, kind);
            let key = format!("{namespace}/{}", text(reference, "name"));
            let stored = self.shared.store.get(&stored_kind, &key)?;
            Some(stored.value(&stored_kind))
        });
        found.clone().map(|owner| (name, owner))
    }
}

fn controller(object: &Value) -> Option<&Value> {
    let mut owners = list(object, "metadata.ownerReferences").iter();
    owners.find(|owner| owner["controller"] == true)
}
