//! The loop: what each outcome of a sync leads to, panics, workers, what is recorded.

use super::*;
use crate::rate_limit::Backoff;
use parking_lot::Mutex;

fn controller() -> Controller {
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let clock = Clock::fixed(api::Time::from_unix(0));
    Controller {
        workers: 3,
        ..Controller::plain("test", queue, Arc::new(Slow::default()), clock)
    }
}

/// Creates a set under another name each time, after it deleted the last one, as fast as it is woken.
struct Flapping {
    client: client::Client,
    queue: Arc<Queue>,
    syncs: Mutex<Vec<u64>>,
}

impl Reconcile for Flapping {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let round = self.syncs.lock().len();
        report.decide(
            object(),
            [api::decision::Line::acts(
                "Flaps",
                "creates a set".to_owned(),
            )],
        );
        let request = |method, path: &str, body: String| {
            let request = http::Request::builder().method(method).uri(path);
            self.client
                .request(request.body(body.into()).expect("it is a request"))
        };
        let gone = format!("/sets/{round}");
        request("DELETE", &gone, String::new()).await?;
        let body = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, round + 1);
        request("POST", "/sets", body).await?;
        let start = *START.get_or_init(Instant::now);
        self.syncs.lock().push(start.elapsed().as_secs());
        // What it wrote wakes it again.
        self.queue.add(key.clone());
        Ok(Next::AwaitChange)
    }
}

static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();

