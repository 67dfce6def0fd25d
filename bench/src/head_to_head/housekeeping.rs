//! How fast what was asked to go is gone.

use anyhow::{Context, Result};
use real_tests::installation::Installation;
use real_tests::{Api, ManagerOptions};
use serde_json::{Value, json};

use super::Options;
use super::scenarios::{DEPLOYMENTS, both, delete_and_wait, size, wait_status};
use super::stage::{Phase, deployment, in_parallel, same_controllers, until};

/// Few enough that a round at [`LIMIT`] stays short.
const LIMITED_PODS: usize = 1000;
/// Requests a second for both managers: so few that the limit counts and not the API server.
const LIMIT: u32 = 200;
const NAMESPACE_OBJECTS: usize = 1000;

/// A Deployment is deleted in the background while both managers may send the same number of requests.
pub(super) fn deleted_at_a_limit(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let pods = size(options, LIMITED_PODS);
    let path = format!("{DEPLOYMENTS}/web");
    both(installation, options, reverse, |stage, flavor| {
        let limited = ManagerOptions {
            requests_per_second: Some(LIMIT),
            ..same_controllers()
        };
        let mut manager = stage.start_manager(flavor, &limited)?;
        stage
            .cluster
            .api
            .create(DEPLOYMENTS, &deployment("web", pods, "1"))?;
        wait_status(&stage.cluster, &path, &[("replicas", pods)])?;
        let deleted = stage.measure("deleted", pods, &mut manager, |cluster| {
            delete_and_wait(cluster, &path, "web")
        })?;
        Ok(vec![deleted])
    })
}

/// A namespace with objects of twenty kinds is deleted.
pub(super) fn namespace(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    const PATH: &str = "/api/v1/namespaces/full";
    let objects = size(options, NAMESPACE_OBJECTS);
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        let api = &stage.cluster.api;
        api.create("/api/v1/namespaces", &json!({"metadata": {"name": "full"}}))?;
        until("the namespace's service account", || {
            let accounts = api.list(&format!("{PATH}/serviceaccounts"))?;
            Ok(!accounts.is_empty())
        })?;
        fill(api, objects)?;
        let gone = stage.measure("gone", objects, &mut manager, |cluster| {
            cluster.api.delete(PATH, &json!({}))?;
            until("the end of the namespace", || {
                let left = cluster.api.list("/api/v1/namespaces")?;
                Ok(left.iter().all(|one| one["metadata"]["name"] != "full"))
            })
        })?;
        Ok(vec![gone])
    })
}

fn fill(api: &Api, objects: usize) -> Result<()> {
    let kinds = kinds();
    in_parallel(objects, |number| {
        let (path, object) = &kinds[number % kinds.len()];
        let mut object = object.clone();
        object["metadata"]["name"] = json!(format!("object-{number}"));
        let (group, plural) = path.rsplit_once('/').context("a path has two parts")?;
        api.create(&format!("/{group}/namespaces/full/{plural}"), &object)
            .map(drop)
    })
}

/// Twenty kinds that no controller of the two makes anything of.
fn kinds() -> Vec<(&'static str, Value)> {
    let pods = json!({"metadata": {"labels": {"app": "full"}}, "spec": {"containers": [{"name": "main", "image": "example.invalid/full:1"}]}});
    let selector = json!({"matchLabels": {"app": "full"}});
    vec![
        ("api/v1/configmaps", json!({"data": {"key": "value"}})),
        ("api/v1/secrets", json!({"stringData": {"key": "value"}})),
        (
            "api/v1/services",
            json!({"spec": {"clusterIP": "None", "selector": {"app": "full"}}}),
        ),
        ("api/v1/endpoints", json!({})),
        ("api/v1/podtemplates", json!({"template": pods})),
        (
            "api/v1/replicationcontrollers",
            json!({"spec": {"replicas": 0, "selector": {"app": "full"}, "template": pods}}),
        ),
        ("api/v1/limitranges", json!({"spec": {"limits": []}})),
        ("api/v1/resourcequotas", json!({})),
        (
            "apis/apps/v1/controllerrevisions",
            json!({"revision": 1, "data": {}}),
        ),
        (
            "apis/apps/v1/replicasets",
            json!({"spec": {"replicas": 0, "selector": selector, "template": pods}}),
        ),
        (
            "apis/autoscaling/v2/horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none"}}}),
        ),
        (
            "apis/batch/v1/jobs",
            json!({"spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": pods["spec"]["containers"]}}}}),
        ),
        (
            "apis/batch/v1/cronjobs",
            json!({"spec": {"suspend": true, "schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": pods["spec"]["containers"]}}}}}}),
        ),
        ("apis/coordination.k8s.io/v1/leases", json!({})),
        (
            "apis/discovery.k8s.io/v1/endpointslices",
            json!({"addressType": "IPv4", "endpoints": []}),
        ),
        (
            "apis/networking.k8s.io/v1/ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "none", "port": {"number": 80}}}}}),
        ),
        (
            "apis/networking.k8s.io/v1/networkpolicies",
            json!({"spec": {"podSelector": {}}}),
        ),
        (
            "apis/policy/v1/poddisruptionbudgets",
            json!({"spec": {"selector": selector}}),
        ),
        (
            "apis/rbac.authorization.k8s.io/v1/roles",
            json!({"rules": []}),
        ),
        (
            "apis/rbac.authorization.k8s.io/v1/rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"}}),
        ),
    ]
}
