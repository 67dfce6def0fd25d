//! How many pods may be evicted: the status of PodDisruptionBudgets. A small controller.
//!
//! **Converges**: the status of each budget says how many of its pods are healthy, how many have to be, how many are
//! expected, and so how many may be evicted now. What is expected is what the owners of the pods are scaled to, or, for a
//! whole `minAvailable`, the pods that are there. A pod whose eviction the API server allowed counts as gone for two minutes;
//! if nobody has deleted it by then it counts again. No pod says `DisruptionTarget` for more than two minutes without
//! being deleted, unless its kubelet said so.
//!
//! **Triggers**: any change of a budget; any change of a pod, for the budgets that select it or did so before; a change
//! of scale of a Deployment, ReplicaSet, ReplicationController or StatefulSet, for the budgets of its namespace that
//! count by scale; time, when an eviction has not come to pass.
//!
//! **Writes**: puts the status of budgets, on top of what it read, so that an eviction in between is never lost; patches
//! the condition of pods; emits `NoPods`, `UnmanagedPods`, `CalculateExpectedPodCountFailed`, `NotDeleted` and
//! `MultiplePodDisruptionBudgets`.
//!
//! **Mirrors** `pkg/controller/disruption`. Where the count fails the budget allows nothing and its condition says why.
//!
//! **Deliberate differences**: a change of a pod enqueues every budget over it, also those that selected it until then,
//! and a change of scale enqueues budgets, where upstream waits for the next change of a pod; an API server that did not
//! answer for a scale is asked again, where upstream waits for the next change; a failure that the status already tells
//! of is not written again; there is no queue `disruption_recheck`, because the queue itself can wait.

mod actions;
mod invariants;
mod oracle;
mod owners;
mod plan;
mod reason;
mod stale;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::decision::Line;
use api::kinds::{
    Deployment, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus, ReplicaSet,
    ReplicationController, StatefulSet,
};
use api::syntax::go_quote;
use api::{Key, LabelSet, Meta, MicroTime, ObjectId, Resource};
use runtime::events::{EventType, ObjectRef, Recorder};
use runtime::{
    Change, Context, Controller, Error, Loop, Next, Queue, Reconcile, Report, Runnable, Store,
};

use self::owners::Owners;
use self::reason::{Event, Reason};
use crate::Descriptor;
use crate::oracle::View;
use crate::workload::Consistency;
use crate::workload::status::put_status;

pub use invariants::{converged, safe};
pub use oracle::DisruptionOracle;
pub use owners::{CountError, Expected};
pub use plan::{DELETION_TIMEOUT, Plan, counts_by_scale, plan, plan_failure};
pub use stale::{STALE_AFTER, stale_after};

pub const DESCRIPTOR: Descriptor = Descriptor {
    component: "controllermanager",
    caches: &[
        View::of::<PodDisruptionBudget>(),
        View::of::<Pod>(),
        View::of::<ReplicationController>(),
        View::of::<ReplicaSet>(),
        View::of::<Deployment>(),
        View::of::<StatefulSet>(),
    ],
    decides_about: &[PodDisruptionBudget::TYPE, Pod::TYPE],
    queues: &["disruption", "stale_pod_disruption"],
    build: Some(|ctx| Some(controller(ctx))),
    oracle: Some(|| Box::<DisruptionOracle>::default()),
    actions: &actions::ACTIONS,
    ..Descriptor::named(
        "disruption-controller",
        "disruption",
        "disruption-controller",
    )
};

pub fn controller(context: &Context) -> Runnable {
    let loops = vec![budgets(context).into(), stale::controller(context).into()];
    Runnable::together(context.controller, loops)
}

