//! What upstream's end-to-end specs found.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_reaches_versions_that_are_not_stored() {
    let server = Server::new();
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Test", "action": "Do", "type": "Normal",
        "reportingController": "test", "reportingInstance": "one", "regarding": {"namespace": "default"}});
    assert_eq!(server.post(events, event).await.0, 201);
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}});
    let path = format!("{events}/a");
    let (code, patched) = server.patch(&path, "strategic-merge-patch", series).await;
    assert_eq!(code, 200, "{patched}");
    assert_eq!(patched["apiVersion"], "events.k8s.io/v1");
    assert_eq!(patched["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_a_duration() {
    let server = Server::new();
    let get = async |query: &str| {
        let (code, body) = server.get(&format!("/api/v1/namespaces{query}")).await;
        (
            code,
            body["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let why = "invalid timeout specified in the request URL - time: invalid duration \"soon\"";
    assert_eq!(get("?timeout=soon").await, (400, why.to_owned()));
    assert_eq!(get("?timeout=32s").await.0, 200);
    assert_eq!(get("?timeout=").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_review_is_no_table() {
    let server = Server::new();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let json = "application/json";
    let send = |accept| server.send(Method::POST, path, json, accept, Bytes::from("{}"));
    assert_eq!(send(table).await.status(), 406);
    assert_eq!(send(json).await.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn tables_and_metadata_are_of_the_version_that_is_asked_for() {
    let server = Server::new();
    server.config_map("a", json!({})).await;
    for (accept, path, expected) in [
        (
            "as=Table;v=v1beta1",
            CONFIG_MAPS,
            ["meta.k8s.io/v1beta1", "Table"],
        ),
        ("as=Table;v=v1", CONFIG_MAPS, ["meta.k8s.io/v1", "Table"]),
        (
            "as=PartialObjectMetadataList;v=v1beta1",
            CONFIG_MAPS,
            ["meta.k8s.io/v1beta1", "PartialObjectMetadataList"],
        ),
        (
            "as=PartialObjectMetadata;v=v1beta1",
            &format!("{CONFIG_MAPS}/a"),
            ["meta.k8s.io/v1beta1", "PartialObjectMetadata"],
        ),
    ] {
        let accept = format!("application/json;g=meta.k8s.io;{accept}");
        let response = server
            .send(Method::GET, path, "", &accept, Bytes::new())
            .await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let shown: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!([&shown["apiVersion"], &shown["kind"]], expected, "{accept}");
        let part = match &shown["rows"][0]["object"] {
            Value::Null => &shown["items"][0],
            object => object,
        };
        assert!(
            part.is_null() || part["apiVersion"] == expected[0],
            "{part}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn where_pods_of_an_idle_job_go_and_what_they_ask_for_may_change() {
    let server = Server::new();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let container = json!({"name": "main", "image": "web:1"});
    let job = json!({"metadata": {"name": "a"}, "spec": {"suspend": true,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}});
    assert_eq!(server.post(jobs, job).await.0, 201);
    let path = format!("{jobs}/a");
    let change = async |spec: Value| {
        let body = json!({"spec": {"template": {"spec": spec}}});
        server.patch(&path, "strategic-merge-patch", body).await
    };
    let asking = |cpu: &str| json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]});
    let (code, changed) = change(asking("1")).await;
    assert_eq!(code, 200, "{changed}");
    let other = json!({"containers": [{"name": "main", "image": "web:2"}]});
    let (code, refused) = change(other).await;
    let field = &refused["details"]["causes"][0]["field"];
    assert_eq!((code, field), (422, &json!("spec.template.spec")));

    // One that was started and then suspended is idle again once its pods are gone.
    let status = async |active: i64| {
        let suspended = json!({"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let body = json!({"status": {"startTime": "2026-01-01T00:00:00Z", "active": active, "conditions": [suspended]}});
        server
            .patch(&format!("{path}/status"), "merge-patch", body)
            .await
    };
    assert_eq!(status(1).await.0, 200);
    let (code, refused) = change(asking("2")).await;
    let field = &refused["details"]["causes"][0]["field"];
    assert_eq!((code, field), (422, &json!("spec.template")));
    assert_eq!(status(0).await.0, 200);
    let (code, changed) = change(asking("2")).await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(
        change(json!({"nodeSelector": {"disk": "ssd"}})).await.0,
        200
    );
}

/// Clients in Go print what they read and read that again, and compare.
#[tokio::test(start_paused = true)]
async fn openapi_documents_have_no_empty_lists_or_objects() {
    let server = Server::new();
    for path in [
        "api/v1",
        "apis/admissionregistration.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
    ] {
        let (code, document) = server.get(&format!("/openapi/v3/{path}")).await;
        assert_eq!(code, 200);
        let (paths, types) = (&document["paths"], &document["components"]["schemas"]);
        assert!(!paths.to_string().contains("\"parameters\":[]"), "{path}");
        let is_empty = |(_, ty): &(&String, &Value)| ty["properties"] == json!({});
        let empty = types.as_object().unwrap().iter().find(is_empty);
        assert_eq!(empty, None, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn less_than_no_grace_period_is_a_second_in_updates_too() {
    let server = Server::new();
    server.pod("p", "").await;
    let path = format!("{PODS}/p");
    let change = json!({"spec": {"terminationGracePeriodSeconds": 1}});
    assert_eq!(server.patch(&path, "merge-patch", change).await.0, 422);
    let made = json!({"metadata": {"name": "q"}, "spec": {"terminationGracePeriodSeconds": -1,
        "containers": [{"name": "c", "image": "i"}]}});
    let (code, mut pod) = server.post(PODS, made).await;
    assert_eq!(
        (code, &pod["spec"]["terminationGracePeriodSeconds"]),
        (201, &json!(1))
    );
    pod["spec"]["terminationGracePeriodSeconds"] = json!(-1);
    let (code, updated) = server.put(&format!("{PODS}/q"), pod).await;
    assert_eq!(
        (code, &updated["spec"]["terminationGracePeriodSeconds"]),
        (200, &json!(1))
    );
}
