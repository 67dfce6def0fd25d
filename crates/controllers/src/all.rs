//! All controllers of kube-controller-manager, in upstream's order of registration.
//!
//! Those that are built have their descriptor in their own folder. The others are names, because operators' manifests
//! name them: to build one means to replace its line here by its folder's.

use crate::descriptor::Descriptor;
use crate::{
    bootstrap_signer, cluster_role_aggregation, cluster_trust_bundle_publisher, cronjob,
    csr_approving, csr_cleaner, csr_signing, daemonset, deployment, endpoints, endpointslice,
    endpointslice_mirroring, garbage_collector, job, legacy_token_cleaner, namespace,
    node_lifecycle, pod_certificate_request_cleaner, pod_gc, replicaset, root_ca_publisher,
    service_account, service_account_token, statefulset, storage_version_gc, taint_eviction,
    token_cleaner, ttl, ttl_after_finished,
};

pub static ALL: [Descriptor; 52] = [
    service_account_token::DESCRIPTOR,
    endpoints::DESCRIPTOR,
    endpointslice::DESCRIPTOR,
    endpointslice_mirroring::DESCRIPTOR,
    replicaset::REPLICATION_CONTROLLER,
    pod_gc::DESCRIPTOR,
    Descriptor::named(
        "resourcequota-controller",
        "resourcequota",
        "resourcequota-controller",
    ),
    namespace::DESCRIPTOR,
    service_account::DESCRIPTOR,
    garbage_collector::DESCRIPTOR,
    daemonset::DESCRIPTOR,
    job::DESCRIPTOR,
    Descriptor::named(
        "podgroup-protection-controller",
        "",
        "podgroup-protection-controller",
    )
    .gated(&["GenericWorkload"]),
    deployment::DESCRIPTOR,
    replicaset::REPLICA_SET,
    Descriptor::named(
        "horizontal-pod-autoscaler-controller",
        "horizontalpodautoscaling",
        "horizontal-pod-autoscaler",
    ),
    Descriptor::named(
        "disruption-controller",
        "disruption",
        "disruption-controller",
    ),
    statefulset::DESCRIPTOR,
    cronjob::DESCRIPTOR,
    csr_signing::DESCRIPTOR,
    csr_approving::DESCRIPTOR,
    csr_cleaner::DESCRIPTOR,
    pod_certificate_request_cleaner::DESCRIPTOR,
    ttl::DESCRIPTOR,
    bootstrap_signer::DESCRIPTOR,
    token_cleaner::DESCRIPTOR,
    Descriptor::named("node-ipam-controller", "nodeipam", "node-controller"),
    node_lifecycle::DESCRIPTOR,
    Descriptor::of_cloud("service-lb-controller", "service"),
    Descriptor::of_cloud("node-route-controller", "route"),
    Descriptor::of_cloud("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
    Descriptor::named(
        "persistentvolume-binder-controller",
        "persistentvolume-binder",
        "persistent-volume-binder",
    ),
    Descriptor::named(
        "persistentvolume-attach-detach-controller",
        "attachdetach",
        "attachdetach-controller",
    ),
    Descriptor::named(
        "persistentvolume-expander-controller",
        "persistentvolume-expander",
        "expand-controller",
    ),
    cluster_role_aggregation::DESCRIPTOR,
    Descriptor::named(
        "persistentvolumeclaim-protection-controller",
        "pvc-protection",
        "pvc-protection-controller",
    ),
    Descriptor::named(
        "persistentvolume-protection-controller",
        "pv-protection",
        "pv-protection-controller",
    ),
    Descriptor::named(
        "volumeattributesclass-protection-controller",
        "",
        "volumeattributesclass-protection-controller",
    )
    .gated(&["VolumeAttributesClass"]),
    ttl_after_finished::DESCRIPTOR,
    root_ca_publisher::DESCRIPTOR,
    cluster_trust_bundle_publisher::DESCRIPTOR,
    Descriptor::named(
        "ephemeral-volume-controller",
        "ephemeral-volume",
        "ephemeral-volume-controller",
    ),
    storage_version_gc::DESCRIPTOR,
    Descriptor::named(
        "resourceclaim-controller",
        "resource-claim-controller",
        "resource-claim-controller",
    )
    .gated(&["DynamicResourceAllocation"]),
    Descriptor::named(
        "resourcepoolstatusrequest-controller",
        "",
        "resourcepoolstatusrequest-controller",
    )
    .gated(&["DRAResourcePoolStatus"]),
    Descriptor::named(
        "device-taint-eviction-controller",
        "",
        "device-taint-eviction-controller",
    )
    .gated(&["DynamicResourceAllocation", "DRADeviceTaints"]),
    legacy_token_cleaner::DESCRIPTOR,
    Descriptor::named(
        "validatingadmissionpolicy-status-controller",
        "",
        "validatingadmissionpolicy-status-controller",
    ),
    taint_eviction::DESCRIPTOR,
    Descriptor::named("service-cidr-controller", "", "service-cidrs-controller")
        .gated(&["MultiCIDRServiceAllocator"]),
    Descriptor::named(
        "storage-version-migrator-controller",
        "svm",
        "storage-version-migrator-controller",
    )
    .gated(&["StorageVersionMigrator"])
    .faster(20.0, 100),
    Descriptor::named(
        "selinux-warning-controller",
        "",
        "selinux-warning-controller",
    )
    .gated(&["SELinuxChangePolicy"])
    .off(),
];

/// The controller with this name or alias.
pub fn find(name: &str) -> Option<&'static Descriptor> {
    ALL.iter().find(|descriptor| {
        descriptor.name == name || (descriptor.alias == name && !name.is_empty())
    })
}

/// Those that are built.
pub fn built() -> impl Iterator<Item = &'static Descriptor> {
    ALL.iter().filter(|descriptor| descriptor.is_built())
}
