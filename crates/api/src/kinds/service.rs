//! What controllers read of a Service.

use serde::{Deserialize, Deserializer};

use crate::int_or_string::IntOrString;
use crate::intern::Istr;
use crate::labels::LabelSet;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

/// Asks for hints by zone, the way before `trafficDistribution`.
pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The name that it had first, which wins where both are there.
pub const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// A Service. Annotations are dropped but for the two that controllers read.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Service {
    pub metadata: Meta,
    pub spec: ServiceSpec,
}

crate::view!(
    Service,
    ResourceType::namespaced("", "v1", "services", "Service")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// An empty one is none: the API server stores no empty selector.
    pub selector: LabelSet,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: Istr,
    #[serde(rename = "clusterIP", deserialize_with = "or_default")]
    pub cluster_ip: Istr,
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<Istr>,
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ServicePort>,
    #[serde(deserialize_with = "or_default")]
    pub publish_not_ready_addresses: bool,
    pub allocate_load_balancer_node_ports: Option<bool>,
    pub traffic_distribution: Option<Istr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    pub name: Istr,
    pub protocol: Istr,
    pub app_protocol: Option<Istr>,
    pub target_port: IntOrString,
    pub node_port: i32,
}

impl Default for ServicePort {
    fn default() -> ServicePort {
        ServicePort {
            name: Istr::default(),
            protocol: Istr::default(),
            app_protocol: None,
            target_port: IntOrString::Int(0),
            node_port: 0,
        }
    }
}

impl Service {
    /// Has it no cluster IP? A service that is still to get one counts as headless, as upstream has it.
    pub fn is_headless(&self) -> bool {
        matches!(&*self.spec.cluster_ip, "" | "None")
    }

    pub fn is_external_name(&self) -> bool {
        self.spec.type_ == "ExternalName"
    }

    /// Does its selector match these labels? One without a selector matches nothing.
    pub fn selects(&self, labels: &LabelSet) -> bool {
        let selector = &self.spec.selector;
        !selector.is_empty()
            && selector
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Service, D::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Wire {
            metadata: Meta,
            #[serde(deserialize_with = "or_default")]
            spec: ServiceSpec,
        }
        let Wire { mut metadata, spec } = Wire::deserialize(deserializer)?;
        metadata.annotations = metadata
            .annotations
            .filtered(|key| [TOPOLOGY_MODE, TOPOLOGY_AWARE_HINTS].contains(&key));
        Ok(Service { metadata, spec })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resource;

    fn service(json: &str) -> Service {
        Service::decode(json.as_bytes()).unwrap()
    }

    #[test]
    fn keeps_what_is_read() {
        let service = service(
            r#"{"metadata":{"name":"web","annotations":{"a":"b","service.kubernetes.io/topology-mode":"Auto"}},
                "spec":{"clusterIP":"10.0.0.1","selector":{"app":"web"},"ipFamilies":["IPv4"],
                "ports":[{"name":"http","port":80,"targetPort":"web","protocol":"TCP"},{"port":81,"targetPort":8081}]}}"#,
        );
        assert_eq!(service.metadata.annotations.len(), 1);
        assert_eq!(service.spec.ports[0].target_port.as_text(), Some("web"));
        assert_eq!(service.spec.ports[1].target_port, IntOrString::Int(8081));
        assert!(!service.is_headless() && !service.is_external_name());
    }

    #[test]
    fn a_selector_matches_labels_that_include_it_and_none_matches_nothing() {
        let labels: LabelSet = [("app", "web"), ("tier", "x")].into_iter().collect();
        let selects = |selector: &str| {
            service(&format!(r#"{{"spec":{{"selector":{selector}}}}}"#)).selects(&labels)
        };
        assert!(selects(r#"{"app":"web"}"#) && selects(r#"{"app":"web","tier":"x"}"#));
        assert!(!selects(r#"{"app":"db"}"#) && !selects(r#"{"app":"web","more":""}"#));
        assert!(!selects("null") && !selects("{}"));
    }
}
