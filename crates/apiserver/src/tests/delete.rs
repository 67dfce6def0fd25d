//! Deletion: grace, finalizers, propagation, preconditions, namespaces.

use super::*;

#[tokio::test(start_paused = true)]
async fn plain_objects_go_at_once() {
    let server = Server::new();
    let created = server.config_map("a", json!({})).await;
    let (code, status) = server.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(
        (code, &status["status"], &status["details"]["uid"]),
        (200, &json!("Success"), &created["metadata"]["uid"])
    );
    assert_eq!(server.delete(&format!("{CONFIG_MAPS}/a")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn preconditions_protect() {
    let server = Server::new();
    server.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let body = json!({"preconditions": {"uid": "other"}}).to_string();
    let (code, _) = server
        .call(Method::DELETE, &path, "application/json", body.into())
        .await;
    assert_eq!(code, 409);
    let body = json!({"preconditions": {"resourceVersion": "1"}}).to_string();
    let (code, _) = server
        .call(Method::DELETE, &path, "application/json", body.into())
        .await;
    assert_eq!(code, 409);
    assert_eq!(server.get(&path).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn scheduled_pods_get_their_grace() {
    let server = Server::new();
    server.pod("p", "n").await;
    let path = format!("{PODS}/p");
    let (_, pod) = server.delete(&path).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2023-11-14T22:13:50Z");
    assert_eq!(pod["metadata"]["generation"], 2);
    let (_, again) = server.delete(&path).await;
    assert_eq!(revision(&again), revision(&pod));
    let (_, shorter) = server
        .delete(&format!("{path}?gracePeriodSeconds=10"))
        .await;
    assert_eq!(
        shorter["metadata"]["deletionTimestamp"],
        "2023-11-14T22:13:30Z"
    );
    let (code, _) = server.delete(&format!("{path}?gracePeriodSeconds=0")).await;
    assert_eq!(code, 200);
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn unscheduled_and_finished_pods_go_at_once() {
    let server = Server::new();
    server.pod("unscheduled", "").await;
    server.delete(&format!("{PODS}/unscheduled")).await;
    assert_eq!(server.get(&format!("{PODS}/unscheduled")).await.0, 404);
    server.pod("done", "n").await;
    server
        .patch(
            &format!("{PODS}/done/status"),
            "merge-patch",
            json!({"status": {"phase": "Succeeded"}}),
        )
        .await;
    server.delete(&format!("{PODS}/done")).await;
    assert_eq!(server.get(&format!("{PODS}/done")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let server = Server::new();
    server
        .post(
            CONFIG_MAPS,
            json!({"metadata": {"name": "a", "finalizers": ["x/y"]}}),
        )
        .await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, value) = server.delete(&path).await;
    assert!(value["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(server.get(&path).await.0, 200);
    let (code, _) = server
        .patch(
            &path,
            "merge-patch",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    assert_eq!(code, 200);
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn propagation_is_a_finalizer() {
    let server = Server::new();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let name = policy.to_lowercase();
        server.post(DEPLOYMENTS, deployment(&name)).await;
        let (_, value) = server
            .delete(&format!("{DEPLOYMENTS}/{name}?propagationPolicy={policy}"))
            .await;
        assert_eq!(value["metadata"]["finalizers"], json!([finalizer]));
        assert_eq!(value["metadata"]["generation"], 2);
    }
    server.post(DEPLOYMENTS, deployment("background")).await;
    server
        .delete(&format!(
            "{DEPLOYMENTS}/background?propagationPolicy=Background"
        ))
        .await;
    assert_eq!(
        server.get(&format!("{DEPLOYMENTS}/background")).await.0,
        404
    );
    assert_eq!(
        server
            .delete(&format!("{DEPLOYMENTS}/orphan?propagationPolicy=Dance"))
            .await
            .0,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn namespaces_end_through_finalize() {
    let server = Server::new();
    server
        .post("/api/v1/namespaces", json!({"metadata": {"name": "ns"}}))
        .await;
    let (_, value) = server.delete("/api/v1/namespaces/ns").await;
    assert_eq!(value["status"]["phase"], "Terminating");
    let (code, status) = server
        .post(
            "/api/v1/namespaces/ns/configmaps",
            json!({"metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    assert_eq!(
        server.delete("/api/v1/namespaces/ns").await.0,
        200,
        "it goes on ending"
    );
    let (code, _) = server
        .put(
            "/api/v1/namespaces/ns/finalize",
            json!({"metadata": {"name": "ns"}, "spec": {}}),
        )
        .await;
    assert_eq!(code, 200);
    assert_eq!(server.get("/api/v1/namespaces/ns").await.0, 404);
    assert_eq!(server.delete("/api/v1/namespaces/default").await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn collections_go_by_selector() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.config_map(name, json!({})).await;
    }
    server
        .delete(&format!("{CONFIG_MAPS}?labelSelector=app!%3Db"))
        .await;
    assert_eq!(names(&server.get(CONFIG_MAPS).await.1), ["b"]);
}
