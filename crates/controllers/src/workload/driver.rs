//! The driver of workload controllers: what all that own pods, sets or jobs do alike.
//!
//! Is the cache as new as our own writes? Is the object still there? Then observe, plan, put the plan on record,
//! apply, write the status unless it has to wait, and say when to look again.

use std::sync::Arc;
use std::time::Duration;

use api::collections::HashMap;
use api::decision::{Explain, Line};
use api::{Key, MicroTime, ObjectId, Resource, Uid};
use parking_lot::Mutex;
use runtime::{Context, Error, Expectations, Next, Reconcile, Report, Store};
use serde::Serialize;

use super::status::put_status_with_retry;
use super::{Consistency, StatusThrottle};

/// What a workload controller decides; the [`Driver`] does the rest.
pub trait Workload: Send + Sync + Sized + 'static {
    type Object: Resource;
    type Snapshot: Send + Sync;
    type Plan: Explain + Send + Sync;
    type Outcome: Outcome;
    type Status: Send + Sync;

    /// Claims what belongs to the object, and reads the rest from the caches.
    ///
    /// `may_act` is false while pods that were created or deleted have not shown up yet. It was found out before
    /// the caches are read, so what they show then includes what was expected.
    fn observe(
        &self,
        key: &Key,
        object: Arc<Self::Object>,
        may_act: bool,
    ) -> impl Future<Output = Result<Observed<Self::Snapshot>, Error>> + Send;

    fn plan(&self, snapshot: &Self::Snapshot, now: MicroTime) -> Self::Plan;

    /// Carries the plan out. An error ends the sync before the status is written; what the status should tell of goes
    /// into the outcome.
    fn apply(
        &self,
        key: &Key,
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
    ) -> impl Future<Output = Result<Self::Outcome, Error>> + Send;

    /// The status that the object should have, and how it differs from the one it has.
    fn status(
        &self,
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
        outcome: &Self::Outcome,
        now: MicroTime,
    ) -> (Self::Status, StatusChange);

    /// Writes the status.
    fn write_status(
        &self,
        state: &KeyState,
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
        status: &Self::Status,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// What remains to be done after the status, whatever became of it.
    fn finish(
        &self,
        _key: &Key,
        _snapshot: &Self::Snapshot,
        _outcome: &Self::Outcome,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// When to look again if nothing happens, for what only time decides.
    fn wait(
        &self,
        _snapshot: &Self::Snapshot,
        _plan: &Self::Plan,
        _status: &Self::Status,
        _computed_at: MicroTime,
        _now: MicroTime,
    ) -> Option<Duration> {
        None
    }

    /// How many pods a large object has and wants that need not be looked at while its counts wait to be written; none
    /// where somebody waits for more than counts.
    fn may_throttle(&self, _object: &Self::Object) -> Option<[i32; 2]> {
        None
    }

    /// A sync is over that went as far as observing; without a plan where that failed.
    fn synced(
        &self,
        _object: &Self::Object,
        _plan: Option<&Self::Plan>,
        _ok: bool,
        _took: Duration,
    ) {
    }

    /// The object is gone: so is what was remembered of it.
    fn forget(&self, _key: &Key) {}
}

/// What observing came to.
pub enum Observed<S> {
    Snapshot(S),
    /// There is nothing to plan, and why.
    Done {
        lines: Vec<Line>,
        next: Next,
    },
}

impl<S> Observed<S> {
    /// Nothing until something changes.
    pub fn done(line: impl Into<Option<Line>>) -> Observed<S> {
        Observed::Done {
            lines: line.into().into_iter().collect(),
            next: Next::AwaitChange,
        }
    }
}

/// What applying a plan came to.
pub trait Outcome: Send + Sync {
    /// What went wrong; all of it was reported as events.
    fn into_failure(self) -> Option<Error>;
}

/// How a status differs from the one that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    None,
    /// Counts alone, and none got worse: they wait for more of them.
    Counts,
    /// Pods were created or deleted a moment ago, and will be counted in a moment.
    Moving,
    /// More than counts, or a count that fell: it is written at once.
    Now,
}

impl StatusChange {
    /// For a status that differs in counts alone: those that rose wait for more of them, one that fell is news. `counts`
    /// are the good ones (ready, available, updated), as the server has them and as they are.
    pub fn of_counts(counts: &[(i32, i32)], is_moving: bool) -> StatusChange {
        match counts.iter().any(|(held, now)| now < held) {
            true => StatusChange::Now,
            false if is_moving => StatusChange::Moving,
            false => StatusChange::Counts,
        }
    }
}

/// What is remembered of each key from sync to sync.
pub struct KeyState {
    pub client: client::Client,
    pub consistency: Arc<Consistency>,
    pub expectations: Option<Arc<Expectations>>,
    pub throttle: StatusThrottle,
    /// Objects whose status the server could not find.
    missing: Mutex<HashMap<Key, Uid>>,
}

impl KeyState {
    /// Writes a status on top of what was read, or once more on top of what is there now.
    pub async fn put_status<K: Resource, S: Serialize>(
        &self,
        object: &K,
        status_on: impl Fn(&K) -> S,
    ) -> Result<(), Error> {
        let revision = put_status_with_retry(&self.client, object, status_on).await?;
        self.consistency.note::<K>(&object.meta().key(), revision);
        Ok(())
    }

