//! Custom resource definitions: what one version of a custom kind needs at hand while serving requests.

use serde_json::Value;

/// One served version of a custom resource definition.
#[derive(Clone, Debug, Default)]
pub struct CustomVersion {
    /// `openAPIV3Schema`, structural.
    pub schema: Value,
    /// `additionalPrinterColumns`, as written in the definition.
    pub columns: Vec<Value>,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    /// `deprecationWarning`, or the default sentence when the version is deprecated.
    pub deprecation_warning: Option<String>,
}

/// Where a custom kind keeps what its scale subresource shows, as JSON paths (".spec.replicas").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}
