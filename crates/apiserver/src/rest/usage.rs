//! `metrics.k8s.io`: what simulated pods and nodes are said to use, so that `kubectl top` and autoscalers have something
//! to read.
//!
//! Nobody measures a pod that does not run. What each of its containers uses is what the annotations
//! `steersman.dev/cpu-use` and `steersman.dev/memory-use` of the pod say; else its part of what its owner declares by
//! `steersman.dev/cpu-load` and `steersman.dev/memory-load`, divided among the pods that are ready; else what the files of
//! the simulated cluster say; else half of what the container requests. All of them may change over time ([`Curve`]). A
//! node uses what its pods use.

mod declared;
mod files;
mod load;

use super::{Context, negotiate};
use crate::Body;
use crate::fields::{at, list, text};
use crate::resources::amounts;
use crate::server::Shared;
use crate::status::Status;
use crate::storage::{Stored, encode_body};
use api::Istr;
use api::amounts::{Amounts, add};
use api::quantity::{Format, Quantity};
use api::usage::{Curve, share_of};
use files::FromFiles;
use http::Response;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use declared::{IS_EXTERNAL, LOAD, METRIC, answer, is_served};
pub(crate) use load::SINCE;

/// The group whose kinds are made from pods when they are asked for.
pub(crate) const GROUP: &str = "metrics.k8s.io";

/// Over which time a metrics server measures, if it is not told otherwise.
const WINDOW: &str = "15s";

/// What is measured: the annotations of a pod and of its owner, and what a container is said to use that neither says
/// nor requests anything: a little.
const MEASURED: [Measured; 2] = [
    Measured {
        resource: "cpu",
        own: "steersman.dev/cpu-use",
        load: "steersman.dev/cpu-load",
        least: "1m",
    },
    Measured {
        resource: "memory",
        own: "steersman.dev/memory-use",
        load: "steersman.dev/memory-load",
        least: "16Mi",
    },
];

struct Measured {
    resource: &'static str,
    own: &'static str,
    load: &'static str,
    least: &'static str,
}

/// What is wrong with an annotation that declares usage; `None` for all others.
pub(crate) fn problem_of(annotation: &str, value: &str) -> Option<String> {
    let is_own = MEASURED
        .iter()
        .any(|one| annotation == one.own || annotation == one.load);
    let is_metric = [METRIC, LOAD]
        .iter()
        .any(|prefix| annotation.starts_with(prefix));
    if annotation == SINCE {
        let is_time = api::Time::parse(value).is_some();
        return (!is_time).then(|| format!("{value:?} is not a time such as 2026-01-01T12:00:00Z"));
    }
    match is_own || is_metric {
        true => Curve::parse(value).err(),
        false => None,
    }
}

impl Context {
    /// Answers get and list.
    pub(super) fn usage(&self) -> Result<Response<Body>, Status> {
        let prefix = match self.info.namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let items = match &*self.kind.kind {
            "PodMetrics" => self.of_pods(&prefix),
            _ => self.of_nodes(),
        };
        match (self.info.verb, self.info.name.as_str()) {
            ("list", "") => {
                let selector = self.selector()?;
                let shown = items
                    .into_iter()
                    .filter(|item| selector.matches(&self.kind, item));
                let items: Vec<Arc<Stored>> = shown.collect();
                self.listed(negotiate::shape(&self.headers)?, &items, json!({}))
            }
            ("get", name) if !name.is_empty() => {
                let mut items = items.into_iter();
                match items.find(|item| item.name() == name) {
                    Some(found) => self.show(200, &found),
                    None => Err(Status::not_found(self.subject())),
                }
            }
            _ => Err(super::not_allowed()),
        }
    }

    fn of_pods(&self, prefix: &str) -> Vec<Arc<Stored>> {
        let pods = running(&self.shared, prefix);
        let usage = Usage::of(&self.shared, &pods);
        pods.iter()
            .map(|pod| {
                let containers: Vec<Value> = usage
                    .of_containers(pod)
                    .map(|(name, usage)| json!({"name": name, "usage": usage}))
                    .collect();
                let metadata = at(pod, "metadata");
                let object = json!({"metadata": self.named(metadata), "containers": containers});
                self.stored(load::key_of(pod), object)
            })
            .collect()
    }

