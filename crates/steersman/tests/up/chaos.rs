//! Trouble by hand, from another terminal.

use crate::home::{Home, until};
use serde_json::json;

const PODS: &str = "/api/v1/namespaces/default/pods";

#[test]
fn pods_fail_and_nodes_stop_start_and_drain() {
    let home = Home::new("chaos");
    let up = home.up(&["--nodes=2", "--in-memory"]);
    let api = up.api();
    let pod = |name: &str, policy: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": "node-1", "restartPolicy": policy,
                "containers": [{"name": "web", "image": "nginx", "command": ["sleep", "infinity"]}],
            },
        })
    };
    for (name, policy) in [("again", "Always"), ("once", "Never")] {
        until("the pod to be taken", || {
            api.send("POST", PODS, &pod(name, policy)).is_ok()
        });
        api.await_value(
            &format!("{PODS}/{name}"),
            "/status/phase",
            &json!("Running"),
        );
        home.succeed(&["pod", "fail", name]);
    }
    let restarts = "/status/containerStatuses/0/restartCount";
    let seen = api.await_value(&format!("{PODS}/again"), restarts, &json!(1));
    assert_eq!(
        seen["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"],
        137
    );
    api.await_value(&format!("{PODS}/once"), "/status/phase", &json!("Failed"));
    let said = home.refused(&["pod", "fail", "once"]);
    assert!(said.contains("no container of pod once runs"), "{said}");
    let said = home.refused(&["pod", "fail", "again", "-n", "kube-system"]);
    assert!(
        said.contains("there is no pod again in namespace kube-system"),
        "{said}"
    );

    home.succeed(&["node", "stop", "node-0"]);
    let node = api.get("/api/v1/nodes/node-0");
    assert_eq!(
        node["metadata"]["annotations"]["steersman.dev/silent"],
        "true"
    );
    home.succeed(&["node", "start", "node-0"]);
    assert!(
        api.get("/api/v1/nodes/node-0")["metadata"]["annotations"]["steersman.dev/silent"]
            .is_null()
    );

    let said = home.succeed(&["node", "drain", "node-1"]);
    assert!(said.contains("pod/again is evicted"), "{said}");
    assert_eq!(
        api.get("/api/v1/nodes/node-1")["spec"]["unschedulable"],
        true
    );
    assert!(
        api.send("GET", &format!("{PODS}/again"), &json!(null))
            .is_err()
    );
    home.succeed(&["node", "start", "node-1"]);
    assert!(api.get("/api/v1/nodes/node-1")["spec"]["unschedulable"].is_null());
    assert!(
        home.refused(&["node", "drain", "nope"])
            .contains("there is no node nope; `kubectl get nodes` lists those that are")
    );
    up.stop();
}

/// At a hundred times the speed: 50 seconds until silence is noticed, five minutes until pods leave.
#[test]
fn the_pods_of_a_node_that_stops_come_up_elsewhere() {
    let home = Home::new("silence");
    let up = home.up(&["--nodes=2", "--in-memory", "--speed=100"]);
    let api = up.api();
    until("the pod to be taken", || {
        let pod = json!({
            "metadata": {"name": "lost", "labels": {"app": "web"}},
            "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "nginx"}]},
        });
        api.send("POST", PODS, &pod).is_ok()
    });
    let lost = format!("{PODS}/lost");
    api.await_value(&lost, "/status/phase", &json!("Running"));
    // The set takes the pod over, and makes another one when it has to leave.
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    });
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    api.create(sets, &set);
    api.await_value(
        &format!("{sets}/web"),
        "/status/availableReplicas",
        &json!(1),
    );

    home.succeed(&["node", "stop", "node-1"]);
    let node = "/api/v1/nodes/node-1";
    api.await_value(node, "/status/conditions/3/status", &json!("Unknown"));
    until("the pod to be marked as not ready", || {
        let conditions = api.get(&lost)["status"]["conditions"].take();
        let all = conditions.as_array().into_iter().flatten();
        let mut ready = all.filter(|held| held["type"] == "Ready");
        ready.any(|held| held["status"] == "False")
    });
    api.await_value(&lost, "/metadata/deletionGracePeriodSeconds", &json!(30));
    api.await_value(
        &format!("{sets}/web"),
        "/status/availableReplicas",
        &json!(1),
    );
    let pods = api.get(PODS)["items"].as_array().cloned().unwrap();
    let other = pods.iter().find(|pod| pod["metadata"]["name"] != "lost");
    assert_eq!(other.unwrap()["spec"]["nodeName"], "node-0");

    home.succeed(&["node", "start", "node-1"]);
    api.await_value(node, "/status/conditions/3/status", &json!("True"));
    until("the node to be without taints", || {
        api.get(node)["spec"]["taints"].is_null()
    });
    until("the pod to be gone", || {
        api.send("GET", &lost, &json!(null)).is_err()
    });
    up.stop();
}
