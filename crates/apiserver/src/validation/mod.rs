//! Whether an object may be stored: the rules of each kind, with upstream's causes and words.
//! Mirrors `pkg/apis/*/validation`.
//!
//! The functions run on decoded, defaulted and prepared objects, so they need not ask whether a value
//! has the right type. They answer everything that is wrong at once, as upstream does.

pub(crate) mod addresses;
mod alternative_names;
mod autoscalers;
mod batch;
mod certificate_requests;
mod certificate_signature;
mod cluster;
mod container_states;
mod containers;
mod core;
mod devices;
mod events;
mod groups;
mod job_status;
mod metadata;
mod networking;
mod place;
mod plugin_configurations;
mod pod;
mod pod_certificate_requests;
mod pod_groups;
mod pod_os;
mod policies;
mod rbac;
mod resources;
mod scheduling;
mod selectors;
mod services;
mod storage;
#[cfg(test)]
mod tests;
mod trust_bundles;
mod volumes;
mod webhooks;
mod workloads;

use api::Gates;
pub(crate) use metadata::{ANNOTATIONS_MAX, embedded as embedded_metadata};
use serde_json::Value;

use crate::kinds::Kind;
use crate::status::Cause;
use place::{Errors, Place};

/// What is wrong with a new object.
pub fn create(kind: &Kind, new: &Value, gates: Gates) -> Vec<Cause> {
    let mut errors = Errors::default();
    let root = Place::root(new);
    metadata::create(&mut errors, kind, &root);
    if kind.custom().is_none() {
        check_create(&mut errors, kind, &root, gates);
    }
    errors.0
}

/// What is wrong with how a definition converts its objects.
pub(crate) fn conversion(definition: &Value) -> Vec<Cause> {
    let mut errors = Errors::default();
    let given = &definition["spec"]["conversion"];
    if given.is_null() {
        return errors.0;
    }
    let webhook = &given["webhook"];
    let internal = serde_json::json!({"spec": {"conversion": {
        "strategy": given["strategy"], "webhookClientConfig": webhook["clientConfig"],
        "conversionReviewVersions": webhook["conversionReviewVersions"],
    }}});
    let root = Place::root(&internal);
    let spec = root.field("spec");
    webhooks::conversion(&mut errors, &spec.field("conversion"));
    errors.0
}

/// What is wrong with a configuration of the plugin EventRateLimit.
pub(crate) fn event_limits(configuration: &Value) -> Vec<Cause> {
    let mut errors = Errors::default();
    plugin_configurations::event_limits(&mut errors, &Place::root(configuration));
    errors.0
}

/// What is wrong with a configuration of the plugin PodTolerationRestriction.
pub(crate) fn pod_tolerations(configuration: &Value) -> Vec<Cause> {
    let mut errors = Errors::default();
    let named = serde_json::json!({"podtolerationrestriction": configuration});
    let root = Place::root(&named);
    let place = root.field("podtolerationrestriction");
    for list in ["default", "whitelist"] {
        scheduling::tolerations(&mut errors, &place.field(list));
    }
    errors.0
}

/// What is wrong with a configuration of the plugin ResourceQuota.
pub(crate) fn limited_resources(configuration: &Value) -> Vec<Cause> {
    let mut errors = Errors::default();
    let root = Place::root(configuration);
    for limited in root.field("limitedResources").items() {
        errors.need(&limited.field("resource"));
    }
    errors.0
}

/// What is wrong with a configuration of the plugin PodSecurity.
pub(crate) fn pod_security(configuration: &Value) -> Vec<Cause> {
    let mut errors = Errors::default();
    plugin_configurations::pod_security(&mut errors, &Place::root(configuration));
    errors.0
}

/// What is wrong with an object that is to replace `old`.
pub fn update(kind: &Kind, new: &Value, old: &Value, gates: Gates) -> Vec<Cause> {
    let mut errors = Errors::default();
    let root = Place::root(new);
    metadata::update(&mut errors, &root, old);
    if kind.custom().is_none() {
        check_update(&mut errors, kind, &root, old, gates);
    }
    errors.0
}

