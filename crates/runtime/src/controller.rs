//! The reconcile loop: takes keys, calls the reconciler, and deals with how it went.
//!
//! One loop for all controllers. A reconciler that fails is tried again later, one that panics is
//! logged, counted and tried again: a bug in one object's handling never stops the others.

use std::any::Any;
use std::fmt::{self, Display};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Key};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use crate::decisions::{Decisions, Report};
use crate::events::{EventType, ObjectRef, Recorder};
use crate::informer::Synced;
use crate::metrics::{ControllerMetrics, Metrics, ReconcileResult};
use crate::queue::Queue;
use crate::repeats::{Hold, Repeats};
use crate::spawn::{Task, spawn};
use crate::stop::Stop;

/// What a loop works on: most of the time the [`Key`] of an object.
pub trait LoopKey: Clone + Eq + Hash + Ord + Display + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Ord + Display + Send + Sync + 'static> LoopKey for K {}

/// The one key of periodic work, which is about no object in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tick;

impl Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(periodic)")
    }
}

/// Brings one object towards what it should be. Called for one key at a time, never twice at once
/// for the same key. What it decides, and why, goes into the report.
pub trait Reconcile<K = Key>: Send + Sync + 'static {
    fn reconcile(
        &self,
        key: &K,
        report: &Report<'_>,
    ) -> impl Future<Output = Result<Next, Error>> + Send;
}

/// A [`Reconcile`] of whatever type, as the loop holds it.
pub trait AnyReconcile<K>: Send + Sync + 'static {
    fn reconcile_boxed<'a>(
        &'a self,
        key: &'a K,
        report: &'a Report<'_>,
    ) -> BoxFuture<'a, Result<Next, Error>>;
}

impl<K: Sync, R: Reconcile<K>> AnyReconcile<K> for R {
    fn reconcile_boxed<'a>(
        &'a self,
        key: &'a K,
        report: &'a Report<'_>,
    ) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.reconcile(key, report))
    }
}

/// What to do with a key that was reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes.
    AwaitChange,
    /// Look again when this much time has passed, or when something changes.
    After(Duration),
    /// Look again as after a failure, later each time, though nothing has failed.
    WithBackoff,
}

impl Next {
    /// After the shortest of these waits.
    pub fn after_first(waits: impl IntoIterator<Item = Option<Duration>>) -> Next {
        match waits.into_iter().flatten().min() {
            Some(wait) => Next::After(wait),
            None => Next::AwaitChange,
        }
    }
}

/// Why a reconcile did not get through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server said no, or could not be reached: again later.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The caches have not seen our own writes yet: again shortly.
    #[error("the cache of {resource} has not caught up with our own write yet")]
    Stale { resource: String },
    /// Trying again cannot help until something changes.
    #[error("{0}")]
    Terminal(String),
    /// Anything else that may go away: again later.
    #[error("{0}")]
    Retry(String),
    /// The controller undoes what it did, again and again: after a while, which grows.
    #[error("{why}")]
    Undoes { why: String, wait: Duration },
}

impl Error {
    pub fn client(&self) -> Option<&client::Error> {
        match self {
            Error::Client(error) => Some(error),
            _ => None,
        }
    }

    /// Did the API server say nothing at all?
    fn is_unanswered(&self) -> bool {
        self.client()
            .is_some_and(|error| error.is_transport() || error.is_timeout())
    }
}

/// One loop of a controller: a queue, what is done with its keys, and by how many workers. Most controllers have one.
/// [`crate::Loop`] builds it.
pub struct Controller<K = Key> {
    pub name: &'static str,
    pub queue: Arc<Queue<K>>,
    pub reconciler: Arc<dyn AnyReconcile<K>>,
    pub workers: usize,
    /// A key that failed this often is dropped until it changes again.
    pub retries_max: Option<u32>,
    /// A key that is done comes back after this long, whatever happens.
    pub period: Option<Duration>,
    /// Caches that have to be complete before the first reconcile.
    pub waits_for: Vec<Synced>,
    pub metrics: ControllerMetrics,
    pub decisions: Decisions,
    pub repeats: Repeats<K>,
    /// Who tells users of a controller that undoes itself.
    pub recorder: Option<Recorder>,
    pub clock: Clock,
}

/// A controller that is built and waits for its term.
pub struct Runnable {
    pub name: &'static str,
    run: Box<dyn FnOnce(Stop) -> BoxFuture<'static, ()> + Send>,
}

