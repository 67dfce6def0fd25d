//! Deployment: bring pods from one template to the next, through ReplicaSets. A workload.
//!
//! **Converges**: one ReplicaSet has the Deployment's template and all its pods; older ones are
//! empty and as many as the history may hold; the status tells how far this has come.
//!
//! **Triggers**: any change of the Deployment; a change of a ReplicaSet that it controls (also of
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
//!   annotation is fixed. Upstream takes it for a scaling for ever and never rolls out again.
//! - A Deployment that becomes `Recreate` and is resized while two sets have pods removes the old pods
//!   first. Upstream takes it for a scaling for ever.
//! - Deletions carry the set's uid as a precondition.
//! - Counts in the status of a Deployment that is changing fast are written at most once in 100 ms,
//!   never later than that after the last change.

mod actions;
mod annotations;
mod apply;
mod history;
mod invariants;
mod limits;
mod new_set;
mod oracle;
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

use api::decision::{Explain, Line};
use api::kinds::{Deployment, DeploymentStatus, Pod, ReplicaSet};
use api::{Key, LabelSet, MicroTime, Resource, Time};
use runtime::events::ObjectRef;
use runtime::triggers::by_controller;
use runtime::{Change, Context, Controller, Error, EventType, IndexValue, Loop, Next, Owns, Store};

use crate::Descriptor;
use crate::oracle::View;
use crate::workload::{
    Claimer, Consistency, Driver, KeyState, Observed, StatusChange, Workload, candidates,
};

pub use invariants::{bounds, converged, keeps_enough, recreates, safe, surplus};
pub use limits::{max_unavailable, most_replicas};
pub use oracle::DeploymentOracle;
pub use plan::{Plan, Report, Step, plan};
pub use reason::{Reason, Why};
pub use snapshot::Snapshot;
pub use status::compute;

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "deployment-controller",
    caches: &[
        View::of::<Deployment>(),
        View::of::<ReplicaSet>(),
        View::of::<Pod>(),
    ],
    decides_about: &[Deployment::TYPE],
    in_preview: true,
    queues: &["deployment"],
    build: Some(|ctx| {
        let workers = ctx.workers(ctx.config.deployment_controller.concurrent_syncs);
        Some(controller(ctx, workers).into())
    }),
    oracle: Some(|| Box::<DeploymentOracle>::default()),
    actions: &actions::ACTIONS,
    workloads: &[actions::WORKLOADS],
    ..Descriptor::named(
        "deployment-controller",
        "deployment",
        "deployment-controller",
    )
};

/// A Deployment that fails this often in a row is left alone until something changes.
// UPSTREAM: 15 retries take about three minutes.
const RETRIES_MAX: u32 = 15;

/// The cache shows an adoption long before this; it only bounds the wait.
const ADOPTION_SEEN: Duration = Duration::from_secs(1);

pub fn controller(context: &Context, workers: usize) -> Controller {
    let caches = Caches {
        deployments: context.informers.store::<Deployment>(),
        sets: context.informers.store::<ReplicaSet>(),
        pods: context.informers.store::<Pod>(),
    };
    context.informers.of::<Pod>().add_index(&by_controller());
    let consistency = Consistency::always().of::<Deployment>(context);
    let consistency = Arc::new(consistency.of::<ReplicaSet>(context));
    let (seen, workload) = (caches.clone(), caches);
    Loop::of::<Deployment>(context)
        .queue("deployment")
        .owns(Owns::<ReplicaSet, _>::selected_by(selects))
        .watches::<Pod>(move |change, queue| {
            if let Change::Deleted(pod) = change
                && let Some(key) = seen.recreated_after(pod)
            {
                queue.add(key);
            }
        })
        .workers(workers)
        .retries(RETRIES_MAX)
        .reconciler(Driver::new(
            context,
            &consistency,
            None,
            Deployments {
                context: context.clone(),
                caches: workload,
                consistency: consistency.clone(),
            },
        ))
}

/// Does the Deployment want an orphan with these labels? An empty selector matches nothing here.
fn selects(deployment: &Deployment, labels: &LabelSet) -> bool {
    let selector = &deployment.spec.selector;
    !selector.is_empty() && !labels.is_empty() && selector.matches(labels)
}

pub struct Deployments {
    context: Context,
    caches: Caches,
    consistency: Arc<Consistency>,
}

#[derive(Clone)]
struct Caches {
    deployments: Arc<Store<Deployment>>,
    sets: Arc<Store<ReplicaSet>>,
    pods: Arc<Store<Pod>>,
}

/// A plan, the status that comes of it, and when no progress becomes a failure.
pub struct Planned {
    plan: Plan,
    status: DeploymentStatus,
    deadline: Option<Time>,
}

/// All that can fail ends the sync before the status is written.
pub struct Outcome;

