//! Deployment: bring pods from one template to the next, through ReplicaSets.
//!
//! **Converges**: one ReplicaSet has the Deployment's template and all its pods; older ones are
//! empty and as many as the history may hold; the status tells how far this has come.
//!
//! **Woken by**: any change of the Deployment; a change of a ReplicaSet that it controls (also of
//! one that it loses); an orphan that its selector matches; with `Recreate`, the end of its last
//! pod; time, when the deadline for progress passes.
//!
//! **Writes**: creates, scales, annotates and deletes ReplicaSets, patches their owner references
//! (adopt, release), puts its own status together with the revision annotation, and its template
//! when a rollback is asked for. Emits `ScalingReplicaSet`, `ReplicaSetCreateError`,
//! `SelectingAll`, `DeploymentRollback` and its two warnings.
//!
//! **Mirrors** `pkg/controller/deployment`: `plan` is its `syncDeployment`, `rollout` its
//! `rolling.go` and `recreate.go`, `proportions` its `scale`, `status` its `progress.go`.
//!
//! **Deliberate differences**:
//! - A reconcile waits until the caches show its own last writes, and what it changes in one object
//!   is one request. Upstream writes the status of an old revision and is refused; we do not ask.
//! - The status speaks of the sets as they are after the scaling, not before it.
//! - A failed scaling of an old set is tried again; upstream waits for the next change.
//! - When a set already has the size of its Deployment, but its annotation says otherwise, the
//!   annotation is put right. Upstream takes it for a scaling for ever and never rolls out again.
//! - A Deployment that becomes `Recreate` and is resized while two sets have pods removes the old pods
//!   first. Upstream takes it for a scaling for ever.
//! - Deletions carry the set's uid as a precondition.
//! - Counts in the status of a Deployment that is changing fast are written at most once in 100 ms,
//!   never later than that after the last change.

mod annotations;
mod apply;
mod history;
mod invariants;
mod limits;
mod new_set;
mod plan;
mod proportions;
mod reason;
mod rollback;
mod rollout;
mod snapshot;
mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Deployment, DeploymentStatus, Pod, ReplicaSet};
use api::{Key, LabelSet, MicroTime, Resource};
use futures_util::future::BoxFuture;
use runtime::controller::Controller;
use runtime::events::ObjectRef;
use runtime::rate_limit::Backoff;
use runtime::triggers::{Owned, at_once, by_controller, never, watch_self};
use runtime::{Change, Error, EventType, IndexValue, Informers, Next, Queue, Reconcile, Store};

use crate::Tools;
use crate::workload::{Claimer, OwnWrites, StatusWindow};

pub use invariants::{bounds, converged, keeps_enough, recreates, safe, surplus};
pub use limits::{max_unavailable, most_replicas};
pub use plan::{Plan, Report, Step, plan};
pub use reason::{Reason, Why};
pub use snapshot::Snapshot;
pub use status::compute;

/// The name in `--controllers`, and the component that events come from.
pub const NAME: &str = "deployment-controller";

/// A Deployment that fails this often in a row is left alone until something changes.
// UPSTREAM: 15 retries take about three minutes.
const RETRIES_MAX: u32 = 15;

/// The cache shows an adoption long before this; it only bounds the wait.
const ADOPTION_SEEN: Duration = Duration::from_secs(1);

pub struct DeploymentController {
    tools: Tools,
    deployments: Arc<Store<Deployment>>,
    sets: Arc<Store<ReplicaSet>>,
    pods: Arc<Store<Pod>>,
    own_writes: OwnWrites,
    status_window: StatusWindow,
}

pub fn controller(informers: &Informers, tools: Tools, workers: usize) -> Controller {
    let deployments = informers.of::<Deployment>();
    let (sets, pods) = (informers.of::<ReplicaSet>(), informers.of::<Pod>());
    sets.add_index(&by_controller());
    pods.add_index(&by_controller());
    let queue = Arc::new(Queue::new(Backoff::DEFAULT));
    watch_self(&deployments, &queue, |_| {});
    Owned {
        owners: deployments.store().clone(),
        queue: queue.clone(),
        selects,
        expectations: None,
        added_after: at_once,
        again_after: never,
    }
    .watch(&sets);
    let reconciler = Arc::new(DeploymentController {
        tools,
        deployments: deployments.store().clone(),
        sets: sets.store().clone(),
        pods: pods.store().clone(),
        own_writes: OwnWrites::always().of(deployments.store()).of(sets.store()),
        status_window: StatusWindow::default(),
    });
    {
        let (reconciler, queue) = (reconciler.clone(), queue.clone());
        pods.on_change(move |change| {
            if let Change::Deleted(pod) = change
                && let Some(key) = reconciler.recreated_after(pod)
            {
                queue.add(key);
            }
        });
    }
    Controller {
        name: NAME,
        queue,
        workers,
        retries_max: Some(RETRIES_MAX),
        waits_for: vec![deployments.synced(), sets.synced(), pods.synced()],
        metrics: None,
        reconciler,
    }
}

/// Does the Deployment want an orphan with these labels? An empty selector matches nothing here.
fn selects(deployment: &Deployment, labels: &LabelSet) -> bool {
    let selector = &deployment.spec.selector;
    !selector.is_empty() && !labels.is_empty() && selector.matches(labels)
}

impl Reconcile for DeploymentController {
    fn reconcile<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, Error>> {
        Box::pin(self.sync(key))
    }
}

