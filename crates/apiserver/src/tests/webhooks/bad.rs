//! Webhooks that cannot be reached, hang, answer garbage, ask for what may not be, or call back.

use super::*;
use std::time::Duration;

const FAILED: &str = "Internal error occurred: failed calling webhook \"v.example.com\": ";

async fn message(server: &Server) -> String {
    let (code, status) = server.post(CONFIG_MAPS, map("m")).await;
    assert_eq!(
        (code, &status["reason"]),
        (500, &json!("InternalError")),
        "{status}"
    );
    let message = status["message"].as_str().unwrap();
    message.strip_prefix(FAILED).unwrap_or(message).to_owned()
}

#[tokio::test(start_paused = true)]
async fn failures_close_or_open_by_their_policy() {
    let (server, world) = server();
    server.validating("v", json!([hook("v")])).await;
    let post = "failed to call webhook: Post \"https://127.0.0.1:9443/v?timeout=10s\": ";
    assert_eq!(
        message(&server).await,
        format!("{post}dial tcp 127.0.0.1:1: connect: connection refused")
    );
    // It hangs for longer than it may.
    world.respond_with(|_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            (200, String::new())
        })
    });
    assert_eq!(
        message(&server).await,
        format!("{post}context deadline exceeded")
    );
    let check = async |code: u16, body: &'static str, expected: &str| {
        world.respond_with(move |_, _| Box::pin(async move { (code, body.to_owned()) }));
        assert_eq!(message(&server).await, expected, "{body}");
    };
    let no_review = "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string \
         into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }";
    check(200, "<html>", no_review).await;
    check(
        200,
        r#"{"kind":"Pod","apiVersion":"v1"}"#,
        "failed to call webhook: no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
    )
    .await;
    check(
        200,
        r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}"#,
        "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    )
    .await;
    check(
        200,
        r#"{"response":{"allowed":"no"}}"#,
        "failed to call webhook: json: cannot unmarshal string into Go struct field \
         AdmissionResponse.response.allowed of type bool",
    )
    .await;
    check(500, "boom", "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding").await;
    check(
        404,
        "",
        "failed to call webhook: the server could not find the requested resource",
    )
    .await;
    check(
        200,
        r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
        "received invalid webhook response: webhook response was absent",
    )
    .await;
    check(
        200,
        "{}",
        "received invalid webhook response: webhook response was absent",
    )
    .await;
    world.answer(|_, _| patch(json!([])));
    assert_eq!(
        message(&server).await,
        "received invalid webhook response: validating webhook may not return response.patch"
    );
}

