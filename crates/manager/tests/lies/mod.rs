//! What an API server answers that lies. Also for tests of the binary, which has it over TLS.

use api::Rng;
use bytes::Bytes;
use client::{Body, BoxError};
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

fn whole(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a status code");
    response
}

/// Never ends, and never says anything that could be the end of a line.
fn endless(code: u16) -> Response<Body> {
    let chunk = || Ok::<_, BoxError>(Frame::data(Bytes::from(vec![b'x'; 256 * 1024])));
    let mut response = Response::new(StreamBody::new(stream::repeat_with(chunk)).boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a status code");
    response
}

/// An object that no API server would store.
fn absurd(rng: &Rng, number: usize) -> Value {
    let kinds = ["Pod", "Deployment", "Node", "Job", "", "Secret"];
    let numbers = [
        json!(-5),
        json!(i64::MAX),
        json!(i64::MIN),
        json!("many"),
        Value::Null,
    ];
    let word = |from: &[&'static str]| from[rng.below(from.len())];
    let pick = |from: &[Value]| from[rng.below(from.len())].clone();
    json!({
        "apiVersion": "v1", "kind": word(&kinds),
        "metadata": {
            "name": format!("x{number}"), "namespace": word(&["", "default", "../.."]), "uid": format!("u{}", rng.below(10)),
            "resourceVersion": word(&["1", "-1", "", "99999999999999999999", "7"]), "generation": -1,
            "deletionTimestamp": word(&["2024-01-01T00:00:00Z", "never", ""]),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": format!("u{}", rng.below(10)), "controller": true}],
            "finalizers": ["a", "a", "foregroundDeletion"],
        },
        "spec": {
            "replicas": pick(&numbers), "parallelism": pick(&numbers), "completions": pick(&numbers),
            "schedule": "* * * * *", "selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {}}},
            "activeDeadlineSeconds": pick(&numbers), "minReadySeconds": pick(&numbers), "podCIDR": "0.0.0.0/0",
        },
        "status": {"replicas": pick(&numbers), "readyReplicas": pick(&numbers), "observedGeneration": pick(&numbers)},
    })
}

fn list(rng: &Rng, count: usize, revision: &str) -> Response<Body> {
    let items: Vec<Value> = (0..count).map(|number| absurd(rng, number)).collect();
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": revision}, "items": items});
    whole(200, list.to_string())
}

/// Events of strangers, of nothing, and of what went before.
fn events(rng: &Rng) -> Response<Body> {
    let kinds = [
        "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "GREETING",
    ];
    let mut text = String::new();
    for number in 0..20 {
        let object = match rng.below(4) {
            0 => json!({"kind": "Status", "code": 410, "reason": "Expired"}),
            1 => Value::Null,
            _ => absurd(rng, number),
        };
        let kind = kinds[rng.below(kinds.len())];
        text.push_str(&json!({"type": kind, "object": object}).to_string());
        text.push('\n');
    }
    whole(200, text)
}

/// Anything but the truth.
pub fn answer(rng: &Rng, request: &Request<Bytes>) -> Response<Body> {
    let is_watch = request
        .uri()
        .query()
        .is_some_and(|query| query.contains("watch="));
    // A list may have two gigabytes, which is more than a test should take.
    let is_list =
        !is_watch && request.method() == http::Method::GET && request.uri().path().len() > 5;
    match rng.below(12) {
        0 if !is_list => endless(200),
        1 => endless(500),
        2 => {
            let mut moved = whole(307, "");
            let elsewhere = http::HeaderValue::from_static("http://203.0.113.1/evil");
            moved.headers_mut().insert("location", elsewhere);
            moved
        }
        3 => whole(200, r#"{"kind":"Status","status":"Success"}"#),
        4 => whole(200, "<html>who are you</html>"),
        5 => whole(200, vec![b'['; 100_000]),
        6 => whole(
            429,
            r#"{"kind":"Status","details":{"retryAfterSeconds":-7}}"#,
        ),
        _ if is_watch => events(rng),
        7 => list(rng, 2000, "1000"),
        8 => list(rng, 3, "5"),
        9 => list(rng, 0, "-3"),
        _ => list(rng, 20, "0"),
    }
}
