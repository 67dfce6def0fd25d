//! Custom resource definitions: kinds that come and go while the server runs.
//!
//! A definition takes effect in the transaction that writes it: when its creation is answered, its kinds are
//! served. Deleting it deletes its objects, and it lasts until the last of them is gone.

mod approval;
mod checks;
pub mod conversion;
mod definition;
pub(crate) mod lifecycle;
pub(crate) mod objects;
mod patterns;
pub(crate) mod rules;
pub(crate) mod schema;
pub(crate) mod structural;

pub(crate) use checks::validate;
pub(crate) use definition::complete;

use schema::Schema;
use serde_json::Value;
use std::sync::Arc;

/// One served version of a custom resource definition.
#[derive(Debug, Default)]
pub struct CustomVersion {
    /// `openAPIV3Schema`, structural.
    pub schema: Arc<Schema>,
    /// That of the version under which objects are stored.
    pub storage_schema: Arc<Schema>,
    /// Whether objects look different under the version in which they are stored.
    pub converts: bool,
    /// `additionalPrinterColumns`, as written in the definition.
    pub columns: Vec<Value>,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    /// `deprecationWarning`, or the default sentence when the version is deprecated.
    pub deprecation_warning: Option<String>,
    /// Who converts objects, if it is a webhook.
    pub conversion: Option<Arc<conversion::Conversion>>,
    /// Tells what the version says, its prose included.
    pub digest: String,
}

/// Where a custom kind keeps what its scale subresource shows, as JSON paths (".spec.replicas").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// Orders versions as upstream does: GA before beta before alpha, newer first, anything else last.
pub(crate) fn version_priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            tail => {
                let (stage, minor) = match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
                    (Some(minor), _) => (2, minor),
                    (_, Some(minor)) => (1, minor),
                    _ => return None,
                };
                Some((stage, major, minor.parse().ok()?))
            }
        }
    };
    parse().unwrap_or((0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::version_priority;

    #[test]
    fn versions_sort_by_maturity() {
        let mut versions = ["v1alpha1", "v2", "foo", "v1beta2", "v1", "v1beta10"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        assert_eq!(
            versions,
            ["v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
        );
    }
}
