//! Metadata alone, of an object of any kind.

use serde::{Deserialize, Deserializer};

use crate::labels::LabelSet;
use crate::meta::{Meta, WireMeta};
use crate::protobuf::{Malformed, Message, Value};
use crate::resource::{DecodeError, Resource, ResourceType, decode_json, decode_protobuf};

/// Any object at all, as far as owners, finalizers and deletion go (`PartialObjectMetadata`).
/// Labels and annotations are dropped: nobody who reads this view needs them.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub metadata: Meta,
}

impl Resource for Metadata {
    // A placeholder: an informer of this view is made for one real resource each.
    const TYPE: ResourceType = ResourceType::namespaced(
        "meta.k8s.io",
        "v1",
        "partialobjectmetadata",
        "PartialObjectMetadata",
    );

    const PROTOBUF: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn decode(json: &[u8]) -> Result<Metadata, DecodeError> {
        decode_json(&Metadata::TYPE, json)
    }

    fn decode_protobuf(message: &[u8]) -> Result<Metadata, DecodeError> {
        decode_protobuf(&Metadata::TYPE, message)
    }
}

impl<'a> Message<'a> for Metadata {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.metadata = bare(value.message::<WireMeta>()?.into());
        }
        Ok(())
    }
}

fn bare(mut metadata: Meta) -> Meta {
    metadata.labels = LabelSet::default();
    metadata.annotations = LabelSet::default();
    metadata
}

/// What the garbage collector could tell apart.
impl PartialEq for Metadata {
    fn eq(&self, other: &Metadata) -> bool {
        let (one, two) = (&self.metadata, &other.metadata);
        one.uid == two.uid
            && one.owners == two.owners
            && one.finalizers == two.finalizers
            && one.deleted_at == two.deleted_at
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
        }
        let Wire { metadata } = Wire::deserialize(deserializer)?;
        Ok(Metadata {
            metadata: bare(metadata),
        })
    }
}
