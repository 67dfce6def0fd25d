//! What is read of a PodGroup: pods that are scheduled together, and the devices that they share.

use serde::{Deserialize, Deserializer};

use super::pod_claim::{PodClaim, WireClaim, WireClaimStatus};
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

/// The API group of pod groups, also as the consumers of claims are named.
pub const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// Stays on a group until none of its pods is active.
pub const POD_GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";

#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodGroup {
    pub metadata: Meta,
    pub claims: Box<[PodClaim]>,
}

crate::view!(
    PodGroup,
    ResourceType::namespaced(SCHEDULING_GROUP, "v1alpha2", "podgroups", "PodGroup")
);

impl<'de> Deserialize<'de> for PodGroup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PodGroup, D::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Wire {
            metadata: Meta,
            #[serde(deserialize_with = "or_default")]
            spec: Spec,
            #[serde(deserialize_with = "or_default")]
            status: Status,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            #[serde(deserialize_with = "or_default")]
            resource_claims: Vec<WireClaim>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Status {
            #[serde(deserialize_with = "or_default")]
            resource_claim_statuses: Vec<WireClaimStatus>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let statuses = &wire.status.resource_claim_statuses;
        Ok(PodGroup {
            claims: PodClaim::all(&wire.spec.resource_claims, statuses),
            metadata: wire.metadata,
        })
    }
}
