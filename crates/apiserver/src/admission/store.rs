//! A cluster for tests: a list of objects, and a user who may sign for `allowed.io` only.

use serde_json::Value;

use std::sync::Arc;

use super::Cluster;
use crate::auth::Identity;
use crate::fields::text;
use crate::kinds::{Kind, Registry};
use crate::policy::Policies;

pub(crate) struct Store(Vec<Value>);

impl Store {
    pub(crate) fn of(objects: &[Value]) -> Store {
        Store(objects.to_vec())
    }
}

impl Cluster for Store {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.list(kind, namespace)
            .into_iter()
            .find(|object| text(object, "metadata.name") == name)
    }

    fn list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>> {
        let matches = |object: &&Value| {
            text(object, "kind") == kind.kind
                && text(object, "apiVersion") == kind.api_version()
                && (namespace.is_empty() || text(object, "metadata.namespace") == namespace)
        };
        let matching = self.0.iter().filter(matches);
        matching.cloned().map(Arc::new).collect()
    }

    fn may(&self, _: &Identity, _: &str, resource: &str, name: &str) -> bool {
        resource == "signers" && name.starts_with("allowed.io/")
    }

    fn decide(&self, user: &Identity, check: &cel::Check, verb: &str) -> cel::Decision {
        let cel::Check::Resource(_, resource) = check else {
            return cel::Decision::default();
        };
        cel::Decision {
            allowed: self.may(user, verb, &resource.resource, &resource.name),
            ..cel::Decision::default()
        }
    }

    fn registry(&self) -> Arc<Registry> {
        Arc::default()
    }

    fn policies(&self) -> Arc<Policies> {
        Arc::default()
    }
}
