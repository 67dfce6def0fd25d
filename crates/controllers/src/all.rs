//! All controllers of kube-controller-manager, in upstream's order of registration.
//!
//! Those that are built have their descriptor in their own folder. The others are names of cloud providers' controllers,
//! because operators' manifests name them.

use crate::descriptor::Descriptor;

pub static ALL: [Descriptor; 52] = [
    crate::service_account_token::DESCRIPTOR,
    crate::endpoints::DESCRIPTOR,
    crate::endpointslice::DESCRIPTOR,
    crate::endpointslice_mirroring::DESCRIPTOR,
    crate::replicaset::REPLICATION_CONTROLLER,
    crate::pod_gc::DESCRIPTOR,
    crate::resource_quota::DESCRIPTOR,
    crate::namespace::DESCRIPTOR,
    crate::service_account::DESCRIPTOR,
    crate::garbage_collector::DESCRIPTOR,
    crate::daemonset::DESCRIPTOR,
    crate::job::DESCRIPTOR,
    crate::pod_group_protection::DESCRIPTOR,
    crate::deployment::DESCRIPTOR,
    crate::replicaset::REPLICA_SET,
    crate::horizontal_pod_autoscaler::DESCRIPTOR,
    crate::disruption::DESCRIPTOR,
    crate::statefulset::DESCRIPTOR,
    crate::cronjob::DESCRIPTOR,
    crate::csr_signing::DESCRIPTOR,
    crate::csr_approving::DESCRIPTOR,
    crate::csr_cleaner::DESCRIPTOR,
    crate::pod_certificate_request_cleaner::DESCRIPTOR,
    crate::ttl::DESCRIPTOR,
    crate::bootstrap_signer::DESCRIPTOR,
    crate::token_cleaner::DESCRIPTOR,
    crate::node_ipam::DESCRIPTOR,
    crate::node_lifecycle::DESCRIPTOR,
    Descriptor::of_cloud("service-lb-controller", "service"),
    Descriptor::of_cloud("node-route-controller", "route"),
    Descriptor::of_cloud("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
    crate::persistent_volume_binder::DESCRIPTOR,
    crate::attach_detach::DESCRIPTOR,
    crate::volume_expander::DESCRIPTOR,
    crate::cluster_role_aggregation::DESCRIPTOR,
    crate::pvc_protection::DESCRIPTOR,
    crate::pv_protection::DESCRIPTOR,
    crate::vac_protection::DESCRIPTOR,
    crate::ttl_after_finished::DESCRIPTOR,
    crate::root_ca_publisher::DESCRIPTOR,
    crate::cluster_trust_bundle_publisher::DESCRIPTOR,
    crate::ephemeral_volume::DESCRIPTOR,
    crate::storage_version_gc::DESCRIPTOR,
    crate::resource_claim::DESCRIPTOR,
    crate::pool_status_request::DESCRIPTOR,
    crate::device_taint_eviction::DESCRIPTOR,
    crate::legacy_token_cleaner::DESCRIPTOR,
    crate::validating_admission_policy_status::DESCRIPTOR,
    crate::taint_eviction::DESCRIPTOR,
    crate::service_cidr::DESCRIPTOR,
    crate::storage_version_migrator::DESCRIPTOR,
    crate::selinux_warning::DESCRIPTOR,
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
