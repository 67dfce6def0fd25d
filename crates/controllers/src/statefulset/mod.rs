//! StatefulSet: pods with names, an order, and volumes of their own.
//!
//! **Converges**: for every ordinal from `ordinals.start` on there is one pod `<set>-<ordinal>` with
//! its claims, of the revision that the template, the partition and the strategy ask for; the status
//! counts them; at most `revisionHistoryLimit` revisions are kept that nobody uses.
//!
//! **Woken by**: any change of the set; a change of a pod it controls (also of one that it loses);
//! an orphan that its selector matches; time, when `minReadySeconds` decides about availability.
//! Claims and revisions wake nobody, as upstream.
//!
//! **Writes**: creates, patches and deletes pods (an ordered set one at a time, a parallel one by
//! slow start); creates claims and sets their owners by the retention policy; creates, renumbers,
//! adopts and deletes ControllerRevisions; puts its own status; emits `SuccessfulCreate`,
//! `FailedCreate`, `SuccessfulUpdate`, `FailedUpdate`, `SuccessfulDelete`, `FailedDelete` and
//! `ConflictingController`.
//!
//! **Mirrors** `pkg/controller/statefulset`. Upstream decides and writes in one walk over the pods;
//! here `plan` decides about all of them first.
//!
//! **Deliberate differences**: deletions carry the pod's uid as a precondition; a pod whose name
//! merely looks like one of ours (`web-01`) does not take a place; conditions that others put into
//! the status stay there; counts in the status are written at most once in 100 ms, and a large parallel
//! set is not looked at more often while its pods get ready; a new pod of an ordered set that nothing but
//! its count depends on wakes the set that much later; nothing is written to a pod of which only
//! the claims changed; and, as an option that is off by default, a pod of a superseded revision that is
//! not ready and holds up the others is replaced (upstream waits for it for ever).

mod apply;
mod claims;
mod identity;
mod invariants;
mod metrics;
mod plan;
mod pods;
mod reason;
mod revisions;
mod snapshot;
mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{
    ControllerRevision, PersistentVolumeClaim, Phase, Pod, PodManagement, StatefulSet,
    StatefulSetStatus,
};
use api::{Gate, Key, MicroTime, Selector};
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::rate_limit::Backoff;
use runtime::triggers::{Owned, by_controller, watch_self};
use runtime::{Error, Informers, Next, Queue, Reconcile, Store};

use crate::Tools;
use crate::workload::claim::wants_orphan;
use crate::workload::status::put_status_with_retry;
use crate::workload::{Claimer, History, OwnWrites, StatusWindow, availability, history};

use metrics::StatefulSetMetrics;

pub use apply::Outcome;
pub use claims::{ClaimWork, Claims, Holder};
pub use invariants::{
    after_ready, born_well, claim_bound, claims_converged, converged, in_order, one_at_a_time, safe,
};
pub use plan::{Plan, Step, Which, plan};
pub use reason::Reason;
pub use revisions::{Choice, Revisions, choose};
pub use snapshot::Snapshot;
pub use status::compute;

const CONTROLLER: &str = "statefulset-controller";

/// What the API server fills in when the field is absent.
const HISTORY_LIMIT_DEFAULT: i32 = 10;

pub struct StatefulSetController {
    tools: Tools,
    sets: Arc<Store<StatefulSet>>,
    pods: Arc<Store<Pod>>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    history: History,
    own_writes: Arc<OwnWrites>,
    status_window: StatusWindow,
    recover_stuck_rollouts: bool,
    metrics: StatefulSetMetrics,
}

/// What a manager may choose.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Replace pods of a superseded revision that are not ready and hold up an ordered set. Off by
    /// default: upstream waits for them.
    pub recover_stuck_rollouts: bool,
}