impl DeploymentController {
    async fn sync(&self, key: &Key) -> Result<Next, Error> {
        self.own_writes.check(key)?;
        let Some(deployment) = self.deployments.get(key) else {
            self.forget(key);
            return Ok(Next::AwaitChange);
        };
        if deployment.spec.selector.is_empty() {
            return self.refuse(key, deployment).await;
        }
        let selector = deployment.spec.selector.compile().map_err(|error| {
            Error::Terminal(format!(
                "deployment {key} has invalid label selector: {error}"
            ))
        })?;
        let candidates = snapshot::candidates(&deployment, &self.sets);
        let sets = Claimer::new(&self.tools.client, &*deployment)
            .claim(
                candidates,
                self.own_writes.kind::<ReplicaSet>(),
                |set: &ReplicaSet| selector.matches(&set.metadata.labels),
            )
            .await?;
        if sets
            .iter()
            .any(|set| !set.metadata.is_controlled_by(&deployment.metadata.uid))
        {
            // Just adopted: our copy is out of date, and the new one wakes us.
            return Ok(Next::After(ADOPTION_SEEN));
        }
        let snapshot = Snapshot::new(deployment, sets, &self.pods, self.tools.gates);

        let now = self.tools.clock.now();
        let plan = plan(&snapshot, now);
        let deployment = &*snapshot.deployment;
        let status = status::compute(deployment, &plan.after, snapshot.gates, now);
        let deadline = (plan.after.report == Report::Progress)
            .then(|| status::deadline_at(deployment, &status))
            .flatten();
        self.record(key, &plan, &status, deadline, now);

        self.apply(key, &snapshot, &plan).await?;
        if plan.after.report == Report::AsIs {
            return Ok(Next::AwaitChange);
        }
        self.report(key, &snapshot, &plan, &status, now)
            .await
            .map(
                |wait| match wait.or(deadline.map(|at| status::until_deadline(at, now))) {
                    Some(wait) => Next::After(wait),
                    None => Next::AwaitChange,
                },
            )
    }

    fn forget(&self, key: &Key) {
        self.own_writes.forget(key);
        self.status_window.forget(key);
    }

    /// An empty selector would take over every ReplicaSet of the namespace.
    async fn refuse(&self, key: &Key, deployment: Arc<Deployment>) -> Result<Next, Error> {
        let now = self.tools.clock.now();
        let reason = Reason::SelectsEverything.to_string();
        self.tools
            .decisions
            .record(NAME, key, now, [reason].into_iter());
        self.tools.recorder.event(
            &ObjectRef::of(&*deployment),
            EventType::Warning,
            "SelectingAll",
            "This deployment is selecting all pods. A non-empty selector is required.",
        );
        if deployment.status.observed_generation < deployment.metadata.generation {
            let status = DeploymentStatus {
                observed_generation: deployment.metadata.generation,
                ..deployment.status.clone()
            };
            let annotations = deployment.metadata.annotations.clone();
            let snapshot = Snapshot::new(deployment, Vec::new(), &self.pods, self.tools.gates);
            self.write_status(key, &snapshot, &annotations, &status)
                .await?;
        }
        Ok(Next::AwaitChange)
    }

    fn record(
        &self,
        key: &Key,
        plan: &Plan,
        status: &DeploymentStatus,
        deadline: Option<api::Time>,
        now: MicroTime,
    ) {
        let stuck = api::conditions::find(&status.conditions, status::PROGRESSING)
            .is_some_and(|held| held.reason == status::TIMED_OUT)
            .then_some(Reason::TimedOut);
        let deadline = deadline.map(Reason::TimesOutAt);
        let reasons = plan.reasons.iter().chain(&stuck).chain(&deadline);
        self.tools
            .decisions
            .record(NAME, key, now, reasons.map(ToString::to_string));
    }

    /// Writes the status if it differs; says how long to wait when it has to wait its turn.
    async fn report(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        plan: &Plan,
        status: &DeploymentStatus,
        now: MicroTime,
    ) -> Result<Option<Duration>, Error> {
        let deployment = &*snapshot.deployment;
        let annotations = &plan.after.annotations;
        if deployment.status == *status && deployment.metadata.annotations == *annotations {
            return Ok(None);
        }
        let can_wait = deployment.metadata.annotations == *annotations
            && status::differs_in_counts_alone(&deployment.status, status);
        if can_wait && let Some(wait) = self.status_window.until_open(key, now) {
            return Ok(Some(wait));
        }
        self.write_status(key, snapshot, annotations, status)
            .await?;
        self.status_window.written(key, now);
        Ok(None)
    }

    /// The Deployment that a deleted pod was the last one of, if it waits for that.
    fn recreated_after(&self, pod: &Pod) -> Option<Key> {
        let meta = &pod.metadata;
        let owner = meta
            .controller()
            .filter(|owner| owner.kind == "ReplicaSet")?;
        let set = self.sets.find(&meta.namespace, &owner.name)?;
        if set.metadata.uid != owner.uid {
            return None;
        }
        let owner = set.metadata.controller()?;
        let deployment = self.deployments.find(&meta.namespace, &owner.name)?;
        let waits = owner.kind == "Deployment"
            && deployment.metadata.uid == owner.uid
            && deployment.spec.strategy.recreate;
        if !waits {
            return None;
        }
        let uid = IndexValue::Uid(deployment.metadata.uid.clone());
        let left = self
            .sets
            .by(&by_controller(), &uid)
            .iter()
            .any(|set| snapshot::unfinished(&self.pods, &set.metadata.uid) > 0);
        (!left).then(|| deployment.key())
    }
}
