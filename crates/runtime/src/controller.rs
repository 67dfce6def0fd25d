//! The reconcile loop: takes keys, calls the reconciler, and deals with how it went.
//!
//! One loop for all controllers. A reconciler that fails is tried again later, one that panics is
//! logged, counted and tried again: a bug in one object's handling never stops the others.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use api::Key;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use crate::decisions::Decisions;
use crate::informer::Synced;
use crate::metrics::{ControllerMetrics, Metrics, ReconcileResult};
use crate::queue::Queue;
use crate::spawn::{Task, spawn};
use crate::stop::Stop;

/// Brings one object towards what it should be. Called for one key at a time, never twice at once
/// for the same key.
pub trait Reconcile: Send + Sync + 'static {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>>;
}

/// What to do with a key that was reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes.
    AwaitChange,
    /// Look again when this much time has passed, or when something changes.
    After(Duration),
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

/// A controller, ready to run.
pub struct Controller {
    pub name: &'static str,
    pub queue: Arc<Queue>,
    pub reconciler: Arc<dyn Reconcile>,
    pub workers: usize,
    /// A key that failed this often is dropped until it changes again.
    pub retries_max: Option<u32>,
    /// Caches that have to be complete before the first reconcile.
    pub waits_for: Vec<Synced>,
    /// Set by [`Controller::measured`].
    pub metrics: Option<ControllerMetrics>,
}

/// A key whose caches lag behind our own writes is looked at again this soon; most of the time the
/// event that it waits for wakes it earlier.
const STALE_RETRY: Duration = Duration::from_millis(20);

/// An API server that does not answer says nothing about the key: it is not given up, however long that lasts, and
/// waits no longer than this once the server is back.
const UNANSWERED_RETRY: Duration = Duration::from_secs(10);

impl Controller {
    /// Counts what this controller does; `queue_name` is upstream's name for its queue.
    #[must_use]
    pub fn measured(mut self, metrics: &Metrics, queue_name: &str) -> Controller {
        self.queue.measure(metrics, queue_name);
        self.metrics = Some(metrics.controller(self.name));
        self
    }

    /// Notes with each decision how carrying it out went.
    #[must_use]
    pub fn explained(mut self, decisions: &Decisions) -> Controller {
        self.reconciler = Arc::new(Explained {
            controller: self.name,
            inner: self.reconciler,
            decisions: decisions.clone(),
        });
        self
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
            let result = self.handle(&key).await;
            if result == ReconcileResult::Retry && crate::mutation::on("never-let-go") {
                continue;
            }
            self.queue.done(&key);
        }
    }

    async fn handle(&self, key: &Key) -> ReconcileResult {
        let start = Instant::now();
        let outcome = AssertUnwindSafe(self.reconciler.reconcile(key))
            .catch_unwind()
            .await;
        let result = self.settle(key, outcome);
        if let Some(metrics) = &self.metrics {
            metrics.on_reconcile(result, start.elapsed());
        }
        result
    }

    fn settle(
        &self,
        key: &Key,
        outcome: Result<Result<Next, Error>, Box<dyn Any + Send>>,
    ) -> ReconcileResult {
        match outcome {
            Ok(Ok(Next::AwaitChange)) => {
                self.queue.forget(key);
                ReconcileResult::Done
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

    fn retry(&self, key: &Key, error: &Error) {
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
            return;
        }
        if is_worth_a_line(failures + 1) {
            warn!(controller = self.name, %key, reason, failures = failures + 1, "fails again and again, will retry");
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

/// A reconciler whose failures can be asked about.
struct Explained {
    controller: &'static str,
    inner: Arc<dyn Reconcile>,
    decisions: Decisions,
}

impl Reconcile for Explained {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(async move {
            let outcome = self.inner.reconcile(key).await;
            let failure = match &outcome {
                // Waiting for our own writes is no failure, and says nothing about the decision.
                Err(Error::Stale { .. }) => return outcome,
                Err(Error::Client(error)) => Some(client::describe(error)),
                Err(error) => Some(error.to_string()),
                Ok(_) => None,
            };
            self.decisions.note_outcome(self.controller, key, failure);
            outcome
        })
    }
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

    struct Scripted {
        calls: Mutex<Vec<(u128, String)>>,
        start: Instant,
        script: fn(usize) -> Result<Next, Error>,
    }

    impl Reconcile for Scripted {
        fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
            let mut calls = self.calls.lock();
            calls.push((self.start.elapsed().as_millis(), key.to_string()));
            let count = calls.len();
            drop(calls);
            Box::pin(async move { (self.script)(count) })
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
            name: "test",
            queue,
            reconciler: reconciler.clone(),
            workers: 3,
            retries_max,
            waits_for: Vec::new(),
            metrics: None,
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
        fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
            Box::pin(async move {
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
            })
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
            name: "test",
            queue: queue.clone(),
            reconciler: slow.clone(),
            workers: 3,
            retries_max: None,
            waits_for: Vec::new(),
            metrics: None,
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
    struct Clumsy(Decisions, Mutex<u32>);

    impl Reconcile for Clumsy {
        fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
            let lines = ["creates 1".to_owned()].into_iter();
            self.0.record("test", key, api::MicroTime::default(), lines);
            let mut calls = self.1.lock();
            *calls += 1;
            let outcome = match *calls {
                1 => Err(Error::Retry("exceeded quota".into())),
                2 => Err(Error::Stale {
                    resource: "pods".into(),
                }),
                _ => Ok(Next::AwaitChange),
            };
            Box::pin(std::future::ready(outcome))
        }
    }

    #[tokio::test]
    async fn a_decision_says_how_carrying_it_out_went() {
        let (decisions, key) = (Decisions::new(), Key::new("a", "b"));
        let controller = Controller {
            name: "test",
            queue: Arc::new(Queue::new(Backoff::DEFAULT)),
            reconciler: Arc::new(Clumsy(decisions.clone(), Mutex::default())),
            workers: 1,
            retries_max: None,
            waits_for: Vec::new(),
            metrics: None,
        }
        .explained(&decisions);
        let mut told = Vec::new();
        for _ in 0..3 {
            let _ = controller.reconciler.reconcile(&key).await;
            let last = decisions.get("test", &key).pop().unwrap();
            told.push(last.failure.as_deref().map(str::to_owned));
        }
        let failed = Some("exceeded quota".to_owned());
        assert_eq!(told, [failed.clone(), failed, None]);
    }
}
