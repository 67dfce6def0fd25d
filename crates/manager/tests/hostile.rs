//! An API server that lies: the real controllers on top of it neither break nor grow, and say what is wrong.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::{Rng, Time};
use bytes::Bytes;
use client::{Body, BoxError, Transport};
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use runtime::{Decisions, Stop};
use serde_json::{Value, json};
use steersman_manager::logging::{Logging, LoggingOptions, Sink};
use steersman_manager::run::Manager;
use steersman_manager::{Command, Options};
use tracing_subscriber::layer::SubscriberExt;

/// What the process may grow by: lists of it are small, so what grows is kept without need.
const LARGEST_BYTES: u64 = 600 << 20;

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

fn answer(rng: &Rng, request: &Request<Bytes>) -> Response<Body> {
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

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// A log to look at.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lies_breaks_nothing_and_is_told_of() {
    let clock = runtime::clock::following_tokio_from(Time::from_unix(1_700_000_000).micro());
    let log = Log::default();
    let sink = Sink {
        info: Box::new(log.clone()),
        error: Box::new(log.clone()),
    };
    let options = LoggingOptions::from_arguments([]).unwrap();
    let (_logging, layer) = Logging::new(&options, clock.clone(), sink);
    let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let panics = Arc::new(AtomicUsize::new(0));
    let counted = panics.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |why| {
        counted.fetch_add(1, Ordering::Relaxed);
        before(why);
    }));

    let rng = Rng::from_seed(21);
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, lies) = (asked.clone(), rng.fork());
    let transport = Transport::new(tower::service_fn(move |request: Request<Bytes>| {
        count.fetch_add(1, Ordering::Relaxed);
        let response = answer(&lies, &request);
        async move { Ok::<_, BoxError>(response) }
    }));
    let Ok(Command::Run(options)) = Options::parse(["--controllers=*"], "x") else {
        unreachable!("these flags are fine");
    };
    let manager = Manager::in_process(transport, &options, clock, rng, Decisions::new());
    let (ender, stop) = Stop::new();
    let running = runtime::spawn(manager.run(None, stop));
    let begin = peak_bytes();
    tokio::time::sleep(Duration::from_secs(60)).await;
    ender.stop();
    running.await.expect("the manager itself does not break");

    assert_eq!(panics.load(Ordering::Relaxed), 0);
    let grew = peak_bytes().saturating_sub(begin);
    assert!(grew < LARGEST_BYTES, "{} MB", grew / 1_000_000);
    assert!(asked.load(Ordering::Relaxed) > 100, "it goes on to ask");
    let log = String::from_utf8_lossy(&log.0.lock()).into_owned();
    assert!(log.len() < 20 << 20, "{} bytes of log", log.len());
    for said in ["not a Kubernetes API object", "was answered with more than"] {
        assert!(
            log.contains(said),
            "{said} is not in the log:\n{}",
            &log[..log.len().min(4000)]
        );
    }
}
