//! A key names an object of a known kind and carries nothing else.

use std::fmt;
use std::sync::Arc;

use crate::intern::Istr;

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: Istr,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Key {
        Key {
            namespace: Istr::new(namespace),
            name: Arc::from(name),
        }
    }
}

/// `namespace/name`, or just the name: as upstream's queues and logs write keys.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