/// What is wrong with a status that is to be written now, in Unix seconds.
pub fn status_update(kind: &Kind, new: &Value, old: &Value, now: i64) -> Vec<Cause> {
    let mut errors = Errors::default();
    let root = Place::root(new);
    metadata::update(&mut errors, &root, old);
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => pod::status_update(&mut errors, &root, old),
        ("apps", _) | ("", "ReplicationController") => {
            workloads::status_update(&mut errors, &root, kind)
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscalers::status(&mut errors, &root),
        ("batch", "Job") => job_status::update(&mut errors, &root, old),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificate_requests::status(&mut errors, &root, old);
        }
        ("certificates.k8s.io", "PodCertificateRequest") => {
            pod_certificate_requests::status(&mut errors, &root, old, now);
        }
        ("", "Service") => services::service_status(&mut errors, &root),
        ("policy", "PodDisruptionBudget") => groups::disruption_budget_status(&mut errors, &root),
        ("resource.k8s.io", "ResourceClaim") => devices::claim_status(&mut errors, &root, old),
        ("resource.k8s.io", "ResourcePoolStatusRequest") => {
            devices::pool_status(&mut errors, &root, old);
        }
        ("scheduling.k8s.io", "PodGroup") => pod_groups::group_status(&mut errors, &root),
        _ => {}
    }
    errors.0
}

/// What is wrong with a decision about a CertificateSigningRequest that is to be written.
pub fn approval_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut errors = Errors::default();
    let root = Place::root(new);
    metadata::update(&mut errors, &root, old);
    certificate_requests::approval(&mut errors, &root, old);
    errors.0
}

fn check_create(errors: &mut Errors, kind: &Kind, root: &Place<'_>, gates: Gates) {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => pod::create(errors, root),
        ("", "PodTemplate") => pod::template(errors, &root.field("template")),
        ("", "Service") => services::service(errors, root, &Value::Null),
        ("", "Endpoints") => services::endpoints(errors, root),
        ("", "ConfigMap") => core::config_map(errors, root),
        ("", "Secret") => core::secret(errors, root),
        ("", "Node") => core::node(errors, root),
        ("", "Namespace") => core::namespace(errors, root),
        ("", "Event") => events::core(errors, root),
        ("events.k8s.io", "Event") => events::create(errors, root),
        ("", "ResourceQuota") => core::resource_quota(errors, root),
        ("", "LimitRange") => core::limit_range(errors, root),
        ("", "PersistentVolume") => storage::volume(errors, root),
        ("", "PersistentVolumeClaim") => storage::claim(errors, root),
        ("", "ReplicationController") => workloads::create(errors, &kind.kind, root),
        ("apps", "ControllerRevision") => workloads::controller_revision(errors, root, None),
        ("apps", _) => workloads::create(errors, &kind.kind, root),
        ("batch", "Job") => batch::job(errors, root),
        ("batch", "CronJob") => batch::cron_job(errors, root),
        ("discovery.k8s.io", "EndpointSlice") => services::endpoint_slice(errors, root),
        ("networking.k8s.io", "Ingress") => networking::new_ingress(errors, root),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(errors, root),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(errors, root),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(errors, root),
        ("storage.k8s.io", "CSIDriver") => storage::driver(errors, root),
        ("storage.k8s.io", "CSINode") => storage::csi_node(errors, root),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            rbac::role(errors, root, kind.namespaced)
        }
        ("rbac.authorization.k8s.io", _) => rbac::binding(errors, root, kind.namespaced),
        ("autoscaling", "HorizontalPodAutoscaler") if kind.version == "v2" => {
            autoscalers::create(errors, root, gates);
        }
        ("policy", "PodDisruptionBudget") => groups::disruption_budget(errors, root),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            cluster::certificate_request(errors, root)
        }
        ("certificates.k8s.io", "ClusterTrustBundle") => trust_bundles::create(errors, root),
        ("certificates.k8s.io", "PodCertificateRequest") => {
            pod_certificate_requests::create(errors, root);
        }
        ("networking.k8s.io", "IngressClass") => cluster::ingress_class(errors, root),
        ("networking.k8s.io", "ServiceCIDR") => cluster::service_cidr(errors, root),
        ("storage.k8s.io", "VolumeAttributesClass") => cluster::attributes_class(errors, root),
        ("storage.k8s.io", "CSIStorageCapacity") => cluster::storage_capacity(errors, root),
        ("resource.k8s.io", "DeviceClass") => devices::class(errors, root),
        ("resource.k8s.io", "ResourceSlice") => devices::slice(errors, root),
        ("resource.k8s.io", "ResourceClaim") => devices::claim(errors, &root.field("spec")),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            devices::claim(errors, &root.field("spec").field("spec"))
        }
        ("resource.k8s.io", "DeviceTaintRule") => devices::taint_rule(errors, root),
        ("resource.k8s.io", "ResourcePoolStatusRequest") => devices::pool_request(errors, root),
        ("scheduling.k8s.io", "PodGroup") => pod_groups::group(errors, &root.field("spec")),
        ("scheduling.k8s.io", "Workload") => pod_groups::workload(errors, &root.field("spec")),
        ("apiregistration.k8s.io", "APIService") => cluster::api_service(errors, root),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => cluster::flow_schema(errors, root),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            cluster::priority_level(errors, root)
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            webhooks::configuration(errors, root);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            policies::validating(errors, root, None)
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            policies::mutating(errors, root, None)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            policies::validating_binding(errors, root)
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            policies::mutating_binding(errors, root)
        }
        ("networking.k8s.io", "IPAddress") => cluster::ip_address(errors, root),
        ("coordination.k8s.io", "Lease") => groups::lease(errors, root),
        ("scheduling.k8s.io", "PriorityClass") => groups::priority_class(errors, root),
        ("node.k8s.io", "RuntimeClass") => groups::runtime_class(errors, root, None),
        _ => {}
    }
}

