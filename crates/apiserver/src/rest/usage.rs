//! `metrics.k8s.io`: what simulated pods and nodes are said to use, so that `kubectl top` and autoscalers have something
//! to read.
//!
//! Nobody measures a pod that does not run. What each of its containers uses is what the annotations
//! `steersman.dev/cpu-use` and `steersman.dev/memory-use` of the pod say, and without them half of what the container
//! requests. A node uses what its pods use.

use super::{Context, negotiate};
use crate::Body;
use crate::fields::{at, list, text};
use crate::resources::amounts;
use crate::status::Status;
use crate::storage::{Stored, encode_body};
use api::Istr;
use api::amounts::{Amounts, add};
use api::quantity::{Format, Quantity};
use http::Response;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The group whose kinds are made from pods when they are asked for.
pub(crate) const GROUP: &str = "metrics.k8s.io";

/// Over which time a metrics server measures, if it is not told otherwise.
const WINDOW: &str = "15s";

/// What a container is said to use that neither says nor requests anything: a little.
const LEAST: [(&str, &str, &str); 2] = [
    ("cpu", "steersman.dev/cpu-use", "1m"),
    ("memory", "steersman.dev/memory-use", "16Mi"),
];

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
        let pods = self.running(prefix).into_iter();
        pods.map(|pod| {
            let containers: Vec<Value> = used(&pod)
                .map(|(name, usage)| json!({"name": name, "usage": usage}))
                .collect();
            let metadata = at(&pod, "metadata");
            let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
            let object = json!({"metadata": self.named(metadata), "containers": containers});
            self.stored(format!("{namespace}/{name}"), object)
        })
        .collect()
    }

    fn of_nodes(&self) -> Vec<Arc<Stored>> {
        let mut by_node: BTreeMap<String, Amounts> = BTreeMap::new();
        for pod in self.running("") {
            let total = by_node
                .entry(text(&pod, "spec.nodeName").to_owned())
                .or_default();
            used(&pod).for_each(|(_, usage)| add(total, &usage));
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
                for (resource, _, _) in LEAST {
                    usage.entry(Istr::new(resource)).or_default();
                }
                let object = json!({"metadata": self.named(metadata), "usage": usage});
                self.stored(name.to_owned(), object)
            })
            .collect()
    }

    /// Pods that run, and so can be measured.
    fn running(&self, prefix: &str) -> Vec<Value> {
        let Some(kind) = crate::kinds::find("", "Pod") else {
            return Vec::new();
        };
        let pods = self.shared.store.list_newest(kind, prefix);
        let pods = pods.iter().map(|stored| stored.value(kind));
        pods.filter(|pod| text(pod, "status.phase") == "Running")
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

/// The containers of a pod, and what each is said to use.
fn used(pod: &Value) -> impl Iterator<Item = (&str, Amounts)> {
    let annotations = &pod["metadata"]["annotations"];
    list(pod, "spec.containers").iter().map(move |container| {
        let requests = amounts(container, "resources.requests");
        let usage = LEAST.iter().map(|(resource, annotation, least)| {
            let said = annotations[*annotation].as_str();
            let said = said.and_then(|said| Quantity::parse(said).ok());
            let said = said.filter(|said| said.sign() >= 0);
            let half = || requests.get(*resource).map(half_of);
            let least = || Quantity::parse(least).unwrap_or_default();
            let usage = said.or_else(half).unwrap_or_else(least);
            (Istr::new(resource), usage)
        });
        (text(container, "name"), usage.collect())
    })
}

fn half_of(amount: &Quantity) -> Quantity {
    match amount.format() {
        Format::BinarySi => Quantity::new(amount.value() / 2, Format::BinarySi),
        format => Quantity::from_milli(amount.milli_value() / 2, format),
    }
}
