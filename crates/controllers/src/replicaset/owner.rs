//! What the two kinds of replica owners have in common.

use api::kinds::{ReplicaSet, ReplicaSetStatus, ReplicationController};
use api::selector::SelectorError;
use api::{LabelSet, Resource, Selector, Template};

/// A kind that wants N pods of one template.
pub trait ReplicaOwner: Resource {
    /// The name of its controller.
    const CONTROLLER: &'static str;
    /// Upstream's name of its queue.
    const QUEUE: &'static str;
    /// ReplicationControllers never got the field `status.terminatingReplicas`.
    const COUNTS_TERMINATING: bool;

    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn selector(&self) -> Result<Selector, SelectorError>;
    fn template(&self) -> &Template;
    fn status(&self) -> &ReplicaSetStatus;

    /// Does it want an orphan with these labels? An empty selector matches nothing here.
    fn selects(&self, labels: &LabelSet) -> bool {
        self.selector()
            .is_ok_and(|selector| !selector.is_empty() && selector.matches(labels))
    }
}

impl ReplicaOwner for ReplicaSet {
    const CONTROLLER: &'static str = super::REPLICA_SET.name;
    const QUEUE: &'static str = "replicaset";
    const COUNTS_TERMINATING: bool = true;

    fn replicas(&self) -> i32 {
        ReplicaSet::replicas(self)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds
    }

    fn selector(&self) -> Result<Selector, SelectorError> {
        self.spec.selector.compile()
    }

    fn template(&self) -> &Template {
        &self.spec.template
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }
}

impl ReplicaOwner for ReplicationController {
    const CONTROLLER: &'static str = super::REPLICATION_CONTROLLER.name;
    const QUEUE: &'static str = "replicationmanager";
    const COUNTS_TERMINATING: bool = false;

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds
    }

    fn selector(&self) -> Result<Selector, SelectorError> {
        Ok(Selector::from_labels(&self.spec.selector))
    }

    fn template(&self) -> &Template {
        &self.spec.template
    }

    fn status(&self) -> &ReplicaSetStatus {
        &self.status
    }
}