#[tokio::test(start_paused = true)]
async fn who_fails_open_is_passed_over() {
    let (server, world) = server();
    let open = with(hook("open"), "failurePolicy", json!("Ignore"));
    server.mutating("m", json!([open, hook("closed")])).await;
    server.validating("v", json!([open])).await;
    world.respond_with(|path, review| {
        Box::pin(async move {
            match path.as_str() {
                "/open" => (500, "x".to_owned()),
                _ => (
                    200,
                    reviewed(
                        &review,
                        patch(json!([{"op": "add", "path": "/data/b", "value": "2"}])),
                    ),
                ),
            }
        })
    });
    let created = server.config_map("m", json!({"a": "1"})).await;
    assert_eq!(created["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(world.paths(), ["/open", "/closed", "/open"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_passed_over() {
    let (server, world) = server();
    server
        .mutating(
            "m",
            json!([with(hook("v"), "failurePolicy", json!("Ignore"))]),
        )
        .await;
    world.answer(|_, _| deny("no"));
    assert_eq!(server.post(CONFIG_MAPS, map("m")).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn nobody_calls_where_there_is_no_client() {
    let server = Server::new();
    server.validating("v", json!([hook("v")])).await;
    let expected = "failed to call webhook: Post \"https://127.0.0.1:9443/v?timeout=10s\": this server makes no outgoing calls: it was started without a network client";
    assert_eq!(message(&server).await, expected);
}

#[tokio::test(start_paused = true)]
async fn patches_are_taken_only_as_far_as_they_may_go() {
    let (server, world) = server();
    server.config_map("old", json!({"a": "1"})).await;
    server.mutating("m", json!([hook("v")])).await;
    let check = async |operations: Value, code: u16, expected: &str| {
        let answer = patch(operations.clone());
        world.answer(move |_, _| answer.clone());
        let path = format!("{CONFIG_MAPS}/old");
        let (actual, status) = server
            .patch(&path, "merge-patch", json!({"data": {"a": "2"}}))
            .await;
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!(actual, code, "{operations}: {status}");
        assert!(message.contains(expected), "{operations}: {message}");
    };
    let replace =
        |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    check(
        replace("/metadata/name", json!("other")),
        422,
        "metadata.name: Invalid value: \"other\": field is immutable",
    )
    .await;
    check(
        replace("/metadata/namespace", json!("other")),
        400,
        "does not match the namespace sent on the request",
    )
    .await;
    check(
        replace("/kind", json!("Secret")),
        500,
        "Internal error occurred: a webhook may not change kind",
    )
    .await;
    check(
        replace("/data", json!([1])),
        500,
        "Internal error occurred: ",
    )
    .await;
    check(
        json!([{"op": "remove", "path": "/nothing/here"}]),
        500,
        "Internal error occurred: ",
    )
    .await;
    check(replace("", json!(7)), 500, "Internal error occurred: ").await;
    // What only the server writes stays, and what nobody knows vanishes.
    let stored = server.get(&format!("{CONFIG_MAPS}/old")).await.1;
    check(replace("/metadata/uid", json!("mine")), 200, "").await;
    check(
        json!([{"op": "add", "path": "/unknown", "value": 1}]),
        200,
        "",
    )
    .await;
    let after = server.get(&format!("{CONFIG_MAPS}/old")).await.1;
    assert_eq!(after["metadata"]["uid"], stored["metadata"]["uid"]);
    assert_eq!(after.get("unknown"), None);
    let damaged = json!([{"operation": "Nothing"}]);
    check(replace("/metadata/managedFields", damaged), 200, "").await;
    let kept = server.get(&format!("{CONFIG_MAPS}/old")).await.1;
    assert_eq!(
        kept["metadata"]["managedFields"],
        after["metadata"]["managedFields"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_calls_back_does_not_wait_for_itself() {
    let (server, world) = server();
    let inner = with(
        hook("v"),
        "objectSelector",
        json!({"matchLabels": {"app": "outer"}}),
    );
    server.validating("v", json!([inner])).await;
    let back = server.server.clone();
    world.respond_with(move |_, review| {
        let back = back.clone();
        Box::pin(async move {
            let request = Request::post(CONFIG_MAPS).body(Bytes::from(map("inner").to_string()));
            let answer = back
                .handle(request.unwrap(), crate::auth::Identity::admin())
                .await;
            assert_eq!(answer.status(), 201);
            (200, reviewed(&review, allow()))
        })
    });
    server.config_map("outer", json!({})).await;
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/inner")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_calls_itself_for_ever_ends_with_its_time() {
    let (server, world) = server();
    server.validating("v", json!([hook("v")])).await;
    let back = server.server.clone();
    world.respond_with(move |_, review| {
        let back = back.clone();
        Box::pin(async move {
            let body = json!({"metadata": {"generateName": "m-"}}).to_string();
            let request = Request::post(CONFIG_MAPS).body(Bytes::from(body)).unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            back.handle(request, crate::auth::Identity::admin()).await;
            (200, reviewed(&review, allow()))
        })
    });
    assert!(
        message(&server)
            .await
            .ends_with("context deadline exceeded")
    );
    *world.respond.lock() = None;
    assert_eq!(server.get("/healthz").await.0, 200);
}
