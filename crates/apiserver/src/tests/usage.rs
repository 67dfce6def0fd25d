//! What simulated pods and nodes are said to use.

use super::*;

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

async fn server() -> Server {
    let server = Server::with(|options| options.serves.usage = true);
    server.service_account().await;
    let node = json!({"metadata": {"name": "n", "labels": {"zone": "a"}}});
    server.post("/api/v1/nodes", node).await;
    server
}

async fn pod(server: &Server, name: &str, annotations: Value, requests: Value, phase: &str) {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i", "resources": {"requests": requests}}]},
    });
    let (code, mut pod) = server.post(PODS, pod).await;
    assert_eq!(code, 201, "{pod}");
    pod["status"] = json!({"phase": phase});
    server.put(&format!("{PODS}/{name}/status"), pod).await;
}

#[tokio::test(start_paused = true)]
async fn pods_use_what_they_say_or_half_of_what_they_request() {
    let server = server().await;
    let said = json!({"steersman.dev/cpu-use": "250m", "steersman.dev/memory-use": "64Mi"});
    pod(&server, "says", said, json!({"cpu": "1"}), "Running").await;
    pod(
        &server,
        "requests",
        json!({}),
        json!({"cpu": "1", "memory": "1Gi"}),
        "Running",
    )
    .await;
    let nonsense = json!({"steersman.dev/cpu-use": "lots", "steersman.dev/memory-use": "-5"});
    pod(&server, "bare", nonsense, json!({}), "Running").await;
    pod(&server, "pending", json!({}), json!({}), "Pending").await;
    let (code, list) = server
        .get(&format!("{METRICS}/namespaces/default/pods"))
        .await;
    assert_eq!((code, &list["kind"]), (200, &json!("PodMetricsList")));
    let usage: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            format!(
                "{} {}",
                item["metadata"]["name"], item["containers"][0]["usage"]
            )
        })
        .collect();
    assert_eq!(
        usage,
        [
            r#""bare" {"cpu":"1m","memory":"16Mi"}"#,
            r#""requests" {"cpu":"500m","memory":"512Mi"}"#,
            r#""says" {"cpu":"250m","memory":"64Mi"}"#,
        ]
    );
    let (_, one) = server
        .get(&format!(
            "{METRICS}/namespaces/default/pods?labelSelector=app%3Dsays"
        ))
        .await;
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    let (_, got) = server
        .get(&format!("{METRICS}/namespaces/default/pods/says"))
        .await;
    assert_eq!(
        (&got["kind"], &got["window"]),
        (&json!("PodMetrics"), &json!("15s"))
    );
    assert_eq!(
        server
            .get(&format!("{METRICS}/namespaces/default/pods/none"))
            .await
            .0,
        404
    );
    let (_, all) = server.get(&format!("{METRICS}/pods")).await;
    assert_eq!(
        all["items"].as_array().unwrap().len(),
        3,
        "of all namespaces"
    );
    let (_, nodes) = server.get(&format!("{METRICS}/nodes")).await;
    let node = &nodes["items"][0];
    assert_eq!(
        (&node["metadata"]["name"], &node["usage"]),
        (&json!("n"), &json!({"cpu": "751m", "memory": "592Mi"}))
    );
}

#[tokio::test(start_paused = true)]
async fn usage_is_discovered_and_can_only_be_read() {
    let server = server().await;
    let (_, group) = server.get("/apis/metrics.k8s.io").await;
    assert_eq!(group["preferredVersion"]["version"], "v1beta1");
    let (_, resources) = server.get(METRICS).await;
    let resources = resources["resources"].as_array().unwrap().clone();
    let names: Vec<&str> = resources
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["nodes", "pods"]);
    assert_eq!(resources[1]["verbs"], json!(["get", "list"]));
    let path = format!("{METRICS}/namespaces/default/pods");
    assert_eq!(
        server
            .post(&path, json!({"metadata": {"name": "x"}}))
            .await
            .0,
        405
    );
    assert_eq!(server.get("/openapi/v2").await.0, 200);
    assert_eq!(server.get("/openapi/v3").await.0, 200);
    // Kinds that come and go do not take it away.
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.post(definitions, definition).await.0, 201);
    assert_eq!(server.get(METRICS).await.0, 200);
    assert_eq!(Server::new().get(METRICS).await.0, 404, "unless asked for");
}
