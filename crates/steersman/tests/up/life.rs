//! Starting, stopping, being killed, going on.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::home::{Api, Home, signal, until, wait};
use serde_json::{Value, json};

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    })
}

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Pods need the service account that a controller makes.
fn create_pod(api: &Api, name: &str) {
    until("the pod to be taken", || {
        api.send("POST", PODS, &pod(name)).is_ok()
    });
}

#[test]
fn the_screen_says_where_what_and_how_to_stop() {
    let home = Home::new("screen");
    let taken = std::net::TcpListener::bind("127.0.0.1:6443");
    let mut child = home
        .command(&["up", "--nodes=2", "--in-memory"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut screen = String::new();
    while !screen.contains("Ctrl-C stops it") {
        screen += &lines.next().expect("it says how to stop").unwrap();
        screen.push('\n');
    }
    // Whether we or somebody else had the port, it could not have it.
    drop(taken);
    signal(child.id(), "INT");
    assert!(wait(&mut child).success());
    for expected in [
        "port 6443 is taken, so another one is used",
        "API server    https://127.0.0.1:",
        "controllers   ",
        "nodes         2 ready",
        "export KUBECONFIG=",
        "kubectl create deployment web --image=nginx --replicas=3",
        "simulated",
        "Ctrl-C stops it; what is in it is forgotten.",
    ] {
        assert!(
            screen.contains(expected),
            "{expected:?} is not in\n{screen}"
        );
    }
}

#[test]
fn quiet_is_quiet() {
    let home = Home::new("quiet");
    let kubeconfig = home.0.join("config");
    let mut child = home
        .command(&["up", "--quiet", "--in-memory", "--port=0", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the kubeconfig", || kubeconfig.exists());
    Api::new(&kubeconfig).await_value("/api/v1/nodes/node-2", "/kind", &json!("Node"));
    signal(child.id(), "INT");
    assert!(wait(&mut child).success());
    let mut said = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "");
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let home = Home::new("kill");
    let mut up = home.up(&[]);
    let api = up.api();
    create_pod(&api, "one");
    api.await_value(&format!("{PODS}/one"), "/status/phase", &json!("Running"));
    let made = api.create(
        "/api/v1/namespaces/default/configmaps",
        &json!({"metadata": {"name": "last"}}),
    );
    up.signal("KILL");
    assert!(!up.wait().success());

    // No stale lock, the same keys, the same objects, and life goes on.
    let again = home.up(&[]);
    let old = std::fs::read_to_string(again.kubeconfig()).unwrap();
    let api = again.api();
    assert_eq!(
        api.get("/api/v1/namespaces/default/configmaps/last")["metadata"]["uid"],
        made["metadata"]["uid"]
    );
    assert_eq!(
        api.get(&format!("{PODS}/one"))["status"]["containerStatuses"][0]["restartCount"],
        0
    );
    create_pod(&api, "two");
    api.await_value(&format!("{PODS}/two"), "/status/phase", &json!("Running"));
    assert!(old.contains("client-key-data"));
    again.stop();
}

#[test]
fn a_start_can_be_interrupted_at_any_moment() {
    let home = Home::new("interrupt");
    for moment in 0..6 {
        let mut child = home
            .command(&["up", "--port=0", "--nodes=50"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Signals come after so many lines of the screen: at once, before and after the first parts are there.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..moment {
            lines.next();
        }
        // Not SIGINT: a shell lets what it runs in the background ignore that one until it is asked for.
        signal(child.id(), if moment % 2 == 0 { "TERM" } else { "KILL" });
        wait(&mut child);
    }
    let up = home.up(&["--nodes=50"]);
    assert_eq!(up.facts["nodes"], 50);
    up.stop();
}

#[test]
fn without_nodes_pods_stay_pending_and_say_why() {
    let home = Home::new("no-nodes");
    let up = home.up(&["--nodes=0", "--in-memory"]);
    assert_eq!(up.facts["nodes"], 0);
    let api = up.api();
    create_pod(&api, "lonely");
    let message = json!("no nodes available to schedule pods");
    let seen = api.await_value(
        &format!("{PODS}/lonely"),
        "/status/conditions/0/message",
        &message,
    );
    assert_eq!(seen["status"]["phase"], "Pending");
    up.stop();
}

#[test]
fn nodes_and_stages_from_files() {
    let home = Home::new("config");
    let nodes = home.file(
        "nodes.yaml",
        "nodes:\n- name: gpu\n  count: 2\n  labels: {disk: ssd}\n  usage: [{cpu: 150m, metrics: {qps: 7}}]\n",
    );
    let stages = home.file(
        "stages.yaml",
        "stages:\n- name: none-ready\n  next: NeverReady\n- {name: busy, next: Use, memory: 3Gi}\n\
         externalMetrics: [{name: depth, value: 12}]\n",
    );
    let up = home.up(&["--in-memory", "--node-config", &nodes, "--stages", &stages]);
    assert_eq!(up.facts["nodes"], 2);
    let api = up.api();
    assert_eq!(
        api.get("/api/v1/nodes/gpu-1")["metadata"]["labels"]["disk"],
        "ssd"
    );
    create_pod(&api, "p");
    let seen = api.await_value(&format!("{PODS}/p"), "/status/phase", &json!("Running"));
    assert_eq!(seen["status"]["containerStatuses"][0]["ready"], false);
    let used = api.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p");
    let expected = json!({"cpu": "150m", "memory": "3Gi"});
    assert_eq!(used["containers"][0]["usage"], expected);
    for path in [
        "custom.metrics.k8s.io/v1beta2/namespaces/default/pods/p/qps",
        "external.metrics.k8s.io/v1beta1/namespaces/default/depth",
    ] {
        let found = api.get(&format!("/apis/{path}"));
        let value = if path.ends_with("qps") { "7" } else { "12" };
        assert_eq!(found["items"][0]["value"], value, "{found}");
    }
    up.stop();
}

#[test]
fn time_can_pass_faster() {
    let home = Home::new("speed");
    let up = home.up(&["--speed=600"]);
    let api = up.api();
    until("the pod to be taken", || {
        let mut slow = pod("slow");
        slow["metadata"]["annotations"] = json!({"steersman.dev/start-delay": "20m"});
        api.send("POST", PODS, &slow).is_ok()
    });
    // Twenty minutes are two seconds here; the wait for anything is at most one minute.
    let seen = api.await_value(&format!("{PODS}/slow"), "/status/phase", &json!("Running"));
    let time =
        |pointer: &str| api::Time::parse(seen.pointer(pointer).unwrap().as_str().unwrap()).unwrap();
    let started = time("/status/containerStatuses/0/state/running/startedAt");
    assert!(started.unix() - time("/metadata/creationTimestamp").unix() >= 1199);
    up.stop();
    // The cluster's time never goes back.
    let again = home.up(&[]);
    let api = again.api();
    let made = api.create(
        "/api/v1/namespaces/default/configmaps",
        &json!({"metadata": {"name": "later"}}),
    );
    let made = api::Time::parse(made["metadata"]["creationTimestamp"].as_str().unwrap()).unwrap();
    assert!(made >= started, "{made} {started}");
    again.stop();
}

#[test]
fn controllers_can_be_left_to_another_process() {
    let home = Home::new("external");
    let up = home.up(&["--in-memory", "--controller-manager=external"]);
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    up.api().create(deployments, &deployment);
    let mut manager = home
        .command(&[
            "controller-manager",
            "--secure-port=0",
            "--leader-elect=false",
            "--kubeconfig",
        ])
        .arg(up.kubeconfig())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    up.api().await_value(
        &format!("{deployments}/web"),
        "/status/availableReplicas",
        &json!(2),
    );
    signal(manager.id(), "INT");
    wait(&mut manager);
    up.stop();
}

#[test]
fn a_context_is_merged_into_the_users_kubeconfig() {
    let home = Home::new("merge");
    std::fs::create_dir(home.0.join(".kube")).unwrap();
    let before = "contexts: [{name: work, context: {cluster: work}}]\ncurrent-context: work\n";
    let config = home.file(".kube/config", before);
    let up = home.up(&["--merge-kubeconfig"]);
    let merged: Value = api::yaml::from_str(&std::fs::read_to_string(&config).unwrap()).unwrap();
    assert_eq!(merged["current-context"], "work");
    assert_eq!(merged["contexts"][1]["name"], "steersman");
    assert_eq!(
        merged["clusters"][0]["cluster"]["server"],
        up.facts["server"]
    );
    let backup = home.0.join(".kube/config.before-steersman");
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), before);
    assert!(!home.0.join(".kube/config.lock").exists());
    up.stop();
    // It was there for as long as the cluster was up; then all is as it was, to the byte.
    assert_eq!(std::fs::read_to_string(&config).unwrap(), before);
    assert!(!backup.exists());
}

#[test]
fn nodes_get_ranges_and_pods_addresses_of_them() {
    let home = Home::new("ranges");
    let up = home.up(&["--nodes=1", "--allocate-node-cidrs"]);
    let api = up.api();
    create_pod(&api, "web");
    let address = || {
        let pod = api.get(&format!("{PODS}/web"));
        pod["status"]["podIP"].as_str().map(str::to_owned)
    };
    until("the pod to have an address", || address().is_some());
    let node = api.get("/api/v1/nodes/node-0");
    assert_eq!(node["spec"]["podCIDRs"], json!(["10.64.0.0/23"]));
    assert!(address().is_some_and(|address| address.starts_with("10.64.")));
    up.stop();
}

#[test]
fn a_quota_of_two_pods_lets_two_run() {
    let home = Home::new("quota");
    let up = home.up(&["--nodes=1", "--in-memory"]);
    let api = up.api();
    create_pod(&api, "one");
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    api.send("POST", quotas, &quota).unwrap();
    let used = || api.get(&format!("{quotas}/few"))["status"]["used"]["pods"].clone();
    until("the quota to be counted", || used() == json!("1"));
    api.send("POST", PODS, &pod("two")).unwrap();
    let refused = api.send("POST", PODS, &pod("three")).unwrap_err();
    let words = "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(refused.contains(words), "{refused}");
    up.stop();
}
