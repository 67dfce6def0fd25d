//! ReplicaSet (and ReplicationController): keep N pods of one template.
//!
//! **Converges**: the number of active pods that a set controls equals `spec.replicas`; its status
//! counts them.
//!
//! **Woken by**: any change of the set; a change of a pod it controls (also of one that it loses);
//! an orphan that its selector matches; time, when `minReadySeconds` decides about availability.
//!
//! **Writes**: creates and deletes pods (at most 500 a round, creations by slow start), patches
//! their owner references (adopt, release), puts its own status, emits `SuccessfulCreate`,
//! `FailedCreate`, `SuccessfulDelete`, `FailedDelete`.
//!
//! **Mirrors** `pkg/controller/replicaset` and `pkg/controller/replication`: the two kinds differ in
//! their wire format alone, so there is one controller over [`ReplicaOwner`] and two descriptors.
//!
//! **Deliberate differences**: deletions carry the pod's uid as a precondition; counts in the
//! status of a set that is changing fast are written at most once in 100 ms, never later than that
//! after the last change, and a large set is not looked at more often.

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

use api::kinds::Pod;
use api::labels::Judge;
use api::{Gate, Key, LabelSet, MicroTime};
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use prometheus::Histogram;
use runtime::controller::Controller;
use runtime::events::ObjectRef;
use runtime::metrics::Stability;
use runtime::rate_limit::Backoff;
use runtime::triggers::{Owned, at_once, by_controller, watch_self};
use runtime::{Error, Expectations, Informers, Metrics, Next, Queue, Reconcile, Store, slow_start};

use crate::Tools;
use crate::workload::claim::controller_reference;
use crate::workload::pods::{PodName, pod_name_base};
use crate::workload::status::put_status_with_retry;
use crate::workload::{Claimer, OwnWrites, PodControl, StatusWindow, availability, pod_body};

pub use invariants::{converged, ranked, safe};
pub use owner::ReplicaOwner;
pub use plan::{Plan, Reason, plan};
pub use snapshot::Snapshot;
pub use status::compute;

/// Upstream's `BurstReplicas`: a set is looked at again after this many creations or deletions.
pub const BURST: usize = 500;

