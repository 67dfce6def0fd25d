//! DaemonSet: one pod on each node that fits.
//!
//! **Converges**: every node that the template's selector, affinity and tolerations allow has one
//! pod of the current revision, no other node has one; the status counts nodes; at most
//! `revisionHistoryLimit` old revisions are kept.
//!
//! **Woken by**: any change of the set; a change of a pod or revision it controls (also of one that
//! it loses); an orphan that its selector matches; a node that comes, goes, or changes labels or
//! taints so that the set would act; time, when `minReadySeconds` or a back-off decides.
//!
//! **Writes**: creates pods that are bound to their node by affinity (by slow start) and deletes
//! pods, at most 250 of each in a round; patches owner references (adopt, release) and revision
//! labels; creates, renumbers and deletes ControllerRevisions; puts its own status; emits
//! `SuccessfulCreate`, `FailedCreate`, `SuccessfulDelete`, `FailedDelete`, `FailedDaemonPod`,
//! `SucceededDaemonPod` and `SelectingAll`.
//!
//! **Mirrors** `pkg/controller/daemon`. Upstream decides node by node and writes in between; here
//! `plan` decides about all nodes first, in the order of their names.
//!
//! **Deliberate differences**: deletions carry the pod's uid as a precondition; counts in the status
//! of a set that is changing fast are written at most once in 100 ms; a status that would change
//! nothing is not written while pods are awaited; a deleted node wakes the sets that ran there; an
//! old pod on a node that no longer exists does not hold up a surge; a round that relabels pods ends
//! there, so that no update deletes them for the label they had; names of revisions hash the
//! template's JSON, not a dump of a Go struct (revisions are found by their data, whoever made them).

mod apply;
mod backoff;
mod eligibility;
mod invariants;
mod plan;
mod pods;
mod reason;
mod revisions;
mod snapshot;
mod status;
mod triggers;
mod update;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{ControllerRevision, DaemonSet, DaemonSetStatus, Node, Pod};
use api::{Clock, Gate, Key, MicroTime, Selector};
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::events::{EventType, ObjectRef};
use runtime::rate_limit::Backoff;
use runtime::triggers::{Owned, at_once, by_controller, never, watch_self};
use runtime::{Error, Expectations, Informers, Next, Queue, Reconcile, Store};

use crate::Tools;
use crate::workload::claim::wants_orphan;
use crate::workload::on_node::by_node;
use crate::workload::status::put_status_with_retry;
use crate::workload::{Claimer, History, OwnWrites, PodControl, StatusWindow, availability};

use backoff::FailedPods;
use revisions::Keeper;
use triggers::NodeTrigger;

pub use apply::Outcome;
pub use eligibility::{Eligibility, Unfit, Verdict};
pub use invariants::{born_alone, converged, history_bounded, safe};
pub use plan::{Creation, Deletion, Plan, plan};
pub use reason::{Note, WhyCreate, WhyDelete};
pub use revisions::Revisions;
pub use snapshot::Snapshot;
pub use status::compute;

const CONTROLLER: &str = "daemonset-controller";

/// Upstream's `BurstReplicas`: more at once would be a strain on image registries.
pub const BURST: usize = 250;

/// What the API server fills in when the field is absent.
const HISTORY_LIMIT_DEFAULT: i32 = 10;

pub struct DaemonSetController {
    tools: Tools,
    sets: Arc<Store<DaemonSet>>,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Node>>,
    history: History,
    control: PodControl,
    expectations: Arc<Expectations>,
    own_writes: Arc<OwnWrites>,
    failed_pods: Arc<FailedPods>,
    /// Says for how long pods have failed.
    steady: Clock,
    status_window: StatusWindow,
    burst: usize,
}