impl Runnable {
    pub fn new<F>(name: &'static str, run: impl FnOnce(Stop) -> F + Send + 'static) -> Runnable
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Runnable {
            name,
            run: Box::new(move |stop| Box::pin(run(stop))),
        }
    }

    /// Several loops that are one controller: they end together.
    pub fn together(name: &'static str, loops: Vec<Runnable>) -> Runnable {
        Runnable::new(name, move |stop| async move {
            let all = loops.into_iter().map(|part| part.run(stop.clone()));
            join_all(all).await;
        })
    }

    /// Runs until the signal comes; then finishes what is in hand and returns.
    pub fn run(self, stop: Stop) -> BoxFuture<'static, ()> {
        (self.run)(stop)
    }
}

impl<K: LoopKey> From<Controller<K>> for Runnable {
    fn from(controller: Controller<K>) -> Runnable {
        Runnable::new(controller.name, move |stop| controller.run(stop))
    }
}

/// A key whose caches lag behind our own writes is looked at again this soon; most of the time the
/// event that it waits for wakes it earlier.
const STALE_RETRY: Duration = Duration::from_millis(20);

/// An API server that does not answer says nothing about the key: it is not given up, however long that lasts, and
/// waits no longer than this once the server is back.
const UNANSWERED_RETRY: Duration = Duration::from_secs(10);

impl<K: LoopKey> Controller<K> {
    /// A loop of one worker that nobody measures and whose decisions nobody asks about: for what is no controller of
    /// ours, such as a simulated kubelet.
    pub fn plain(
        name: &'static str,
        queue: Arc<Queue<K>>,
        reconciler: Arc<dyn AnyReconcile<K>>,
        clock: Clock,
    ) -> Controller<K> {
        Controller {
            name,
            queue,
            reconciler,
            workers: 1,
            retries_max: None,
            period: None,
            waits_for: Vec::new(),
            metrics: Metrics::new().controller(name),
            decisions: Decisions::new(),
            repeats: Repeats::new(),
            recorder: None,
            clock,
        }
    }

    /// Runs until the signal comes; then finishes what is in hand and returns.
    pub async fn run(self, stop: Stop) {
        for synced in &self.waits_for {
            if stop.or(synced.wait()).await.is_none() {
                return;
            }
        }
        info!(controller = self.name, workers = self.workers, "started");
        let this = Arc::new(self);
        let workers: Vec<Task<()>> = (0..this.workers)
            .map(|_| {
                let this = this.clone();
                let stop = stop.clone();
                spawn(async move { this.work(stop).await })
            })
            .collect();
        stop.stopped().await;
        this.queue.close();
        for worker in workers {
            // A worker cannot panic: reconciles are caught.
            let _ = worker.await;
        }
    }

    async fn work(&self, stop: Stop) {
        while let Some(Some(key)) = stop.or(self.queue.get()).await {
            if let Some(wait) = self.repeats.wait(&key) {
                // Whatever wakes it: it has its turn when it has waited.
                self.queue.add_failed_after(key.clone(), wait);
                self.queue.done(&key);
                continue;
            }
            let result = self.handle(&key).await;
            if result == ReconcileResult::Retry && crate::mutation::on("never-let-go") {
                continue;
            }
            self.queue.done(&key);
        }
    }

    async fn handle(&self, key: &K) -> ReconcileResult {
        let start = Instant::now();
        let outcome = AssertUnwindSafe(self.reconcile(key)).catch_unwind().await;
        let result = self.requeue(key, outcome);
        self.metrics.on_reconcile(result, start.elapsed());
        result
    }

    /// One reconcile, with what it decided on record: tests call it without a queue.
    pub async fn reconcile(&self, key: &K) -> Result<Next, Error> {
        let report = Report::new(self.name, &self.decisions, self.clock.now());
        let reconcile = self.reconciler.reconcile_boxed(key, &report);
        let (mut outcome, writes) = client::writes::noted(reconcile).await;
        if let Some(hold) = self.repeats.note(key, &writes) {
            outcome = Err(self.held(key, &report, &hold));
        }
        match &outcome {
            // Waiting for our own writes is no failure, and says nothing about the decision.
            Err(Error::Stale { .. }) => {}
            Err(Error::Client(error)) => report.conclude(Some(&client::describe(error))),
            Err(error) => report.conclude(Some(&error.to_string())),
            Ok(_) => report.conclude(None),
        }
        outcome
    }

