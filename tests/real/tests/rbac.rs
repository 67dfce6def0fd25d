//! The rights that a cluster gives a controller manager must suffice, and not one more is asked for.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::time::Duration;

use real_tests::audit;
use real_tests::kubelet::AutomaticKubelet;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation, manager};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
const APPS: &str = "/apis/apps/v1/namespaces/default";

const KINDS: [(&str, &str, &str); 3] = [
    ("Deployment", "deployments", "deployment-controller"),
    ("StatefulSet", "statefulsets", "statefulset-controller"),
    ("DaemonSet", "daemonsets", "daemonset-controller"),
];

#[test]
fn go_is_never_refused() {
    never_refused(Flavor::Go, &KINDS);
}

/// With every kind of workload whose controller is ours already.
#[test]
fn ours_is_never_refused() {
    let mut kinds = KINDS.to_vec();
    kinds.retain(|(_, _, controller)| manager::ours_has(&[controller]));
    never_refused(Flavor::Ours, &kinds);
}

/// All controllers, each through its own service account with upstream's bootstrap roles.
fn never_refused(flavor: Flavor, kinds: &[(&str, &str, &str)]) {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster
        .api
        .create(accounts, &json!({"metadata": {"name": "default"}}))
        .unwrap();
    let options = ManagerOptions {
        use_service_account_credentials: true,
        ..ManagerOptions::default()
    };
    let mut running = Manager::start(&cluster, flavor, &options).unwrap();
    cluster
        .api
        .create("/api/v1/nodes", &json!({"metadata": {"name": "node-0"}}))
        .unwrap();
    cluster
        .api
        .merge_patch("/api/v1/nodes/node-0", &json!({"spec": {"taints": null}}))
        .unwrap();
    let _kubelet = AutomaticKubelet::start(&cluster.api, "default", 2);

    for (kind, plural, _) in kinds {
        let path = format!("{APPS}/{plural}/{}", kind.to_lowercase());
        let is_daemon = *kind == "DaemonSet";
        cluster
            .api
            .create(&format!("{APPS}/{plural}"), &workload(kind))
            .unwrap();
        wait_status(
            &cluster,
            &path,
            if is_daemon {
                "numberReady"
            } else {
                "readyReplicas"
            },
            1,
        );
        let image = json!([{"name": "main", "image": "example.invalid/main:2"}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
        cluster.api.merge_patch(&path, &patch).unwrap();
        let field = if is_daemon {
            "updatedNumberScheduled"
        } else {
            "updatedReplicas"
        };
        wait_status(&cluster, &path, field, 1);
        cluster
            .api
            .delete(&path, &json!({"propagationPolicy": "Foreground"}))
            .unwrap();
    }
    wait::until("the last pod to go", PATIENCE, || {
        let pods = cluster.api.list("/api/v1/namespaces/default/pods")?;
        Ok(if pods.is_empty() {
            Seen::Ready(())
        } else {
            Seen::NotYet(format!("{} pods", pods.len()))
        })
    })
    .unwrap();
    running.check_alive().unwrap();

    let entries = audit::read(&cluster.audit_log()).unwrap();
    let by_manager: Vec<_> = entries
        .into_iter()
        .filter(audit::Entry::is_manager)
        .collect();
    for (_, _, controller) in kinds {
        let account = format!(":{}", service_account(controller));
        let acted = by_manager
            .iter()
            .any(|entry| entry.user.username.ends_with(&account));
        assert!(
            acted,
            "{controller} did not act through its service account"
        );
    }
    assert_eq!(audit::forbidden(&by_manager), [] as [String; 0]);
}

/// Most controllers act under their own name.
fn service_account(controller: &str) -> &str {
    match controller {
        "daemonset-controller" => "daemon-set-controller",
        other => other,
    }
}

fn workload(kind: &str) -> Value {
    let name = kind.to_lowercase();
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/main:1"}]},
            },
        },
    });
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!(name);
    }
    object
}

fn wait_status(cluster: &Cluster, path: &str, field: &str, expected: u64) {
    wait::until(path, PATIENCE, || {
        let object = cluster.api.get(path)?;
        let seen = object["status"][field].as_u64().unwrap_or(0);
        let done = seen == expected
            && object["status"]["observedGeneration"] == object["metadata"]["generation"];
        Ok(if done {
            Seen::Ready(())
        } else {
            Seen::NotYet(object["status"].to_string())
        })
    })
    .unwrap();
}