/// Builds the controller.
pub fn controller(informers: &Informers, tools: Tools, workers: usize) -> Controller {
    let (sets, pods) = (informers.of::<DaemonSet>(), informers.of::<Pod>());
    let (nodes, revisions) = (informers.of::<Node>(), informers.of::<ControllerRevision>());
    pods.add_index(&by_controller());
    pods.add_index(&by_node());
    revisions.add_index(&by_controller());
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let steady = runtime::clock::steady(&tools.clock);
    let expectations = Arc::new(Expectations::default());
    expectations.watch(&tools.metrics, CONTROLLER);
    let own_writes = OwnWrites::gated(
        &tools,
        Gate::StaleControllerConsistencyDaemonSet,
        "daemonset_controller_stale_sync_skips_total",
    );
    let own_writes = own_writes.of(sets.store()).of(pods.store());
    let own_writes = Arc::new(own_writes.of(revisions.store()));
    let failed_pods = Arc::new(FailedPods::default());
    {
        let (expectations, own_writes) = (expectations.clone(), own_writes.clone());
        let failed_pods = failed_pods.clone();
        watch_self(&sets, &queue, move |key| {
            expectations.forget(key);
            own_writes.forget(key);
            failed_pods.forget(key);
        });
    }
    Owned {
        owners: sets.store().clone(),
        queue: queue.clone(),
        selects: |set: &DaemonSet, labels| wants_orphan(&set.spec.selector, labels),
        expectations: Some(expectations.clone()),
        added_after: at_once,
        again_after: |set: &DaemonSet, old: &Pod, new: &Pod| {
            availability::after_becoming_ready(set.spec.min_ready_seconds, old, new)
        },
    }
    .watch(&pods);
    Owned {
        owners: sets.store().clone(),
        queue: queue.clone(),
        selects: |set: &DaemonSet, labels| wants_orphan(&set.spec.selector, labels),
        expectations: None,
        added_after: at_once,
        again_after: never,
    }
    .watch(&revisions);
    NodeTrigger {
        sets: sets.store().clone(),
        pods: pods.store().clone(),
        queue: queue.clone(),
        gates: tools.gates,
    }
    .watch(&nodes);
    Controller {
        name: CONTROLLER,
        queue,
        workers,
        retries_max: None,
        waits_for: vec![
            sets.synced(),
            pods.synced(),
            nodes.synced(),
            revisions.synced(),
        ],
        metrics: None,
        reconciler: Arc::new(DaemonSetController {
            history: History::new(tools.client.clone(), revisions.store().clone()),
            control: PodControl::new(tools.client.clone(), tools.recorder.clone()),
            tools,
            sets: sets.store().clone(),
            pods: pods.store().clone(),
            nodes: nodes.store().clone(),
            expectations,
            own_writes,
            failed_pods,
            steady,
            status_window: StatusWindow::default(),
            burst: BURST,
        }),
    }
}

impl Reconcile for DaemonSetController {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl DaemonSetController {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        self.own_writes.check(key)?;
        let Some(set) = self.sets.get(key) else {
            self.forget(key);
            return Ok(Next::AwaitChange);
        };
        if set.spec.selector.is_empty() {
            self.warn_of_empty_selector(&set);
            return Ok(Next::AwaitChange);
        }
        if set.metadata.is_terminating() {
            // Its revisions may be gone already: no status that we could compute would be right.
            self.record(key, &Plan::being_deleted(), self.tools.clock.now());
            return Ok(Next::AwaitChange);
        }
        let Ok(selector) = set.spec.selector.compile() else {
            return Err(Error::Terminal(format!("the selector of {key} is invalid")));
        };
        // Asked before the caches are read: what they show then includes what was expected.
        let may_act = self.expectations.satisfied(key);
        let (revisions, pods) = self.claim(&set, &selector).await?;
        let keeper = Keeper {
            client: &self.tools.client,
            history: &self.history,
            own_writes: &self.own_writes,
            key,
            set: &set,
        };
        let revisions = keeper.resolve(revisions, &pods).await?;
        let nodes = self.nodes.list();
        let snapshot = Snapshot::new(set, nodes, pods, revisions.hash(), self.tools.gates);
        self.bring_about(key, &snapshot, &revisions, may_act).await
    }

    async fn bring_about(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        revisions: &Revisions,
        may_act: bool,
    ) -> Result<Next, Error> {
        // One reading of the clock for plan and status, so that they agree.
        let now = self.tools.clock.now();
        let plan = if may_act {
            let steady = self.steady.now();
            plan(snapshot, self.burst, now, |node| {
                self.failed_pods.remaining(&snapshot.set, node, steady)
            })
        } else {
            Plan::await_events()
        };
        self.record(key, &plan, now);
        let mut outcome = self.apply(key, snapshot, &plan).await;
        if may_act && outcome.failure.is_none() {
            outcome.failure = self.truncate_history(snapshot, revisions).await.err();
        }
        let status = status::compute(snapshot, may_act, now);
        let written = self
            .write_status(key, snapshot, &outcome, &status, now)
            .await;
        if let Some(failure) = outcome.failure {
            return Err(failure);
        }
        let (written, computed_at) = (written?, now);
        let now = self.tools.clock.now();
        let available = until_available(snapshot, &status, computed_at, now);
        let waits = [written, plan.wait, available, self.expectations.wait(key)];
        match waits.into_iter().flatten().min() {
            Some(wait) => Ok(Next::After(wait)),
            None => Ok(Next::AwaitChange),
        }
    }