fn object() -> api::ObjectId {
    api::ObjectId {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: "ns".into(),
        name: "web".into(),
        uid: "u".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_undoes_itself_waits_and_says_so() {
    let echo = tower::service_fn(|request: http::Request<bytes::Bytes>| async move {
        let body = http_body_util::Full::new(request.into_body());
        let body = http_body_util::BodyExt::map_err(body, |never| match never {});
        let body = http_body_util::BodyExt::boxed_unsync(body);
        Ok::<_, client::BoxError>(http::Response::new(body))
    });
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let metrics = Metrics::new();
    let flapping = Arc::new(Flapping {
        client: client::Client::new(client::Transport::new(echo)),
        queue: queue.clone(),
        syncs: Mutex::default(),
    });
    let decisions = Decisions::new();
    queue.add(Key::new("ns", "web"));
    let controller = Controller {
        queue: queue.clone(),
        reconciler: flapping.clone(),
        decisions: decisions.clone(),
        metrics: metrics.controller("test"),
        ..controller()
    };
    let (stopper, stop) = Stop::new();
    let running = spawn(controller.run(stop));
    tokio::time::sleep(Duration::from_secs(300)).await;
    stopper.stop();
    running.await.unwrap();
    let syncs = flapping.syncs.lock().clone();
    assert_eq!(syncs[..9], [0; 9], "some rounds are daily business");
    assert_eq!(syncs[9..], [1, 3, 7, 15, 31, 63, 123, 183, 243]);
    let said = decisions.get("test", &Key::new("ns", "web"));
    let failure = said.last().and_then(|decision| decision.failure.clone());
    let failure = failure.expect("it is on record");
    assert!(
        failure.starts_with("undoes its own writes, last: create /sets/"),
        "{failure}"
    );
    let text = metrics.render();
    let counted = r#"controller_reconcile_total{controller="test",result="undoes"} 10"#;
    assert!(text.contains(counted), "{text}");
}

struct Scripted {
    calls: Mutex<Vec<(u128, String)>>,
    start: Instant,
    script: fn(usize) -> Result<Next, Error>,
}

impl Reconcile for Scripted {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        let mut calls = self.calls.lock();
        calls.push((self.start.elapsed().as_millis(), key.to_string()));
        let count = calls.len();
        drop(calls);
        (self.script)(count)
    }
}

/// Runs one key through the script for a virtual minute; gives the times of the calls.
async fn calls(script: fn(usize) -> Result<Next, Error>, retries_max: Option<u32>) -> Vec<u128> {
    let reconciler = Arc::new(Scripted {
        calls: Mutex::default(),
        start: Instant::now(),
        script,
    });
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    queue.add(Key::new("ns", "web"));
    let controller = Controller {
        queue,
        reconciler: reconciler.clone(),
        retries_max,
        ..controller()
    };
    let (stopper, stop) = Stop::new();
    let running = spawn(controller.run(stop));
    tokio::time::sleep(Duration::from_secs(60)).await;
    stopper.stop();
    running.await.unwrap();
    let calls = reconciler.calls.lock();
    calls.iter().map(|(at, _)| *at).collect()
}

#[tokio::test(start_paused = true)]
async fn done_means_done() {
    assert_eq!(calls(|_| Ok(Next::AwaitChange), None).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn requeues_when_requested() {
    let script = |count| {
        Ok(if count < 3 {
            Next::After(Duration::from_secs(10))
        } else {
            Next::AwaitChange
        })
    };
    assert_eq!(calls(script, None).await, [0, 10_000, 20_000]);
}

#[tokio::test(start_paused = true)]
async fn retries_with_growing_delays() {
    let script = |count| {
        if count < 4 {
            Err(Error::Retry("no".into()))
        } else {
            Ok(Next::AwaitChange)
        }
    };
    assert_eq!(calls(script, None).await, [0, 5, 15, 35]);
}

/// Fails, panics, asks for time, and is prepared then.
struct Preparation(Mutex<u32>);

impl Reconcile<Tick> for Preparation {
    async fn reconcile(&self, _: &Tick, _: &Report<'_>) -> Result<Next, Error> {
        let call = {
            let mut calls = self.0.lock();
            *calls += 1;
            *calls
        };
        match call {
            1 => Err(Error::Retry("no".into())),
            2 => panic!("a bug"),
            3 => Ok(Next::After(Duration::from_secs(30))),
            4 => Ok(Next::AwaitChange),
            _ => std::future::pending().await,
        }
    }
}

/// When loops begin that are prepared by what has been called so often before.
async fn prepared(calls: u32, metrics: &Metrics) -> Option<Duration> {
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    queue.add(Tick);
    let preparation = Arc::new(Preparation(Mutex::new(calls)));
    let clock = Clock::fixed(api::Time::from_unix(0));
    let preparation = Controller {
        metrics: metrics.controller("test"),
        ..Controller::plain("test", queue, preparation, clock)
    };
    let (start, began) = (Instant::now(), Arc::new(Mutex::new(None)));
    let told = began.clone();
    let loops = Runnable::new("test", move |stop| {
        *told.lock() = Some(start.elapsed());
        async move { stop.stopped().await }
    });
    let (stopper, stop) = Stop::new();
    let running = spawn(loops.prepared_by(preparation).run(stop));
    tokio::time::sleep(Duration::from_secs(60)).await;
    stopper.stop();
    running.await.unwrap();
    *began.lock()
}

#[tokio::test(start_paused = true)]
async fn loops_begin_when_they_are_prepared_and_a_preparation_is_tried_like_any_key() {
    let metrics = Metrics::new();
    let began = prepared(0, &metrics).await;
    // The back-offs after a failure and a panic, and the time that it asked for.
    assert_eq!(began, Some(Duration::from_millis(5 + 10 + 30_000)));
    let text = metrics.render();
    for result in ["retry", "panic", "again", "done"] {
        let counted =
            format!(r#"controller_reconcile_total{{controller="test",result="{result}"}} 1"#);
        assert!(text.contains(&counted), "{counted}: {text}");
    }
    assert_eq!(prepared(4, &metrics).await, None, "it waits until the end");
}

/// Takes a second for each key, and notes how many it has in hand at once.
#[derive(Default)]
struct Slow {
    in_hand: Mutex<Vec<String>>,
    most: Mutex<usize>,
}

impl Reconcile for Slow {
    async fn reconcile(&self, key: &Key, _: &Report<'_>) -> Result<Next, Error> {
        {
            let mut in_hand = self.in_hand.lock();
            assert!(!in_hand.contains(&key.to_string()), "{key} is in two hands");
            in_hand.push(key.to_string());
            let mut most = self.most.lock();
            *most = (*most).max(in_hand.len());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let done = key.to_string();
        self.in_hand.lock().retain(|held| *held != done);
        Ok(Next::AwaitChange)
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_keys_at_once_as_there_are_workers_and_all_are_finished_at_the_end() {
    let slow = Arc::new(Slow::default());
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    for number in 0..10 {
        queue.add(Key::new("ns", &format!("k{number}")));
    }
    let controller = Controller {
        queue: queue.clone(),
        reconciler: slow.clone(),
        retries_max: None,
        ..controller()
    };
    let (stopper, stop) = Stop::new();
    let running = spawn(controller.run(stop));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    queue.add(Key::new("ns", "k4"));
    stopper.stop();
    running.await.unwrap();
    assert_eq!(*slow.most.lock(), 3);
    assert!(slow.in_hand.lock().is_empty(), "none is dropped half way");
    assert_eq!(queue.len(), 5, "none is begun after the stop");
}

#[test]
fn repeated_failures_are_reported_with_growing_intervals() {
    let told: Vec<u32> = (1..=100).filter(|count| is_worth_a_line(*count)).collect();
    assert_eq!(told, [4, 8, 16, 32, 64]);
}

#[tokio::test(start_paused = true)]
async fn gives_up_after_the_maximum() {
    assert_eq!(
        calls(|_| Err(Error::Retry("no".into())), Some(2)).await,
        [0, 5, 15]
    );
}

fn unreachable() -> Error {
    let source = "connection refused".into();
    let request = "GET /".to_owned();
    Error::Client(client::Error::Transport { request, source })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_no_reason_to_give_up() {
    let script = |count| match count {
        ..16 => Err(unreachable()),
        _ => Ok(Next::AwaitChange),
    };
    let calls = calls(script, Some(2)).await;
    assert_eq!(calls.len(), 16);
    assert_eq!(calls[..4], [0, 5, 15, 35]);
    assert_eq!(calls[15] - calls[14], 10_000, "and it is soon seen again");
}

#[tokio::test(start_paused = true)]
async fn terminal_errors_are_not_retried() {
    assert_eq!(
        calls(|_| Err(Error::Terminal("no".into())), None).await,
        [0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_survived_and_retried() {
    let script = |count| {
        assert!(count > 2, "a bug");
        Ok(Next::AwaitChange)
    };
    assert_eq!(calls(script, None).await, [0, 5, 15]);
}

/// Decides the same each time, and can carry it out from the third time on.
#[derive(Default)]
struct Clumsy(Mutex<u32>);

impl Reconcile for Clumsy {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let object = api::ObjectId::named::<api::kinds::Pod>(key);
        report.decide(object, [api::decision::Line::acts("Creates", "creates 1")]);
        let mut calls = self.0.lock();
        *calls += 1;
        match *calls {
            1 => Err(Error::Retry("exceeded quota".into())),
            2 => Err(Error::Stale {
                resource: "pods".into(),
            }),
            _ => Ok(Next::AwaitChange),
        }
    }
}

#[tokio::test]
async fn a_decision_says_how_carrying_it_out_went() {
    let key = Key::new("a", "b");
    let controller = Controller {
        reconciler: Arc::new(Clumsy::default()),
        ..controller()
    };
    let mut told = Vec::new();
    for _ in 0..3 {
        let _ = controller.reconcile(&key).await;
        let last = controller.decisions.get("test", &key).pop().unwrap();
        told.push(last.failure.as_deref().map(str::to_owned));
    }
    let failed = Some("exceeded quota".to_owned());
    assert_eq!(told, [failed.clone(), failed, None]);
}

#[tokio::test(start_paused = true)]
async fn periodic_work_is_requeued_after_any_outcome() {
    let script = |count| match count {
        2 => Err(Error::Retry("no".into())),
        3 => Err(Error::Terminal("never".into())),
        _ => Ok(Next::AwaitChange),
    };
    let reconciler = Arc::new(Scripted {
        calls: Mutex::default(),
        start: Instant::now(),
        script,
    });
    let controller = Controller {
        reconciler: reconciler.clone(),
        period: Some(Duration::from_secs(20)),
        ..controller()
    };
    controller.queue.add(Key::new("", "all"));
    let (stopper, stop) = Stop::new();
    let running = spawn(controller.run(stop));
    tokio::time::sleep(Duration::from_secs(60)).await;
    stopper.stop();
    running.await.unwrap();
    let calls = reconciler.calls.lock();
    let times: Vec<u128> = calls.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 20_000, 20_005, 40_005]);
}
