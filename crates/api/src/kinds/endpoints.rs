//! What controllers read of an Endpoints object.
//!
//! endpoints-controller computes the subsets from pods and compares; a digest is enough for that. Subsets are kept only
//! of objects that it does not manage: those may have to be mirrored.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::endpoint_slice::TargetRef;
use crate::hash::Digest;
use crate::intern::Istr;
use crate::meta::{Meta, WireMeta, or_default};
use crate::protobuf::{Malformed, Message, Value};
use crate::resource::{DecodeError, Resource, ResourceType, decode_json, decode_protobuf};

/// The label that names who writes an Endpoints object.
pub const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Its value on those that are written from pods.
pub const ENDPOINT_CONTROLLER: &str = "endpoint-controller";

#[derive(Clone, Debug, PartialEq)]
pub struct Endpoints {
    pub metadata: Meta,
    /// Of the addresses, each with its ports and whether it is ready, whatever order they are in.
    pub digest: u64,
    /// How many addresses all subsets have together.
    pub addresses: usize,
    /// None where endpoints-controller manages them.
    pub subsets: Option<Arc<[Subset<'static>]>>,
}

/// Addresses that share their ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub struct Subset<'a> {
    #[serde(
        borrow,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "or_default"
    )]
    pub addresses: Vec<Address<'a>>,
    #[serde(
        borrow,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "or_default"
    )]
    pub not_ready_addresses: Vec<Address<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub ports: Vec<SubsetPort>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Address<'a> {
    #[serde(borrow)]
    pub ip: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    pub hostname: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    #[serde(skip_serializing_if = "is_empty")]
    pub name: Istr,
    pub port: i32,
    #[serde(skip_serializing_if = "is_empty")]
    pub protocol: Istr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Istr>,
}

fn is_empty(text: &Istr) -> bool {
    text.is_empty()
}

/// What tells lists of subsets apart that do not say the same.
pub fn digest_of(subsets: &[Subset<'_>]) -> u64 {
    subsets.iter().fold(0, |sum: u64, subset| {
        let ports: Vec<u64> = match subset.ports.as_slice() {
            [] => vec![0],
            ports => ports.iter().map(SubsetPort::digest).collect(),
        };
        let ready = subset.addresses.iter().map(|address| (address, 1));
        let not_ready = subset
            .not_ready_addresses
            .iter()
            .map(|address| (address, 0));
        ready.chain(not_ready).fold(sum, |sum, (address, ready)| {
            let address = address.digest().number(ready);
            let pairs = ports.iter().map(|port| address.number(*port).finish());
            // A sum has no order, as subsets have none.
            pairs.fold(sum, u64::wrapping_add)
        })
    })
}

impl SubsetPort {
    fn digest(&self) -> u64 {
        Digest::new()
            .text(&self.name)
            .text(&self.protocol)
            .optional(self.app_protocol.as_deref())
            .number(u64::from(self.port.cast_unsigned()))
            .finish()
    }
}

impl Address<'_> {
    fn digest(&self) -> Digest {
        let digest = Digest::new()
            .text(&self.ip)
            .text(&self.hostname)
            .optional(self.node_name.as_deref());
        match &self.target_ref {
            // UPSTREAM: another resource version of the target is no change.
            Some(target) => digest
                .text(&target.kind)
                .text(&target.namespace)
                .text(&target.name)
                .text(&target.uid)
                .text(&target.api_version)
                .text(&target.field_path),
            None => digest,
        }
    }

    fn into_owned(self) -> Address<'static> {
        Address {
            ip: owned(self.ip),
            hostname: owned(self.hostname),
            node_name: self.node_name.map(owned),
            target_ref: self.target_ref.map(TargetRef::into_owned),
        }
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

impl Subset<'_> {
    pub fn into_owned(self) -> Subset<'static> {
        let owned = |addresses: Vec<Address<'_>>| {
            let addresses = addresses.into_iter();
            addresses.map(Address::into_owned).collect()
        };
        Subset {
            addresses: owned(self.addresses),
            not_ready_addresses: owned(self.not_ready_addresses),
            ports: self.ports,
        }
    }
}

impl TargetRef<'_> {
    fn into_owned(self) -> TargetRef<'static> {
        TargetRef {
            kind: owned(self.kind),
            namespace: owned(self.namespace),
            name: owned(self.name),
            uid: owned(self.uid),
            api_version: owned(self.api_version),
            resource_version: owned(self.resource_version),
            field_path: owned(self.field_path),
        }
    }
}

impl Resource for Endpoints {
    const TYPE: ResourceType = ResourceType::namespaced("", "v1", "endpoints", "Endpoints");