    /// The set's revisions and its pods, after adopting and releasing.
    async fn claim(
        &self,
        set: &Arc<DaemonSet>,
        selector: &Selector,
    ) -> Result<(Vec<Arc<ControllerRevision>>, Vec<Arc<Pod>>), Error> {
        let claimer = Claimer::new(&self.tools.client, &**set);
        let candidates = self.history.candidates(&set.metadata, selector);
        let revisions = claimer
            .claim(
                candidates,
                self.own_writes.kind::<ControllerRevision>(),
                |held: &ControllerRevision| selector.matches(&held.metadata.labels),
            )
            .await?;
        let candidates = snapshot::candidates(set, &self.pods);
        let pods = claimer
            .claim(candidates, self.own_writes.kind::<Pod>(), |pod: &Pod| {
                selector.matches(&pod.metadata.labels)
            })
            .await?;
        Ok((revisions, pods))
    }

    fn warn_of_empty_selector(&self, set: &DaemonSet) {
        self.tools.recorder.event(
            &ObjectRef::of(set),
            EventType::Warning,
            "SelectingAll",
            "This daemon set is selecting all pods. A non-empty selector is required.",
        );
    }

    fn forget(&self, key: &Key) {
        self.expectations.forget(key);
        self.own_writes.forget(key);
        self.failed_pods.forget(key);
        self.status_window.forget(key);
    }

    fn record(&self, key: &Key, plan: &Plan, now: MicroTime) {
        let decisions = &self.tools.decisions;
        decisions.record(CONTROLLER, key, now, plan.reasons());
    }

    /// Writes the status if it differs; says how long to wait when a write has to wait its turn.
    async fn write_status(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        outcome: &Outcome,
        status: &DaemonSetStatus,
        now: MicroTime,
    ) -> Result<Option<Duration>, Error> {
        let set = &*snapshot.set;
        if set.status == *status {
            return Ok(None);
        }
        if outcome.moved && outcome.failure.is_none() {
            // The pods that were just made or deleted will be counted in a moment.
            return Ok(Some(StatusWindow::LENGTH));
        }
        if status::differs_in_counts_alone(set, status)
            && let Some(wait) = self.status_window.until_open(key, now)
        {
            return Ok(Some(wait));
        }
        let client = &self.tools.client;
        let revision = put_status_with_retry::<DaemonSet>(client, &set.metadata, status).await?;
        self.own_writes.note::<DaemonSet>(key, revision);
        self.status_window.written(key, now);
        Ok(None)
    }

    async fn truncate_history(
        &self,
        snapshot: &Snapshot,
        revisions: &Revisions,
    ) -> Result<(), Error> {
        let limit = snapshot.set.spec.revision_history_limit;
        let pods = snapshot.all_pods().chain(&snapshot.leaving);
        for surplus in revisions.surplus(limit.unwrap_or(HISTORY_LIMIT_DEFAULT), pods) {
            match self.history.delete(&surplus).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => {
                    return Err(Error::Retry(format!(
                        "failed to clean up revisions of DaemonSet: {error}"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// When the next ready pod becomes available if nothing else happens.
fn until_available(
    snapshot: &Snapshot,
    status: &DaemonSetStatus,
    computed_at: MicroTime,
    now: MicroTime,
) -> Option<Duration> {
    let min_ready_seconds = snapshot.set.spec.min_ready_seconds;
    if min_ready_seconds <= 0 {
        return None;
    }
    let pods = snapshot.all_pods().map(|pod| &**pod);
    let next = availability::next_check(pods, min_ready_seconds, computed_at, now);
    let unsure = status.number_ready != status.number_available;
    let latest = Duration::from_secs(min_ready_seconds.unsigned_abs().into());
    next.or(unsure.then_some(latest))
}
