//! What controllers read of an EndpointSlice: for each endpoint what tells it apart, and not the endpoint itself.
//!
//! Who writes slices computes the endpoints from what they are made of (pods, or an Endpoints object) and compares;
//! two digests and the hints are enough for that. So an endpoint costs 24 bytes in the cache.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::intern::{Istr, Pool};
use crate::meta::{Meta, WireMeta, or_default};
use crate::protobuf::{Malformed, Message, Value};
use crate::resource::{DecodeError, Resource, ResourceType, decode_json, decode_protobuf};

/// The label that names the Service of a slice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names who writes a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label on the slices and Endpoints of a Service without a cluster IP.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// The annotation with the time of what last changed the endpoints.
pub const LAST_CHANGE_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSlice {
    pub metadata: Meta,
    pub address_type: AddressType,
    /// Sorted, and shared by all slices with the same ports.
    pub ports: Arc<[EndpointPort]>,
    pub endpoints: Box<[KnownEndpoint]>,
}

/// A family of addresses, which all endpoints of a slice belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum AddressType {
    #[default]
    Ipv4,
    Ipv6,
    /// Names, or what a later release added.
    Other,
}

impl AddressType {
    pub fn as_str(self) -> &'static str {
        match self {
            AddressType::Ipv4 => "IPv4",
            AddressType::Ipv6 => "IPv6",
            AddressType::Other => "FQDN",
        }
    }

    fn read(text: &str) -> AddressType {
        match text {
            "IPv4" => AddressType::Ipv4,
            "IPv6" => AddressType::Ipv6,
            _ => AddressType::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Istr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Istr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Istr>,
}

static PORTS: Pool<[EndpointPort]> = Pool::new();

/// The shared copy of these ports, in an order that does not depend on the one they came in.
pub fn intern_ports(mut ports: Vec<EndpointPort>) -> Arc<[EndpointPort]> {
    ports.sort_unstable();
    PORTS.intern_with(&ports, || Arc::from(ports.as_slice()))
}

/// What is kept of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownEndpoint {
    /// Of its addresses, its hostname and the name of its target: the same endpoint, whatever state it is in.
    pub identity: u64,
    /// Of all that a change of counts as a change of the endpoint. The lowest bit says whether it is ready.
    content: u64,
    pub hints: Option<Arc<Hints>>,
}

impl KnownEndpoint {
    pub fn is_ready(&self) -> bool {
        self.content & 1 == 1
    }

    /// Is it the same in all but its hints?
    pub fn is_same(&self, other: &KnownEndpoint) -> bool {
        (self.identity, self.content) == (other.identity, other.content)
    }
}

/// Where traffic to an endpoint should come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub for_zones: Vec<Named>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub for_nodes: Vec<Named>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Named {
    pub name: Istr,
}

static HINTS: Pool<Hints> = Pool::new();

impl Hints {
    /// The shared copy of hints for one zone, one node, or both.
    pub fn shared(zone: Option<&Istr>, node: Option<&Istr>) -> Arc<Hints> {
        let named = |name: Option<&Istr>| {
            let named = name.map(|name| Named { name: name.clone() });
            named.into_iter().collect()
        };
        HINTS.intern(Hints {
            for_zones: named(zone),
            for_nodes: named(node),
        })
    }
}

/// An endpoint in full: how it is written, and how it is read before only [`KnownEndpoint`] is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub struct Endpoint<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub addresses: Vec<Cow<'a, str>>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: EndpointConditions,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Cow<'a, str>>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shared_hints",
        serialize_with = "write_hints"
    )]
    pub hints: Option<Arc<Hints>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct EndpointConditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The object behind an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef<'a> {
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub kind: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub namespace: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub uid: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub api_version: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub resource_version: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub field_path: Cow<'a, str>,
}

impl Endpoint<'_> {
    /// What is kept of it.
    pub fn known(&self) -> KnownEndpoint {
        let target = self.target_ref.as_ref();
        let mut addresses: Vec<&str> = self.addresses.iter().map(|text| &**text).collect();
        addresses.sort_unstable();
        let identity = addresses
            .iter()
            .fold(Digest::new(), |sum, address| sum.text(address))
            .text(self.hostname.as_deref().unwrap_or_default())
            .text(target.map_or("", |target| &target.namespace))
            .text(target.map_or("", |target| &target.name));
        let conditions = self.conditions;
        let flag = |flag: Option<bool>| flag.map_or(2, u64::from);
        let mut content = identity
            .number(flag(conditions.ready))
            .number(flag(conditions.serving))
            .number(flag(conditions.terminating))
            .optional(self.node_name.as_deref())
            .optional(self.zone.as_deref())
            .number(u64::from(target.is_some()));
        if let Some(target) = target {
            // UPSTREAM: another resource version of the target is no change.
            content = content
                .text(&target.kind)
                .text(&target.uid)
                .text(&target.api_version)
                .text(&target.field_path);
        }
        let ready = u64::from(conditions.ready == Some(true));
        KnownEndpoint {
            identity: identity.finish(),
            content: content.finish() & !1 | ready,
            hints: self.hints.clone(),
        }
    }
}

impl Resource for EndpointSlice {
    const TYPE: ResourceType =
        ResourceType::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");

