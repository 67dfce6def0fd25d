//! Servers that stop, crash and come back while a rollout is on its way.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]
#![expect(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::{Duration, Instant};

use real_tests::audit::{self, Level};
use real_tests::kubelet::AutomaticKubelet;
use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation, manager};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(180);
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: usize = 12;
const CONTROLLERS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

#[test]
fn a_rollout_survives_server_trouble_with_go() {
    rollout_survives(Flavor::Go);
}

#[test]
fn a_rollout_survives_server_trouble_with_ours() {
    if manager::ours_has(&CONTROLLERS) {
        rollout_survives(Flavor::Ours);
    }
}

fn rollout_survives(flavor: Flavor) {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        audit: Level::Objects,
        // How long it waits for open connections when it is stopped; a minute otherwise.
        apiserver_flags: vec!["--request-timeout=10s".to_owned()],
    };
    let mut cluster = Cluster::start(&installation, options).unwrap();
    let options = ManagerOptions {
        controllers: CONTROLLERS.map(str::to_owned).to_vec(),
        ..ManagerOptions::default()
    };
    cluster
        .api
        .create(
            "/api/v1/namespaces/default/serviceaccounts",
            &json!({"metadata": {"name": "default"}}),
        )
        .unwrap();
    let mut manager = Manager::start(&cluster, flavor, &options).unwrap();
    let _kubelet = AutomaticKubelet::start(&cluster.api, "default", 2);
    cluster.api.create(DEPLOYMENTS, &deployment()).unwrap();
    wait_complete(&cluster);

    let troubles: [(&str, fn(&mut Cluster)); 4] = [
        ("kube-apiserver crashes", |cluster| {
            cluster.take_apiserver().unwrap().kill();
            cluster.start_apiserver().unwrap();
        }),
        ("kube-apiserver is stopped", |cluster| {
            cluster.take_apiserver().unwrap().stop().unwrap();
            cluster.start_apiserver().unwrap();
        }),
        ("etcd restarts", |cluster| {
            cluster.take_etcd().unwrap().stop().unwrap();
            cluster.start_etcd().unwrap();
        }),
        ("kube-apiserver hangs", |cluster| {
            let apiserver = cluster.take_apiserver().unwrap();
            apiserver.signal("STOP").unwrap();
            std::thread::sleep(Duration::from_secs(3));
            apiserver.signal("CONT").unwrap();
            apiserver.kill();
            cluster.start_apiserver().unwrap();
        }),
    ];
    for (number, (what, trouble)) in troubles.into_iter().enumerate() {
        let version = format!("example.invalid/web:{}", number + 2);
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": version}]}}}});
        cluster
            .api
            .merge_patch(&format!("{DEPLOYMENTS}/web"), &patch)
            .unwrap();
        trouble(&mut cluster);
        let started = Instant::now();
        wait_complete(&cluster);
        let took = started.elapsed().as_secs();
        installation::say(&format!(
            "{}: {took} s from the end of \"{what}\" to the end of the rollout",
            flavor.name()
        ));
        manager.check_alive().unwrap();
        nothing_is_duplicated(&cluster, what, number + 2);
    }
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/web:1"}]},
            },
        },
    })
}

fn wait_complete(cluster: &Cluster) {
    wait::until("the rollout", PATIENCE, || {
        let object = cluster.api.get(&format!("{DEPLOYMENTS}/web"))?;
        let status = &object["status"];
        let counted = ["updatedReplicas", "availableReplicas", "replicas"]
            .map(|field| status[field].as_u64());
        let complete = status["observedGeneration"] == object["metadata"]["generation"]
            && counted.iter().all(|count| *count == Some(PODS as u64));
        Ok(if complete {
            Seen::Ready(())
        } else {
            Seen::NotYet(status.to_string())
        })
    })
    .unwrap();
}

/// One ReplicaSet per template, the wanted pods and no other, and no pod created beyond what the
/// rollouts needed, except for creations whose answer the trouble swallowed.
fn nothing_is_duplicated(cluster: &Cluster, what: &str, templates: usize) {
    let sets = cluster
        .api
        .list("/apis/apps/v1/namespaces/default/replicasets")
        .unwrap();
    assert_eq!(sets.len(), templates, "ReplicaSets after {what}");
    let pods = cluster.api.list("/api/v1/namespaces/default/pods").unwrap();
    assert_eq!(pods.len(), PODS, "pods after {what}");
    let created = audit::read(&cluster.audit_log()).unwrap();
    let created = created
        .iter()
        .filter(|entry| entry.verb == "create" && entry.resource() == "pods" && entry.code() == 201)
        .count();
    assert!(
        created <= templates * (PODS + 1),
        "{created} pods were created for {templates} templates"
    );
}