    fn of_nodes(&self) -> Vec<Arc<Stored>> {
        let mut by_node: BTreeMap<String, Amounts> = BTreeMap::new();
        let pods = running(&self.shared, "");
        let used = Usage::of(&self.shared, &pods);
        for pod in &pods {
            let total = by_node
                .entry(text(pod, "spec.nodeName").to_owned())
                .or_default();
            used.of_containers(pod)
                .for_each(|(_, usage)| add(total, &usage));
        }
        let Some(kind) = crate::kinds::find("", "Node") else {
            return Vec::new();
        };
        let nodes = self.shared.store.list_newest(kind, "");
        let nodes = nodes.iter().map(|stored| stored.value(kind));
        nodes
            .map(|node| {
                let metadata = at(&node, "metadata");
                let name = text(metadata, "name");
                let mut usage = by_node.remove(name).unwrap_or_default();
                for measured in MEASURED {
                    usage.entry(Istr::new(measured.resource)).or_default();
                }
                let object = json!({"metadata": self.named(metadata), "usage": usage});
                self.stored(name.to_owned(), object)
            })
            .collect()
    }

    fn named(&self, metadata: &Value) -> Value {
        let mut named = Map::new();
        for member in ["name", "namespace", "labels"] {
            if let Some(found) = metadata.get(member) {
                named.insert(member.to_owned(), found.clone());
            }
        }
        named.insert("creationTimestamp".to_owned(), json!(self.shared.now()));
        Value::Object(named)
    }

    fn stored(&self, key: String, mut object: Value) -> Arc<Stored> {
        object["timestamp"] = json!(self.shared.now());
        object["window"] = json!(WINDOW);
        let body = encode_body(&object, None);
        Arc::new(Stored::new(&self.kind, key.into(), 0, &object, body))
    }
}

/// Pods that run, and so can be measured.
fn running(shared: &Shared, prefix: &str) -> Vec<Value> {
    let Some(kind) = crate::kinds::find("", "Pod") else {
        return Vec::new();
    };
    let pods = shared.store.list_newest(kind, prefix);
    let pods = pods.iter().map(|stored| stored.value(kind));
    pods.filter(|pod| text(pod, "status.phase") == "Running")
        .collect()
}

/// What pods use at one moment.
struct Usage<'a> {
    shared: &'a Shared,
    /// For each of [`MEASURED`] what each pod has of a load.
    loads: [BTreeMap<String, Quantity>; MEASURED.len()],
    files: FromFiles,
}

impl Usage<'_> {
    fn of<'a>(shared: &'a Shared, pods: &[Value]) -> Usage<'a> {
        Usage {
            shared,
            loads: MEASURED.map(|measured| load::shares(shared, pods, measured.load)),
            files: FromFiles::of(shared, pods),
        }
    }

    /// The containers of a pod, and what each is said to use.
    fn of_containers<'b>(&'b self, pod: &'b Value) -> impl Iterator<Item = (&'b str, Amounts)> {
        let containers = list(pod, "spec.containers");
        let key = load::key_of(pod);
        containers.iter().map(move |container| {
            let name = text(container, "name");
            let requests = amounts(container, "resources.requests");
            let usage = MEASURED.iter().zip(&self.loads).map(|(measured, loads)| {
                let said = load::declared(self.shared, pod, measured.own);
                let load = || {
                    let load = loads.get(&key)?;
                    Some(share_of(load, containers.len()))
                };
                let in_files = || {
                    let resource = measured.resource;
                    self.files
                        .of_container(&key, resource, name, containers.len())
                };
                let half = || requests.get(measured.resource).map(half_of);
                let least = || Quantity::parse(measured.least).unwrap_or_default();
                let usage = said.or_else(load).or_else(in_files).or_else(half);
                let usage = usage.unwrap_or_else(least);
                (Istr::new(measured.resource), usage)
            });
            (name, usage.collect())
        })
    }
}

fn half_of(amount: &Quantity) -> Quantity {
    match amount.format() {
        Format::BinarySi => Quantity::new(amount.value() / 2, Format::BinarySi),
        format => Quantity::from_milli(amount.milli_value() / 2, format),
    }
}
