//! What simulated pods and nodes are said to use.

use std::sync::Arc;
use std::time::Duration;

use api::usage::{Curve, Declared, External, Metric};
use api::{Istr, LabelSet, Time};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::*;
use crate::containers::{ExecRequest, Kubelets, LogRequest, Output};

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

/// A ready pod of the ReplicaSet `web-1`, which the Deployment `web` controls.
async fn pod_of_web(server: &Server, name: &str) {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "s", "controller": true}]);
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owner},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i"}, {"name": "proxy", "image": "i"}]},
    });
    let (code, mut pod) = server.post(PODS, pod).await;
    assert_eq!(code, 201, "{pod}");
    pod["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    server.put(&format!("{PODS}/{name}/status"), pod).await;
}

/// A Deployment and its ReplicaSet; the Deployment declares a load.
async fn web(server: &Server, annotations: Value) {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}});
    let apps = "/apis/apps/v1/namespaces/default";
    let deployment = json!({"metadata": {"name": "web", "annotations": annotations}, "spec": spec});
    assert_eq!(
        server
            .post(&format!("{apps}/deployments"), deployment)
            .await
            .0,
        201
    );
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
    let set = json!({"metadata": {"name": "web-1", "ownerReferences": owner}, "spec": spec});
    assert_eq!(
        server.post(&format!("{apps}/replicasets"), set).await.0,
        201
    );
}

