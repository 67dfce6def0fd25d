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
            .contains("there is no node nope")
    );
    up.stop();
}
