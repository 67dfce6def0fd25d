//! DaemonSet: one pod on each node that fits. A workload.
//!
//! **Converges**: every node that the template's selector, affinity and tolerations allow has one
//! pod of the current revision, no other node has one; the status counts nodes; at most
//! `revisionHistoryLimit` old revisions are kept.
//!
//! **Triggers**: any change of the set; a change of a pod or revision it controls (also of one that
//! it loses); an orphan that its selector matches; a node that comes, goes, or changes labels or
//! taints so that the set would act; time, when `minReadySeconds` or a back-off decides.
//!
//! **Writes**: creates pods that are bound to their node by affinity (by slow start) and deletes
//! pods, at most 250 of each in a sync; patches owner references (adopt, release) and revision
//! labels; creates, renumbers and deletes ControllerRevisions; puts its own status; emits
//! `SuccessfulCreate`, `FailedCreate`, `SuccessfulDelete`, `FailedDelete`, `FailedDaemonPod`,
//! `SucceededDaemonPod` and `SelectingAll`.
//!
//! **Mirrors** `pkg/controller/daemon`. Upstream decides node by node and writes in between; here
//! `plan` decides about all nodes first, in the order of their names.
//!
//! **Deliberate differences**: deletions carry the pod's uid as a precondition; counts in the status
//! of a set that is changing fast are written at most once in 100 ms; a status that would change
//! nothing is not written while pods are awaited; a deleted node enqueues the sets that ran there; an
//! old pod on a node that no longer exists does not hold up a surge; a sync that relabels pods ends
//! there, so that no update deletes them for the label they had.

mod actions;
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

use api::decision::Explain;
use api::kinds::{ControllerRevision, DaemonSet, DaemonSetStatus, Node, Pod};
use api::{Clock, Gate, Key, LabelSet, MicroTime, Resource, Selector};
use runtime::events::{EventType, ObjectRef};
use runtime::{Context, Controller, Error, Expectations, Loop, Next, Owns, Store};

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::claim::wants_orphan;
use crate::workload::on_node::by_node;
use crate::workload::{
    Claimer, Consistency, Driver, History, KeyState, Observed, PodControl, StatusChange, Workload,
    availability, candidates,
};

use backoff::FailedPods;
use revisions::RevisionManager;
use triggers::NodeTrigger;

pub use apply::Outcome;
pub use eligibility::{Eligibility, Unfit, Verdict};
pub use invariants::{DaemonSetOracle, converged, created_alone, history_bounded, safe};
pub use plan::{Creation, Deletion, Plan, plan};
pub use reason::{Note, WhyCreate, WhyDelete};
pub use revisions::Revisions;
pub use snapshot::Snapshot;
pub use status::compute;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "daemonset-controller",
    caches: &[
        View::of::<DaemonSet>(),
        View::of::<Pod>(),
        View::of::<Node>(),
        View::of::<ControllerRevision>(),
    ],
    decides_about: &[DaemonSet::TYPE],
    in_preview: true,
    queues: &["daemonset"],
    metrics: &["daemonset_controller_"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.daemon_set_controller.concurrent_syncs);
        Some(controller(ctx, workers).into())
    }),
    oracle: Some(|| Box::<DaemonSetOracle>::default()),
    workloads: &[actions::WORKLOADS],
    ..Descriptor::named("daemonset-controller", "daemonset", "daemon-set-controller")
};

/// Upstream's `BurstReplicas`: more at once would be a strain on image registries.
pub const BURST: usize = 250;

/// What the API server fills in when the field is absent.
const HISTORY_LIMIT_DEFAULT: i32 = 10;

pub fn controller(context: &Context, workers: usize) -> Controller {
    let informers = &context.informers;
    informers.of::<Pod>().add_index(&by_node());
    let expectations = Expectations::watched(&context.metrics, context.controller);
    let consistency = Consistency::gated(
        context,
        Gate::StaleControllerConsistencyDaemonSet,
        "daemonset_controller_stale_sync_skips_total",
    );
    let consistency = consistency.of::<DaemonSet>(context).of::<Pod>(context);
    let consistency = Arc::new(consistency.of::<ControllerRevision>(context));
    let nodes = NodeTrigger {
        sets: informers.store::<DaemonSet>(),
        pods: informers.store::<Pod>(),
        gates: context.gates,
    };
    Loop::of::<DaemonSet>(context)
        .queue("daemonset")
        .owns(
            Owns::<Pod, DaemonSet>::selected_by(selects)
                .expecting(&expectations)
                .again_after(|set, old, new| {
                    availability::after_becoming_ready(set.spec.min_ready_seconds, old, new)
                }),
        )
        .owns(Owns::<ControllerRevision, DaemonSet>::selected_by(selects))
        .watches::<Node>(move |change, queue| nodes.on_change(change, queue))
        .workers(workers)
        .reconciler(Driver::new(
            context,
            &consistency,
            Some(&expectations),
            DaemonSets {
                history: History::new(
                    context.client.clone(),
                    informers.store::<ControllerRevision>(),
                ),
                control: PodControl::new(context.client.clone(), context.recorder.clone()),
                pods: informers.store::<Pod>(),
                nodes: informers.store::<Node>(),
                steady: runtime::clock::steady(&context.clock),
                context: context.clone(),
                expectations: expectations.clone(),
                consistency: consistency.clone(),
                failed_pods: FailedPods::default(),
                burst: BURST,
            },
        ))
}

