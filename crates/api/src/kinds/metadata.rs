//! Metadata alone, of an object of any kind.

use serde::{Deserialize, Deserializer};

use crate::labels::LabelSet;
use crate::meta::Meta;
use crate::resource::ResourceType;

/// Any object at all, as far as owners, finalizers and deletion go (`PartialObjectMetadata`).
/// Labels and annotations are dropped: nobody who reads this view needs them.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub metadata: Meta,
}

// The resource is a placeholder: an informer of this view is made for one real resource each.
crate::view!(
    Metadata,
    ResourceType::namespaced(
        "meta.k8s.io",
        "v1",
        "partialobjectmetadata",
        "PartialObjectMetadata"
    )
);

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
        let Wire { mut metadata } = Wire::deserialize(deserializer)?;
        metadata.labels = LabelSet::default();
        metadata.annotations = LabelSet::default();
        Ok(Metadata { metadata })
    }
}
