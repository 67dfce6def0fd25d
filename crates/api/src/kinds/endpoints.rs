//! What controllers read of an Endpoints object.
//!
//! endpoints-controller computes the subsets from pods and compares; a digest is enough for that. Subsets are kept only
//! of objects that it does not manage and that may have to be mirrored: in protobuf, in which an address takes a hundred
//! bytes, and four times as many as a struct of texts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::endpoint_slice::TargetRef;
use crate::hash::Digest;
use crate::intern::Istr;
use crate::meta::{Meta, WireMeta, or_default};
use crate::protobuf::{self, Malformed, Message, Value, Writer};
use crate::resource::{DecodeError, Resource, ResourceType, decode_json, decode_protobuf};

/// The label that names who writes an Endpoints object.
pub const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Its value on those that are written from pods.
pub const ENDPOINT_CONTROLLER: &str = "endpoint-controller";
/// The annotation of Endpoints through which leaders of old were elected: they have no service and no addresses.
pub const LEADER_ELECTION: &str = "control-plane.alpha.kubernetes.io/leader";

/// The label that keeps Endpoints from being mirrored in slices.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

#[derive(Clone, Debug, PartialEq)]
pub struct Endpoints {
    pub metadata: Meta,
    /// Of the addresses, each with its ports and whether it is ready, whatever order they are in.
    pub digest: u64,
    /// How many addresses all subsets have together.
    pub addresses: usize,
    /// As in protobuf; none where nobody reads them.
    subsets: Option<Box<[u8]>>,
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

    fn write(&self, writer: &mut Writer) {
        writer.text(1, &self.ip);
        if let Some(target) = &self.target_ref {
            writer.message(2, |writer| target.write(writer));
        }
        if !self.hostname.is_empty() {
            writer.text(3, &self.hostname);
        }
        if let Some(node) = &self.node_name {
            writer.text(4, node);
        }
    }
}

impl Subset<'_> {
    fn write(&self, writer: &mut Writer) {
        for (field, addresses) in [(1, &self.addresses), (2, &self.not_ready_addresses)] {
            for address in addresses {
                writer.message(field, |writer| address.write(writer));
            }
        }
        for port in &self.ports {
            writer.message(3, |writer| port.write(writer));
        }
    }
}

impl SubsetPort {
    fn write(&self, writer: &mut Writer) {
        writer.text(1, &self.name);
        writer.number(2, i64::from(self.port));
        writer.text(3, &self.protocol);
        if let Some(protocol) = &self.app_protocol {
            writer.text(4, protocol);
        }
    }
}

impl TargetRef<'_> {
    fn write(&self, writer: &mut Writer) {
        let fields = [
            (1, &self.kind),
            (2, &self.namespace),
            (3, &self.name),
            (4, &self.uid),
            (5, &self.api_version),
            (6, &self.resource_version),
            (7, &self.field_path),
        ];
        for (field, text) in fields {
            if !text.is_empty() {
                writer.text(field, text);
            }
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
    /// May slices mirror it, whatever its service is?
    pub fn is_mirrored(&self) -> bool {
        is_mirrored(&self.metadata)
    }

    /// Its addresses; none where they are not kept because endpoints-controller manages them, or nobody mirrors them.
    pub fn subsets(&self) -> Option<Vec<Subset<'_>>> {
        let kept = protobuf::read::<Wire<'_>>(self.subsets.as_deref()?);
        Some(kept.unwrap_or_default().subsets)
    }

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
        let is_read = is_foreign && is_mirrored(&wire.metadata);
        wire.view(is_read)
    }
}

fn is_mirrored(meta: &Meta) -> bool {
    meta.labels.get(SKIP_MIRROR) != Some("true") && meta.annotation(LEADER_ELECTION).is_none()
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
            subsets: with_subsets.then(|| {
                let mut writer = Writer::default();
                for subset in &self.subsets {
                    writer.message(2, |writer| subset.write(writer));
                }
                writer.finish().into()
            }),
            metadata: self.metadata,
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
    fn subsets_are_kept_where_they_may_be_mirrored() {
        let subsets =
            r#"[{"addresses":[{"ip":"10.0.0.1"}],"notReadyAddresses":[{"ip":"10.0.0.2"}]}]"#;
        let ours = endpoints(
            r#"{"endpoints.kubernetes.io/managed-by":"endpoint-controller"}"#,
            subsets,
        );
        assert_eq!((ours.addresses, ours.subsets()), (2, None));
        let skipped = endpoints(
            r#"{"endpointslice.kubernetes.io/skip-mirror":"true"}"#,
            subsets,
        );
        assert_eq!((skipped.addresses, skipped.subsets()), (2, None));
        assert!(endpoints("null", subsets).subsets().is_some());
    }

    #[test]
    fn what_is_kept_of_subsets_is_all_of_them() {
        let json = r#"[
            {"addresses":[{"ip":"10.0.0.1","hostname":"h","nodeName":"n","targetRef":{"kind":"Pod","namespace":"ns","name":"a",
              "uid":"u","apiVersion":"v1","resourceVersion":"7","fieldPath":"spec"}}],
             "notReadyAddresses":[{"ip":"not an address"}],
             "ports":[{"name":"web","port":80,"protocol":"TCP","appProtocol":"http"},{"port":-1}]},
            {},
            {"addresses":[{"ip":"::1","nodeName":""}]}]"#;
        let held = endpoints("null", json);
        let sent: Vec<Subset<'_>> = serde_json::from_str(json).unwrap();
        assert_eq!(held.subsets(), Some(sent));
    }

    #[test]
    fn an_address_is_kept_in_a_hundred_bytes() {
        let address = r#"{"ip":"10.100.239.250","nodeName":"node-49","targetRef":{"kind":"Pod","namespace":"default",
            "name":"kept-6b9c7d5f48-49999","uid":"00000000-0000-4000-8000-000000049999"}}"#;
        let held = endpoints("null", &format!(r#"[{{"addresses":[{address}]}}]"#));
        assert!(held.subsets.is_some_and(|kept| kept.len() <= 115));
    }
}
