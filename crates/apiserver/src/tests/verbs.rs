//! Get, list, create, update, patch, subresources, discovery.

use super::*;

#[tokio::test(start_paused = true)]
async fn creates_gets_and_lists() {
    let server = Server::new();
    let created = server.config_map("a", json!({"k": "v"})).await;
    assert_eq!(created["kind"], "ConfigMap");
    assert_eq!(
        created["metadata"]["creationTimestamp"],
        "2023-11-14T22:13:20Z"
    );
    assert_eq!(created["metadata"]["uid"].as_str().unwrap().len(), 36);
    let (code, got) = server.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!((code, &got), (200, &created));
    let (_, list) = server.get(CONFIG_MAPS).await;
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(names(&list), ["a"]);
    assert_eq!(list["items"][0].get("kind"), None);
    assert_eq!(revision(&list), revision(&created));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_takes_a_new_object_with_a_resource_version() {
    let server = Server::new();
    let map = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    assert_eq!(server.post(&dry, map.clone()).await.0, 201);
    assert_eq!(server.post(CONFIG_MAPS, map).await.0, 500);
    let invalid = json!({"metadata": {"name": "A", "resourceVersion": "1"}});
    assert_eq!(server.post(CONFIG_MAPS, invalid).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn refuses_with_upstreams_codes() {
    let server = Server::new();
    server.config_map("a", json!({})).await;
    assert_eq!(
        server
            .post(CONFIG_MAPS, json!({"metadata": {"name": "a"}}))
            .await
            .1["reason"],
        "AlreadyExists"
    );
    assert_eq!(
        server.get(&format!("{CONFIG_MAPS}/b")).await.1["message"],
        "configmaps \"b\" not found"
    );
    let (code, status) = server
        .post(
            "/api/v1/namespaces/nope/configmaps",
            json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(
        (code, &status["details"]["kind"]),
        (404, &json!("namespaces"))
    );
    assert_eq!(
        server
            .post(
                CONFIG_MAPS,
                json!({"kind": "Secret", "metadata": {"name": "x"}})
            )
            .await
            .0,
        400
    );
    assert_eq!(server.post(CONFIG_MAPS, json!([])).await.0, 400);
    assert_eq!(
        server.post(CONFIG_MAPS, json!({"metadata": {}})).await.0,
        422
    );
    assert_eq!(server.get("/apis/nope/v1/things").await.0, 404);
    assert_eq!(
        server
            .get(&format!("{CONFIG_MAPS}?fieldSelector=spec.x%3Dy"))
            .await
            .0,
        400
    );
    assert_eq!(server.get(&format!("{PODS}/a/exec")).await.0, 404);
    server.pod("p", "").await;
    assert_eq!(server.get(&format!("{PODS}/p/exec")).await.0, 501);
    let wrong = server
        .call(
            Method::POST,
            CONFIG_MAPS,
            "text/plain",
            Bytes::from_static(b"{}"),
        )
        .await;
    assert_eq!(wrong.0, 415);
}

#[tokio::test(start_paused = true)]
async fn generates_names() {
    let server = Server::new();
    let (_, value) = server
        .post(CONFIG_MAPS, json!({"metadata": {"generateName": "web-"}}))
        .await;
    let name = value["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
}

#[tokio::test(start_paused = true)]
async fn updates_check_the_revision_and_skip_no_ops() {
    let server = Server::new();
    let created = server.config_map("a", json!({"k": "1"})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, same) = server.put(&path, created.clone()).await;
    assert_eq!(revision(&same), revision(&created));
    let mut changed = created.clone();
    changed["data"]["k"] = json!("2");
    let (code, updated) = server.put(&path, changed.clone()).await;
    assert_eq!((code, revision(&updated)), (200, revision(&created) + 1));
    let (code, status) = server.put(&path, changed.clone()).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    changed["metadata"]["resourceVersion"] = json!("");
    changed["metadata"]["uid"] = json!("other");
    assert_eq!(server.put(&path, changed).await.0, 409);
    assert_eq!(
        server
            .put(
                &format!("{CONFIG_MAPS}/new"),
                json!({"metadata": {"name": "new"}})
            )
            .await
            .0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn some_kinds_need_a_revision_and_some_are_created_by_put() {
    let server = Server::new();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    assert_eq!(server.put(path, lease.clone()).await.0, 201);
    assert_eq!(server.put(path, lease).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_apart_and_generation_counts_spec_changes() {
    let server = Server::new();
    let (_, created) = server.post(DEPLOYMENTS, deployment("web")).await;
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("{DEPLOYMENTS}/web");
    let (_, value) = server
        .patch(
            &path,
            "merge-patch",
            json!({"spec": {"replicas": 3}, "status": {"replicas": 9}}),
        )
        .await;
    assert_eq!(value["metadata"]["generation"], 2);
    assert_eq!(value["status"].get("replicas"), None);
    let status = json!({"status": {"replicas": 2}, "spec": {"replicas": 7}});
    let (_, value) = server
        .patch(&format!("{path}/status"), "merge-patch", status)
        .await;
    assert_eq!(
        (&value["status"]["replicas"], &value["spec"]["replicas"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(value["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn patches_of_every_type() {
    let server = Server::new();
    server.config_map("a", json!({"k": "1"})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, value) = server
        .patch(&path, "merge-patch", json!({"data": {"k": null, "l": "2"}}))
        .await;
    assert_eq!(value["data"], json!({"l": "2"}));
    let (_, value) = server
        .patch(
            &path,
            "json-patch",
            json!([{"op": "add", "path": "/data/m", "value": "3"}]),
        )
        .await;
    assert_eq!(value["data"], json!({"l": "2", "m": "3"}));
    server.post(DEPLOYMENTS, deployment("web")).await;
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}});
    let (_, value) = server
        .patch(
            &format!("{DEPLOYMENTS}/web"),
            "strategic-merge-patch",
            patch,
        )
        .await;
    assert_eq!(
        value["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let (code, _) = server
        .patch(
            &path,
            "merge-patch",
            json!({"metadata": {"resourceVersion": "1"}}),
        )
        .await;
    assert_eq!(code, 409);
    let (code, _) = server
        .patch(&path, "merge-patch", json!({"metadata": {"name": "b"}}))
        .await;
    assert_eq!(code, 400);
}

#[tokio::test(start_paused = true)]
async fn dry_run_changes_nothing() {
    let server = Server::new();
    let (code, value) = server
        .post(
            &format!("{CONFIG_MAPS}?dryRun=All"),
            json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!((code, &value["metadata"]["name"]), (201, &json!("a")));
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/a")).await.0, 404);
    server.config_map("a", json!({})).await;
    server.delete(&format!("{CONFIG_MAPS}/a?dryRun=All")).await;
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/a")).await.0, 200);
    assert_eq!(
        server
            .post(&format!("{CONFIG_MAPS}?dryRun=Some"), json!({}))
            .await
            .0,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn lists_page_by_page_at_one_revision() {
    let server = Server::new();
    for name in ["a", "b", "c", "d"] {
        server.config_map(name, json!({})).await;
    }
    let (_, first) = server.get(&format!("{CONFIG_MAPS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    server.delete(&format!("{CONFIG_MAPS}/c")).await;
    server.config_map("bb", json!({})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = server
        .get(&format!("{CONFIG_MAPS}?limit=2&continue={token}"))
        .await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(revision(&second), revision(&first));
    let at = revision(&first);
    let (_, exact) = server
        .get(&format!(
            "{CONFIG_MAPS}?resourceVersion={at}&resourceVersionMatch=Exact"
        ))
        .await;
    assert_eq!(names(&exact), ["a", "b", "c", "d"]);
    let (_, newest) = server
        .get(&format!("{CONFIG_MAPS}?labelSelector=app%20in%20(bb,d)"))
        .await;
    assert_eq!(names(&newest), ["bb", "d"]);
}

#[tokio::test(start_paused = true)]
async fn old_and_future_revisions_are_refused() {
    let server = Server::with_log(4);
    let first = server.config_map("a", json!({})).await;
    for name in ["b", "c", "d", "e", "f", "g"] {
        server.config_map(name, json!({})).await;
    }
    let at = revision(&first);
    let (code, status) = server
        .get(&format!(
            "{CONFIG_MAPS}?resourceVersion={at}&resourceVersionMatch=Exact"
        ))
        .await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let (code, status) = server
        .get(&format!("{CONFIG_MAPS}?resourceVersion=9999"))
        .await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["reason"]),
        (504, &json!("ResourceVersionTooLarge"))
    );
    let (_, page) = server.get(&format!("{CONFIG_MAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    for name in ["h", "i", "j", "k", "l"] {
        server.config_map(name, json!({})).await;
    }
    let (code, status) = server
        .get(&format!("{CONFIG_MAPS}?limit=1&continue={token}"))
        .await;
    assert_eq!(code, 410);
    let fresh = status["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = server
        .get(&format!("{CONFIG_MAPS}?limit=1&continue={fresh}"))
        .await;
    assert_eq!(names(&rest), ["b"]);
    assert_eq!(
        server
            .get(&format!("{CONFIG_MAPS}?resourceVersionMatch=Exact"))
            .await
            .0,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn shows_metadata_and_tables() {
    let server = Server::new();
    server.config_map("a", json!({"k": "v"})).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let response = server
        .send(
            Method::GET,
            &format!("{CONFIG_MAPS}/a"),
            "",
            accept,
            Bytes::new(),
        )
        .await;
    let value: Value =
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(
        (&value["kind"], value.get("data")),
        (&json!("PartialObjectMetadata"), None)
    );
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let response = server
        .send(Method::GET, CONFIG_MAPS, "", accept, Bytes::new())
        .await;
    let value: Value =
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(
        (&value["kind"], &value["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("a"))
    );
}

#[tokio::test(start_paused = true)]
async fn scale_shows_and_sets_replicas() {
    let server = Server::new();
    server.post(DEPLOYMENTS, deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let (_, scale) = server
        .patch(&path, "merge-patch", json!({"spec": {"replicas": 4}}))
        .await;
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(4))
    );
    assert_eq!(scale["status"]["selector"], "app=web");
    let (_, deployment) = server.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(
        (
            &deployment["spec"]["replicas"],
            &deployment["metadata"]["generation"]
        ),
        (&json!(4), &json!(2))
    );
    let (code, _) = server
        .put(
            &path,
            json!({"metadata": {"name": "web"}, "spec": {"replicas": -1}}),
        )
        .await;
    assert_eq!(code, 422);
}

#[tokio::test(start_paused = true)]
async fn controller_revision_data_comes_back_byte_for_byte() {
    let server = Server::new();
    let body = r#"{"metadata":{"name":"r"},"revision":1,"data": {"z":1.0,"a":"<b>"}}"#;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    server
        .call(
            Method::POST,
            path,
            "application/json",
            Bytes::from_static(body.as_bytes()),
        )
        .await;
    server
        .patch(&format!("{path}/r"), "merge-patch", json!({"revision": 2}))
        .await;
    let response = server
        .send(
            Method::GET,
            &format!("{path}/r"),
            "",
            "application/json",
            Bytes::new(),
        )
        .await;
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(
        text.contains(r#""data":{"z":1.0,"a":"\u003cb\u003e"}"#),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_shared_between_two_groups() {
    let server = Server::new();
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "message": "m", "reason": "R"});
    server
        .post("/api/v1/namespaces/default/events", event)
        .await;
    let (_, value) = server
        .get("/apis/events.k8s.io/v1/namespaces/default/events/e")
        .await;
    assert_eq!(
        (
            &value["apiVersion"],
            &value["note"],
            &value["regarding"]["name"]
        ),
        (&json!("events.k8s.io/v1"), &json!("m"), &json!("p"))
    );
    let (_, list) = server
        .get("/api/v1/events?fieldSelector=involvedObject.name%3Dp")
        .await;
    assert_eq!(names(&list), ["e"]);
}

#[tokio::test(start_paused = true)]
async fn binding_schedules_a_pod_once() {
    let server = Server::new();
    server.pod("p", "").await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    let path = format!("{PODS}/p/binding");
    assert_eq!(server.post(&path, binding.clone()).await.0, 201);
    assert_eq!(server.post(&path, binding).await.0, 409);
    let (_, pod) = server.get(&format!("{PODS}/p")).await;
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(pod["metadata"]["generation"], 1);
    let (_, list) = server
        .get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")
        .await;
    assert_eq!(names(&list), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_what_is_served() {
    let server = Server::new();
    let (_, list) = server.get("/apis/apps/v1").await;
    let names: Vec<&str> = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"deployments") && names.contains(&"deployments/scale"));
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let response = server
        .send(Method::GET, "/apis", "", accept, Bytes::new())
        .await;
    assert!(
        response.headers()["content-type"]
            .to_str()
            .unwrap()
            .contains("APIGroupDiscoveryList")
    );
    let (_, groups) = server.get("/apis").await;
    let autoscaling = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["name"] == "autoscaling")
        .unwrap();
    assert_eq!(autoscaling["preferredVersion"]["version"], "v2");
    assert_eq!(server.get("/readyz").await, (200, json!("ok")));
    assert_eq!(server.get("/version").await.1["minor"], "36");
}

#[tokio::test(start_paused = true)]
async fn events_last_an_hour() {
    let server = Server::new();
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R"});
    server.post(events, event("old")).await;
    tokio::time::advance(std::time::Duration::from_secs(1800)).await;
    server.post(events, event("touched")).await;
    tokio::time::advance(std::time::Duration::from_secs(1801)).await;
    assert_eq!(server.post(events, event("new")).await.0, 201);
    assert_eq!(names(&server.get(events).await.1), ["new", "touched"]);
}

#[tokio::test(start_paused = true)]
async fn autoscalers_are_served_at_two_versions() {
    let server = Server::new();
    let path = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers")
    };
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let v1 = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 60}});
    let (code, created) = server.post(&path("v1"), v1).await;
    assert_eq!(
        (code, &created["spec"]["targetCPUUtilizationPercentage"]),
        (201, &json!(60)),
        "{created}"
    );
    let (_, v2) = server.get(&format!("{}/a", path("v2"))).await;
    assert_eq!(
        v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60,
        "{v2}"
    );
}

#[tokio::test(start_paused = true)]
async fn metrics_count_requests_and_objects() {
    let server = Server::new();
    server.config_map("a", json!({})).await;
    let (_, text) = server.get("/metrics").await;
    let text = text.as_str().unwrap().to_owned();
    let line = "apiserver_request_total{code=\"201\",group=\"\",resource=\"configmaps\",subresource=\"\",verb=\"CREATE\",version=\"v1\"} 1";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("apiserver_storage_objects{resource=\"configmaps\"}"));
}

#[tokio::test(start_paused = true)]
async fn component_statuses_show_the_store_and_nothing_can_be_done_to_them() {
    let server = Server::new();
    let path = "/api/v1/componentstatuses";
    let (code, list) = server.get(path).await;
    assert_eq!((code, names(&list)), (200, vec!["etcd-0"]));
    let (code, one) = server.get(&format!("{path}/etcd-0")).await;
    assert_eq!(
        (code, &one["kind"], &one["conditions"]),
        (
            200,
            &json!("ComponentStatus"),
            &json!([{"type": "Healthy", "status": "True", "message": "ok"}])
        )
    );
    let selected = format!("{path}?fieldSelector=metadata.name%3Dother");
    assert!(names(&server.get(&selected).await.1).is_empty());
    assert_eq!(server.get(&format!("{path}/other")).await.0, 404);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let response = server
        .send(Method::GET, path, "", table, Bytes::new())
        .await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let table: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["etcd-0", "Healthy", "ok", ""])
    );
    assert_eq!(server.post(path, json!({})).await.0, 405);
    assert_eq!(server.delete(&format!("{path}/etcd-0")).await.0, 405);
    assert_eq!(server.get(&format!("{path}?watch=1")).await.0, 405);
}
