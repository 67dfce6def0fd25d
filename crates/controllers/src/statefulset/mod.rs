//! StatefulSet: pods with names, an order, and volumes of their own. A workload.
//!
//! **Converges**: for every ordinal from `ordinals.start` on there is one pod `<set>-<ordinal>` with
//! its claims, of the revision that the template, the partition and the strategy ask for; the status
//! counts them; at most `revisionHistoryLimit` revisions are kept that nobody uses.
//!
//! **Triggers**: any change of the set; a change of a pod it controls (also of one that it loses);
//! an orphan that its selector matches; time, when `minReadySeconds` decides about availability.
//! Claims and revisions enqueue nothing, as upstream.
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
//! its count depends on enqueues the set that much later; nothing is written to a pod of which only
//! the claims changed; and, as an option that is off by default, a pod of a superseded revision that is
//! not ready and holds up the others is replaced (upstream waits for it for ever).

mod actions;
mod apply;
mod claims;
mod identity;
mod invariants;
mod metrics;
mod oracle;
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
use api::{Gate, Key, MicroTime, Resource, Selector};
use runtime::triggers::by_controller;
use runtime::{Context, Controller, Error, Loop, Owns, Store};

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::claim::wants_orphan;
use crate::workload::{
    Claimer, Consistency, Driver, History, KeyState, Observed, StatusChange, StatusThrottle,
    Workload, availability, candidates, history,
};

use metrics::StatefulSetMetrics;

pub use apply::Outcome;
pub use claims::{ClaimOwner, ClaimWork, Claims};
pub use invariants::{
    after_ready, born_well, claim_bound, claims_converged, converged, in_order, one_at_a_time, safe,
};
pub use oracle::StatefulSetOracle;
pub use plan::{Plan, Step, Which, plan};
pub use reason::Reason;
pub use revisions::{Choice, Revisions, choose};
pub use snapshot::Snapshot;
pub use status::compute;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "statefulset-controller",
    caches: &[
        View::of::<StatefulSet>(),
        View::of::<Pod>(),
        View::of::<PersistentVolumeClaim>(),
        View::of::<ControllerRevision>(),
    ],
    decides_about: &[StatefulSet::TYPE],
    in_preview: true,
    queues: &["statefulset"],
    metrics: &["statefulset_controller_"],
    build: Some(|ctx| {
        let config = &ctx.config.stateful_set_controller;
        let options = Options {
            recover_stuck_rollouts: config.recover_stuck_rollouts,
        };
        Some(controller(ctx, ctx.workers(config.concurrent_syncs), &options).into())
    }),
    oracle: Some(|| Box::<StatefulSetOracle>::default()),
    workloads: &[actions::WORKLOADS],
    ..Descriptor::named(
        "statefulset-controller",
        "statefulset",
        "statefulset-controller",
    )
};

/// What the API server fills in when the field is absent.
const HISTORY_LIMIT_DEFAULT: i32 = 10;

/// What a manager may choose.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Replace pods of a superseded revision that are not ready and hold up an ordered set. Off by
    /// default: upstream waits for them.
    pub recover_stuck_rollouts: bool,
}

pub fn controller(context: &Context, workers: usize, options: &Options) -> Controller {
    let consistency = Consistency::gated(
        context,
        Gate::StaleControllerConsistencyStatefulSet,
        "statefulset_controller_stale_sync_skips_total",
    );
    let consistency = consistency.of::<StatefulSet>(context).of::<Pod>(context);
    let consistency = consistency.of::<PersistentVolumeClaim>(context);
    let consistency = Arc::new(consistency.of::<ControllerRevision>(context));
    let revisions = context.informers.of::<ControllerRevision>();
    revisions.add_index(&by_controller());
    Loop::of::<StatefulSet>(context)
        .queue("statefulset")
        .owns(
            Owns::<Pod, StatefulSet>::selected_by(|set, labels| {
                wants_orphan(&set.spec.selector, labels)
            })
            .added_after(new_pod_waits)
            .again_after(|set, old, new| {
                availability::after_becoming_ready(set.spec.min_ready_seconds, old, new)
            }),
        )
        .reads::<PersistentVolumeClaim>()
        .reads::<ControllerRevision>()
        .workers(workers)
        .reconciler(Driver::new(
            context,
            &consistency,
            None,
            StatefulSets {
                history: History::new(context.client.clone(), revisions.store().clone()),
                metrics: StatefulSetMetrics::new(&context.metrics),
                pods: context.informers.store::<Pod>(),
                claims: context.informers.store::<PersistentVolumeClaim>(),
                context: context.clone(),
                consistency: consistency.clone(),
                recover_stuck_rollouts: options.recover_stuck_rollouts,
            },
        ))
}

/// A pod that has just been made holds up the others of an ordered set until it is ready: all that can be done is to
/// count it, and counts wait their turn. Where a count decides the revision of the next pod, it has to be up to date.
fn new_pod_waits(set: &StatefulSet, pod: &Pod) -> Option<Duration> {
    let counts_only = set.spec.pod_management_policy == PodManagement::OrderedReady
        && set.spec.update_strategy.has_rolling_update
        && pod.status.phase == Phase::Pending;
    counts_only.then_some(StatusThrottle::LENGTH)
}

