//! What several scenarios find on their clusters: nodes, pods on them, namespaces.

use anyhow::{Result, ensure};
use real_tests::{Api, ManagerOptions};
use serde_json::{Value, json};

use super::stage::{in_parallel, same_controllers, until_seen_in_lists};

pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
/// Since when pods are ready: long enough ago that no controller waits for them to warm up.
const SINCE: &str = "2026-01-01T00:00:00Z";
/// Asks for no more of an object than its metadata, which is all that is needed of an answer that nobody reads.
const METADATA_ALONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Nodes of a scenario have no kubelets: nobody is to call them dead before it ends.
pub(super) fn patient_controllers() -> ManagerOptions {
    let flags = [
        "--node-monitor-grace-period=1h",
        "--node-startup-grace-period=1h",
    ];
    ManagerOptions {
        flags: flags.map(str::to_owned).to_vec(),
        ..same_controllers()
    }
}

pub(super) fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// Ready nodes whose volumes the manager attaches.
pub(super) fn create_nodes(api: &Api, count: usize) -> Result<()> {
    in_parallel(count, |number| {
        let node = json!({
            "metadata": {
                "name": node_name(number),
                "labels": {"kubernetes.io/hostname": node_name(number), "topology.kubernetes.io/zone": format!("zone-{}", number % 3)},
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            },
            "status": {
                "allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready", "lastHeartbeatTime": SINCE, "lastTransitionTime": SINCE}],
            },
        });
        api.create("/api/v1/nodes", &node).map(drop)
    })
}

/// A pod that no controller owns, on a node.
pub(super) fn pod(name: &str, labels: Value, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{
            "name": "main", "image": "example.invalid/main:1",
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        }]},
    })
}

/// Runs on an address of its own, ready or not. `path` is the pod's.
pub(super) fn set_readiness(api: &Api, path: &str, number: usize, ready: bool) -> Result<()> {
    let ready = if ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": SINCE});
    let address = address(number);
    let status = json!({
        "phase": "Running", "startTime": SINCE, "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [
            condition("PodScheduled", "True"),
            condition("Initialized", "True"),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
    });
    let path = format!("{path}/status");
    let headers = [
        ("Accept", METADATA_ALONE),
        ("Content-Type", "application/merge-patch+json"),
    ];
    let body = serde_json::to_vec(&json!({"status": status}))?;
    let answer = api.send_with("PATCH", &path, &headers, &body)?;
    ensure!(
        answer.status == 200,
        "PATCH {path} answered {}",
        answer.status
    );
    Ok(())
}

/// All pods of a namespace become ready, in the order of their names: those that belong together at about the same time.
pub(super) fn make_all_ready(api: &Api, pods: &str) -> Result<()> {
    let mut found: Vec<String> = api
        .list(pods)?
        .iter()
        .map(|pod| {
            let text = |field: &str| {
                pod["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            text("name")
        })
        .collect();
    found.sort();
    in_parallel(found.len(), |number| {
        let path = format!("{pods}/{}", found[number]);
        set_readiness(api, &path, number, true)
    })
}

fn address(number: usize) -> String {
    let number = number + 1;
    format!(
        "10.{}.{}.{}",
        1 + (number >> 16),
        (number >> 8) & 0xff,
        number & 0xff
    )
}

/// Creates namespaces and waits until pods can be created in them.
pub(super) fn create_namespaces(api: &Api, names: &[String]) -> Result<()> {
    in_parallel(names.len(), |number| {
        let namespace = json!({"metadata": {"name": names[number]}});
        api.create("/api/v1/namespaces", &namespace).map(drop)
    })?;
    until_seen_in_lists("the service accounts", || {
        let accounts = api.list("/api/v1/serviceaccounts?fieldSelector=metadata.name%3Ddefault")?;
        let has_account = |name: &String| {
            accounts
                .iter()
                .any(|one| one["metadata"]["namespace"] == name.as_str())
        };
        Ok(names.iter().all(has_account))
    })
}

/// Waits until so many objects of a list are as they should be.
pub(super) fn wait_for(
    api: &Api,
    path: &str,
    count: usize,
    is_done: impl Fn(&Value) -> bool,
) -> Result<()> {
    until_seen_in_lists(path, || {
        let list = api.list(path)?;
        Ok(list.iter().filter(|one| is_done(one)).count() == count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinct_and_never_that_of_a_network() {
        assert_eq!(address(0), "10.1.0.1");
        assert_eq!(address(255), "10.1.1.0");
        assert_eq!(address(70_000), "10.2.17.113");
    }
}
