//! One view per kind: exactly the fields that controllers read.
//!
//! A new kind is a file here: a struct that derives `Deserialize` for what is read, and
//! [`view!`](crate::view) for its place in the API.

mod certificate_signing_request;
mod cluster_role;
mod cluster_trust_bundle;
mod config_map;
mod controller_revision;
mod cron_job;
mod daemonset;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod horizontal_pod_autoscaler;
mod in_tree;
mod job;
mod kept;
mod lease;
mod metadata;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_certificate_request;
mod pod_claim;
mod pod_disruption_budget;
mod pod_group;
mod replicaset;
mod replication_controller;
mod resource_claim;
mod resource_quota;
mod resource_slice;
mod secret;
mod service;
mod service_account;
mod service_cidr;
mod statefulset;
mod storage_class;
mod storage_version;
mod storage_version_migration;
mod strategy;
mod validating_admission_policy;
mod volume_attachment;
mod volume_attributes_class;
mod workloads;

pub use certificate_signing_request::{
    CERTIFICATE_APPROVED, CERTIFICATE_DENIED, CERTIFICATE_FAILED, CertificateSigningRequest,
    CertificateSigningRequestSpec, CertificateSigningRequestStatus,
};
pub use cluster_role::{AggregationRule, ClusterRole, PolicyRule};
pub use cluster_trust_bundle::{
    AlphaClusterTrustBundle, ClusterTrustBundle, ClusterTrustBundleSpec, TrustBundle,
};
pub use config_map::{
    CLUSTER_INFO_CONFIG_MAP, CLUSTER_INFO_NAMESPACE, ConfigMap, ROOT_CA_CONFIG_MAP,
};
pub use controller_revision::{ControllerRevision, RevisionData};
pub use cron_job::{
    CRON_JOB_SCHEDULED_TIMESTAMP, CronJob, CronJobSpec, CronJobStatus, ObjectReference,
};
pub use daemonset::{DaemonSet, DaemonSetSpec, DaemonSetStatus, DaemonSetStrategy, Placement};
pub use deployment::{
    Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, ROLLBACK_TO, RollbackTo,
};
pub use endpoint_slice::{
    AddressType, Endpoint, EndpointConditions, EndpointPort, EndpointSlice, HEADLESS, Hints,
    KnownEndpoint, LAST_CHANGE_TRIGGER_TIME, MANAGED_BY, Named, SERVICE_NAME, TargetRef,
    intern_ports,
};
pub use endpoints::{
    Address, ENDPOINT_CONTROLLER, ENDPOINTS_MANAGED_BY, Endpoints, LEADER_ELECTION, Subset,
    SubsetPort, digest_of,
};
pub use horizontal_pod_autoscaler::{
    Behavior, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
    MetricIdentifier, MetricSpec, MetricStatus, MetricTarget, MetricValue, NamedMetricSource,
    NamedMetricStatus, ObjectName, ResourceMetricSource, ResourceMetricStatus, ScalingPolicy,
    ScalingRules,
};
pub use in_tree::{CSI_PREFIX, InTree, InTreeSource, migrated_to};
pub use job::{
    JOB_COMPLETION_INDEX, JOB_CONTROLLER, JOB_INDEX_FAILURE_COUNT, JOB_INDEX_IGNORED_FAILURE_COUNT,
    JOB_TRACKING, Job, JobSpec, JobStatus, OnExitCodes, OnPodCondition, PodFailurePolicy,
    PodFailureRule, SuccessPolicy, SuccessRule, UncountedPods,
};
pub use kept::Rewritten;
pub use lease::{Lease, LeaseSpec};
pub use metadata::Metadata;
pub use namespace::{Namespace, NamespaceSpec, NamespaceStatus};
pub use node::{
    AttachedVolume, CONTROLLER_MANAGED_ATTACH, Heartbeat, Node, NodeSpec, NodeStatus, ZONE,
};
pub use persistent_volume::{
    ClaimRef, Csi, HostPath, Nfs, PV_PROTECTION, PersistentVolume, VolumeSpec, VolumeStatus,
};
pub use persistent_volume_claim::{
    ClaimCondition, ClaimSpec, ClaimStatus, ModifyVolumeStatus, PVC_PROTECTION,
    PersistentVolumeClaim,
};
pub use pod::{
    ContainerPort, Ended, Exit, InlineVolume, Mounted, POD_DELETION_COST, Phase, Pod, PodBody,
    PodCondition, PodIps, PodOwn, PodRequests, PodStatus, SELINUX_MOUNT_OPTION, SELINUX_RECURSIVE,
    SeLinux, Volume,
};
pub use pod_certificate_request::PodCertificateRequest;
pub use pod_claim::{ClaimSource, GeneratedClaim, PodClaim, WireClaim, WireClaimStatus};
pub use pod_disruption_budget::{
    PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
pub use pod_group::{
    POD_GROUP_PROTECTION, PodGroup, PodGroupTemplate, SCHEDULING_GROUP, Workload,
    WorkloadController, WorkloadSpec,
};
pub use replicaset::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
pub use replication_controller::{ReplicationController, ReplicationControllerSpec};
pub use resource_claim::{
    AllocatedDevice, AllocatedDevices, CLAIM_DELETE_PROTECTION, ClaimAllocation, ClaimConsumer,
    DeviceClaim, DeviceClass, DeviceClassSpec, DeviceCount, DeviceRequest, EXTENDED_RESOURCE_CLAIM,
    POD_CLAIM_NAME, RESERVED_FOR_MAX, ResourceClaim, ResourceClaimSpec, ResourceClaimStatus,
    ResourceClaimTemplate,
};
pub use resource_quota::{
    ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopeRequirement, ScopeSelector,
};
pub use resource_slice::{
    Device, DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintRuleStatus, DeviceTaintSelector,
    EVICTION_IN_PROGRESS, ResourcePool, ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus, ResourceSlice, ResourceSliceSpec,
};
pub use secret::{BOOTSTRAP_TOKEN, SERVICE_ACCOUNT_TOKEN, Secret};
pub use service::{Service, ServicePort, ServiceSpec, TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE};
pub use service_account::{SecretName, ServiceAccount};
pub use service_cidr::{
    ADDRESS_ALLOCATOR, ADDRESS_MANAGED_BY, IpAddress, SERVICE_CIDR_FINALIZER, ServiceCidr,
    ServiceCidrSpec, ServiceCidrStatus,
};
pub use statefulset::{
    ClaimRetention, ClaimRetentionPolicy, PodManagement, StatefulSet, StatefulSetSpec,
    StatefulSetStatus, StatefulSetStrategy,
};
pub use storage_class::StorageClass;
pub use storage_version::{ServerStorageVersion, StorageVersion, StorageVersionStatus};
pub use storage_version_migration::{
    MIGRATION_FAILED, MIGRATION_RUNNING, MIGRATION_SUCCEEDED, MigratedResource,
    StorageVersionMigration, StorageVersionMigrationSpec, StorageVersionMigrationStatus,
};
pub use validating_admission_policy::{
    ExpressionWarning, ParamKind, ResourceRule, ValidatingAdmissionPolicy, Validation, Variable,
};
pub use volume_attachment::{
    AttachmentError, AttachmentSource, AttachmentSpec, AttachmentStatus, CsiDriver, CsiDriverSpec,
    VolumeAttachment,
};
pub use volume_attributes_class::{VAC_PROTECTION, VolumeAttributesClass};
pub use workloads::{WORKLOADS, Workload as WorkloadKind};

/// Implements [`Resource`](crate::Resource) for a struct that derives `Deserialize` and has a
/// field `metadata`.
#[macro_export]
macro_rules! view {
    ($kind:ty, $resource:expr) => {
        impl $crate::Resource for $kind {
            const TYPE: $crate::ResourceType = $resource;

            fn meta(&self) -> &$crate::Meta {
                &self.metadata
            }

            fn decode(json: &[u8]) -> Result<Self, $crate::DecodeError> {
                $crate::resource::decode_json(&Self::TYPE, json)
            }
        }
    };
}
