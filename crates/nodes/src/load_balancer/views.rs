//! Services, Ingresses and their classes, as far as their addresses go.

use api::meta::or_default;
use api::{Istr, Meta, ResourceType};
use serde::Deserialize;

use super::CLASS;
use super::plan::FINALIZER;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub(super) struct Service {
    pub(super) metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: ServiceSpec,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: Status,
}

api::view!(
    Service,
    ResourceType::namespaced("", "v1", "services", "Service")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(super) type_: Istr,
    pub(super) load_balancer_class: Option<Istr>,
    #[serde(rename = "loadBalancerIP")]
    pub(super) load_balancer_ip: Istr,
    #[serde(deserialize_with = "or_default")]
    pub(super) ip_families: Vec<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[serde(deserialize_with = "or_default")]
    pub(super) load_balancer: LoadBalancer,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub(super) struct LoadBalancer {
    #[serde(deserialize_with = "or_default")]
    pub(super) ingress: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub(super) struct Point {
    pub(super) ip: String,
}

impl LoadBalancer {
    pub(super) fn is_empty(&self) -> bool {
        self.ingress.is_empty()
    }

    pub(super) fn only_ip(&self) -> Option<&str> {
        match self.ingress.as_slice() {
            [point] => Some(&point.ip),
            _ => None,
        }
    }
}

impl Service {
    /// Is it ours to give an address to?
    pub(super) fn wants_address(&self) -> bool {
        let class = self.spec.load_balancer_class.as_deref();
        let is_ours = class.is_none_or(|class| class == CLASS);
        self.spec.type_ == "LoadBalancer" && is_ours && !self.metadata.is_terminating()
    }

    /// Has it been given something that has to be taken back?
    pub(super) fn is_served(&self) -> bool {
        self.metadata.has_finalizer(FINALIZER)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub(super) struct Ingress {
    pub(super) metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    spec: IngressSpec,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: Status,
}

api::view!(
    Ingress,
    ResourceType::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct IngressSpec {
    ingress_class_name: Option<Istr>,
}

impl Ingress {
    /// The name of its class, also where it is said the old way.
    pub(super) fn class(&self) -> Option<&str> {
        let annotated = self.metadata.annotation("kubernetes.io/ingress.class");
        self.spec.ingress_class_name.as_deref().or(annotated)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub(super) struct IngressClass {
    pub(super) metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: IngressClassSpec,
}

api::view!(
    IngressClass,
    ResourceType::cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub(super) struct IngressClassSpec {
    pub(super) controller: String,
}
