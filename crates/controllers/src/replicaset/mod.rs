//! ReplicaSet (and ReplicationController): keep N pods of one template. A workload.
//!
//! **Converges**: the number of active pods that a set controls equals `spec.replicas`; its status
//! counts them.
//!
//! **Triggers**: any change of the set; a change of a pod it controls (also of one that it loses);
//! an orphan that its selector matches; time, when `minReadySeconds` decides about availability.
//!
//! **Writes**: creates and deletes pods (at most 500 a sync, creations by slow start), patches
//! their owner references (adopt, release), puts its own status, emits `SuccessfulCreate`,
//! `FailedCreate`, `SuccessfulDelete`, `FailedDelete`.
//!
//! **Mirrors** `pkg/controller/replicaset` and `pkg/controller/replication`: the two kinds differ in
//! their wire format alone, so there is one controller over [`ReplicaOwner`] and two descriptors.
//!
//! **Deliberate differences**: deletions carry the pod's uid as a precondition; counts in the
//! status of a set that is changing fast are written at most once in 100 ms, never later than that
//! after the last change, and a large set is not looked at more often.

mod actions;
mod invariants;
mod owner;
mod plan;
mod ranking;
mod snapshot;
mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Pod, ReplicaSet, ReplicaSetStatus, ReplicationController};
use api::labels::Matcher;
use api::{Gate, Key, LabelSet, MicroTime, Resource};
use bytes::Bytes;
use prometheus::Histogram;
use runtime::events::ObjectRef;
use runtime::metrics::Stability;
use runtime::triggers::by_controller;
use runtime::{Context, Controller, Error, Expectations, Loop, Metrics, Owns, Store};

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::claim::controller_reference;
use crate::workload::pods::{PodName, pod_name_base};
use crate::workload::{
    Claimer, Consistency, Driver, KeyState, Observed, PodControl, StatusChange, Workload,
    availability, candidates, pod_body,
};

pub use invariants::{ReplicaOracle, converged, ranked, safe};
pub use owner::ReplicaOwner;
pub use plan::{Plan, Reason, plan};
pub use snapshot::Snapshot;
pub use status::compute;

pub const REPLICA_SET: Descriptor = Descriptor {
    component: "replicaset-controller",
    caches: &[View::of::<ReplicaSet>(), View::of::<Pod>()],
    decides_about: &[ReplicaSet::TYPE],
    in_preview: true,
    queues: &["replicaset"],
    metrics: &["replicaset_controller_"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.replica_set_controller.concurrent_syncs);
        Some(controller::<ReplicaSet>(ctx, workers).into())
    }),
    oracle: Some(|| Box::new(ReplicaOracle::<ReplicaSet>::default())),
    workloads: &[actions::REPLICA_SETS],
    ..Descriptor::named(
        "replicaset-controller",
        "replicaset",
        "replicaset-controller",
    )
};

pub const REPLICATION_CONTROLLER: Descriptor = Descriptor {
    component: "replication-controller",
    caches: &[View::of::<ReplicationController>(), View::of::<Pod>()],
    decides_about: &[ReplicationController::TYPE],
    in_preview: true,
    queues: &["replicationmanager"],
    // UPSTREAM: both kinds count into the families of the ReplicaSet controller.
    metrics: &["replicaset_controller_"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.replication_controller.concurrent_syncs);
        Some(controller::<ReplicationController>(ctx, workers).into())
    }),
    oracle: Some(|| Box::new(ReplicaOracle::<ReplicationController>::default())),
    workloads: &[actions::REPLICATION_CONTROLLERS],
    ..Descriptor::named(
        "replicationcontroller-controller",
        "replicationcontroller",
        "replication-controller",
    )
};

/// Upstream's `BurstReplicas`: a set is looked at again after this many creations or deletions.
pub const BURST: usize = 500;

/// Builds the controller for one of the two kinds.
pub fn controller<K: ReplicaOwner>(context: &Context, workers: usize) -> Controller {
    let expectations = Expectations::watched(&context.metrics, context.controller);
    let consistency = Consistency::gated(
        context,
        Gate::StaleControllerConsistencyReplicaSet,
        "replicaset_controller_stale_sync_skips_total",
    );
    let consistency = Arc::new(consistency.of::<K>(context).of::<Pod>(context));
    context.informers.of::<K>().add_index(&by_controller());
    Loop::of::<K>(context)
        .queue(K::QUEUE)
        .owns(
            Owns::<Pod, K>::selected_by(K::selects)
                .expecting(&expectations)
                .again_after(|owner, old, new| {
                    availability::after_becoming_ready(owner.min_ready_seconds(), old, new)
                }),
        )
        .workers(workers)
        .reconciler(Driver::new(
            context,
            &consistency,
            Some(&expectations),
            Replicas::<K> {
                control: PodControl::new(context.client.clone(), context.recorder.clone()),
                age_ratios: age_ratios(&context.metrics),
                sets: context.informers.store::<K>(),
                pods: context.informers.store::<Pod>(),
                context: context.clone(),
                expectations: expectations.clone(),
                consistency: consistency.clone(),
                burst: BURST,
            },
        ))
}

pub struct Replicas<K: ReplicaOwner> {
    context: Context,
    sets: Arc<Store<K>>,
    pods: Arc<Store<Pod>>,
    control: PodControl,
    expectations: Arc<Expectations>,
    consistency: Arc<Consistency>,
    age_ratios: Histogram,
    burst: usize,
}

