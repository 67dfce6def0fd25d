//! What the embedding process can do beside what clients can.

use super::*;
use crate::RestoreError;
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn a_mounted_path_is_answered_and_guarded() {
    let server = Server::new();
    server.server.mount(
        "/debug/ours/",
        Arc::new(|request| {
            let text = format!("asked for {}", request.uri());
            Box::pin(async move { Response::new(Bytes::from(text)) })
        }),
    );
    let ask = |server: &ApiServer, user: &str| {
        let identity = crate::auth::Identity {
            user: user.to_owned(),
            groups: match user {
                "admin" => vec!["system:masters".to_owned()],
                _ => vec!["system:authenticated".to_owned()],
            },
            ..crate::auth::Identity::default()
        };
        let request = Request::builder()
            .uri("/debug/ours/web?name=a")
            .body(Bytes::new())
            .unwrap();
        let server = server.clone();
        async move {
            let response = server.handle(request, identity).await;
            let code = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (code, String::from_utf8(body.to_vec()).unwrap())
        }
    };
    let (code, body) = ask(&server.server, "admin").await;
    assert_eq!(
        (code, body.as_str()),
        (200, "asked for /debug/ours/web?name=a")
    );
    let (code, body) = ask(&server.server, "jane").await;
    assert_eq!(code, 403, "{body}");
}

#[tokio::test(start_paused = true)]
async fn an_object_is_restored_as_it_was() {
    let server = Server::new();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "9f1b9a5e-7f6a-4b0e-9a53-0c9b6d0d4a11",
            "creationTimestamp": "2020-01-01T00:00:00Z", "resourceVersion": "999999",
            "deletionTimestamp": "2020-01-02T00:00:00Z",
        },
        "spec": {"nodeName": "node-7", "containers": [{"name": "main", "image": "nginx"}]},
        "status": {"phase": "Running"},
    });
    server.server.restore(pod.clone()).unwrap();
    let (code, mut found) = server
        .call(
            Method::GET,
            "/api/v1/namespaces/default/pods/web",
            "application/json",
            Bytes::new(),
        )
        .await;
    assert_eq!(code, 200);
    assert_ne!(found["metadata"]["resourceVersion"], "999999");
    found["metadata"]["resourceVersion"] = json!("999999");
    assert_eq!(found["metadata"], pod["metadata"]);
    assert_eq!(found["spec"]["nodeName"], "node-7");
    assert_eq!(found["status"]["phase"], "Running");
    // What every server would have filled in.
    assert_eq!(found["spec"]["restartPolicy"], "Always");

    server.server.restore(found.clone()).unwrap();
    let (_, mut again) = server.get("/api/v1/namespaces/default/pods/web").await;
    again["metadata"]["resourceVersion"] = json!("999999");
    assert_eq!(again, found, "what lacks nothing stays as it is");

    let unknown = json!({"apiVersion": "a/v1", "kind": "Nope", "metadata": {"name": "x"}});
    assert_eq!(
        server.server.restore(unknown).unwrap_err().to_string(),
        r#"no kind "Nope" is known in "a/v1""#
    );
    let nameless = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}});
    let kind = "Pod".to_owned();
    assert_eq!(
        server.server.restore(nameless),
        Err(RestoreError::Nameless { kind })
    );
}

#[tokio::test(start_paused = true)]
async fn quotas_are_recounted() {
    let server = Server::new();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"pods": "3", "count/secrets": "5"}},
    });
    server.server.restore(quota).unwrap();
    for name in ["a", "b"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        });
        server.server.restore(pod).unwrap();
    }
    server.server.recount_quotas();
    let path = "/api/v1/namespaces/default/resourcequotas/few";
    let (_, found) = server
        .call(Method::GET, path, "application/json", Bytes::new())
        .await;
    assert_eq!(found["status"]["used"]["pods"], "2");
    assert_eq!(found["status"]["hard"]["count/secrets"], "5");
}
