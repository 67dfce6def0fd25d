//! Objects as quota reads them.

use std::sync::Arc;

use api::kinds::{DeviceClass, PersistentVolumeClaim, Pod, ResourceClaim, Service};
use api::quota::{self, Counted, DeviceClasses, Evaluator, Item};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Cluster, built_in};
use crate::kinds::Kind;
use crate::storage::Transaction;

/// Where objects come from that one object's usage depends on.
pub(super) trait Source {
    fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>>;
    fn all(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>>;
}

impl Source for &dyn Cluster {
    fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.get(kind, namespace, name)
    }

    fn all(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>> {
        self.list(kind, namespace)
    }
}

impl Source for &Transaction<'_> {
    fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let found = self.get(kind, &format!("{namespace}/{name}"))?;
        Some(Arc::new(found.value(kind)))
    }

    fn all(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>> {
        let prefix = match namespace {
            "" => String::new(),
            _ => format!("{namespace}/"),
        };
        let found = self.list(kind, &prefix);
        let values = found.iter().map(|stored| Arc::new(stored.value(kind)));
        values.collect()
    }
}

/// Reads the objects of one kind in one namespace.
pub(super) struct Objects<'a, S> {
    source: S,
    namespace: &'a str,
    counted: Counted,
    classes: DeviceClasses,
}

impl<'a, S: Source> Objects<'a, S> {
    pub(super) fn new(source: S, namespace: &'a str, evaluator: &Evaluator) -> Objects<'a, S> {
        let counted = evaluator.counted();
        let mut classes = DeviceClasses::default();
        if counted == Counted::Devices {
            let kind = built_in("resource.k8s.io", "DeviceClass");
            let stored = source.all(kind, "");
            let stored: Vec<DeviceClass> = stored.iter().filter_map(|one| read(one)).collect();
            classes = DeviceClasses::new(&stored);
        }
        Objects {
            source,
            namespace,
            counted,
            classes,
        }
    }

    pub(super) fn classes(&self) -> &DeviceClasses {
        &self.classes
    }

    /// What cannot be read as what it is counts as one object and no more.
    pub(super) fn read(&self, object: &Value) -> Read {
        let read = match self.counted {
            Counted::Pods => read(object).map(|pod| Read::Pod(Box::new(pod))),
            Counted::Services => read(object).map(|service| Read::Service(Box::new(service))),
            Counted::Claims => read(object).map(|claim| Read::Claim(Box::new(claim))),
            Counted::Devices => read(object).map(|claim| {
                let pod = self.payer(&claim);
                Read::Devices(Box::new(claim), pod.map(Box::new))
            }),
            Counted::Objects => None,
        };
        read.unwrap_or(Read::Other)
    }

    /// The pod whose extended resources the claim stands for.
    fn payer(&self, claim: &ResourceClaim) -> Option<Pod> {
        let owner = quota::paying_pod(claim)?;
        let pod = self
            .source
            .find(built_in("", "Pod"), self.namespace, &owner.name)?;
        let pod: Pod = read(&pod)?;
        let claims = built_in("resource.k8s.io", "ResourceClaim");
        let others = self.source.all(claims, self.namespace);
        let others: Vec<ResourceClaim> = others.iter().filter_map(|one| read(one)).collect();
        quota::is_paid_by(claim, &pod, &others).then_some(pod)
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// One object.
pub(super) enum Read {
    Pod(Box<Pod>),
    Service(Box<Service>),
    Claim(Box<PersistentVolumeClaim>),
    Devices(Box<ResourceClaim>, Option<Box<Pod>>),
    Other,
}

impl Read {
    pub(super) fn item<'a>(&'a self, classes: &'a DeviceClasses) -> Item<'a> {
        match self {
            Read::Pod(pod) => Item::Pod(pod),
            Read::Service(service) => Item::Service(service),
            Read::Claim(claim) => Item::Claim(claim),
            Read::Devices(claim, pod) => Item::Devices(claim, classes, pod.as_deref()),
            Read::Other => Item::Other,
        }
    }
}