    /// A key that has to wait because the controller undoes what it does to it: said in the log, by an event, by the
    /// decision on record, and counted.
    fn held(&self, key: &K, report: &Report<'_>, hold: &Hold) -> Error {
        let why = hold.to_string();
        warn!(controller = self.name, %key, why, "reconcile undoes itself");
        if let Some(recorder) = &self.recorder {
            for object in report.objects() {
                let message = format!("Controller {} {why}", self.name);
                let object = ObjectRef::from(&object);
                recorder.event(
                    &object,
                    EventType::Warning,
                    "ReconcileUndoesItself",
                    message,
                );
            }
        }
        let wait = hold.wait;
        Error::Undoes { why, wait }
    }

    /// Puts the key back into the queue, or not, by how its reconcile went.
    fn requeue(
        &self,
        key: &K,
        outcome: Result<Result<Next, Error>, Box<dyn Any + Send>>,
    ) -> ReconcileResult {
        match outcome {
            Ok(Ok(Next::AwaitChange)) => {
                self.queue.forget(key);
                if let Some(period) = self.period {
                    self.queue.add_after(key.clone(), period);
                }
                ReconcileResult::Done
            }
            Ok(Ok(Next::WithBackoff)) => {
                self.queue.add_rate_limited(key.clone());
                ReconcileResult::Again
            }
            Ok(Ok(Next::After(delay))) => {
                self.queue.forget(key);
                self.queue.add_after(key.clone(), delay);
                ReconcileResult::Again
            }
            Ok(Err(Error::Stale { resource })) => {
                debug!(controller = self.name, %key, resource, "waits for its own writes");
                self.queue.add_after(key.clone(), STALE_RETRY);
                ReconcileResult::Again
            }
            Ok(Err(Error::Undoes { wait, .. })) => {
                self.queue.add_failed_after(key.clone(), wait);
                ReconcileResult::Undoes
            }
            Ok(Err(Error::Terminal(reason))) => {
                info!(controller = self.name, %key, reason, "cannot be reconciled until it changes");
                self.queue.forget(key);
                ReconcileResult::Terminal
            }
            Ok(Err(error)) => {
                self.retry(key, &error);
                ReconcileResult::Retry
            }
            Err(panic) => {
                error!(controller = self.name, %key, panic = panic_text(&*panic), "reconcile panicked");
                self.queue.add_rate_limited(key.clone());
                ReconcileResult::Panicked
            }
        }
    }

    fn retry(&self, key: &K, error: &Error) {
        if crate::mutation::on("never-retry") {
            return;
        }
        let reason = error.to_string();
        if error.is_unanswered() {
            debug!(controller = self.name, %key, reason, "no answer from the API server, will retry");
            let most = UNANSWERED_RETRY;
            return self.queue.add_rate_limited_within(key.clone(), most);
        }
        let failures = self.queue.failures(key);
        if self.retries_max.is_some_and(|max| failures >= max) {
            info!(controller = self.name, %key, reason, failures, "giving up until it changes");
            self.queue.forget(key);
            if let Some(period) = self.period {
                self.queue.add_after(key.clone(), period);
            }
            return;
        }
        if is_worth_a_line(failures + 1) {
            warn!(controller = self.name, %key, reason, failures = failures + 1, "reconcile keeps failing, will retry");
        } else {
            debug!(controller = self.name, %key, reason, "will retry");
        }
        self.queue.add_rate_limited(key.clone());
    }
}

/// A conflict or two are daily business. What goes on failing is told the fourth time in a row, and then ever more
/// rarely: a log shows it, and is not filled by it.
fn is_worth_a_line(failures: u32) -> bool {
    failures > 2 && failures.is_power_of_two()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "(no message)"
    }
}

#[cfg(test)]
mod tests {
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
    async fn calls(
        script: fn(usize) -> Result<Next, Error>,
        retries_max: Option<u32>,
    ) -> Vec<u128> {
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
    async fn looks_again_when_asked() {
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
    fn what_goes_on_failing_is_told_ever_more_rarely() {
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
            let outcome = match *calls {
                1 => Err(Error::Retry("exceeded quota".into())),
                2 => Err(Error::Stale {
                    resource: "pods".into(),
                }),
                _ => Ok(Next::AwaitChange),
            };
            outcome
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
    async fn periodic_work_comes_back_whatever_happens() {
        let script = |count| match count {
            2 => Err(Error::Retry("no".into())),
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
}