    fn forget(&self, key: &Key) {
        self.missing.lock().remove(key);
        self.consistency.forget(key);
        self.throttle.forget(key);
        if let Some(expectations) = &self.expectations {
            expectations.forget(key);
        }
    }
}

pub struct Driver<W: Workload> {
    context: Context,
    objects: Arc<Store<W::Object>>,
    state: Arc<KeyState>,
    workload: Arc<W>,
}

impl<W: Workload> Driver<W> {
    pub fn new(
        context: &Context,
        consistency: &Arc<Consistency>,
        expectations: Option<&Arc<Expectations>>,
        workload: W,
    ) -> Driver<W> {
        let objects = context.informers.of::<W::Object>();
        let driver = Driver {
            context: context.clone(),
            objects: objects.store().clone(),
            state: Arc::new(KeyState {
                client: context.client.clone(),
                consistency: consistency.clone(),
                expectations: expectations.cloned(),
                throttle: StatusThrottle::default(),
                missing: Mutex::default(),
            }),
            workload: Arc::new(workload),
        };
        let (state, workload) = (driver.state.clone(), driver.workload.clone());
        // A namesake that is created at once must not inherit anything.
        objects.on_change(move |change| {
            if let runtime::Change::Deleted(object) = change {
                state.forget(&object.key());
                workload.forget(&object.key());
            }
        });
        driver
    }

    /// Applies the plan and writes the status.
    async fn carry_out(
        &self,
        key: &Key,
        snapshot: &W::Snapshot,
        plan: &W::Plan,
        now: MicroTime,
    ) -> Result<Next, Error> {
        let (state, workload) = (&*self.state, &*self.workload);
        let outcome = workload.apply(key, snapshot, plan).await?;
        let (status, change) = workload.status(snapshot, plan, &outcome, now);
        let throttled = state.throttle.wait(key, change, now);
        let is_due = change != StatusChange::None && throttled.is_none();
        let written = match is_due {
            true => workload.write_status(state, snapshot, plan, &status).await,
            false => Ok(()),
        };
        match &written {
            Ok(()) if is_due => state.throttle.written(key, now),
            Err(error) if error.client().is_some_and(client::Error::is_not_found) => {
                state.missing.lock().insert(key.clone(), self.uid(key));
            }
            _ => {}
        }
        let finished = workload.finish(key, snapshot, &outcome).await;
        if let Some(failure) = outcome.into_failure() {
            return Err(failure);
        }
        written?;
        finished?;
        let (computed_at, now) = (now, self.context.clock.now());
        let expectations = state.expectations.as_deref();
        Ok(Next::after_first([
            throttled,
            expectations.and_then(|held| held.wait(key)),
            workload.wait(snapshot, plan, &status, computed_at, now),
        ]))
    }

    /// An error if the object is gone from the server, though the cache has it: its watch may stand still for long, and
    /// whatever is created for it meanwhile is garbage. Asked only once the server could not find it.
    async fn check_missing(&self, key: &Key, object: &W::Object) -> Result<(), Error> {
        let uid = &object.meta().uid;
        if self.state.missing.lock().get(key) != Some(uid) {
            return Ok(());
        }
        let found = self
            .state
            .client
            .get_as::<W::Object>(&key.namespace, &key.name);
        match found.await {
            Ok(found) if found.meta().uid == *uid => {
                self.state.missing.lock().remove(key);
                Ok(())
            }
            Err(error) if !error.is_not_found() => Err(error.into()),
            Ok(_) | Err(_) => Err(Error::Retry(format!(
                "{} {key} is gone, but its watch has not said so yet",
                W::Object::TYPE.kind
            ))),
        }
    }

    fn uid(&self, key: &Key) -> Uid {
        let object = self.objects.get(key);
        object
            .map(|object| object.meta().uid.clone())
            .unwrap_or_default()
    }

    fn since(&self, began: MicroTime) -> Duration {
        self.context.clock.now().since(began)
    }
}

impl<W: Workload> Reconcile for Driver<W> {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        let (state, workload) = (&*self.state, &*self.workload);
        state.consistency.check(key)?;
        let Some(object) = self.objects.get(key) else {
            state.forget(key);
            workload.forget(key);
            return Ok(Next::AwaitChange);
        };
        self.check_missing(key, &object).await?;
        if let Some(pods) = workload.may_throttle(&object)
            && let Some(wait) = state.throttle.rest(key, pods, self.context.clock.now())
        {
            return Ok(Next::After(wait));
        }
        let expectations = state.expectations.as_deref();
        let may_act = expectations.is_none_or(|held| held.satisfied(key));
        let id = ObjectId::of(&*object);
        let (seen, began) = (object.clone(), self.context.clock.now());
        let snapshot = match workload.observe(key, object, may_act).await {
            Ok(Observed::Snapshot(snapshot)) => snapshot,
            Ok(Observed::Done { lines, next }) => {
                report.decide(id, lines);
                return Ok(next);
            }
            Err(error) => {
                workload.synced(&seen, None, false, self.since(began));
                return Err(error);
            }
        };
        // One reading of the clock for plan and status, so that they agree.
        let now = self.context.clock.now();
        let plan = workload.plan(&snapshot, now);
        report.decide(id, plan.explain());
        let result = self.carry_out(key, &snapshot, &plan, now).await;
        workload.synced(&seen, Some(&plan), result.is_ok(), self.since(began));
        result
    }
}
