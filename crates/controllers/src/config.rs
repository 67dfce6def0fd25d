//! What controllers can be set to, in the shape that `/configz` shows: upstream's
//! KubeControllerManagerConfiguration, group by group.
//!
//! Controllers take their settings from these structs, and the endpoint serializes the same ones, so what an
//! operator reads is what is in force.

use api::GoDuration;
use serde::Serialize;

/// Where settings come from, by the names of upstream's flags.
pub trait Flags {
    fn bool(&self, name: &str) -> bool;
    fn int32(&self, name: &str) -> i32;
    fn float(&self, name: &str) -> f64;
    fn float32(&self, name: &str) -> f32;
    fn text(&self, name: &str) -> &str;
    fn duration(&self, name: &str) -> GoDuration;

    /// A setting that no flag has any more.
    fn zero(&self, _: &str) -> GoDuration {
        GoDuration::ZERO
    }

    /// A setting that never had a flag.
    fn three(&self, _: &str) -> i32 {
        3
    }
}

/// Declares a settings struct whose fields come from flags: Rust name, name in `/configz`, type, flag.
macro_rules! settings {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $wire:literal $read:ident $flag:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct $name {
            $(#[serde(rename = $wire)] pub $field: $type,)*
        }

        impl $name {
            fn read(flags: &impl Flags) -> $name {
                $name { $($field: flags.$read($flag).into(),)* }
            }
        }
    };
}

/// The settings of all controllers, one group for each.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Config {
    pub kube_cloud_shared: KubeCloudShared,
    pub attach_detach_controller: AttachDetach,
    #[serde(rename = "CSRSigningController")]
    pub csr_signing_controller: CsrSigning,
    pub daemon_set_controller: DaemonSet,
    pub deployment_controller: Deployment,
    pub stateful_set_controller: StatefulSet,
    pub deprecated_controller: Deprecated,
    pub endpoint_controller: Endpoint,
    pub endpoint_slice_controller: EndpointSlice,
    pub endpoint_slice_mirroring_controller: EndpointSliceMirroring,
    pub ephemeral_volume_controller: EphemeralVolume,
    pub garbage_collector_controller: GarbageCollector,
    #[serde(rename = "HPAController")]
    pub hpa_controller: HorizontalPodAutoscaler,
    pub job_controller: Job,
    pub cron_job_controller: CronJob,
    #[serde(rename = "LegacySATokenCleaner")]
    pub legacy_sa_token_cleaner: LegacyTokenCleaner,
    pub namespace_controller: Namespace,
    #[serde(rename = "NodeIPAMController")]
    pub node_ipam_controller: NodeIpam,
    pub node_lifecycle_controller: NodeLifecycle,
    pub persistent_volume_binder_controller: PersistentVolumeBinder,
    #[serde(rename = "PodGCController")]
    pub pod_gc_controller: PodGc,
    pub replica_set_controller: ReplicaSet,
    pub replication_controller: Replication,
    pub resource_quota_controller: ResourceQuota,
    #[serde(rename = "SAController")]
    pub sa_controller: ServiceAccount,
    pub service_controller: Service,
    #[serde(rename = "TTLAfterFinishedController")]
    pub ttl_after_finished_controller: TtlAfterFinished,
    pub validating_admission_policy_status_controller: ValidatingAdmissionPolicyStatus,
    pub device_taint_eviction_controller: DeviceTaintEviction,
    pub resource_claim_controller: ResourceClaim,
}

