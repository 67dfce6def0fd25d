//! PodCertificateRequests: their age is all that is read.

use serde::Deserialize;

use crate::meta::Meta;
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct PodCertificateRequest {
    pub metadata: Meta,
}

crate::view!(
    PodCertificateRequest,
    ResourceType::namespaced(
        "certificates.k8s.io",
        "v1beta1",
        "podcertificaterequests",
        "PodCertificateRequest"
    )
);