/// The loop over budgets.
pub(crate) fn budgets(context: &Context) -> Controller {
    let pods = context.informers.store::<Pod>();
    pods.index_labels();
    let triggers = Triggers {
        budgets: context.informers.store::<PodDisruptionBudget>(),
        recorder: context.recorder.clone(),
    };
    let (of_pods, of_controllers) = (triggers.clone(), triggers.clone());
    let (of_sets, of_deployments, of_stateful_sets) =
        (triggers.clone(), triggers.clone(), triggers);
    // UPSTREAM: one worker, without a flag.
    Loop::of::<PodDisruptionBudget>(context)
        .queue("disruption")
        .watches::<Pod>(move |change, queue| of_pods.on_pod(change, queue))
        .watches::<ReplicationController>(move |change, queue| {
            of_controllers.on_owner(change, |owner| owner.spec.replicas, queue);
        })
        .watches::<ReplicaSet>(move |change, queue| {
            of_sets.on_owner(change, |owner| owner.spec.replicas, queue);
        })
        .watches::<Deployment>(move |change, queue| {
            of_deployments.on_owner(change, |owner| owner.spec.replicas, queue);
        })
        .watches::<StatefulSet>(move |change, queue| {
            of_stateful_sets.on_owner(change, |owner| owner.spec.replicas, queue);
        })
        .reconciler(Budgets {
            context: context.clone(),
            budgets: context.informers.store::<PodDisruptionBudget>(),
            pods,
            owners: Owners::new(context),
            consistency: Consistency::always().of::<PodDisruptionBudget>(context),
        })
}

#[derive(Clone)]
struct Triggers {
    budgets: Arc<Store<PodDisruptionBudget>>,
    recorder: Recorder,
}

impl Triggers {
    fn on_pod(&self, change: Change<'_, Pod>, queue: &Queue) {
        let pod = change.object();
        let found = self.over(&pod.metadata, &pod.metadata.labels);
        if let [first, _, ..] = &*found
            && !matches!(change, Change::Deleted(_))
        {
            self.warn_of_several(pod, first);
        }
        found.into_iter().for_each(|key| queue.add(key));
        if let Change::Updated { old, new } = change
            && old.metadata.labels != new.metadata.labels
        {
            let before = self.over(&old.metadata, &old.metadata.labels);
            before.into_iter().for_each(|key| queue.add(key));
        }
    }

    /// The budgets over a pod with these labels, by name.
    fn over(&self, meta: &Meta, labels: &LabelSet) -> Vec<Key> {
        let found = self
            .budgets
            .select(&meta.namespace, |budget| budget.selects(labels));
        let mut keys: Vec<Key> = found.iter().map(|budget| budget.key()).collect();
        keys.sort();
        keys
    }

    fn warn_of_several(&self, pod: &Pod, first: &Key) {
        let message = format!(
            "Pod {}/{} matches multiple PodDisruptionBudgets.  Chose {} arbitrarily.",
            go_quote(&pod.metadata.namespace),
            go_quote(&pod.metadata.name),
            go_quote(&first.name),
        );
        let reason = "MultiplePodDisruptionBudgets";
        self.recorder
            .event(&ObjectRef::of(pod), EventType::Warning, reason, message);
    }

    /// Another scale matters to budgets that count by it. Which owners a budget counts is known to its pods alone.
    fn on_owner<K: Resource>(
        &self,
        change: Change<'_, K>,
        replicas: fn(&K) -> Option<i32>,
        queue: &Queue,
    ) {
        if let Change::Updated { old, new } = change
            && replicas(old) == replicas(new)
            && old.meta().controller() == new.meta().controller()
        {
            return;
        }
        let namespace = &change.object().meta().namespace;
        // Where no pod was expected at the last count the first pod enqueues the budget.
        let counting = self.budgets.select(namespace, |budget| {
            let status = &budget.status;
            let has_none = status.expected_pods == 0 && status.is_counted();
            counts_by_scale(&budget.spec) && !has_none
        });
        counting
            .into_iter()
            .for_each(|budget| queue.add(budget.key()));
    }
}

/// Brings the status of budgets up to date.
pub struct Budgets {
    context: Context,
    budgets: Arc<Store<PodDisruptionBudget>>,
    pods: Arc<Store<Pod>>,
    owners: Owners,
    consistency: Consistency,
}