/// Builds the controller.
pub fn controller(
    informers: &Informers,
    tools: Tools,
    workers: usize,
    options: &Options,
) -> Controller {
    let (sets, pods) = (informers.of::<StatefulSet>(), informers.of::<Pod>());
    let claims = informers.of::<PersistentVolumeClaim>();
    let revisions = informers.of::<ControllerRevision>();
    pods.add_index(&by_controller());
    revisions.add_index(&by_controller());
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let own_writes = OwnWrites::gated(
        &tools,
        Gate::StaleControllerConsistencyStatefulSet,
        "statefulset_controller_stale_sync_skips_total",
    );
    let own_writes = own_writes.of(sets.store()).of(pods.store());
    let own_writes = Arc::new(own_writes.of(claims.store()).of(revisions.store()));
    let forgotten = own_writes.clone();
    watch_self(&sets, &queue, move |key| forgotten.forget(key));
    Owned {
        owners: sets.store().clone(),
        queue: queue.clone(),
        selects: |set: &StatefulSet, labels| wants_orphan(&set.spec.selector, labels),
        expectations: None,
        added_after: new_pod_waits,
        again_after: |set: &StatefulSet, old: &Pod, new: &Pod| {
            availability::after_becoming_ready(set.spec.min_ready_seconds, old, new)
        },
    }
    .watch(&pods);
    Controller {
        name: CONTROLLER,
        queue,
        workers,
        retries_max: None,
        metrics: None,
        waits_for: vec![
            sets.synced(),
            pods.synced(),
            claims.synced(),
            revisions.synced(),
        ],
        reconciler: Arc::new(StatefulSetController {
            history: History::new(tools.client.clone(), revisions.store().clone()),
            metrics: StatefulSetMetrics::new(&tools.metrics),
            tools,
            sets: sets.store().clone(),
            pods: pods.store().clone(),
            claims: claims.store().clone(),
            own_writes,
            status_window: StatusWindow::default(),
            recover_stuck_rollouts: options.recover_stuck_rollouts,
        }),
    }
}

impl Reconcile for StatefulSetController {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl StatefulSetController {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        self.own_writes.check(key)?;
        let Some(set) = self.sets.get(key) else {
            self.forget(key);
            return Ok(Next::AwaitChange);
        };
        if let Some(rest) = self.rest(key, &set) {
            return Ok(Next::After(rest));
        }
        let Ok(selector) = set.spec.selector.compile() else {
            return Err(Error::Terminal(format!("the selector of {key} is invalid")));
        };
        let (revisions, pods) = self.claim(&set, &selector).await?;
        let choice = choose(&set, &revisions, self.tools.gates);
        let chosen = Revisions::resolve(&set, &revisions, &choice, &self.history).await?;
        if !matches!(choice, Choice::Newest(_)) {
            let revision = chosen.update.metadata.resource_version;
            self.own_writes.note::<ControllerRevision>(key, revision);
        }
        let snapshot = Snapshot::new(
            set,
            pods,
            chosen,
            &self.claims,
            self.tools.gates,
            self.recover_stuck_rollouts,
        );
        // One reading of the clock for plan and status, so that they agree.
        let now = self.tools.clock.now();
        let plan = plan(&snapshot, now);
        self.record(key, &choice, &plan, now);
        self.observe(&snapshot, now);
        let outcome = apply::Apply::new(&self.tools, &snapshot, key, &self.own_writes)
            .apply(&plan)
            .await;
        let status = status::compute(&snapshot, outcome.deleted_for_update, now);
        let written = self.write_status(key, &snapshot.set, &status, now).await;
        let truncated = self.truncate_history(&snapshot, &revisions).await;
        if let Some(failure) = outcome.failure {
            return Err(failure);
        }
        let status_wait = written?;
        truncated?;
        let computed_at = now;
        let now = self.tools.clock.now();
        Ok(next(&snapshot, &status, status_wait, computed_at, now))
    }

    /// How long a large set need not be looked at, as long as nobody changes what it should be and no pod waits for
    /// another one.
    fn rest(&self, key: &Key, set: &StatefulSet) -> Option<Duration> {
        let status = &set.status;
        let asked = status.observed_generation != set.metadata.generation;
        let in_turn = set.spec.pod_management_policy == PodManagement::OrderedReady
            || status.current_revision != status.update_revision;
        let pods = [status.replicas, set.replicas()];
        let rest = self.status_window.rest(key, pods, self.tools.clock.now());
        rest.filter(|_| !asked && !in_turn)
    }