    /// A thousand addresses are 200 kB of JSON.
    const PROTOBUF: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<Endpoints, DecodeError> {
        decode_json::<Wire<'_>>(&Endpoints::TYPE, json).map(Endpoints::from)
    }

    fn decode_protobuf(message: &[u8]) -> Result<Endpoints, DecodeError> {
        decode_protobuf::<Wire<'_>>(&Endpoints::TYPE, message).map(Endpoints::from)
    }
}

impl Endpoints {
    /// The same with its subsets, whoever manages them.
    pub fn decode_in_full(json: &[u8]) -> Result<Endpoints, DecodeError> {
        let wire = decode_json::<Wire<'_>>(&Endpoints::TYPE, json)?;
        Ok(wire.view(true))
    }
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Wire<'a> {
    metadata: Meta,
    #[serde(borrow, deserialize_with = "or_default")]
    subsets: Vec<Subset<'a>>,
}

impl From<Wire<'_>> for Endpoints {
    fn from(wire: Wire<'_>) -> Endpoints {
        let manager = wire.metadata.labels.get(ENDPOINTS_MANAGED_BY);
        let is_foreign = manager != Some(ENDPOINT_CONTROLLER);
        wire.view(is_foreign)
    }
}

impl Wire<'_> {
    fn view(self, with_subsets: bool) -> Endpoints {
        let counts = self
            .subsets
            .iter()
            .map(|subset| subset.addresses.len() + subset.not_ready_addresses.len());
        Endpoints {
            addresses: counts.sum(),
            digest: digest_of(&self.subsets),
            metadata: self.metadata,
            subsets: with_subsets.then(|| {
                let subsets = self.subsets.into_iter();
                subsets.map(Subset::into_owned).collect()
            }),
        }
    }
}

impl<'a> Message<'a> for Wire<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.metadata = value.message::<WireMeta>()?.into(),
            2 => self.subsets.push(value.message()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Subset<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.addresses.push(value.message()?),
            2 => self.not_ready_addresses.push(value.message()?),
            3 => self.ports.push(value.message()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Address<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.ip = value.text()?.into(),
            2 => self.target_ref = Some(value.message()?),
            3 => self.hostname = value.text()?.into(),
            4 => self.node_name = Some(value.text()?.into()),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for SubsetPort {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = value.text()?.into(),
            2 => self.port = i32::try_from(value.number()?).unwrap_or(0),
            3 => self.protocol = value.text()?.into(),
            4 => self.app_protocol = Some(value.text()?.into()),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(labels: &str, subsets: &str) -> Endpoints {
        let json =
            format!(r#"{{"metadata":{{"name":"web","labels":{labels}}},"subsets":{subsets}}}"#);
        Endpoints::decode(json.as_bytes()).unwrap()
    }

    fn digest(subsets: &str) -> u64 {
        endpoints("null", subsets).digest
    }

    // Upstream: TestEndpointSubsetsEqualIgnoreResourceVersion.
    #[test]
    fn subsets_that_say_the_same_have_one_digest() {
        let both = digest(
            r#"[{"addresses":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}],"ports":[{"port":80},{"port":81}]}]"#,
        );
        let apart = digest(
            r#"[{"addresses":[{"ip":"10.0.0.2"},{"ip":"10.0.0.1"}],"ports":[{"port":81}]},
                {"addresses":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}],"ports":[{"port":80}]}]"#,
        );
        assert_eq!(both, apart);
        assert_eq!(digest("null"), digest("[]"));
        let one = |text: &str| digest(&format!(r#"[{{"addresses":[{{"ip":"10.0.0.1"{text}}}]}}]"#));
        let revision = |number: u8| {
            one(&format!(
                r#","targetRef":{{"name":"a","resourceVersion":"{number}"}}"#
            ))
        };
        assert_eq!(revision(1), revision(2));
        let not_ready = digest(r#"[{"notReadyAddresses":[{"ip":"10.0.0.1"}]}]"#);
        let different = [
            one(""),
            not_ready,
            one(r#","nodeName":"n""#),
            one(r#","hostname":"h""#),
            revision(1),
            one(r#","targetRef":{"uid":"u"}"#),
        ];
        let distinct: std::collections::BTreeSet<u64> = different.into_iter().collect();
        assert_eq!(distinct.len(), 6);
    }

    #[test]
    fn subsets_are_kept_where_somebody_else_manages_them() {
        let subsets =
            r#"[{"addresses":[{"ip":"10.0.0.1"}],"notReadyAddresses":[{"ip":"10.0.0.2"}]}]"#;
        let ours = endpoints(
            r#"{"endpoints.kubernetes.io/managed-by":"endpoint-controller"}"#,
            subsets,
        );
        assert_eq!((ours.addresses, ours.subsets), (2, None));
        assert!(endpoints("null", subsets).subsets.is_some());
    }
}
