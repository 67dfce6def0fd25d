//! What an event is about.

use std::borrow::Cow;
use std::sync::Arc;

use api::{Istr, Meta, ObjectId, Resource, ResourceType, Uid};

/// Names an object with everything that an event says of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    pub api_version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    /// Empty for cluster-scoped kinds.
    pub namespace: Istr,
    pub name: Arc<str>,
    pub uid: Uid,
    /// 0 when unknown.
    pub resource_version: u64,
    /// The part of the object that is meant, such as `spec.containers{web}`; usually empty.
    pub field_path: Cow<'static, str>,
}

impl ObjectRef {
    pub fn of<K: Resource>(object: &K) -> ObjectRef {
        ObjectRef::new(&K::TYPE, object.meta())
    }

    pub fn new(kind: &ResourceType, meta: &Meta) -> ObjectRef {
        ObjectRef {
            resource_version: meta.resource_version,
            ..ObjectRef::named(kind, &meta.namespace, &meta.name, meta.uid.clone())
        }
    }

    /// For an object that is known by name alone, such as one that an owner reference points to.
    pub fn named(kind: &ResourceType, namespace: &str, name: &str, uid: Uid) -> ObjectRef {
        ObjectRef {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            namespace: Istr::new(namespace),
            name: Arc::from(name),
            uid,
            resource_version: 0,
            field_path: Cow::Borrowed(""),
        }
    }

    pub fn with_field_path(mut self, path: impl Into<Cow<'static, str>>) -> ObjectRef {
        self.field_path = path.into();
        self
    }
}

impl From<&ObjectId> for ObjectRef {
    /// Every kind that is decided about has a version 1, and events are found by kind, name and uid.
    fn from(object: &ObjectId) -> ObjectRef {
        let api_version = match &*object.group {
            "" => Cow::Borrowed("v1"),
            group => Cow::Owned(format!("{group}/v1")),
        };
        ObjectRef {
            api_version,
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            resource_version: 0,
            field_path: Cow::Borrowed(""),
        }
    }
}
