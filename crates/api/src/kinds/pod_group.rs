//! What is read of a PodGroup (pods that are scheduled together, and the devices that they share) and of a Workload, which
//! has the templates of groups.

use serde::{Deserialize, Deserializer};

use super::pod_claim::{PodClaim, WireClaim, WireClaimStatus};
use crate::intern::Istr;
use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;
use crate::template::Template;

/// The API group of pod groups, also as the consumers of claims are named.
pub const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// Stays on a group until none of its pods is active.
pub const POD_GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";

#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodGroup {
    pub metadata: Meta,
    /// The Workload whose template it was created from; empty without one.
    pub workload: Istr,
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
            pod_group_template_ref: TemplateRef,
            #[serde(deserialize_with = "or_default")]
            resource_claims: Vec<WireClaim>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct TemplateRef {
            #[serde(deserialize_with = "or_default")]
            workload: WorkloadRef,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct WorkloadRef {
            workload_name: Istr,
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
            workload: wire.spec.pod_group_template_ref.workload.workload_name,
        })
    }
}

/// What is to be scheduled together, as the controller of its pods sees it.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Workload {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_default")]
    pub spec: WorkloadSpec,
}

crate::view!(
    Workload,
    ResourceType::namespaced(SCHEDULING_GROUP, "v1alpha2", "workloads", "Workload")
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    #[serde(deserialize_with = "or_default")]
    pub controller_ref: WorkloadController,
    #[serde(deserialize_with = "or_default")]
    pub pod_group_templates: Vec<PodGroupTemplate>,
}

/// Whose pods they are. It has no uid: an owner reference of the Workload has to agree.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadController {
    pub api_group: Istr,
    pub kind: Istr,
    pub name: Istr,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupTemplate {
    pub name: Istr,
    /// As it came: it goes into the groups unread.
    pub scheduling_policy: Template,
}

impl Workload {
    /// The Job whose pods it is about.
    pub fn job(&self) -> Option<&Istr> {
        let WorkloadController {
            api_group,
            kind,
            name,
        } = &self.spec.controller_ref;
        (*api_group == "batch" && *kind == "Job" && !name.is_empty()).then_some(name)
    }
}