#[tokio::test(start_paused = true)]
async fn pods_share_the_load_of_their_owner_as_it_changes() {
    let server = server().await;
    let load =
        json!({"steersman.dev/cpu-load": "0s=1,100s=3", "load.metrics.steersman.dev/qps": "300"});
    web(&server, load).await;
    let cpu = async || {
        let (_, list) = server
            .get(&format!("{METRICS}/namespaces/default/pods"))
            .await;
        let items = list["items"].as_array().unwrap().clone();
        let of = |item: &Value| {
            item["containers"][0]["usage"]["cpu"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        items.iter().map(of).collect::<Vec<_>>()
    };
    pod_of_web(&server, "a").await;
    assert_eq!(cpu().await, ["500m"], "two containers");
    pod_of_web(&server, "b").await;
    assert_eq!(cpu().await, ["250m", "250m"]);
    tokio::time::sleep(std::time::Duration::from_secs(50)).await;
    assert_eq!(cpu().await, ["500m", "500m"], "half way to three");
    let custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default";
    let (code, list) = server
        .get(&format!("{custom}/pods/*/qps?labelSelector=app%3Dweb"))
        .await;
    assert_eq!((code, &list["kind"]), (200, &json!("MetricValueList")));
    let values: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["value"])
        .collect();
    assert_eq!(values, [&json!("150"), &json!("150")]);
}

#[tokio::test(start_paused = true)]
async fn objects_declare_metrics_of_their_own() {
    let server = server().await;
    let said = json!({"metrics.steersman.dev/qps": "20"});
    pod(&server, "says", said, json!({}), "Running").await;
    pod(&server, "silent", json!({}), json!({}), "Running").await;
    let service = json!({"metadata": {"name": "s", "annotations": {"metrics.steersman.dev/hits": "1500m"}},
        "spec": {"ports": [{"port": 80}]}});
    assert_eq!(
        server
            .post("/api/v1/namespaces/default/services", service)
            .await
            .0,
        201
    );
    let custom = "/apis/custom.metrics.k8s.io";
    let (_, group) = server.get(custom).await;
    assert_eq!(group["preferredVersion"]["version"], "v1beta2");
    let old = format!("{custom}/v1beta1/namespaces/default");
    let (_, list) = server.get(&format!("{old}/pods/*/qps")).await;
    let item = &list["items"][0];
    assert_eq!(
        (list["items"].as_array().unwrap().len(), &item["metricName"]),
        (1, &json!("qps"))
    );
    assert_eq!(
        item["describedObject"],
        json!({"kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": "says"})
    );
    let (_, list) = server.get(&format!("{old}/services/s/hits")).await;
    assert_eq!(list["items"][0]["value"], "1500m");
    let (code, status) = server.get(&format!("{old}/services/s/misses")).await;
    assert_eq!(
        (code, &status["message"]),
        (
            404,
            &json!("the server could not find the metric misses for services s")
        )
    );
    assert_eq!(server.get(&format!("{old}/gadgets/s/hits")).await.0, 404);
    assert_eq!(
        server.post(&format!("{old}/pods/*/qps"), json!({})).await.0,
        405
    );
}

#[tokio::test(start_paused = true)]
async fn metrics_from_outside_are_kept_in_config_maps() {
    let server = server().await;
    for (name, queue, depth) in [("a", "orders", "30"), ("b", "mail", "0s=0,10s=10")] {
        let map = json!({"metadata": {"name": name, "labels": {"steersman.dev/external-metrics": "true", "queue": queue}},
            "data": {"depth": depth}});
        assert_eq!(
            server
                .post("/api/v1/namespaces/default/configmaps", map)
                .await
                .0,
            201
        );
    }
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default";
    let (code, list) = server.get(&format!("{external}/depth")).await;
    assert_eq!(
        (code, &list["kind"]),
        (200, &json!("ExternalMetricValueList"))
    );
    let told: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| format!("{} {}", item["metricLabels"], item["value"]))
        .collect();
    assert_eq!(
        told,
        [r#"{"queue":"orders"} "30""#, r#"{"queue":"mail"} "5""#]
    );
    let (_, list) = server
        .get(&format!("{external}/depth?labelSelector=queue%3Dmail"))
        .await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let (_, list) = server.get(&format!("{external}/other")).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn usage_that_cannot_be_read_is_warned_of() {
    let kind = crate::kinds::find("", "Pod").unwrap();
    let pod = json!({"metadata": {"annotations": {"steersman.dev/cpu-use": "lots", "metrics.steersman.dev/qps": "5m=1,1m=2", "other": "x"}}});
    let mut said = crate::warnings::of(kind, &pod, Some(&pod));
    said.sort();
    assert_eq!(
        said,
        [
            "metadata.annotations[metrics.steersman.dev/qps]: its points are not in the order of time; it has no effect",
            "metadata.annotations[steersman.dev/cpu-use]: \"lots\" is not an amount; it has no effect",
        ]
    );
}

/// Says of every pod what it was told to.
struct Declares(Vec<Declared>, Vec<External>);

impl Kubelets for Declares {
    fn log(&self, _: LogRequest) -> BoxFuture<'static, Result<BoxStream<'static, Bytes>, String>> {
        Box::pin(async { Err("there is no log".to_owned()) })
    }

    fn exec(
        &self,
        _: ExecRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Output>, String>> {
        Box::pin(async { Err("there is no shell".to_owned()) })
    }

    fn usage(&self, _: &Value) -> Vec<Declared> {
        self.0.clone()
    }

    fn external_metrics(&self) -> Vec<External> {
        self.1.clone()
    }
}

fn declared(metric: Metric, curve: &str) -> Declared {
    Declared {
        by: Istr::from("a-stage"),
        metric,
        container: None,
        curve: Arc::new(Curve::parse(curve).unwrap()),
        after: Duration::ZERO,
        is_shared: false,
    }
}

/// `main 1 proxy 500m` for each pod.
async fn cpu_of_containers(server: &Server) -> Vec<String> {
    let (_, list) = server
        .get(&format!("{METRICS}/namespaces/default/pods"))
        .await;
    let words = list["items"].as_array().unwrap().iter().map(|item| {
        let containers = item["containers"].as_array().unwrap().iter();
        let words = containers.map(|one| {
            let cpu = one["usage"]["cpu"].as_str().unwrap();
            format!("{} {cpu}", one["name"].as_str().unwrap())
        });
        words.collect::<Vec<_>>().join(" ")
    });
    words.collect()
}

#[tokio::test(start_paused = true)]
async fn what_files_declare_counts_unless_the_pod_or_its_owner_says_otherwise() {
    let server = server().await;
    let late = Declared {
        after: Duration::from_secs(50),
        container: Some(Istr::from("proxy")),
        ..declared(Metric::Resource("cpu"), "0s=1,100s=3")
    };
    let all = declared(Metric::Resource("cpu"), "200m");
    server
        .server
        .connect_kubelets(Arc::new(Declares(vec![all, late], Vec::new())));
    web(&server, json!({})).await;
    pod_of_web(&server, "a").await;
    let said = json!({"steersman.dev/cpu-use": "250m"});
    pod(&server, "says", said, json!({"cpu": "1"}), "Running").await;
    assert_eq!(
        cpu_of_containers(&server).await,
        ["main 200m proxy 1", "main 250m"]
    );
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(
        cpu_of_containers(&server).await,
        ["main 200m proxy 2", "main 250m"],
        "half way, as it began fifty seconds late"
    );
    let deployment = "/apis/apps/v1/namespaces/default/deployments/web";
    let (_, mut owner) = server.get(deployment).await;
    owner["metadata"]["annotations"] = json!({"steersman.dev/cpu-load": "6"});
    server.put(deployment, owner).await;
    assert_eq!(
        cpu_of_containers(&server).await,
        ["main 3 proxy 3", "main 250m"]
    );
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_owner_share_the_load_that_files_declare() {
    let server = server().await;
    let load = |metric, curve: &str| Declared {
        is_shared: true,
        ..declared(metric, curve)
    };
    let loads = vec![
        load(Metric::Resource("cpu"), "4"),
        load(Metric::Custom(Istr::from("qps")), "0s=0,100s=100"),
    ];
    server
        .server
        .connect_kubelets(Arc::new(Declares(loads, Vec::new())));
    web(&server, json!({})).await;
    pod(&server, "alone", json!({}), json!({}), "Running").await;
    pod_of_web(&server, "a").await;
    assert_eq!(
        cpu_of_containers(&server).await,
        ["main 2 proxy 2", "main 4"]
    );
    pod_of_web(&server, "b").await;
    let two = "main 1 proxy 1";
    assert_eq!(cpu_of_containers(&server).await, [two, "main 4", two]);
    tokio::time::sleep(Duration::from_secs(50)).await;
    let custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default";
    let (_, list) = server.get(&format!("{custom}/pods/*/qps")).await;
    let values: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["value"])
        .collect();
    assert_eq!(values, [&json!("25"), &json!("50"), &json!("25")]);
}

#[tokio::test(start_paused = true)]
async fn files_declare_metrics_from_outside() {
    let server = server().await;
    let external = |namespace: Option<&str>, queue: &str| External {
        name: Istr::from("depth"),
        namespace: namespace.map(Istr::from),
        labels: [("queue", queue)].into_iter().collect::<LabelSet>(),
        curve: Arc::new(Curve::parse("0s=0,10s=10").unwrap()),
        since: Time::parse(&server.server.now().to_string()).unwrap(),
    };
    let all = vec![external(Some("default"), "orders"), external(None, "mail")];
    server
        .server
        .connect_kubelets(Arc::new(Declares(Vec::new(), all)));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let depth = async |namespace: &str, query: &str| {
        let external = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}");
        let (_, list) = server.get(&format!("{external}/depth{query}")).await;
        let items = list["items"].as_array().unwrap().clone();
        let words = items
            .iter()
            .map(|item| format!("{} {}", item["metricLabels"]["queue"], item["value"]));
        words.collect::<Vec<_>>()
    };
    let orders = r#""orders" "5""#;
    let mail = r#""mail" "5""#;
    assert_eq!(depth("default", "").await, [orders, mail]);
    assert_eq!(depth("kube-system", "").await, [mail]);
    assert_eq!(
        depth("default", "?labelSelector=queue%3Dorders").await,
        [orders]
    );
}