impl Config {
    pub fn read(flags: &impl Flags) -> Config {
        Config {
            kube_cloud_shared: KubeCloudShared::read(flags),
            attach_detach_controller: AttachDetach::read(flags),
            csr_signing_controller: CsrSigning::read(flags),
            daemon_set_controller: DaemonSet::read(flags),
            deployment_controller: Deployment::read(flags),
            stateful_set_controller: StatefulSet::read(flags),
            deprecated_controller: Deprecated {},
            endpoint_controller: Endpoint::read(flags),
            endpoint_slice_controller: EndpointSlice::read(flags),
            endpoint_slice_mirroring_controller: EndpointSliceMirroring::read(flags),
            ephemeral_volume_controller: EphemeralVolume::read(flags),
            garbage_collector_controller: GarbageCollector::read(flags),
            hpa_controller: HorizontalPodAutoscaler::read(flags),
            job_controller: Job::read(flags),
            cron_job_controller: CronJob::read(flags),
            legacy_sa_token_cleaner: LegacyTokenCleaner::read(flags),
            namespace_controller: Namespace::read(flags),
            node_ipam_controller: NodeIpam::read(flags),
            node_lifecycle_controller: NodeLifecycle::read(flags),
            persistent_volume_binder_controller: PersistentVolumeBinder::read(flags),
            pod_gc_controller: PodGc::read(flags),
            replica_set_controller: ReplicaSet::read(flags),
            replication_controller: Replication::read(flags),
            resource_quota_controller: ResourceQuota::read(flags),
            sa_controller: ServiceAccount::read(flags),
            service_controller: Service::read(flags),
            ttl_after_finished_controller: TtlAfterFinished::read(flags),
            validating_admission_policy_status_controller: ValidatingAdmissionPolicyStatus::read(
                flags,
            ),
            device_taint_eviction_controller: DeviceTaintEviction::read(flags),
            resource_claim_controller: ResourceClaim::read(flags),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct KubeCloudShared {
    pub cloud_provider: CloudProvider,
    pub external_cloud_volume_plugin: String,
    pub use_service_account_credentials: bool,
    pub allow_untagged_cloud: bool,
    pub route_reconciliation_period: GoDuration,
    pub node_monitor_period: GoDuration,
    pub cluster_name: String,
    #[serde(rename = "ClusterCIDR")]
    pub cluster_cidr: String,
    #[serde(rename = "AllocateNodeCIDRs")]
    pub allocate_node_cidrs: bool,
    #[serde(rename = "CIDRAllocatorType")]
    pub cidr_allocator_type: String,
    pub configure_cloud_routes: bool,
    pub node_sync_period: GoDuration,
}

impl KubeCloudShared {
    fn read(flags: &impl Flags) -> KubeCloudShared {
        KubeCloudShared {
            cloud_provider: CloudProvider::read(flags),
            external_cloud_volume_plugin: flags.text("external-cloud-volume-plugin").to_owned(),
            use_service_account_credentials: flags.bool("use-service-account-credentials"),
            allow_untagged_cloud: flags.bool("allow-untagged-cloud"),
            route_reconciliation_period: flags.duration("route-reconciliation-period"),
            node_monitor_period: flags.duration("node-monitor-period"),
            cluster_name: flags.text("cluster-name").to_owned(),
            cluster_cidr: flags.text("cluster-cidr").to_owned(),
            allocate_node_cidrs: flags.bool("allocate-node-cidrs"),
            cidr_allocator_type: flags.text("cidr-allocator-type").to_owned(),
            configure_cloud_routes: flags.bool("configure-cloud-routes"),
            node_sync_period: flags.duration("node-sync-period"),
        }
    }
}

settings!(CloudProvider {
    name: String = "Name" text "cloud-provider",
    cloud_config_file: String = "CloudConfigFile" text "cloud-config",
});

settings!(AttachDetach {
    disable_reconciler_sync: bool =
        "DisableAttachDetachReconcilerSync" bool "disable-attach-detach-reconcile-sync",
    reconciler_sync_loop_period: GoDuration =
        "ReconcilerSyncLoopPeriod" duration "attach-detach-reconcile-sync-period",
    disable_force_detach_on_timeout: bool =
        "disableForceDetachOnTimeout" bool "disable-force-detach-on-timeout",
});

/// Certificate and key files of one signer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SignerFiles {
    pub cert_file: String,
    pub key_file: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CsrSigning {
    pub cluster_signing_cert_file: String,
    pub cluster_signing_key_file: String,
    #[serde(rename = "KubeletServingSignerConfiguration")]
    pub kubelet_serving: SignerFiles,
    #[serde(rename = "KubeletClientSignerConfiguration")]
    pub kubelet_client: SignerFiles,
    #[serde(rename = "KubeAPIServerClientSignerConfiguration")]
    pub kube_apiserver_client: SignerFiles,
    #[serde(rename = "LegacyUnknownSignerConfiguration")]
    pub legacy_unknown: SignerFiles,
    pub cluster_signing_duration: GoDuration,
}

impl CsrSigning {
    fn read(flags: &impl Flags) -> CsrSigning {
        let files = |signer: &str| SignerFiles {
            cert_file: flags
                .text(&format!("cluster-signing-{signer}-cert-file"))
                .to_owned(),
            key_file: flags
                .text(&format!("cluster-signing-{signer}-key-file"))
                .to_owned(),
        };
        CsrSigning {
            cluster_signing_cert_file: flags.text("cluster-signing-cert-file").to_owned(),
            cluster_signing_key_file: flags.text("cluster-signing-key-file").to_owned(),
            kubelet_serving: files("kubelet-serving"),
            kubelet_client: files("kubelet-client"),
            kube_apiserver_client: files("kube-apiserver-client"),
            legacy_unknown: files("legacy-unknown"),
            cluster_signing_duration: flags.duration("cluster-signing-duration"),
        }
    }
}

settings!(DaemonSet { concurrent_syncs: i32 = "ConcurrentDaemonSetSyncs" int32 "concurrent-daemonset-syncs", });
settings!(Deployment { concurrent_syncs: i32 = "ConcurrentDeploymentSyncs" int32 "concurrent-deployment-syncs", });
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatefulSet {
    #[serde(rename = "ConcurrentStatefulSetSyncs")]
    pub concurrent_syncs: i32,
    /// Ours: `/configz` has upstream's shape, and `/flagz` shows it.
    #[serde(skip)]
    pub recover_stuck_rollouts: bool,
}

impl StatefulSet {
    fn read(flags: &impl Flags) -> StatefulSet {
        StatefulSet {
            concurrent_syncs: flags.int32("concurrent-statefulset-syncs"),
            recover_stuck_rollouts: flags.bool("statefulset-recover-stuck-rollouts"),
        }
    }
}

/// UPSTREAM: an empty group that `/configz` shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deprecated {}

settings!(Endpoint {
    concurrent_syncs: i32 = "ConcurrentEndpointSyncs" int32 "concurrent-endpoint-syncs",
    updates_batch_period: GoDuration = "EndpointUpdatesBatchPeriod" duration "endpoint-updates-batch-period",
});

settings!(EndpointSlice {
    concurrent_syncs: i32 = "ConcurrentServiceEndpointSyncs" int32 "concurrent-service-endpoint-syncs",
    max_endpoints_per_slice: i32 = "MaxEndpointsPerSlice" int32 "max-endpoints-per-slice",
    updates_batch_period: GoDuration = "EndpointUpdatesBatchPeriod" duration "endpointslice-updates-batch-period",
});

settings!(EndpointSliceMirroring {
    concurrent_syncs: i32 =
        "MirroringConcurrentServiceEndpointSyncs" int32 "mirroring-concurrent-service-endpoint-syncs",
    max_endpoints_per_subset: i32 = "MirroringMaxEndpointsPerSubset" int32 "mirroring-max-endpoints-per-subset",
    updates_batch_period: GoDuration =
        "MirroringEndpointUpdatesBatchPeriod" duration "mirroring-endpointslice-updates-batch-period",
});

settings!(EphemeralVolume {
    concurrent_syncs: i32 = "ConcurrentEphemeralVolumeSyncs" int32 "concurrent-ephemeralvolume-syncs",
});

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GarbageCollector {
    pub enable_garbage_collector: bool,
    #[serde(rename = "ConcurrentGCSyncs")]
    pub concurrent_syncs: i32,
    /// Resources whose objects are neither owners nor dependents worth following: there are too many.
    #[serde(rename = "GCIgnoredResources")]
    pub ignored_resources: [GroupResource; 2],
}

impl GarbageCollector {
    fn read(flags: &impl Flags) -> GarbageCollector {
        GarbageCollector {
            enable_garbage_collector: flags.bool("enable-garbage-collector"),
            concurrent_syncs: flags.int32("concurrent-gc-syncs"),
            ignored_resources: [
                GroupResource {
                    group: "",
                    resource: "events",
                },
                GroupResource {
                    group: "events.k8s.io",
                    resource: "events",
                },
            ],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GroupResource {
    pub group: &'static str,
    pub resource: &'static str,
}

settings!(HorizontalPodAutoscaler {
    concurrent_syncs: i32 =
        "ConcurrentHorizontalPodAutoscalerSyncs" int32 "concurrent-horizontal-pod-autoscaler-syncs",
    sync_period: GoDuration =
        "HorizontalPodAutoscalerSyncPeriod" duration "horizontal-pod-autoscaler-sync-period",
    downscale_stabilization: GoDuration =
        "HorizontalPodAutoscalerDownscaleStabilizationWindow" duration
        "horizontal-pod-autoscaler-downscale-stabilization",
    tolerance: f64 = "HorizontalPodAutoscalerTolerance" float "horizontal-pod-autoscaler-tolerance",
    cpu_initialization_period: GoDuration =
        "HorizontalPodAutoscalerCPUInitializationPeriod" duration
        "horizontal-pod-autoscaler-cpu-initialization-period",
    initial_readiness_delay: GoDuration =
        "HorizontalPodAutoscalerInitialReadinessDelay" duration
        "horizontal-pod-autoscaler-initial-readiness-delay",
});

settings!(Job { concurrent_syncs: i32 = "ConcurrentJobSyncs" int32 "concurrent-job-syncs", });
settings!(CronJob { concurrent_syncs: i32 = "ConcurrentCronJobSyncs" int32 "concurrent-cron-job-syncs", });
settings!(LegacyTokenCleaner {
    clean_up_period: GoDuration = "CleanUpPeriod" duration "legacy-service-account-token-clean-up-period",
});
settings!(Namespace {
    sync_period: GoDuration = "NamespaceSyncPeriod" duration "namespace-sync-period",
    concurrent_syncs: i32 = "ConcurrentNamespaceSyncs" int32 "concurrent-namespace-syncs",
});

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeIpam {
    /// --service-cluster-ip-range up to its comma, and what follows it.
    #[serde(rename = "ServiceCIDR")]
    pub service_cidr: String,
    #[serde(rename = "SecondaryServiceCIDR")]
    pub secondary_service_cidr: String,
    #[serde(rename = "NodeCIDRMaskSize")]
    pub node_cidr_mask_size: i32,
    #[serde(rename = "NodeCIDRMaskSizeIPv4")]
    pub node_cidr_mask_size_ipv4: i32,
    #[serde(rename = "NodeCIDRMaskSizeIPv6")]
    pub node_cidr_mask_size_ipv6: i32,
}

impl NodeIpam {
    fn read(flags: &impl Flags) -> NodeIpam {
        let range = flags.text("service-cluster-ip-range");
        let (first, second) = range.split_once(',').unwrap_or((range, ""));
        NodeIpam {
            service_cidr: first.to_owned(),
            secondary_service_cidr: second.to_owned(),
            node_cidr_mask_size: flags.int32("node-cidr-mask-size"),
            node_cidr_mask_size_ipv4: flags.int32("node-cidr-mask-size-ipv4"),
            node_cidr_mask_size_ipv6: flags.int32("node-cidr-mask-size-ipv6"),
        }
    }
}

settings!(NodeLifecycle {
    eviction_rate: f32 = "NodeEvictionRate" float32 "node-eviction-rate",
    secondary_eviction_rate: f32 = "SecondaryNodeEvictionRate" float32 "secondary-node-eviction-rate",
    startup_grace_period: GoDuration = "NodeStartupGracePeriod" duration "node-startup-grace-period",
    monitor_grace_period: GoDuration = "NodeMonitorGracePeriod" duration "node-monitor-grace-period",
    // UPSTREAM: a flag that is gone, shown as what --node-sync-period would be: always zero.
    pod_eviction_timeout: GoDuration = "PodEvictionTimeout" zero "",
    large_cluster_size_threshold: i32 = "LargeClusterSizeThreshold" int32 "large-cluster-size-threshold",
    unhealthy_zone_threshold: f32 = "UnhealthyZoneThreshold" float32 "unhealthy-zone-threshold",
});

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PersistentVolumeBinder {
    #[serde(rename = "PVClaimBinderSyncPeriod")]
    pub sync_period: GoDuration,
    pub volume_configuration: VolumeConfiguration,
}

impl PersistentVolumeBinder {
    fn read(flags: &impl Flags) -> PersistentVolumeBinder {
        PersistentVolumeBinder {
            sync_period: flags.duration("pvclaimbinder-sync-period"),
            volume_configuration: VolumeConfiguration {
                enable_host_path_provisioning: flags.bool("enable-hostpath-provisioner"),
                enable_dynamic_provisioning: flags.bool("enable-dynamic-provisioning"),
                persistent_volume_recycler_configuration: Recycler::read(flags),
                flex_volume_plugin_dir: flags.text("flex-volume-plugin-dir").to_owned(),
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct VolumeConfiguration {
    pub enable_host_path_provisioning: bool,
    pub enable_dynamic_provisioning: bool,
    pub persistent_volume_recycler_configuration: Recycler,
    pub flex_volume_plugin_dir: String,
}

settings!(Recycler {
    // UPSTREAM: never settable; recycling is tried three times.
    maximum_retry: i32 = "MaximumRetry" three "",
    minimum_timeout_nfs: i32 = "MinimumTimeoutNFS" int32 "pv-recycler-minimum-timeout-nfs",
    pod_template_file_path_nfs: String = "PodTemplateFilePathNFS" text "pv-recycler-pod-template-filepath-nfs",
    increment_timeout_nfs: i32 = "IncrementTimeoutNFS" int32 "pv-recycler-increment-timeout-nfs",
    pod_template_file_path_host_path: String =
        "PodTemplateFilePathHostPath" text "pv-recycler-pod-template-filepath-hostpath",
    minimum_timeout_host_path: i32 = "MinimumTimeoutHostPath" int32 "pv-recycler-minimum-timeout-hostpath",
    increment_timeout_host_path: i32 = "IncrementTimeoutHostPath" int32 "pv-recycler-timeout-increment-hostpath",
});

settings!(PodGc { terminated_pod_threshold: i32 = "TerminatedPodGCThreshold" int32 "terminated-pod-gc-threshold", });
settings!(ReplicaSet { concurrent_syncs: i32 = "ConcurrentRSSyncs" int32 "concurrent-replicaset-syncs", });
settings!(Replication { concurrent_syncs: i32 = "ConcurrentRCSyncs" int32 "concurrent-rc-syncs", });
settings!(ResourceQuota {
    sync_period: GoDuration = "ResourceQuotaSyncPeriod" duration "resource-quota-sync-period",
    concurrent_syncs: i32 = "ConcurrentResourceQuotaSyncs" int32 "concurrent-resource-quota-syncs",
});
settings!(ServiceAccount {
    private_key_file: String = "ServiceAccountKeyFile" text "service-account-private-key-file",
    concurrent_token_syncs: i32 = "ConcurrentSATokenSyncs" int32 "concurrent-serviceaccount-token-syncs",
    root_ca_file: String = "RootCAFile" text "root-ca-file",
});
settings!(Service { concurrent_syncs: i32 = "ConcurrentServiceSyncs" int32 "concurrent-service-syncs", });
settings!(TtlAfterFinished { concurrent_syncs: i32 = "ConcurrentTTLSyncs" int32 "concurrent-ttl-after-finished-syncs", });
settings!(ValidatingAdmissionPolicyStatus {
    concurrent_syncs: i32 =
        "ConcurrentPolicySyncs" int32 "concurrent-validating-admission-policy-status-syncs",
});
settings!(DeviceTaintEviction {
    concurrent_syncs: i32 = "ConcurrentSyncs" int32 "concurrent-device-taint-eviction-syncs",
});
settings!(ResourceClaim { concurrent_syncs: i32 = "ConcurrentSyncs" int32 "concurrent-resourceclaim-syncs", });
