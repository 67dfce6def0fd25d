//! A recorder and its writer against a server that keeps what it is sent.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use api::{ResourceType, Time, Uid};
use bytes::Bytes;
use client::{Body, BoxError, Transport};
use expect_test::{Expect, expect};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::*;
use crate::stop::Stopper;
use crate::{Stop, Task};

const PODS: ResourceType = ResourceType::namespaced("", "v1", "pods", "Pod");
const NODES: ResourceType = ResourceType::cluster("", "v1", "nodes", "Node");

/// How the server answers: the HTTP code, or nothing.
type Answers = Arc<Mutex<Box<dyn FnMut(&Method) -> Option<u16> + Send>>>;

struct Fixture {
    recorder: Recorder,
    stopper: Stopper,
    task: Task<()>,
    requests: Arc<Mutex<Vec<(tokio::time::Instant, String, Value)>>>,
    started: tokio::time::Instant,
}

impl Fixture {
    fn new(answer: impl FnMut(&Method) -> Option<u16> + Send + 'static) -> Fixture {
        let answers: Answers = Arc::new(Mutex::new(Box::new(answer)));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let server = Transport::new(tower::service_fn(move |request: Request<Bytes>| {
            let code = (answers.lock())(request.method());
            let line = format!("{} {}", request.method(), request.uri().path());
            let body = serde_json::from_slice(request.body()).unwrap();
            log.lock().push((tokio::time::Instant::now(), line, body));
            async move {
                let code = code.ok_or_else(|| BoxError::from("connection refused"))?;
                let body = Full::new(Bytes::new()).map_err(|never| match never {});
                Ok(Response::builder().status(code).body(Body::new(body))?)
            }
        }));
        let clock = crate::clock::following_tokio(Time::from_unix(1_700_000_000));
        let (recorder, writer) = Recorder::new(
            "replicaset-controller",
            "",
            Client::new(server),
            clock,
            Rng::from_seed(1),
        );
        let (stopper, stop) = Stop::new();
        Fixture {
            recorder,
            stopper,
            task: crate::spawn(writer.run(stop)),
            requests,
            started: tokio::time::Instant::now(),
        }
    }

    fn pod(&self, message: &str) {
        let pod = ObjectRef {
            resource_version: 7,
            ..ObjectRef::named(
                &PODS,
                "web",
                "a",
                Uid::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            )
        };
        self.recorder
            .event(&pod, EventType::Warning, "FailedCreate", message);
    }