impl crate::workload::Outcome for Outcome {
    fn into_failure(self) -> Option<Error> {
        None
    }
}

impl Explain for Planned {
    fn explain(&self) -> Vec<Line> {
        let stuck = api::conditions::find(&self.status.conditions, status::PROGRESSING)
            .is_some_and(|held| held.reason == status::TIMED_OUT)
            .then_some(Reason::TimedOut);
        let deadline = self.deadline.map(Reason::TimesOutAt);
        let reasons = self.plan.reasons.iter().chain(&stuck).chain(&deadline);
        reasons.map(Line::from).collect()
    }
}

impl Workload for Deployments {
    type Object = Deployment;
    type Snapshot = Snapshot;
    type Plan = Planned;
    type Outcome = Outcome;
    type Status = DeploymentStatus;

    async fn observe(
        &self,
        key: &Key,
        deployment: Arc<Deployment>,
        _: bool,
    ) -> Result<Observed<Snapshot>, Error> {
        if deployment.spec.selector.is_empty() {
            return self.refuse(key, deployment).await;
        }
        let selector = deployment.spec.selector.compile().map_err(|error| {
            Error::Terminal(format!(
                "deployment {key} has invalid label selector: {error}"
            ))
        })?;
        let candidates = candidates(&deployment.metadata, &self.caches.sets);
        let sets = Claimer::new(&self.context.client, &*deployment)
            .claim(
                candidates,
                self.consistency.kind::<ReplicaSet>(),
                |set: &ReplicaSet| selector.matches(&set.metadata.labels),
            )
            .await?;
        if sets
            .iter()
            .any(|set| !set.metadata.is_controlled_by(&deployment.metadata.uid))
        {
            // Just adopted: our copy is out of date, and the new one enqueues us.
            return Ok(Observed::Done {
                lines: Vec::new(),
                next: Next::After(ADOPTION_SEEN),
            });
        }
        let gates = self.context.gates;
        let snapshot = Snapshot::new(deployment, sets, &self.caches.pods, gates);
        Ok(Observed::Snapshot(snapshot))
    }

    fn plan(&self, snapshot: &Snapshot, now: MicroTime) -> Planned {
        let plan = plan(snapshot, now);
        let deployment = &*snapshot.deployment;
        let status = status::compute(deployment, &plan.after, snapshot.gates, now);
        let deadline = (plan.after.report == Report::Progress)
            .then(|| status::deadline_at(deployment, &status))
            .flatten();
        Planned {
            plan,
            status,
            deadline,
        }
    }

    async fn apply(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        planned: &Planned,
    ) -> Result<Outcome, Error> {
        self.take_steps(key, snapshot, &planned.plan).await?;
        Ok(Outcome)
    }

    fn status(
        &self,
        snapshot: &Snapshot,
        planned: &Planned,
        _: &Outcome,
        _: MicroTime,
    ) -> (DeploymentStatus, StatusChange) {
        let (deployment, after) = (&*snapshot.deployment, &planned.plan.after);
        let (held, status) = (&deployment.status, &planned.status);
        let same_annotations = deployment.metadata.annotations == after.annotations;
        let change = if after.report == Report::AsIs || held == status && same_annotations {
            StatusChange::None
        } else if same_annotations && status::differs_in_counts_alone(held, status) {
            let counts = [
                (held.ready_replicas, status.ready_replicas),
                (held.available_replicas, status.available_replicas),
                (held.updated_replicas, status.updated_replicas),
            ];
            StatusChange::of_counts(&counts, false)
        } else {
            StatusChange::Now
        };
        (planned.status.clone(), change)
    }

    async fn write_status(
        &self,
        _: &KeyState,
        snapshot: &Snapshot,
        planned: &Planned,
        status: &DeploymentStatus,
    ) -> Result<(), Error> {
        let annotations = &planned.plan.after.annotations;
        self.put_status(snapshot, annotations, status).await
    }

    /// The deadline for progress.
    fn wait(
        &self,
        _: &Snapshot,
        planned: &Planned,
        _: &DeploymentStatus,
        computed_at: MicroTime,
        _: MicroTime,
    ) -> Option<Duration> {
        let deadline = planned.deadline?;
        Some(status::until_deadline(deadline, computed_at))
    }
}

impl Deployments {
    /// An empty selector would take over every ReplicaSet of the namespace.
    async fn refuse(
        &self,
        _: &Key,
        deployment: Arc<Deployment>,
    ) -> Result<Observed<Snapshot>, Error> {
        self.context.recorder.event(
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
            let gates = self.context.gates;
            let snapshot = Snapshot::new(deployment, Vec::new(), &self.caches.pods, gates);
            self.put_status(&snapshot, &annotations, &status).await?;
        }
        Ok(Observed::done(Line::from(&Reason::SelectsEverything)))
    }
}

impl Caches {
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
