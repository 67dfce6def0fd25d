//! The verbs against a server that is a closure: what goes over the wire, and what comes of the answers.

use parking_lot::Mutex;
use std::sync::Arc;

use expect_test::{Expect, expect};
use http::StatusCode;
use http_body_util::{BodyExt, Full};

use super::*;
use crate::{BoxError, Propagation, ResourceVersionMatch, WatchEvent};

fn pods() -> ResourceType {
    ResourceType::namespaced("", "v1", "pods", "Pod")
}

fn nodes() -> ResourceType {
    ResourceType::cluster("", "v1", "nodes", "Node")
}

fn deployments() -> ResourceType {
    ResourceType::namespaced("apps", "v1", "deployments", "Deployment")
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(BoxError::from)
        .boxed_unsync()
}

/// A client whose server is a function from the request (and its number) to the answer.
fn client(
    answer: impl Fn(Request<Bytes>, usize) -> Result<Response<Body>, BoxError> + Send + Sync + 'static,
) -> Client {
    let answer = Arc::new(answer);
    let count = Arc::new(Mutex::new(0));
    let service = tower::service_fn(move |request| {
        let (answer, count) = (answer.clone(), count.clone());
        async move {
            let number = {
                let mut count = count.lock();
                *count += 1;
                *count
            };
            answer(request, number)
        }
    });
    Client::new(Transport::new(service))
}

/// glibc hands out boxes of up to 1,032 bytes at once; for larger ones it tidies up first.
#[test]
fn what_a_request_is_kept_in_is_small() {
    let client = client(|_, _| Ok(Response::new(full("{}"))));
    let request = || build(Method::GET, "/api", JSON, None).unwrap();
    let kept = [
        std::mem::size_of_val(&*client.send(request(), "", Pace::Other)),
        std::mem::size_of_val(&*client.whole_answer(request(), Pace::Other)),
    ];
    assert!(kept.iter().all(|bytes| *bytes <= 1032), "{kept:?}");
}

