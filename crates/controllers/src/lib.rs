//! What each controller decides. One folder per controller, shared workload pieces beside them.
//!
//! A controller has one of two shapes. A *small* one is a plain [`runtime::Reconcile`]; a *workload* goes
//! through the driver in [`workload`]: observe (what the caches say) → plan (pure: what should happen, and
//! why) → apply (the only place with IO) → status (pure) → written if it differs. Controllers never know each
//! other; they meet in the API server. [`ALL`] lists them, and everything else is derived from it. What must hold of
//! what each looks after is its [`oracle::Oracle`].

mod all;
pub mod attach_detach;
pub mod bootstrap_signer;
mod bootstrap_token;
pub mod certificates;
pub mod cluster_role_aggregation;
pub mod cluster_trust_bundle_publisher;
pub mod config;
pub mod cronjob;
pub mod csr_approving;
pub mod csr_cleaner;
pub mod csr_signing;
pub mod daemonset;
pub mod deployment;
mod descriptor;
pub mod device_taint_eviction;
pub mod discovery;
pub mod disruption;
pub mod endpoints;
pub mod endpointslice;
pub mod endpointslice_mirroring;
pub mod ephemeral_volume;
pub mod garbage_collector;
pub mod horizontal_pod_autoscaler;
pub mod job;
pub mod legacy_token_cleaner;
pub mod namespace;
pub mod node_ipam;
pub mod node_lifecycle;
pub mod oracle;
pub mod persistent_volume_binder;
pub mod pod_certificate_request_cleaner;
pub mod pod_gc;
pub mod pod_group_protection;
pub mod pool_status_request;
pub mod pv_protection;
pub mod pvc_protection;
pub mod replicaset;
pub mod resource_claim;
pub mod resource_quota;
pub mod root_ca_publisher;
pub mod scale;
pub mod selinux_warning;
pub mod service_account;
pub mod service_account_token;
pub mod service_cidr;
pub mod service_endpoints;
pub mod statefulset;
mod storage;
pub mod storage_version_gc;
pub mod storage_version_migrator;
mod sync_metrics;
pub mod taint_eviction;
pub mod token_cleaner;
pub mod ttl;
pub mod ttl_after_finished;
pub mod vac_protection;
pub mod validating_admission_policy_status;
pub mod volume_expander;
pub mod workload;

pub use all::{ALL, built, find};
pub use config::Config;
pub use descriptor::{BuildContext, ControllerWithEvents, Descriptor, Environment, EventsStopper};

/// A controller that has seen this object and nothing since. The object is held: deleting it does not make it go.
#[cfg(test)]
async fn lagging<K: api::Resource>(
    mut object: serde_json::Value,
    gates: api::Gates,
    build: impl FnOnce(&runtime::Context) -> runtime::Controller,
) -> testkit::Lagging {
    let world = testkit::World::new().await;
    let controller = build(&runtime::Context {
        gates,
        ..world.context()
    });
    object["metadata"]["finalizers"] = serde_json::json!(["example.com/hold"]);
    let made = world.create(&K::TYPE, object).await;
    let lagging = testkit::Lagging { world, controller };
    let name = made["metadata"]["name"].as_str();
    lagging.see::<K>(name.unwrap_or_default()).await;
    lagging
}

/// A custom resource that stands in for one that the API server has only behind a gate.
#[cfg(test)]
async fn test_definition(world: &testkit::World, resource: &api::ResourceType, versions: &[&str]) {
    use serde_json::{Value, json};
    let version = |(at, name): (usize, &&str)| {
        json!({
            "name": name, "served": true, "storage": at == 0, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
    let scope = if resource.namespaced {
        "Namespaced"
    } else {
        "Cluster"
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", resource.plural, resource.group),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": resource.group, "scope": scope, "versions": versions,
            "names": {"plural": resource.plural, "kind": resource.kind},
        },
    });
    let definitions = api::ResourceType::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    world.create(&definitions, definition).await;
}
