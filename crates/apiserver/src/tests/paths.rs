//! What is answered at unusual paths, and in which form.

use super::*;

/// UPSTREAM: keys of etcd have no such parts.
#[tokio::test(start_paused = true)]
async fn no_object_is_in_a_namespace_that_no_path_could_have() {
    let server = Server::new();
    for (path, key) in [
        ("/api/v1/namespaces/../configmaps", "/configmaps/.."),
        ("/api/v1/namespaces/./configmaps/a", "/configmaps/./a"),
        (
            "/apis/apps/v1/namespaces/%2e%2e/deployments",
            "/deployments/..",
        ),
        (
            "/api/v1/namespaces/../services?watch=1",
            "/services/specs/..",
        ),
    ] {
        let (code, status) = server.get(path).await;
        let message = format!("invalid key: \"{key}\"");
        assert_eq!((code, &status["message"]), (500, &json!(message)), "{path}");
        assert_eq!(status["reason"], Value::Null);
    }
    let new = json!({"metadata": {"name": "a"}});
    let (code, status) = server.post("/api/v1/namespaces/../configmaps", new).await;
    let message = "Internal error occurred: invalid resource name \"..\": [may not be '..']";
    assert_eq!((code, &status["message"]), (500, &json!(message)));
}

#[tokio::test(start_paused = true)]
async fn answers_are_indented_for_those_who_ask() {
    let server = Server::new();
    let text = async |path: &str| {
        let response = server
            .send(Method::GET, path, "", "application/json", Bytes::new())
            .await;
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    for path in [
        "/api/v1/namespaces/default?pretty=true",
        "/api/v1/namespaces/nothing?pretty=true",
        "/apis?pretty=true",
        // UPSTREAM: these always are.
        "/version",
        "/",
    ] {
        assert!(text(path).await.starts_with("{\n  \""), "{path}");
    }
    let plain = text("/api/v1/namespaces/default").await;
    assert!(!plain.contains('\n'), "{plain}");
}