/// What applying a plan came to.
#[derive(Default)]
pub struct Outcome {
    /// The first failure; all were reported as events.
    pub failure: Option<Error>,
    /// Pods were created or deleted: events about them are on their way.
    pub moved: bool,
}

impl crate::workload::Outcome for Outcome {
    fn into_failure(self) -> Option<Error> {
        self.failure
    }
}

impl<K: ReplicaOwner> Workload for Replicas<K> {
    type Object = K;
    type Snapshot = Snapshot<K>;
    type Plan = Plan;
    type Outcome = Outcome;
    type Status = ReplicaSetStatus;

    async fn observe(
        &self,
        key: &Key,
        owner: Arc<K>,
        may_act: bool,
    ) -> Result<Observed<Snapshot<K>>, Error> {
        let Ok(selector) = owner.selector() else {
            return Err(Error::Terminal(format!("the selector of {key} is invalid")));
        };
        let (active, leaving): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) =
            candidates(owner.meta(), &self.pods)
                .into_iter()
                .partition(|pod| pod.is_active());
        let mut selects = Matcher::new(|labels: &LabelSet| selector.matches(labels));
        let active = Claimer::new(&self.context.client, &*owner)
            .claim(active, self.consistency.kind::<Pod>(), |pod: &Pod| {
                selects.of(&pod.metadata.labels)
            })
            .await?;
        let gates = self.context.gates;
        let snapshot = Snapshot::new(owner, &selector, active, &leaving, may_act, gates);
        Ok(Observed::Snapshot(snapshot))
    }

    fn plan(&self, snapshot: &Snapshot<K>, now: MicroTime) -> Plan {
        plan(snapshot, self.burst, now, || {
            snapshot::related(&*snapshot.owner, &self.sets, &self.pods)
        })
    }

    async fn apply(
        &self,
        key: &Key,
        snapshot: &Snapshot<K>,
        plan: &Plan,
    ) -> Result<Outcome, Error> {
        Ok(match plan {
            Plan::Nothing(_) => Outcome::default(),
            Plan::Create { count, .. } => self.create(key, snapshot, *count).await,
            Plan::Delete { pods, .. } => self.delete(key, snapshot, pods).await,
        })
    }

    fn status(
        &self,
        snapshot: &Snapshot<K>,
        _: &Plan,
        outcome: &Outcome,
        now: MicroTime,
    ) -> (ReplicaSetStatus, StatusChange) {
        let status = status::compute(snapshot, outcome, now);
        let change = status::change(&*snapshot.owner, &status, outcome);
        (status, change)
    }

    async fn write_status(
        &self,
        state: &KeyState,
        snapshot: &Snapshot<K>,
        _: &Plan,
        status: &ReplicaSetStatus,
    ) -> Result<(), Error> {
        state.put_status(&*snapshot.owner, |_| status).await
    }

    /// A pod that becomes available.
    fn wait(
        &self,
        snapshot: &Snapshot<K>,
        _: &Plan,
        status: &ReplicaSetStatus,
        computed_at: MicroTime,
        now: MicroTime,
    ) -> Option<Duration> {
        let unsure = status.ready_replicas != status.available_replicas;
        let pods = snapshot.active.iter().map(|pod| &**pod);
        let seconds = snapshot.owner.min_ready_seconds();
        availability::wait(pods, seconds, unsure, computed_at, now)
    }

    /// As long as nobody changes what it should be.
    fn may_throttle(&self, owner: &K) -> Option<[i32; 2]> {
        let status = owner.status();
        let is_asked = status.observed_generation != owner.meta().generation;
        (!is_asked).then_some([status.replicas, owner.replicas()])
    }
}

impl<K: ReplicaOwner> Replicas<K> {
    async fn create(&self, key: &Key, snapshot: &Snapshot<K>, count: usize) -> Outcome {
        let owner = &*snapshot.owner;
        let reference = controller_reference(owner);
        let base = pod_name_base(&owner.meta().name);
        // The same bytes for every pod: the API server gives each its name.
        let body: Bytes = pod_body(owner.template(), PodName::Generate(&base), &reference)
            .to_string()
            .into();
        self.expectations.expect_creations(key, count);
        let expected = (&*self.expectations, &*self.consistency);
        let done = self
            .control
            .create_all(&ObjectRef::of(owner), key, expected, count, |_| {
                body.clone()
            })
            .await;
        Outcome {
            moved: done.created > 0,
            failure: done.failures.into_iter().next().map(Error::from),
        }
    }

    async fn delete(&self, key: &Key, snapshot: &Snapshot<K>, pods: &[Arc<Pod>]) -> Outcome {
        let object = ObjectRef::of(&*snapshot.owner);
        if pods.len() < snapshot.active.len() {
            let now = self.context.clock.now();
            for ratio in ranking::age_ratios(&snapshot.active, pods, now) {
                self.age_ratios.observe(ratio);
            }
        }
        self.expectations
            .expect_deletions(key, pods.iter().map(|pod| pod.key()));
        let pods = pods.iter().map(|pod| &**pod);
        let done = self
            .control
            .delete_all(&object, key, &self.expectations, pods)
            .await;
        Outcome {
            moved: done.deleted > 0,
            failure: done.failures.into_iter().next().map(Error::from),
        }
    }
}

fn age_ratios(metrics: &Metrics) -> Histogram {
    let family = metrics.histogram(
        "replicaset_controller_sorting_deletion_age_ratio",
        "Age of ready pods that scaling down chose, in ages of the youngest ready one",
        Stability::Alpha,
        &[],
        // Upstream's buckets.
        &[0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
    );
    family.with_label_values::<&str>(&[])
}
