//! ClusterTrustBundles, in the two versions that a server may have.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::{Resource, ResourceType};

/// A bundle in `v1beta1`.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ClusterTrustBundle {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ClusterTrustBundleSpec,
}

/// The same in `v1alpha1`.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct AlphaClusterTrustBundle {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ClusterTrustBundleSpec,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTrustBundleSpec {
    #[serde(deserialize_with = "or_default")]
    pub signer_name: Istr,
    #[serde(deserialize_with = "or_default")]
    pub trust_bundle: Arc<str>,
}

/// A bundle in any version.
pub trait TrustBundle: Resource {
    fn spec(&self) -> &ClusterTrustBundleSpec;
}

impl TrustBundle for ClusterTrustBundle {
    fn spec(&self) -> &ClusterTrustBundleSpec {
        &self.spec
    }
}

impl TrustBundle for AlphaClusterTrustBundle {
    fn spec(&self) -> &ClusterTrustBundleSpec {
        &self.spec
    }
}

crate::view!(
    ClusterTrustBundle,
    ResourceType::cluster(
        "certificates.k8s.io",
        "v1beta1",
        "clustertrustbundles",
        "ClusterTrustBundle"
    )
);

crate::view!(
    AlphaClusterTrustBundle,
    ResourceType::cluster(
        "certificates.k8s.io",
        "v1alpha1",
        "clustertrustbundles",
        "ClusterTrustBundle"
    )
);