    /// The set's revisions, oldest first, and its pods, after adopting and releasing.
    async fn claim(
        &self,
        set: &Arc<StatefulSet>,
        selector: &Selector,
    ) -> Result<(Vec<Arc<ControllerRevision>>, Vec<Arc<Pod>>), Error> {
        let claimer = Claimer::new(&self.tools.client, &**set);
        let mut candidates = self.history.candidates(&set.metadata, selector);
        // UPSTREAM: revisions that are no longer selected are passed over, not released.
        candidates.retain(|held| selector.matches(&held.metadata.labels));
        let mut revisions = claimer
            .claim(
                candidates,
                self.own_writes.kind::<ControllerRevision>(),
                |_: &ControllerRevision| true,
            )
            .await?;
        history::sort(&mut revisions);
        let candidates = snapshot::candidates(set, &self.pods);
        let pods = claimer
            .claim(candidates, self.own_writes.kind::<Pod>(), |pod: &Pod| {
                selector.matches(&pod.metadata.labels) && identity::is_member(set, pod)
            })
            .await?;
        Ok((revisions, pods))
    }

    fn forget(&self, key: &Key) {
        self.own_writes.forget(key);
        self.status_window.forget(key);
        self.metrics.forget(key);
    }

    fn observe(&self, snapshot: &Snapshot, now: MicroTime) {
        if self.tools.gates.enabled(Gate::MaxUnavailableStatefulSet) {
            self.metrics.observe(snapshot, now);
        }
    }

    fn record(&self, key: &Key, choice: &Choice, plan: &Plan, now: MicroTime) {
        let about_template = match choice {
            Choice::Newest(_) => None,
            moved => Some(moved.to_string()),
        };
        let reasons = plan.reasons.iter().map(|reason| reason.to_string());
        self.tools.decisions.record(
            CONTROLLER,
            key,
            now,
            about_template.into_iter().chain(reasons),
        );
    }

    /// Writes the status if it differs; says how long to wait when a write has to wait its turn.
    async fn write_status(
        &self,
        key: &Key,
        set: &StatefulSet,
        status: &StatefulSetStatus,
        now: MicroTime,
    ) -> Result<Option<Duration>, Error> {
        if !status::differs(set, status) {
            return Ok(None);
        }
        if status::differs_in_counts_alone(set, status)
            && let Some(wait) = self.status_window.until_open(key, now)
        {
            return Ok(Some(wait));
        }
        let client = &self.tools.client;
        let revision = put_status_with_retry::<StatefulSet>(client, &set.metadata, status).await?;
        self.own_writes.note::<StatefulSet>(key, revision);
        self.status_window.written(key, now);
        Ok(None)
    }

    async fn truncate_history(
        &self,
        snapshot: &Snapshot,
        revisions: &[Arc<ControllerRevision>],
    ) -> Result<(), Error> {
        let set = &*snapshot.set;
        let chosen = &snapshot.revisions;
        let is_live = |held: &ControllerRevision| {
            let name = &held.metadata.name;
            *name == chosen.current.metadata.name
                || *name == chosen.update.metadata.name
                || snapshot
                    .pods()
                    .chain(&snapshot.misnamed)
                    .any(|pod| identity::revision(pod) == &**name)
        };
        let limit = set
            .spec
            .revision_history_limit
            .unwrap_or(HISTORY_LIMIT_DEFAULT);
        for surplus in history::plan_truncation(revisions, is_live, limit) {
            match self.history.delete(&surplus).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A pod that has just been made holds up the others of an ordered set until it is ready: all that can be done is to
/// count it, and counts wait their turn. Where a count decides the revision of the next pod, it has to be up to date.
fn new_pod_waits(set: &StatefulSet, pod: &Pod) -> Option<Duration> {
    let counts_only = set.spec.pod_management_policy == PodManagement::OrderedReady
        && set.spec.update_strategy.has_rolling_update
        && pod.status.phase == Phase::Pending;
    counts_only.then_some(StatusWindow::LENGTH)
}

/// When to look again if nothing happens: a status that waits its turn, or a pod that becomes available.
fn next(
    snapshot: &Snapshot,
    status: &StatefulSetStatus,
    status_wait: Option<Duration>,
    computed_at: MicroTime,
    now: MicroTime,
) -> Next {
    let min_ready_seconds = snapshot.set.spec.min_ready_seconds;
    let awaited = min_ready_seconds > 0 && status.ready_replicas != status.available_replicas;
    let availability = awaited.then(|| {
        let pods = snapshot.pods().map(|pod| &**pod);
        availability::next_check(pods, min_ready_seconds, computed_at, now)
            .unwrap_or(Duration::from_secs(min_ready_seconds.unsigned_abs().into()))
    });
    match status_wait.into_iter().chain(availability).min() {
        Some(wait) => Next::After(wait),
        None => Next::AwaitChange,
    }
}