pub struct ReplicaController<K: ReplicaOwner> {
    tools: Tools,
    sets: Arc<Store<K>>,
    pods: Arc<Store<Pod>>,
    control: PodControl,
    expectations: Arc<Expectations>,
    own_writes: Arc<OwnWrites>,
    age_ratios: Histogram,
    status_window: StatusWindow,
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

/// Builds the controller for one of the two kinds.
pub fn controller<K: ReplicaOwner>(
    informers: &Informers,
    tools: Tools,
    workers: usize,
) -> Controller {
    let (sets, pods) = (informers.of::<K>(), informers.of::<Pod>());
    pods.add_index(&by_controller());
    sets.add_index(&by_controller());
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    let expectations = Arc::new(Expectations::default());
    expectations.watch(&tools.metrics, K::CONTROLLER);
    let own_writes = OwnWrites::gated(
        &tools,
        Gate::StaleControllerConsistencyReplicaSet,
        "replicaset_controller_stale_sync_skips_total",
    );
    let own_writes = Arc::new(own_writes.of(sets.store()).of(pods.store()));
    {
        let (expectations, own_writes) = (expectations.clone(), own_writes.clone());
        watch_self(&sets, &queue, move |key| {
            expectations.forget(key);
            own_writes.forget(key);
        });
    }
    Owned {
        owners: sets.store().clone(),
        queue: queue.clone(),
        selects: K::selects,
        expectations: Some(expectations.clone()),
        added_after: at_once,
        again_after: |owner: &K, old: &Pod, new: &Pod| {
            availability::after_becoming_ready(owner.min_ready_seconds(), old, new)
        },
    }
    .watch(&pods);
    Controller {
        name: K::CONTROLLER,
        queue,
        workers,
        retries_max: None,
        waits_for: vec![sets.synced(), pods.synced()],
        metrics: None,
        reconciler: Arc::new(ReplicaController::<K> {
            control: PodControl::new(tools.client.clone(), tools.recorder.clone()),
            age_ratios: age_ratios(&tools.metrics),
            tools,
            sets: sets.store().clone(),
            pods: pods.store().clone(),
            expectations,
            own_writes,
            status_window: StatusWindow::default(),
            burst: BURST,
        }),
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

impl<K: ReplicaOwner> Reconcile for ReplicaController<K> {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl<K: ReplicaOwner> ReplicaController<K> {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        self.own_writes.check(key)?;
        let Some(owner) = self.sets.get(key) else {
            self.forget(key);
            return Ok(Next::AwaitChange);
        };
        if let Some(rest) = self.rest(key, &owner) {
            return Ok(Next::After(rest));
        }
        let may_act = self.expectations.satisfied(key);
        let Ok(selector) = owner.selector() else {
            return Err(Error::Terminal(format!("the selector of {key} is invalid")));
        };
        let (active, leaving): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) =
            snapshot::candidates(&*owner, &self.pods)
                .into_iter()
                .partition(|pod| pod.is_active());
        let mut selects = Judge::new(|labels: &LabelSet| selector.matches(labels));
        let active = Claimer::new(&self.tools.client, &*owner)
            .claim(active, self.own_writes.kind::<Pod>(), |pod: &Pod| {
                selects.of(&pod.metadata.labels)
            })
            .await?;
        let snapshot = Snapshot::new(owner, &selector, active, &leaving, self.tools.gates);

        let now = self.tools.clock.now();
        let plan = if may_act {
            plan(&snapshot, self.burst, now, || {
                snapshot::related(&*snapshot.owner, &self.sets, &self.pods)
            })
        } else {
            Plan::await_events()
        };
        self.tools.decisions.record(
            K::CONTROLLER,
            key,
            now,
            plan.reasons().map(|reason| reason.to_string()),
        );
        let outcome = self.apply(key, &snapshot, plan).await;

        let now = self.tools.clock.now();
        let status = status::compute(&snapshot, &outcome, now);
        let written = self
            .write_status(key, &snapshot, &outcome, &status, now)
            .await?;
        if let Some(failure) = outcome.failure {
            return Err(failure);
        }
        let computed_at = now;
        let now = self.tools.clock.now();
        let later = [written, self.expectations.wait(key)];
        Ok(next(&snapshot, &status, later, computed_at, now))
    }

    /// How long a large set need not be looked at, as long as nobody changes what it should be.
    fn rest(&self, key: &Key, owner: &K) -> Option<Duration> {
        let status = owner.status();
        let asked = status.observed_generation != owner.meta().generation;
        let pods = [status.replicas, owner.replicas()];
        let now = self.tools.clock.now();
        let rest = self.status_window.rest(key, pods, now);
        rest.filter(|_| !asked)
    }

    fn forget(&self, key: &Key) {
        self.expectations.forget(key);
        self.own_writes.forget(key);
        self.status_window.forget(key);
    }

    async fn apply(&self, key: &Key, snapshot: &Snapshot<K>, plan: Plan) -> Outcome {
        match plan {
            Plan::Nothing(_) => Outcome::default(),
            Plan::Create { count, .. } => self.create(key, snapshot, count).await,
            Plan::Delete { pods, .. } => self.delete(key, snapshot, &pods).await,
        }
    }

    async fn create(&self, key: &Key, snapshot: &Snapshot<K>, count: usize) -> Outcome {
        let owner = &*snapshot.owner;
        let reference = controller_reference(owner);
        let base = pod_name_base(&owner.meta().name);
        // The same bytes for every pod: the API server gives each its name.
        let body: Bytes = pod_body(owner.template(), PodName::Generate(&base), &reference)
            .to_string()
            .into();
        let object = ObjectRef::of(owner);
        self.expectations.expect_creations(key, count);
        let attempts = slow_start(count, |_| {
            self.control.create(&object, &key.namespace, body.clone())
        })
        .await;
        let mut unseen = attempts.skipped;
        let (mut failure, mut moved) = (None, false);
        for attempt in attempts.tried {
            match attempt {
                Ok(created) => {
                    moved = true;
                    self.own_writes.note::<Pod>(key, created.resource_version);
                }
                Err(error) => {
                    unseen += 1;
                    if !error.is_namespace_terminating() {
                        failure.get_or_insert(Error::from(error));
                    }
                }
            }
        }
        self.expectations.creations_observed(key, unseen);
        Outcome { failure, moved }
    }

    async fn delete(&self, key: &Key, snapshot: &Snapshot<K>, pods: &[Arc<Pod>]) -> Outcome {
        use api::Resource;
        let object = ObjectRef::of(&*snapshot.owner);
        if pods.len() < snapshot.active.len() {
            let now = self.tools.clock.now();
            for ratio in ranking::age_ratios(&snapshot.active, pods, now) {
                self.age_ratios.observe(ratio);
            }
        }
        self.expectations
            .expect_deletions(key, pods.iter().map(|pod| pod.key()));
        let results = join_all(pods.iter().map(|pod| self.control.delete(&object, pod))).await;
        let (mut failure, mut moved) = (None, false);
        for (pod, result) in pods.iter().zip(results) {
            let Err(error) = result else {
                moved = true;
                continue;
            };
            self.expectations.deletion_observed(key, &pod.key());
            if !error.is_not_found() && !error.is_conflict() {
                failure.get_or_insert(Error::from(error));
            }
        }
        Outcome { failure, moved }
    }

    /// Writes the status if it differs; says how long to wait when a write has to wait its turn.
    async fn write_status(
        &self,
        key: &Key,
        snapshot: &Snapshot<K>,
        outcome: &Outcome,
        status: &api::kinds::ReplicaSetStatus,
        now: MicroTime,
    ) -> Result<Option<Duration>, Error> {
        let owner = &*snapshot.owner;
        if !status::differs(owner, status) {
            return Ok(None);
        }
        if outcome.moved && outcome.failure.is_none() {
            // The pods that were just made or deleted will be counted in a moment.
            return Ok(Some(StatusWindow::LENGTH));
        }
        if status::differs_in_counts_alone(owner, status)
            && let Some(wait) = self.status_window.until_open(key, now)
        {
            return Ok(Some(wait));
        }
        let revision = put_status_with_retry::<K>(&self.tools.client, owner.meta(), status).await?;
        self.own_writes.note::<K>(key, revision);
        self.status_window.written(key, now);
        Ok(None)
    }
}

/// When to look again if nothing happens: a status that waits its turn, pods that were expected and do not
/// show up, or a pod that becomes available.
fn next<K: ReplicaOwner>(
    snapshot: &Snapshot<K>,
    status: &api::kinds::ReplicaSetStatus,
    waits: [Option<Duration>; 2],
    computed_at: MicroTime,
    now: MicroTime,
) -> Next {
    let min_ready_seconds = snapshot.owner.min_ready_seconds();
    let availability =
        (min_ready_seconds > 0 && status.ready_replicas != status.available_replicas).then(|| {
            availability::next_check(
                snapshot.active.iter().map(|pod| &**pod),
                min_ready_seconds,
                computed_at,
                now,
            )
            .unwrap_or(Duration::from_secs(min_ready_seconds.unsigned_abs().into()))
        });
    match waits.into_iter().flatten().chain(availability).min() {
        Some(wait) => Next::After(wait),
        None => Next::AwaitChange,
    }
}