pub struct StatefulSets {
    context: Context,
    pods: Arc<Store<Pod>>,
    claims: Arc<Store<PersistentVolumeClaim>>,
    history: History,
    consistency: Arc<Consistency>,
    recover_stuck_rollouts: bool,
    metrics: StatefulSetMetrics,
}

impl Workload for StatefulSets {
    type Object = StatefulSet;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Outcome = Outcome;
    type Status = StatefulSetStatus;

    async fn observe(
        &self,
        key: &Key,
        set: Arc<StatefulSet>,
        _: bool,
    ) -> Result<Observed<Snapshot>, Error> {
        let Ok(selector) = set.spec.selector.compile() else {
            return Err(Error::Terminal(format!("the selector of {key} is invalid")));
        };
        let (history, pods) = self.claim(&set, &selector).await?;
        let choice = choose(&set, &history, self.context.gates);
        let revisions = Revisions::resolve(&set, history, choice, &self.history).await?;
        if revisions.is_news() {
            let revision = revisions.update.metadata.resource_version;
            self.consistency.note::<ControllerRevision>(key, revision);
        }
        Ok(Observed::Snapshot(Snapshot::new(
            set,
            pods,
            revisions,
            &self.claims,
            self.context.gates,
            self.recover_stuck_rollouts,
        )))
    }

    fn plan(&self, snapshot: &Snapshot, now: MicroTime) -> Plan {
        if self.context.gates.enabled(Gate::MaxUnavailableStatefulSet) {
            self.metrics.observe(snapshot, now);
        }
        plan(snapshot, now)
    }

    async fn apply(&self, key: &Key, snapshot: &Snapshot, plan: &Plan) -> Result<Outcome, Error> {
        let apply = apply::Apply::new(&self.context, snapshot, key, &self.consistency);
        Ok(apply.apply(plan).await)
    }

    fn status(
        &self,
        snapshot: &Snapshot,
        _: &Plan,
        outcome: &Outcome,
        now: MicroTime,
    ) -> (StatefulSetStatus, StatusChange) {
        let status = status::compute(snapshot, outcome.deleted_for_update, now);
        let change = status::change(&snapshot.set, &status);
        (status, change)
    }

    async fn write_status(
        &self,
        state: &KeyState,
        snapshot: &Snapshot,
        _: &Plan,
        status: &StatefulSetStatus,
    ) -> Result<(), Error> {
        state.put_status(&*snapshot.set, |_| status).await
    }

    /// Truncates the history.
    async fn finish(&self, _: &Key, snapshot: &Snapshot, _: &Outcome) -> Result<(), Error> {
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
        let limit = snapshot.set.spec.revision_history_limit;
        let limit = limit.unwrap_or(HISTORY_LIMIT_DEFAULT);
        let surplus = history::plan_truncation(&chosen.history, is_live, limit);
        Ok(self.history.truncate(&surplus).await?)
    }

    /// A pod that becomes available.
    fn wait(
        &self,
        snapshot: &Snapshot,
        _: &Plan,
        status: &StatefulSetStatus,
        computed_at: MicroTime,
        now: MicroTime,
    ) -> Option<Duration> {
        let unsure = status.ready_replicas != status.available_replicas;
        let pods = snapshot.pods().map(|pod| &**pod).filter(|_| unsure);
        let seconds = snapshot.set.spec.min_ready_seconds;
        availability::wait(pods, seconds, unsure, computed_at, now)
    }

    /// As long as nobody changes what it should be and no pod waits for another one.
    fn may_throttle(&self, set: &StatefulSet) -> Option<[i32; 2]> {
        let status = &set.status;
        let is_asked = status.observed_generation != set.metadata.generation;
        let in_turn = set.spec.pod_management_policy == PodManagement::OrderedReady
            || status.current_revision != status.update_revision;
        (!is_asked && !in_turn).then_some([status.replicas, set.replicas()])
    }

    fn forget(&self, key: &Key) {
        self.metrics.forget(key);
    }
}

impl StatefulSets {
    /// The set's revisions, oldest first, and its pods, after adopting and releasing.
    async fn claim(
        &self,
        set: &Arc<StatefulSet>,
        selector: &Selector,
    ) -> Result<(Vec<Arc<ControllerRevision>>, Vec<Arc<Pod>>), Error> {
        let claimer = Claimer::new(&self.context.client, &**set);
        let mut held = self.history.candidates(&set.metadata, selector);
        // UPSTREAM: revisions that are no longer selected are passed over, not released.
        held.retain(|held| selector.matches(&held.metadata.labels));
        let mut revisions = claimer
            .claim(
                held,
                self.consistency.kind::<ControllerRevision>(),
                |_: &ControllerRevision| true,
            )
            .await?;
        history::sort(&mut revisions);
        let candidates = candidates(&set.metadata, &self.pods);
        let pods = claimer
            .claim(candidates, self.consistency.kind::<Pod>(), |pod: &Pod| {
                selector.matches(&pod.metadata.labels) && identity::is_member(set, pod)
            })
            .await?;
        Ok((revisions, pods))
    }
}