/// A client whose server notes each request in one line or two and answers `{}`.
fn recorder() -> (Client, Arc<Mutex<String>>) {
    let log = Arc::new(Mutex::new(String::new()));
    let notes = Arc::clone(&log);
    let client = client(move |request, _| {
        let header = |name| {
            request
                .headers()
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
        };
        let mut notes = notes.lock();
        notes.push_str(&format!("{} {}", request.method(), request.uri()));
        if request.headers().contains_key(CONTENT_TYPE) {
            notes.push_str(&format!(
                "\n  {} {}",
                header(CONTENT_TYPE),
                String::from_utf8_lossy(request.body())
            ));
        }
        if header(ACCEPT) != "application/json" {
            notes.push_str(&format!("\n  accept {}", header(ACCEPT)));
        }
        notes.push('\n');
        Ok(Response::new(full(r#"{"metadata":{},"items":[]}"#)))
    });
    (client, log)
}

fn recorded(log: &Mutex<String>, expected: Expect) {
    expected.assert_eq(&std::mem::take(&mut *log.lock()));
}

#[tokio::test]
async fn reads_on_the_wire() {
    let (client, log) = recorder();
    client.get(&pods(), "shop", "web-1").await.unwrap();
    client.get(&nodes(), "", "n1").await.unwrap();
    client.get_metadata(&nodes(), "", "n1").await.unwrap();
    client
        .get_subresource(&deployments(), "shop", "web", "scale")
        .await
        .unwrap();
    client
        .list(&deployments(), "", &ListOptions::default())
        .await
        .unwrap();
    let options = ListOptions {
        label_selector: Some("app in (a,b),!c".into()),
        field_selector: Some("spec.nodeName=n1".into()),
        limit: Some(500),
        continue_token: Some("x+/=".into()),
        resource_version: Some("7".into()),
        resource_version_match: Some(ResourceVersionMatch::Exact),
        metadata_only: true,
    };
    client.list(&pods(), "shop", &options).await.unwrap();
    let options = WatchOptions {
        resource_version: Some("".into()),
        send_initial_events: true,
        allow_bookmarks: true,
        timeout_seconds: Some(300),
        metadata_only: true,
        ..WatchOptions::default()
    };
    client.watch(&pods(), "", &options).await.unwrap();
    client.request(Request::new(Bytes::new())).await.unwrap();
    recorded(
        &log,
        expect![[r#"
            GET /api/v1/namespaces/shop/pods/web-1
            GET /api/v1/nodes/n1
            GET /api/v1/nodes/n1
              accept application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json
            GET /apis/apps/v1/namespaces/shop/deployments/web/scale
            GET /apis/apps/v1/deployments
            GET /api/v1/namespaces/shop/pods?continue=x%2B%2F%3D&fieldSelector=spec.nodeName%3Dn1&labelSelector=app%20in%20%28a%2Cb%29%2C%21c&limit=500&resourceVersion=7&resourceVersionMatch=Exact
              accept application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json
            GET /api/v1/pods?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=true
              accept application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json
            GET /
              accept -
        "#]],
    );
}

#[tokio::test]
async fn writes_on_the_wire() {
    let (client, log) = recorder();
    client.create(&pods(), "shop", "{}").await.unwrap();
    client
        .create_subresource(&pods(), "shop", "a", "eviction", "{}")
        .await
        .unwrap();
    client
        .replace(&deployments(), "shop", "a", None, "{}")
        .await
        .unwrap();
    client
        .replace(&deployments(), "shop", "a", Some("scale"), "{}")
        .await
        .unwrap();
    for patch in [
        Patch::Json("[]".into()),
        Patch::Merge("{}".into()),
        Patch::Strategic("{}".into()),
        Patch::Apply {
            body: "{}".into(),
            field_manager: "steer man".into(),
            force: true,
        },
    ] {
        client
            .patch(&pods(), "shop", "a", Some("status"), &patch)
            .await
            .unwrap();
    }
    recorded(
        &log,
        expect![[r#"
            POST /api/v1/namespaces/shop/pods
              application/json {}
            POST /api/v1/namespaces/shop/pods/a/eviction
              application/json {}
            PUT /apis/apps/v1/namespaces/shop/deployments/a
              application/json {}
            PUT /apis/apps/v1/namespaces/shop/deployments/a/scale
              application/json {}
            PATCH /api/v1/namespaces/shop/pods/a/status
              application/json-patch+json []
            PATCH /api/v1/namespaces/shop/pods/a/status
              application/merge-patch+json {}
            PATCH /api/v1/namespaces/shop/pods/a/status
              application/strategic-merge-patch+json {}
            PATCH /api/v1/namespaces/shop/pods/a/status?fieldManager=steer%20man&force=true
              application/apply-patch+yaml {}
        "#]],
    );
}

#[tokio::test]
async fn deletes_on_the_wire() {
    let (client, log) = recorder();
    client
        .delete(&nodes(), "", "n1", &DeleteOptions::default())
        .await
        .unwrap();
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        uid: Some("u-1".into()),
        resource_version: Some(7),
        propagation: Some(Propagation::Foreground),
        dry_run: true,
    };
    client.delete(&pods(), "shop", "a", &options).await.unwrap();
    let list = ListOptions {
        label_selector: Some("a=b".into()),
        ..ListOptions::default()
    };
    client
        .delete_collection(&pods(), "shop", &list, &DeleteOptions::default())
        .await
        .unwrap();
    recorded(
        &log,
        expect![[r#"
            DELETE /api/v1/nodes/n1
              application/json {"kind":"DeleteOptions","apiVersion":"v1"}
              accept application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json
            DELETE /api/v1/namespaces/shop/pods/a
              application/json {"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u-1","resourceVersion":"7"},"propagationPolicy":"Foreground","dryRun":["All"]}
              accept application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json
            DELETE /api/v1/namespaces/shop/pods?labelSelector=a%3Db
              application/json {"kind":"DeleteOptions","apiVersion":"v1"}
        "#]],
    );
}

#[tokio::test]
async fn requests_that_would_mean_something_else_are_refused() {
    let (client, log) = recorder();
    for (namespace, name) in [
        ("shop", ""),
        ("", "a"),
        ("shop", ".."),
        ("shop", "a/b"),
        ("a%2Fb", "c"),
    ] {
        let error = client
            .delete(&pods(), namespace, name, &DeleteOptions::default())
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::InvalidRequest(_)),
            "{namespace:?} {name:?}: {error}"
        );
    }
    assert!(client.create(&pods(), "", "{}").await.is_err());
    let all = ListOptions::default();
    assert!(
        client
            .delete_collection(&pods(), "", &all, &DeleteOptions::default())
            .await
            .is_err()
    );
    recorded(&log, expect![""]);
}

#[tokio::test]
async fn each_clone_has_its_own_name() {
    let client = client(|request, _| {
        Ok(Response::new(full(
            request.headers()[USER_AGENT].as_bytes().to_vec(),
        )))
    });
    let name = |client: Client| async move { client.get(&nodes(), "", "n").await.unwrap() };
    assert_eq!(name(client.clone()).await, "steersman");
    assert_eq!(
        name(client.clone().with_user_agent("kcm/v1 (linux)\n\u{e9}/job")).await,
        "kcm/v1 (linux)/job"
    );
}

#[tokio::test]
async fn a_status_becomes_a_typed_error() {
    let client = client(|_, _| {
        let body =
            r#"{"kind":"Status","code":404,"reason":"NotFound","message":"pods \"a\" not found"}"#;
        Ok(Response::builder().status(404).body(full(body)).unwrap())
    });
    let error = client.get(&pods(), "shop", "a").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "pods \"a\" not found");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_up_to_ten_times() {
    let overloaded = |_, _| {
        let response = Response::builder()
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header("Retry-After", "2");
        Ok(response.body(full("slow down")).unwrap())
    };
    let started = tokio::time::Instant::now();
    let error = client(overloaded).get(&nodes(), "", "n").await.unwrap_err();
    assert!(error.is_too_many_requests());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    assert_eq!(started.elapsed().as_secs(), 20);

    let recovering = client(move |request, number| {
        if number < 3 {
            overloaded(request, number)
        } else {
            Ok(Response::new(full("{}")))
        }
    });
    assert_eq!(recovering.get(&nodes(), "", "n").await.unwrap(), "{}");
    assert_eq!(started.elapsed().as_secs(), 24);
}

#[tokio::test(start_paused = true)]
async fn failures_without_retry_after_are_the_callers_to_retry() {
    let failing = client(|_, number| {
        assert_eq!(number, 1, "sent again without being asked");
        Ok(Response::builder().status(500).body(full("boom")).unwrap())
    });
    assert!(
        failing
            .get(&nodes(), "", "n")
            .await
            .unwrap_err()
            .should_retry()
    );
    let refused = client(|_, _| Err("connection refused".into()));
    assert!(
        refused
            .get(&nodes(), "", "n")
            .await
            .unwrap_err()
            .is_transport()
    );
}

#[tokio::test(start_paused = true)]
async fn silence_times_out() {
    let silent = tower::service_fn(|_: Request<Bytes>| std::future::pending());
    let error = Client::new(Transport::new(silent))
        .get(&nodes(), "", "n")
        .await
        .unwrap_err();
    assert!(error.is_timeout() && error.should_retry());
    assert_eq!(
        error.to_string(),
        "GET /api/v1/nodes/n was not answered within 90 s"
    );

    let stalled = client(|_, _| {
        let body = http_body_util::StreamBody::new(futures_util::stream::pending());
        Ok(Response::new(body.boxed_unsync()))
    });
    assert!(
        stalled
            .get(&nodes(), "", "n")
            .await
            .unwrap_err()
            .is_timeout()
    );
}

#[tokio::test]
async fn garbage_for_a_list_is_named() {
    let client = client(|_, _| Ok(Response::new(full("<html>welcome to the wifi</html>"))));
    let error = client
        .list(&pods(), "", &ListOptions::default())
        .await
        .unwrap_err();
    assert_eq!(
        crate::describe(&error),
        "GET /api/v1/pods was answered with something that is not a Kubernetes API object: \
         \"<html>welcome to the wifi</html>\": expected value at line 1 column 1"
    );
    assert!(!error.should_retry());
}

#[tokio::test]
async fn watches_stream_events() {
    use futures_util::StreamExt;
    let client = client(|_, _| {
        Ok(Response::new(full(
            "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n",
        )))
    });
    let mut events = client
        .watch(&pods(), "", &WatchOptions::default())
        .await
        .unwrap();
    let Some(Ok(WatchEvent::Added(object))) = events.next().await else {
        panic!("no event")
    };
    assert_eq!(object, r#"{"a":1}"#);
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_view_is_decoded_or_the_object_named() {
    #[derive(PartialEq, serde::Deserialize)]
    struct Deployment {
        metadata: api::Meta,
        spec: Spec,
    }
    #[derive(PartialEq, serde::Deserialize)]
    struct Spec {
        replicas: u32,
    }
    impl Resource for Deployment {
        const TYPE: ResourceType =
            ResourceType::namespaced("apps", "v1", "deployments", "Deployment");
        fn meta(&self) -> &api::Meta {
            &self.metadata
        }
        fn decode(json: &[u8]) -> Result<Self, api::DecodeError> {
            api::resource::decode_json(&Self::TYPE, json)
        }
    }
    let client = client(|request, _| {
        let replicas = if request.uri().path().ends_with("/good") {
            "3"
        } else {
            "\"x\""
        };
        let body = format!(
            r#"{{"metadata":{{"name":"web","namespace":"shop"}},"spec":{{"replicas":{replicas}}}}}"#
        );
        Ok(Response::new(full(body)))
    });
    let view: Deployment = client.get_as("shop", "good").await.unwrap();
    assert_eq!(view.spec.replicas, 3);
    let error = client
        .get_as::<Deployment>("shop", "bad")
        .await
        .err()
        .expect("decoded nonsense");
    assert!(
        crate::describe(&error).contains("cannot decode Deployment shop/web: spec.replicas"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_client_does_is_counted() {
    let registry = prometheus::Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    let client = client(|request, number| match (request.method(), number) {
        (&Method::POST, _) => Ok(Response::builder().status(201).body(full("12345")).unwrap()),
        (_, 2) => Ok(Response::builder()
            .status(429)
            .header("Retry-After", "1")
            .body(full(""))
            .unwrap()),
        (_, 4) => Err("connection reset".into()),
        _ => Ok(Response::new(full("{}"))),
    })
    .with_metrics(&metrics, "api:6443");
    client
        .create(&nodes(), "", "{\"kind\":\"Node\"}")
        .await
        .unwrap();
    client.get(&nodes(), "", "n").await.unwrap();
    client.get(&nodes(), "", "n").await.unwrap_err();
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap();
    let counted: Vec<&str> = text
        .lines()
        .filter(|line| {
            !line.starts_with('#') && !line.contains("_bucket") && !line.contains("exec_plugin")
        })
        .collect();
    expect![[r#"
        rest_client_rate_limiter_duration_seconds_sum{host="api:6443",verb="GET"} 0
        rest_client_rate_limiter_duration_seconds_count{host="api:6443",verb="GET"} 3
        rest_client_rate_limiter_duration_seconds_sum{host="api:6443",verb="POST"} 0
        rest_client_rate_limiter_duration_seconds_count{host="api:6443",verb="POST"} 1
        rest_client_request_duration_seconds_sum{host="api:6443",verb="GET"} 1
        rest_client_request_duration_seconds_count{host="api:6443",verb="GET"} 2
        rest_client_request_duration_seconds_sum{host="api:6443",verb="POST"} 0
        rest_client_request_duration_seconds_count{host="api:6443",verb="POST"} 1
        rest_client_request_retries_total{code="429",host="api:6443",verb="GET"} 1
        rest_client_request_size_bytes_sum{host="api:6443",verb="POST"} 15
        rest_client_request_size_bytes_count{host="api:6443",verb="POST"} 1
        rest_client_requests_total{code="200",host="api:6443",method="GET"} 1
        rest_client_requests_total{code="201",host="api:6443",method="POST"} 1
        rest_client_requests_total{code="429",host="api:6443",method="GET"} 1
        rest_client_requests_total{code="<error>",host="api:6443",method="GET"} 1
        rest_client_response_size_bytes_sum{host="api:6443",verb="GET"} 2
        rest_client_response_size_bytes_count{host="api:6443",verb="GET"} 1
        rest_client_response_size_bytes_sum{host="api:6443",verb="POST"} 5
        rest_client_response_size_bytes_count{host="api:6443",verb="POST"} 1
        rest_client_transport_cache_entries 0
        rest_client_transport_cert_rotation_gc_calls_total 0
        rest_client_transport_create_calls_total{result="hit"} 1
    "#]]
    .assert_eq(&(counted.join("\n") + "\n"));
}

#[tokio::test]
async fn a_token_is_replaced_for_all_clones() {
    let client = client(|request, _| {
        Ok(Response::new(full(
            request.headers()[AUTHORIZATION].as_bytes().to_vec(),
        )))
    });
    let token = Token::new("one").unwrap();
    let clone = client.with_token(token.clone()).with_user_agent("other");
    assert_eq!(clone.get(&nodes(), "", "n").await.unwrap(), "Bearer one");
    token.replace("two\n").unwrap();
    assert_eq!(clone.get(&nodes(), "", "n").await.unwrap(), "Bearer two");
    assert!(Token::new("a\nb").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_resource_version_from_the_future_is_the_callers_to_handle() {
    let client = client(|_, _| {
        let body = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 8",
            "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],
            "retryAfterSeconds":1}}"#;
        let response = Response::builder().status(504).header("Retry-After", "1");
        Ok(response.body(full(body)).unwrap())
    });
    let started = Instant::now();
    let error = client
        .list(&pods(), "", &ListOptions::default())
        .await
        .unwrap_err();
    assert!(error.is_resource_version_too_large() && error.is_timeout());
    assert!(started.elapsed().is_zero(), "tried again");
}
