//! What an object is called, by itself and by those who refer to it.

use std::fmt;
use std::sync::Arc;

use api::{Istr, ObjectId, OwnerRef, Uid};

/// The coordinates of an object. Two objects that refer to one owner may disagree about them.
///
/// The order of the fields is the order in which alternatives are tried: kinds stay together,
/// whether they are namespaced or not.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    pub kind: Istr,
    pub api_version: Istr,
    pub namespace: Istr,
    pub name: Arc<str>,
    pub uid: Uid,
}

impl Identity {
    /// The owner that an object in `namespace` means.
    pub fn of_owner(owner: &OwnerRef, namespace: &Istr) -> Identity {
        Identity {
            kind: owner.kind.clone(),
            api_version: owner.api_version.clone(),
            namespace: namespace.clone(),
            name: owner.name.to_arc(),
            uid: owner.uid.clone(),
        }
    }

    /// The object that decisions are about.
    pub fn object(&self) -> ObjectId {
        let group = self
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        ObjectId {
            group: group.to_owned().into(),
            kind: self.kind.to_string().into(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Does the reference call it by these names? The namespace is not part of a reference.
    pub fn is_meant_by(&self, owner: &OwnerRef) -> bool {
        owner.uid == self.uid
            && *owner.name == *self.name
            && owner.kind == self.kind
            && owner.api_version == self.api_version
    }
}

/// As upstream writes it in its events.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{}/{}, namespace: {}, name: {}, uid: {}]",
            self.api_version, self.kind, self.namespace, self.name, self.uid
        )
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