    /// A slice of a hundred endpoints is 30 kB of JSON.
    const PROTOBUF: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<EndpointSlice, DecodeError> {
        decode_json::<Wire<'_>>(&EndpointSlice::TYPE, json).map(EndpointSlice::from)
    }

    fn decode_protobuf(message: &[u8]) -> Result<EndpointSlice, DecodeError> {
        decode_protobuf::<Wire<'_>>(&EndpointSlice::TYPE, message).map(EndpointSlice::from)
    }
}

impl From<Wire<'_>> for EndpointSlice {
    fn from(wire: Wire<'_>) -> EndpointSlice {
        EndpointSlice {
            metadata: wire.metadata,
            address_type: AddressType::read(&wire.address_type),
            ports: intern_ports(wire.ports),
            endpoints: wire.endpoints.iter().map(Endpoint::known).collect(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Wire<'a> {
    metadata: Meta,
    #[serde(borrow)]
    address_type: Cow<'a, str>,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<EndpointPort>,
    #[serde(borrow, deserialize_with = "or_default")]
    endpoints: Vec<Endpoint<'a>>,
}

fn shared_hints<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<Hints>>, D::Error> {
    let hints: Option<Hints> = Deserialize::deserialize(deserializer)?;
    Ok(hints.map(|hints| HINTS.intern(hints)))
}

fn write_hints<S: serde::Serializer>(
    hints: &Option<Arc<Hints>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    hints.as_deref().serialize(serializer)
}

impl<'a> Message<'a> for Wire<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.metadata = value.message::<WireMeta>()?.into(),
            2 => self.endpoints.push(value.message()?),
            3 => self.ports.push(value.message()?),
            4 => self.address_type = value.text()?.into(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Endpoint<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.addresses.push(value.text()?.into()),
            2 => self.conditions = value.message()?,
            3 => self.hostname = Some(value.text()?.into()),
            4 => self.target_ref = Some(value.message()?),
            6 => self.node_name = Some(value.text()?.into()),
            7 => self.zone = Some(value.text()?.into()),
            8 => self.hints = Some(HINTS.intern(value.message()?)),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for EndpointConditions {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.ready = Some(value.flag()?),
            2 => self.serving = Some(value.flag()?),
            3 => self.terminating = Some(value.flag()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for TargetRef<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.kind = value.text()?.into(),
            2 => self.namespace = value.text()?.into(),
            3 => self.name = value.text()?.into(),
            4 => self.uid = value.text()?.into(),
            5 => self.api_version = value.text()?.into(),
            6 => self.resource_version = value.text()?.into(),
            7 => self.field_path = value.text()?.into(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for EndpointPort {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = Some(value.text()?.into()),
            2 => self.protocol = Some(value.text()?.into()),
            3 => self.port = Some(i32::try_from(value.number()?).unwrap_or(0)),
            4 => self.app_protocol = Some(value.text()?.into()),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Hints {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.for_zones.push(value.message()?),
            2 => self.for_nodes.push(value.message()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Named {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.name = value.text()?.into();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(endpoints: &str) -> EndpointSlice {
        let json = format!(
            r#"{{"metadata":{{"name":"web-1"}},"addressType":"IPv4","ports":[{{"name":"b","port":1}},{{"name":"a","port":2}}],"endpoints":{endpoints}}}"#
        );
        EndpointSlice::decode(json.as_bytes()).unwrap()
    }

    fn one(more: &str) -> KnownEndpoint {
        let json = format!(
            r#"[{{"addresses":["10.0.0.1"],"conditions":{{"ready":true}},"targetRef":{{"name":"a","uid":"u"}}{more}}}]"#
        );
        slice(&json).endpoints[0].clone()
    }

    #[test]
    fn an_endpoint_is_two_digests_and_its_hints() {
        assert_eq!(std::mem::size_of::<KnownEndpoint>(), 24);
        let plain = one("");
        assert!(plain.is_ready() && plain.hints.is_none());
        let hinted = one(r#","hints":{"forZones":[{"name":"a"}]}"#);
        assert!(plain.is_same(&hinted) && plain != hinted);
        let placed = one(r#","nodeName":"n1""#);
        assert_eq!(plain.identity, placed.identity);
        assert!(!plain.is_same(&placed));
        assert_ne!(plain.identity, one(r#","hostname":"h""#).identity);
    }

    #[test]
    fn ports_are_shared_whatever_their_order() {
        let one = slice("null");
        assert_eq!(one.ports[0].name.as_deref(), Some("a"));
        let two = intern_ports(one.ports.iter().rev().cloned().collect());
        assert!(Arc::ptr_eq(&one.ports, &two));
    }

    #[test]
    fn another_revision_of_the_target_is_no_change() {
        let endpoint = |text: &'static str| {
            let endpoint: Endpoint<'_> = serde_json::from_str(text).unwrap();
            endpoint.known()
        };
        let [one, two, three] = [
            r#"{"targetRef":{"name":"a","resourceVersion":"1"}}"#,
            r#"{"targetRef":{"name":"a","resourceVersion":"2"}}"#,
            r#"{"targetRef":{"name":"a","uid":"2"}}"#,
        ]
        .map(endpoint);
        assert!(one.is_same(&two) && !one.is_same(&three));
    }
}
