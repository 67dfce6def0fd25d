//! All controllers of kube-controller-manager, in upstream's order of registration.
//!
//! Those that are built have their descriptor in their own folder. The others are names, because operators' manifests
//! name them: to build one means to replace its line here by its folder's.

use crate::descriptor::Descriptor;
use crate::{
    cluster_role_aggregation, cronjob, daemonset, deployment, endpoints, endpointslice,
    endpointslice_mirroring, ephemeral_volume, garbage_collector, job, legacy_token_cleaner,
    namespace, node_lifecycle, persistent_volume_binder, pod_gc, pv_protection, pvc_protection,
    replicaset, root_ca_publisher, service_account, service_account_token, statefulset,
    taint_eviction, ttl, ttl_after_finished, vac_protection, volume_expander,
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
    Descriptor::named(
        "certificatesigningrequest-signing-controller",
        "csrsigning",
        "certificate-controller",
    ),
    Descriptor::named(
        "certificatesigningrequest-approving-controller",
        "csrapproving",
        "certificate-controller",
    ),
    Descriptor::named(
        "certificatesigningrequest-cleaner-controller",
        "csrcleaner",
        "certificate-controller",
    ),
    Descriptor::named(
        "podcertificaterequest-cleaner-controller",
        "",
        "podcertificaterequestcleaner",
    )
    .gated(&["PodCertificateRequest"]),
    ttl::DESCRIPTOR,
    Descriptor::named(
        "bootstrap-signer-controller",
        "bootstrapsigner",
        "bootstrap-signer",
    )
    .off(),
    Descriptor::named("token-cleaner-controller", "tokencleaner", "token-cleaner").off(),
    Descriptor::named("node-ipam-controller", "nodeipam", "node-controller"),
    node_lifecycle::DESCRIPTOR,
    Descriptor::of_cloud("service-lb-controller", "service"),
    Descriptor::of_cloud("node-route-controller", "route"),
    Descriptor::of_cloud("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
    persistent_volume_binder::DESCRIPTOR,
    Descriptor::named(
        "persistentvolume-attach-detach-controller",
        "attachdetach",
        "attachdetach-controller",
    ),
    volume_expander::DESCRIPTOR,
    cluster_role_aggregation::DESCRIPTOR,
    pvc_protection::DESCRIPTOR,
    pv_protection::DESCRIPTOR,
    vac_protection::DESCRIPTOR,
    ttl_after_finished::DESCRIPTOR,
    root_ca_publisher::DESCRIPTOR,
    Descriptor::named(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "",
        "kube-apiserver-serving-clustertrustbundle-publisher",
    )
    .gated(&["ClusterTrustBundle"]),
    ephemeral_volume::DESCRIPTOR,
    Descriptor::named(
        "storageversion-garbage-collector-controller",
        "storage-version-gc",
        "storage-version-garbage-collector",
    )
    .gated(&["APIServerIdentity", "StorageVersionAPI"]),
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