fn selects(set: &DaemonSet, labels: &LabelSet) -> bool {
    wants_orphan(&set.spec.selector, labels)
}

pub struct DaemonSets {
    context: Context,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Node>>,
    history: History,
    control: PodControl,
    expectations: Arc<Expectations>,
    consistency: Arc<Consistency>,
    failed_pods: FailedPods,
    /// Says for how long pods have failed.
    steady: Clock,
    burst: usize,
}

impl Workload for DaemonSets {
    type Object = DaemonSet;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Outcome = Outcome;
    type Status = DaemonSetStatus;

    async fn observe(
        &self,
        key: &Key,
        set: Arc<DaemonSet>,
        may_act: bool,
    ) -> Result<Observed<Snapshot>, Error> {
        if set.spec.selector.is_empty() {
            self.warn_of_empty_selector(&set);
            return Ok(Observed::done(None));
        }
        if set.metadata.is_terminating() {
            // Its revisions may be gone already: no status that we could compute would be right.
            return Ok(Observed::Done {
                lines: Plan::being_deleted().explain(),
                next: Next::AwaitChange,
            });
        }
        let Ok(selector) = set.spec.selector.compile() else {
            return Err(Error::Terminal(format!("the selector of {key} is invalid")));
        };
        let (revisions, pods) = self.claim(&set, &selector).await?;
        let manager = RevisionManager {
            client: &self.context.client,
            history: &self.history,
            consistency: &self.consistency,
            key,
            set: &set,
        };
        let revisions = manager.resolve(revisions, &pods).await?;
        let nodes = self.nodes.list();
        let gates = self.context.gates;
        let limit = set.spec.revision_history_limit;
        let limit = limit.unwrap_or(HISTORY_LIMIT_DEFAULT);
        let mut snapshot = Snapshot::new(set, nodes, pods, revisions.hash(), may_act, gates);
        let pods = snapshot.all_pods().chain(&snapshot.leaving);
        snapshot.surplus_revisions = revisions.surplus(limit, pods);
        Ok(Observed::Snapshot(snapshot))
    }

    fn plan(&self, snapshot: &Snapshot, now: MicroTime) -> Plan {
        let steady = self.steady.now();
        plan(snapshot, self.burst, now, |node| {
            self.failed_pods.remaining(&snapshot.set, node, steady)
        })
    }

    async fn apply(&self, key: &Key, snapshot: &Snapshot, plan: &Plan) -> Result<Outcome, Error> {
        Ok(self.create_and_delete(key, snapshot, plan).await)
    }

    fn status(
        &self,
        snapshot: &Snapshot,
        _: &Plan,
        outcome: &Outcome,
        now: MicroTime,
    ) -> (DaemonSetStatus, StatusChange) {
        let status = status::compute(snapshot, now);
        let change = status::change(&snapshot.set, &status, outcome);
        (status, change)
    }

    async fn write_status(
        &self,
        state: &KeyState,
        snapshot: &Snapshot,
        _: &Plan,
        status: &DaemonSetStatus,
    ) -> Result<(), Error> {
        let status_on = |set: &DaemonSet| status::on(set, snapshot, status);
        state.put_status(&*snapshot.set, status_on).await
    }

    /// Truncates the history.
    async fn finish(&self, _: &Key, snapshot: &Snapshot, outcome: &Outcome) -> Result<(), Error> {
        if !snapshot.may_act || outcome.failure.is_some() {
            return Ok(());
        }
        let surplus = &snapshot.surplus_revisions;
        self.history.truncate(surplus).await.map_err(|error| {
            Error::Retry(format!(
                "failed to clean up revisions of DaemonSet: {error}"
            ))
        })
    }

    /// A pod that becomes available, or a failed one that may be replaced.
    fn wait(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        status: &DaemonSetStatus,
        computed_at: MicroTime,
        now: MicroTime,
    ) -> Option<Duration> {
        let unsure = status.number_ready != status.number_available;
        let pods = snapshot.all_pods().map(|pod| &**pod);
        let seconds = snapshot.set.spec.min_ready_seconds;
        let available = availability::wait(pods, seconds, unsure, computed_at, now);
        available.into_iter().chain(plan.wait).min()
    }

    fn forget(&self, key: &Key) {
        self.failed_pods.forget(key);
    }
}

impl DaemonSets {
    /// The set's revisions and its pods, after adopting and releasing.
    async fn claim(
        &self,
        set: &Arc<DaemonSet>,
        selector: &Selector,
    ) -> Result<(Vec<Arc<ControllerRevision>>, Vec<Arc<Pod>>), Error> {
        let claimer = Claimer::new(&self.context.client, &**set);
        let held = self.history.candidates(&set.metadata, selector);
        let revisions = claimer
            .claim(
                held,
                self.consistency.kind::<ControllerRevision>(),
                |held: &ControllerRevision| selector.matches(&held.metadata.labels),
            )
            .await?;
        let candidates = candidates(&set.metadata, &self.pods);
        let pods = claimer
            .claim(candidates, self.consistency.kind::<Pod>(), |pod: &Pod| {
                selector.matches(&pod.metadata.labels)
            })
            .await?;
        Ok((revisions, pods))
    }

    fn warn_of_empty_selector(&self, set: &DaemonSet) {
        self.context.recorder.event(
            &ObjectRef::of(set),
            EventType::Warning,
            "SelectingAll",
            "This daemon set is selecting all pods. A non-empty selector is required.",
        );
    }
}
