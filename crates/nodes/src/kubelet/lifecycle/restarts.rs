//! What a container's end means for it and for the others, and pods whose containers restart all at once.
//!
//! UPSTREAM: the gate `RestartAllContainersOnContainerExits`. The condition says that it has begun; then all containers are
//! removed, and start again from the first init container, without a back-off.

use std::time::Duration;

use api::conditions::{self, Condition, ConditionStatus};
use api::{Istr, MicroTime};

use super::containers::{Role, field_path};
use super::termination::KILLED;
use super::{CREATING, Course, INITIALIZING, Progress};
use crate::pod::{AfterExit, Container, ContainerState, ContainerStatus, Phase, Terminated};

pub(super) const CONDITION: &str = "AllContainersRestarting";

/// Why a container waits that was removed, and what its last run is said to have ended with.
const REMOVED: &str = "RestartingAllContainers";
const REMOVED_MESSAGE: &str = "The container is removed because RestartAllContainers in place";

/// What a container runtime needs, or else a container that ends at once would restart its pod for ever in no time.
pub(super) const TO_REMOVE_ALL: Duration = Duration::from_secs(1);

/// Was it removed to restart with the others? Its restart is counted already.
pub(super) fn was_removed(status: &ContainerStatus) -> bool {
    status
        .last
        .as_ref()
        .is_some_and(|end| end.reason == *REMOVED)
}

/// Is it to start when those before it have, whatever it did before?
pub(super) fn awaits_its_turn(status: &ContainerStatus) -> bool {
    match &status.state {
        ContainerState::Waiting { reason, .. } => {
            [CREATING, INITIALIZING, REMOVED].contains(&reason.as_str())
        }
        _ => false,
    }
}

impl Course<'_> {
    pub(super) fn after_exit(
        &self,
        container: &Container,
        role: Role,
        exit_code: i32,
    ) -> AfterExit {
        match container.after_exit(self.pod.spec.restart_policy, exit_code) {
            _ if role == Role::Ephemeral => AfterExit::StaysDown,
            // What an init container had to do is done.
            AfterExit::Restarts if role == Role::Init && exit_code == 0 => AfterExit::StaysDown,
            after => after,
        }
    }

    /// When the pod began to restart as a whole, if it has.
    pub(super) fn restarting_all_since(&self) -> Option<MicroTime> {
        let held = conditions::find(&self.status.conditions, CONDITION)?;
        let since = held.last_transition_time.unwrap_or(self.now);
        held.is_true().then(|| since.micro())
    }

    /// Ends what runs, and has everything that ran wait for its next run.
    pub(super) fn remove_all(&mut self) -> Progress {
        let (pod, waiting_reason) = (self.pod, self.waiting_reason());
        let main = pod.spec.containers.iter().zip(&mut self.status.containers);
        let main = main.map(|(one, status)| (one, Role::Main, waiting_reason, status));
        let init = pod.spec.init_containers.iter();
        let init = init.zip(&mut self.status.init_containers);
        let init = init.map(|(one, status)| (one, Role::Init, INITIALIZING, status));
        let mut killed = Vec::new();
        for (container, role, reason, status) in main.chain(init) {
            if let ContainerState::Running { .. } = status.state {
                killed.push(field_path(container, role));
            }
            remove(status, reason);
        }
        for path in killed {
            // UPSTREAM: in no more words.
            self.tell(false, "Killing", "killing".to_owned(), path);
        }
        Progress::Going
    }

    pub(super) fn set_restarting_all(&mut self) {
        if !self.pod.spec.could_restart_all() {
            return;
        }
        let (status, reason, message) = match self.status.phase {
            Phase::Succeeded => (ConditionStatus::False, "PodCompleted", ""),
            Phase::Failed => (ConditionStatus::False, "PodFailed", ""),
            _ if self.restarts_all() => (
                ConditionStatus::True,
                "RestartAllContainersStarted",
                "container exited with restart policy rule",
            ),
            _ => (ConditionStatus::False, "", ""),
        };
        let new = Condition::new(CONDITION, status, reason, message.to_owned(), self.now);
        conditions::update_in_place(&mut self.status.conditions, new);
    }

    /// Has a container ended after which all have to restart?
    fn restarts_all(&self) -> bool {
        let spec = &self.pod.spec;
        let init = spec.init_containers.iter();
        let init = init.zip(&self.status.init_containers);
        let main = spec.containers.iter().zip(&self.status.containers);
        init.chain(main)
            .any(|(container, status)| match &status.state {
                ContainerState::Terminated(end) => {
                    let after = container.after_exit(spec.restart_policy, end.exit_code);
                    after == AfterExit::RestartsAll
                }
                _ => false,
            })
    }
}

fn remove(status: &mut ContainerStatus, waiting_reason: &str) {
    let (reason, message) = match status.state {
        // It has not begun, or backs off: the next run comes in its turn.
        ContainerState::Waiting { .. } => (waiting_reason, ""),
        _ => {
            status.last = Some(Terminated {
                exit_code: KILLED,
                reason: Istr::from(REMOVED),
                message: Istr::from(REMOVED_MESSAGE),
                ..Terminated::default()
            });
            status.restart_count += 1;
            (REMOVED, REMOVED_MESSAGE)
        }
    };
    status.state = ContainerState::Waiting {
        reason: Istr::from(reason),
        message: Istr::from(message),
    };
    status.ready = false;
    status.started = false;
}