fn check_update(errors: &mut Errors, kind: &Kind, root: &Place<'_>, old: &Value, gates: Gates) {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => pod::update(errors, root, old),
        ("", "Service") => services::service_update(errors, root, old),
        ("", "ConfigMap") => {
            core::immutable_data(errors, root, old);
            core::config_map(errors, root);
        }
        ("", "Secret") => {
            errors.immutable(&root.field("type"), &old["type"]);
            core::immutable_data(errors, root, old);
            core::secret(errors, root);
        }
        ("events.k8s.io", "Event") => events::update(errors, root, old),
        ("", "Node") => core::node_update(errors, root, old),
        ("", "PersistentVolume") => storage::volume_update(errors, root, old),
        ("", "PersistentVolumeClaim") => storage::claim_update(errors, root, old),
        ("", "ReplicationController") => workloads::update(errors, &kind.kind, root, old),
        ("", "ResourceQuota") => {
            core::resource_quota(errors, root);
            let spec = root.field("spec");
            errors.immutable(
                &spec.field("scopes"),
                old["spec"].get("scopes").unwrap_or(&Value::Null),
            );
        }
        ("apps", "ControllerRevision") => workloads::controller_revision(errors, root, Some(old)),
        ("apps", _) => workloads::update(errors, &kind.kind, root, old),
        ("autoscaling", "HorizontalPodAutoscaler") if kind.version == "v2" => {
            autoscalers::update(errors, root, old, gates);
        }
        ("batch", "Job") => batch::job_update(errors, root, old),
        ("discovery.k8s.io", "EndpointSlice") => {
            services::endpoint_slice(errors, root);
            errors.immutable(&root.field("addressType"), &old["addressType"]);
        }
        ("networking.k8s.io", "Ingress") => networking::ingress(errors, root),
        ("storage.k8s.io", "StorageClass") => storage::storage_class_update(errors, root, old),
        ("storage.k8s.io", "CSIDriver") => storage::driver_update(errors, root, old),
        ("storage.k8s.io", "VolumeAttachment") => {
            errors.immutable(&root.field("spec"), &old["spec"])
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::binding_update(errors, root, old, kind.namespaced)
        }
        // All that it asks for, and all that became of it, stays: this changes metadata alone.
        ("certificates.k8s.io", "CertificateSigningRequest") => {}
        ("certificates.k8s.io", "ClusterTrustBundle") => trust_bundles::update(errors, root, old),
        ("certificates.k8s.io", "PodCertificateRequest") => {
            pod_certificate_requests::update(errors, root, old);
        }
        ("resource.k8s.io", "ResourceClaim") => devices::claim_update(errors, root, old),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            errors.immutable(&root.field("spec"), &old["spec"])
        }
        ("resource.k8s.io", "ResourcePoolStatusRequest") => {
            errors.immutable(&root.field("spec"), &old["spec"]);
        }
        ("scheduling.k8s.io", "PodGroup") => pod_groups::group_update(errors, root, old),
        ("scheduling.k8s.io", "Workload") => pod_groups::workload_update(errors, root, old),
        ("scheduling.k8s.io", "PriorityClass") => groups::priority_class_update(errors, root, old),
        ("node.k8s.io", "RuntimeClass") => groups::runtime_class(errors, root, Some(old)),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            policies::validating(errors, root, Some(old))
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            policies::mutating(errors, root, Some(old))
        }
        _ => check_create(errors, kind, root, gates),
    }
}
