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
use client::writes::State;
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
    /// The controller undoes its own writes repeatedly: after a while, which grows.
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

/// The state of the object that a key names, as the cache has it.
pub type ObjectOf<K> = Arc<dyn Fn(&K) -> Option<State> + Send + Sync>;

/// One loop of a controller: a queue, what is done with its keys, and by how many workers. Most controllers have one.
/// [`crate::Loop`] builds it.
pub struct Controller<K = Key> {
    pub name: &'static str,
    pub queue: Arc<Queue<K>>,
    pub reconciler: Arc<dyn AnyReconcile<K>>,
    pub workers: usize,
    /// A key that failed this often is dropped until it changes again.
    pub retries_max: Option<u32>,
    /// A key that is done is requeued after this long, whatever happens.
    pub period: Option<Duration>,
    /// Caches that have to be complete before the first reconcile.
    pub waits_for: Vec<Synced>,
    pub metrics: ControllerMetrics,
    pub decisions: Decisions,
    pub repeats: Repeats<K>,
    /// The object that a key names, if keys of this loop name objects.
    pub object: Option<ObjectOf<K>>,
    /// Emits events about a controller that undoes its own changes.
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

    /// The same, begun once the preparation has nothing left to wait for.
    #[must_use]
    pub fn prepared_by(self, preparation: Controller<Tick>) -> Runnable {
        Runnable::new(self.name, move |stop| async move {
            // What it waits for may never come: the signal ends it wherever it is.
            if stop.or(preparation.run_once()).await.is_some() {
                self.run(stop).await;
            }
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
    /// A loop of one worker without metrics and decisions: for what is no controller of
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
            object: None,
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

    /// Runs until a reconcile has got through and asks for no other.
    async fn run_once(&self) {
        for synced in &self.waits_for {
            synced.wait().await;
        }
        while let Some(key) = self.queue.get().await {
            let result = self.handle(&key).await;
            self.queue.done(&key);
            if result == ReconcileResult::Done {
                return;
            }
        }
    }

    async fn work(&self, stop: Stop) {
        while let Some(Some(key)) = stop.or(self.queue.get()).await {
            if let Some(wait) = self.repeats.wait(&key, self.object(&key).as_ref()) {
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

    fn object(&self, key: &K) -> Option<State> {
        self.object.as_ref().and_then(|object| object(key))
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
        let object = self.object(key);
        let reconcile = self.reconciler.reconcile_boxed(key, &report);
        let (mut outcome, writes) = client::writes::noted(reconcile).await;
        if let Some(hold) = self.repeats.note(key, object.as_ref(), &writes) {
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
                self.forget(key);
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
                self.forget(key);
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

    /// Nothing more to do for the key until something changes, or the period is over.
    fn forget(&self, key: &K) {
        self.queue.forget(key);
        if let Some(period) = self.period {
            self.queue.add_after(key.clone(), period);
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
            return self.forget(key);
        }
        if is_worth_a_line(failures + 1) {
            warn!(controller = self.name, %key, reason, failures = failures + 1, "reconcile keeps failing, will retry");
        } else {
            debug!(controller = self.name, %key, reason, "will retry");
        }
        self.queue.add_rate_limited(key.clone());
    }
}

/// A conflict or two are normal. A reconcile that keeps failing is logged the fourth time in a row, and then ever more
/// rarely: a log shows it, and is not filled by it.
fn is_worth_a_line(failures: u32) -> bool {
    failures > 2 && failures.is_power_of_two()
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "(no message)"
    }
}

#[cfg(test)]
mod tests;