impl Reconcile for Budgets {
    async fn reconcile(&self, key: &Key, report: &Report<'_>) -> Result<Next, Error> {
        self.consistency.check(key)?;
        let Some(budget) = self.budgets.get(key) else {
            self.consistency.forget(key);
            return Ok(Next::AwaitChange);
        };
        let (pods, counted) = match self.pods_under(&budget) {
            Ok(pods) => {
                let counted = self.count(&budget, &pods).await;
                (pods, counted)
            }
            Err(failure) => (Vec::new(), Err(failure)),
        };
        // One reading of the clock for everything that is decided.
        let now = self.context.clock.now();
        let planned = counted.and_then(|expected| {
            plan(&budget, &pods, expected.as_ref(), now).map_err(CountError::Value)
        });
        match planned {
            Ok(plan) => self.apply(key, &budget, plan, now, report).await,
            Err(failure) => self.fail(key, &budget, failure, now, report).await,
        }
    }
}

/// How often a kind that nobody serves is asked for again: as often as upstream forgets what is served.
const UNSERVED_RETRY: Duration = Duration::from_secs(30);

impl Budgets {
    /// By name, so that what is said about them does not depend on chance.
    fn pods_under(&self, budget: &PodDisruptionBudget) -> Result<Vec<Arc<Pod>>, CountError> {
        let selector =
            api::selector::LabelSelector::compile_optional(budget.spec.selector.as_ref())
                .map_err(CountError::Selector)?;
        let namespace = &budget.metadata.namespace;
        let selects = |labels: &LabelSet| selector.matches(labels);
        let mut pods = self.pods.labelled(namespace, selects);
        pods.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
        Ok(pods)
    }

    /// What the owners are scaled to, where the budget asks for it.
    async fn count(
        &self,
        budget: &PodDisruptionBudget,
        pods: &[Arc<Pod>],
    ) -> Result<Option<Expected>, CountError> {
        match counts_by_scale(&budget.spec) {
            true => self.owners.expected(pods).await.map(Some),
            false => Ok(None),
        }
    }

    async fn apply(
        &self,
        key: &Key,
        budget: &PodDisruptionBudget,
        plan: Plan,
        now: MicroTime,
        report: &Report<'_>,
    ) -> Result<Next, Error> {
        report.decide(ObjectId::of(budget), plan.reasons.iter().map(Line::from));
        for reason in &plan.reasons {
            self.emit(budget, reason);
        }
        let written = self.put_if_changed(key, budget, &plan.status).await;
        if let Err(error) = written {
            // An answer that says no, and is none that another sync has brought about, is told in the condition.
            if error.status().is_some() && !error.is_conflict() && !error.is_not_found() {
                let status = plan_failure(budget, &error.to_string(), now);
                self.put_if_changed(key, budget, &status).await?;
            }
            return Err(error.into());
        }
        Ok(plan
            .recheck
            .map_or(Next::AwaitChange, |at| Next::After(at.since(now))))
    }

    async fn fail(
        &self,
        key: &Key,
        budget: &PodDisruptionBudget,
        failure: CountError,
        now: MicroTime,
        report: &Report<'_>,
    ) -> Result<Next, Error> {
        let reason = Reason::Failed {
            why: failure.to_string(),
            is_selector: matches!(failure, CountError::Selector(_)),
        };
        report.decide(ObjectId::of(budget), [Line::from(&reason)]);
        self.emit(budget, &reason);
        let status = plan_failure(budget, &failure.to_string(), now);
        self.put_if_changed(key, budget, &status).await?;
        match failure.retry() {
            Some(error) => Err(error),
            None if failure.is_unserved() => Ok(Next::After(UNSERVED_RETRY)),
            None => Ok(Next::AwaitChange),
        }
    }

    async fn put_if_changed(
        &self,
        key: &Key,
        budget: &PodDisruptionBudget,
        status: &PodDisruptionBudgetStatus,
    ) -> Result<(), client::Error> {
        if *status == budget.status {
            return Ok(());
        }
        let client = &self.context.client;
        let revision = put_status::<PodDisruptionBudget>(client, &budget.metadata, status).await?;
        self.consistency.note::<PodDisruptionBudget>(key, revision);
        Ok(())
    }

    fn emit(&self, budget: &PodDisruptionBudget, reason: &Reason) {
        let Some(Event {
            pod,
            event_type,
            reason,
            message,
        }) = reason.event(budget)
        else {
            return;
        };
        let object = pod.map_or_else(|| ObjectRef::of(budget), |pod| ObjectRef::of(&*pod));
        self.context
            .recorder
            .event(&object, event_type, reason, message);
    }
}
