//! Carries a plan out. The only place with IO but for status and history; it decides nothing.

use api::{Key, Resource};
use runtime::Error;
use runtime::events::{EventType, ObjectRef};

use super::DaemonSets;
use super::plan::{Deletion, Plan};
use super::pods::PodMaker;
use super::reason::WhyDelete;
use super::snapshot::Snapshot;
use crate::workload::claim::aggregate;
use crate::workload::pods::Creations;

/// What applying a plan came to.
#[derive(Default)]
pub struct Outcome {
    /// What went wrong; all of it was reported as events.
    pub failure: Option<Error>,
    /// Pods were created or deleted: events about them are on their way.
    pub moved: bool,
}

impl crate::workload::Outcome for Outcome {
    fn into_failure(self) -> Option<Error> {
        self.failure
    }
}

impl DaemonSets {
    pub(super) async fn create_and_delete(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        plan: &Plan,
    ) -> Outcome {
        if plan.is_idle() {
            return Outcome::default();
        }
        let object = ObjectRef::of(&*snapshot.set);
        self.announce(&object, snapshot, plan);
        let deletions = plan.delete.iter().map(|deletion| deletion.pod.key());
        self.expectations.expect(key, plan.create.len(), deletions);
        let created = self.create(key, snapshot, plan, &object).await;
        let pods = plan.delete.iter().map(|deletion| &*deletion.pod);
        let deleted = self
            .control
            .delete_all(&object, key, &self.expectations, pods)
            .await;
        let failures = created.failures.into_iter().chain(deleted.failures);
        Outcome {
            failure: aggregate(failures.map(Error::from).collect()).err(),
            moved: created.created > 0 || deleted.deleted > 0,
        }
    }

    /// Finished pods are news, whatever comes of deleting them.
    fn announce(&self, object: &ObjectRef, snapshot: &Snapshot, plan: &Plan) {
        for Deletion { pod, node, why } in &plan.delete {
            let (level, reason, state, act) = match why {
                WhyDelete::Failed => {
                    let steady = self.steady.now();
                    self.failed_pods.replaced(&snapshot.set, node, steady);
                    (EventType::Warning, "FailedDaemonPod", "failed", "kill")
                }
                WhyDelete::Succeeded => (
                    EventType::Normal,
                    "SucceededDaemonPod",
                    "succeeded",
                    "delete",
                ),
                _ => continue,
            };
            let pod = pod.key();
            let message =
                format!("Found {state} daemon pod {pod} on node {node}, will try to {act} it");
            self.context.recorder.event(object, level, reason, message);
        }
    }

    async fn create(
        &self,
        key: &Key,
        snapshot: &Snapshot,
        plan: &Plan,
        object: &ObjectRef,
    ) -> Creations {
        if plan.create.is_empty() {
            return Creations::default();
        }
        let maker = PodMaker::new(&snapshot.set, &snapshot.hash);
        let expected = (&*self.expectations, &*self.consistency);
        let body = |at: usize| maker.on(&plan.create[at].node).to_string().into();
        self.control
            .create_all(object, key, expected, plan.create.len(), body)
            .await
    }
}