    /// Stops the writer and shows what the server was sent, with the seconds since the start.
    async fn finish(self, expected: Expect) {
        tokio::time::sleep(Duration::from_secs(1000)).await;
        self.stopper.stop();
        self.task.await.unwrap();
        let shown: Vec<String> = self
            .requests
            .lock()
            .iter()
            .map(|(at, line, body)| {
                let after = at.duration_since(self.started).as_secs();
                format!("{after}s {line} {body}")
            })
            .collect();
        expected.assert_eq(&shown.join("\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_and_count_patches_are_upstreams() {
    let fixture = Fixture::new(|method| Some(if method == Method::POST { 201 } else { 200 }));
    fixture.pod("quota");
    tokio::time::sleep(Duration::from_secs(3)).await;
    fixture.pod("quota");
    fixture.finish(expect![[r#"
        0s POST /api/v1/namespaces/web/events {"apiVersion":"v1","count":1,"eventTime":null,"firstTimestamp":"2023-11-14T22:13:20Z","involvedObject":{"apiVersion":"v1","kind":"Pod","name":"a","namespace":"web","resourceVersion":"7","uid":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"},"kind":"Event","lastTimestamp":"2023-11-14T22:13:20Z","message":"quota","metadata":{"name":"a.17979cfe362a0170","namespace":"web"},"reason":"FailedCreate","reportingComponent":"replicaset-controller","reportingInstance":"","source":{"component":"replicaset-controller"},"type":"Warning"}
        3s PATCH /api/v1/namespaces/web/events/a.17979cfe362a0170 {"count":2,"lastTimestamp":"2023-11-14T22:13:23Z","message":"quota"}"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn events_of_cluster_scoped_objects_go_to_default() {
    let fixture = Fixture::new(|_| Some(201));
    let node = ObjectRef::named(&NODES, "", "n1", Uid::default());
    fixture
        .recorder
        .event(&node, EventType::Normal, "NodeReady", "ready");
    fixture.finish(expect![[r#"0s POST /api/v1/namespaces/default/events {"apiVersion":"v1","count":1,"eventTime":null,"firstTimestamp":"2023-11-14T22:13:20Z","involvedObject":{"apiVersion":"v1","kind":"Node","name":"n1"},"kind":"Event","lastTimestamp":"2023-11-14T22:13:20Z","message":"ready","metadata":{"name":"n1.17979cfe362a0170","namespace":"default"},"reason":"NodeReady","reportingComponent":"replicaset-controller","reportingInstance":"","source":{"component":"replicaset-controller"},"type":"Normal"}"#]]).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_created_again_with_its_count() {
    let fixture = Fixture::new(|method| Some(if method == Method::PATCH { 404 } else { 201 }));
    fixture.pod("quota");
    fixture.pod("quota");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let requests = fixture.requests.lock().clone();
    let lines: Vec<&str> = requests
        .iter()
        .map(|(_, line, _)| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(lines, ["POST", "PATCH", "POST"]);
    assert_eq!(requests[2].2["count"], 2);
    assert_eq!(requests[2].2["metadata"], requests[0].2["metadata"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_twelve_times_and_then_the_next_event_has_its_turn() {
    let mut left = 12;
    let fixture = Fixture::new(move |_| {
        left -= 1;
        (left < 0).then_some(201)
    });
    fixture.pod("first");
    fixture.pod("second");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let requests = fixture.requests.lock().clone();
    let messages: Vec<&str> = requests
        .iter()
        .map(|(_, _, body)| body["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages[..12], ["first"; 12]);
    assert_eq!(messages[12..], ["second"]);
    let gaps: Vec<u64> = requests[..12]
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0).as_secs())
        .collect();
    assert!(gaps[0] < 10, "the first wait is random");
    assert_eq!(gaps[1..], [10; 10]);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_not_tried_again() {
    for code in [403, 409, 422, 500] {
        let fixture = Fixture::new(move |_| Some(code));
        fixture.pod("once");
        tokio::time::sleep(Duration::from_secs(1000)).await;
        assert_eq!(fixture.requests.lock().len(), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts() {
    let metrics = crate::Metrics::new();
    let fixture = Fixture::new(|_| None);
    let recorder = fixture.recorder.clone().with_metrics(metrics.events("c"));
    for number in 0..QUEUED + 5 {
        let pod = ObjectRef::named(&PODS, "web", &number.to_string(), Uid::default());
        recorder.event(&pod, EventType::Normal, "Created", "x");
    }
    // Nothing else ran in between: the queue is full, and the rest is gone.
    assert_eq!(recorder.dropped(), 5);
    assert!(
        metrics
            .render()
            .contains("event_recorder_dropped_total{component=\"c\"} 5\n")
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_at_the_end_is_tried_once() {
    let fixture = Fixture::new(|_| Some(201));
    fixture.pod("stopped leading");
    fixture.stopper.stop();
    fixture.task.await.unwrap();
    assert_eq!(fixture.requests.lock().len(), 1);

    let fixture = Fixture::new(|_| None);
    fixture.pod("one");
    fixture.pod("two");
    fixture.stopper.stop();
    fixture.task.await.unwrap();
    assert_eq!(fixture.requests.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn events_after_the_writer_has_ended_are_counted_as_dropped() {
    let fixture = Fixture::new(|_| Some(201));
    fixture.stopper.stop();
    fixture.task.await.unwrap();
    let node = ObjectRef::named(&NODES, "", "n1", Uid::default());
    fixture
        .recorder
        .event(&node, EventType::Normal, "NodeReady", "too late");
    assert_eq!(fixture.recorder.dropped(), 1);
    assert!(fixture.requests.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_in_turn_are_waited_for_instead_of_dropped() {
    let fixture = Fixture::new(|_| Some(201));
    for index in 0..QUEUED + 500 {
        let object = ObjectRef::named(&PODS, "shop", &format!("web-{index}"), Uid::default());
        let told = fixture.recorder.event_in_turn(
            &object,
            EventType::Normal,
            "Started",
            "Container started",
        );
        told.await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.recorder.dropped(), 0);
    assert_eq!(fixture.requests.lock().len(), QUEUED + 500);
}
