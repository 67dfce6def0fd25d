//! The conditions that a kubelet keeps, in upstream's words.

use api::conditions::{self, Condition, ConditionStatus};

use super::Course;
use crate::pod::{ContainerState, Phase};

impl Course<'_> {
    /// Sets all five conditions from the containers' states.
    pub(super) fn set_conditions(&mut self, has_sandbox: bool) {
        let ended = matches!(self.status.phase, Phase::Succeeded | Phase::Failed);
        self.set(
            "PodReadyToStartContainers",
            has_sandbox && !ended,
            "",
            String::new(),
        );
        self.set_initialized();
        let (ready, reason, message) = self.containers_ready();
        self.set("ContainersReady", ready, reason, message.clone());
        let (ready, reason, message) = match self.gates_not_ready() {
            Some(message) if ready => (false, "ReadinessGatesNotReady", message),
            _ => (ready, reason, message),
        };
        self.set("Ready", ready, reason, message);
        self.set("PodScheduled", true, "", String::new());
        self.set_restarting_all();
    }

    fn set_initialized(&mut self) {
        let pairs = self
            .pod
            .spec
            .init_containers
            .iter()
            .zip(&self.status.init_containers);
        let incomplete: Vec<&str> = pairs
            .filter(|(container, status)| match &status.state {
                ContainerState::Terminated(end) => !container.is_sidecar && end.exit_code != 0,
                ContainerState::Running { .. } => !(container.is_sidecar && status.started),
                ContainerState::Waiting { .. } => true,
            })
            .map(|(container, _)| container.name.as_str())
            .collect();
        let (done, reason, message) = match self.status.phase {
            Phase::Succeeded => (true, "PodCompleted", String::new()),
            _ if incomplete.is_empty() => (true, "", String::new()),
            _ => {
                let message = format!(
                    "containers with incomplete status: [{}]",
                    incomplete.join(" ")
                );
                (false, "ContainersNotInitialized", message)
            }
        };
        // UPSTREAM: once initialized, always so: a sidecar that restarts does not undo it.
        if done || !conditions::is_true(&self.status.conditions, "Initialized") {
            self.set("Initialized", done, reason, message);
        }
    }

    fn containers_ready(&self) -> (bool, &'static str, String) {
        match self.status.phase {
            Phase::Succeeded => return (false, "PodCompleted", String::new()),
            Phase::Failed => return (false, "PodFailed", String::new()),
            _ => {}
        }
        let init = self
            .pod
            .spec
            .init_containers
            .iter()
            .zip(&self.status.init_containers);
        let main = self.pod.spec.containers.iter().zip(&self.status.containers);
        let unready: Vec<&str> = init
            .filter(|(container, _)| container.is_sidecar)
            .chain(main)
            .filter(|(_, status)| !status.ready)
            .map(|(container, _)| container.name.as_str())
            .collect();
        if unready.is_empty() {
            return (true, "", String::new());
        }
        let message = format!("containers with unready status: [{}]", unready.join(" "));
        (false, "ContainersNotReady", message)
    }

    /// What the readiness gates that are not open say.
    fn gates_not_ready(&self) -> Option<String> {
        let closed =
            self.pod.spec.readiness_gates.iter().filter_map(|gate| {
                match conditions::find(&self.status.conditions, gate) {
                    None => Some(format!(
                        "corresponding condition of pod readiness gate \"{gate}\" does not exist."
                    )),
                    Some(held) if held.is_true() => None,
                    Some(held) => Some(format!(
                        "the status of pod readiness gate \"{gate}\" is not \"True\", but {}",
                        held.status
                    )),
                }
            });
        let messages: Vec<String> = closed.collect();
        (!messages.is_empty()).then(|| messages.join(", "))
    }

    fn set(&mut self, type_: &str, status: bool, reason: &str, message: String) {
        let status = match status {
            true => ConditionStatus::True,
            false => ConditionStatus::False,
        };
        let mut new = Condition::new(type_, status, reason, message, self.now);
        new.observed_generation = self.pod.metadata.generation;
        conditions::update_in_place(&mut self.status.conditions, new);
    }
}
