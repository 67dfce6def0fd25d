//! The life of one pod on its node, as a pure state machine.
//!
//! [`advance`] looks at a pod, the time and what is asked of the pod, and says what its status is now, what
//! a kubelet would have told the world on the way there, and when to look again. It keeps nothing: whatever
//! has to be remembered is in the pod's status, so a process that starts anew goes on where the last one
//! ended.

mod attempts;
mod conditions;
mod containers;
mod patch;
mod probes;
mod resize;
mod restarts;
mod schedule;
mod termination;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use api::kinds::PodIps;
use api::{Istr, MicroTime, Time};

use crate::behaviour::Behaviour;
use crate::pod::{
    AfterExit, Container, ContainerState, ContainerStatus, Phase, Pod, PodStatus, Terminated,
};
use containers::Role;
use restarts::TO_REMOVE_ALL;

pub(crate) use patch::status_patch;

/// What the kubelet knows besides the pod itself.
pub(crate) struct Facts<'a> {
    pub(crate) now: MicroTime,
    pub(crate) behaviour: &'a Behaviour,
    /// The addresses that this pod has, or gets.
    pub(crate) pod_ips: &'a PodIps,
    /// Many pods wait for a look: what need not be seen on its own is written together.
    pub(crate) is_busy: bool,
    /// Are all its volumes attached, so that its containers may start?
    pub(crate) has_volumes: bool,
    /// Is the image on the node already?
    pub(crate) has_image: &'a dyn Fn(&str) -> bool,
    /// Why volumes cannot be mounted, a line for each.
    pub(crate) mount_errors: &'a [String],
    /// Why a container's environment cannot be made.
    pub(crate) config_error: &'a dyn Fn(&Container) -> Option<String>,
    /// Why the node does not take the pod.
    pub(crate) rejection: Option<Rejection>,
    /// Why the node has no room for what the pod asks for now.
    pub(crate) lacks_room: &'a dyn Fn() -> Option<String>,
    /// When the pod was looked at before, where that was asked to be remembered.
    pub(crate) last_look: Option<MicroTime>,
}

/// Why a kubelet refuses a pod that was bound to its node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rejection {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// What comes of a look at a pod.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Advance {
    /// The new status, if it differs.
    pub(crate) status: Option<PodStatus>,
    /// The pod is done terminating: delete it for good.
    pub(crate) delete: bool,
    /// The kubelet itself ends the pod: delete it with its grace period.
    pub(crate) evict: bool,
    pub(crate) events: Vec<PodEvent>,
    /// When time alone will change something.
    pub(crate) wake_at: Option<MicroTime>,
    /// Something is told each time that it happens: the next look must know of this one.
    pub(crate) is_remembered: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodEvent {
    pub(crate) warning: bool,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    /// `spec.containers{web}`, or empty for the pod as a whole.
    pub(crate) field_path: String,
}

pub(crate) fn advance(pod: &Pod, facts: &Facts<'_>) -> Advance {
    let mut course = Course::new(pod, facts);
    if pod.is_finished() || pod.metadata.is_terminating() {
        course.terminate();
    } else if pod.status.start_time.is_none() {
        if let Some(rejection) = &facts.rejection {
            course.reject(rejection);
        } else {
            course.admit();
            if facts.is_busy && facts.has_volumes && course.mounts() {
                course.run();
            }
        }
    } else if let Some(deadline) = course.deadline_passed() {
        course.fail_by_deadline(deadline);
    } else {
        course.evict_when_asked();
        // What runs goes on: a volume that is mounted stays so, whatever lists say.
        if course.is_under_way() || facts.has_volumes && course.mounts() {
            course.run();
        }
    }
    course.end()
}

const CREATING: &str = "ContainerCreating";
const INITIALIZING: &str = "PodInitializing";

/// One look in progress.
struct Course<'a> {
    pod: &'a Pod,
    facts: &'a Facts<'a>,
    now: Time,
    status: PodStatus,
    outcome: Advance,
}

/// What the pod's containers amount to after a pass over them.
enum Progress {
    /// Something has not begun yet: the rest has to wait.
    Initializing,
    Going,
}

impl<'a> Course<'a> {
    fn new(pod: &'a Pod, facts: &'a Facts<'a>) -> Course<'a> {
        Course {
            pod,
            facts,
            now: facts.now.time(),
            status: pod.status.clone(),
            outcome: Advance::default(),
        }
    }

    fn end(mut self) -> Advance {
        if self.status != self.pod.status {
            self.outcome.status = Some(self.status);
        }
        self.outcome
    }

    /// The kubelet has seen the pod: it is here, and nothing of it runs yet.
    fn admit(&mut self) {
        let spec = &self.pod.spec;
        let waiting = |container: &Container, reason: &str| ContainerStatus {
            name: container.name.clone(),
            state: ContainerState::Waiting {
                reason: Istr::from(reason),
                message: Istr::default(),
            },
            ..ContainerStatus::default()
        };
        let reason = self.waiting_reason();
        self.status.start_time = Some(self.now);
        self.status.phase = Phase::Pending;
        let init = spec.init_containers.iter();
        self.status.init_containers = init.map(|one| waiting(one, INITIALIZING)).collect();
        self.status.containers = spec
            .containers
            .iter()
            .map(|one| waiting(one, reason))
            .collect();
        self.set_conditions(false);
    }

    /// What a main container says that has not begun.
    fn waiting_reason(&self) -> &'static str {
        match self.pod.spec.init_containers.is_empty() {
            true => CREATING,
            false => INITIALIZING,
        }
    }

    /// UPSTREAM: nothing of a pod that is refused is known but why.
    fn reject(&mut self, rejection: &Rejection) {
        let Rejection { reason, message } = rejection;
        self.status.phase = Phase::Failed;
        self.status.reason = Istr::from(reason.as_str());
        self.status.message = Istr::from(format!("Pod was rejected: {message}"));
        self.status.start_time = Some(self.now);
        self.tell(true, reason.clone(), message.clone(), String::new());
        self.set_conditions(false);
    }

    /// Brings everything up to date with the time.
    fn run(&mut self) {
        let starts_at = self.starts_at();
        if self.facts.now < starts_at {
            return self.wake_at(starts_at);
        }
        self.status.ips = self.facts.pod_ips.clone();
        self.resize();
        let progress = match self.restarting_all_since() {
            Some(since) if !self.is_due(since.plus(TO_REMOVE_ALL)) => return,
            Some(_) => self.remove_all(),
            None => self.run_containers(),
        };
        self.status.phase = self.phase(&progress);
        if matches!(self.status.phase, Phase::Succeeded | Phase::Failed) {
            self.stop_everything(0);
        }
        self.set_conditions(true);
    }

    fn run_containers(&mut self) -> Progress {
        let progress = self.run_init_containers();
        if let Progress::Going = progress {
            for index in 0..self.pod.spec.containers.len() {
                self.run_container(index);
            }
            self.run_ephemeral_containers();
        }
        progress
    }

    /// Has any container run, or is it running?
    fn is_under_way(&self) -> bool {
        let status = &self.pod.status;
        let mut all = status.init_containers.iter().chain(&status.containers);
        all.any(|held| !matches!(held.state, ContainerState::Waiting { .. }) || held.last.is_some())
    }

    fn starts_at(&self) -> MicroTime {
        let seen_at = self.status.start_time.unwrap_or(self.now).micro();
        seen_at.plus(self.facts.behaviour.start_delay)
    }

    fn phase(&self, progress: &Progress) -> Phase {
        let spec = &self.pod.spec;
        let init = spec
            .init_containers
            .iter()
            .zip(&self.status.init_containers);
        let mut regular = init.filter(|(container, _)| !container.is_sidecar);
        if regular.any(|(one, status)| self.end_of(one, Role::Init, status).is_some_and(failed)) {
            return Phase::Failed;
        }
        if let Progress::Initializing = progress {
            return Phase::Pending;
        }
        let main = spec.containers.iter().zip(&self.status.containers);
        let ends = main.map(|(one, status)| self.end_of(one, Role::Main, status));
        let ends: Option<Vec<&Terminated>> = ends.collect();
        if let Some(ends) = ends.filter(|ends| !ends.is_empty()) {
            return match ends.into_iter().any(failed) {
                true => Phase::Failed,
                false => Phase::Succeeded,
            };
        }
        let has_begun = |status: &ContainerStatus| {
            !matches!(status.state, ContainerState::Waiting { .. }) || status.last.is_some()
        };
        match self.status.containers.iter().all(has_begun) {
            true => Phase::Running,
            false => Phase::Pending,
        }
    }

    /// How a container ended that will not run again.
    fn end_of<'s>(
        &self,
        container: &Container,
        role: Role,
        status: &'s ContainerStatus,
    ) -> Option<&'s Terminated> {
        match &status.state {
            ContainerState::Terminated(end) => {
                let after = self.after_exit(container, role, end.exit_code);
                (after == AfterExit::StaysDown).then_some(end)
            }
            _ => None,
        }
    }

    fn deadline_passed(&mut self) -> Option<i64> {
        let seconds = self.pod.spec.active_deadline_seconds?;
        let started_at = self.pod.status.start_time?;
        let deadline = started_at
            .micro()
            .plus(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        if self.facts.now >= deadline {
            return Some(seconds);
        }
        self.wake_at(deadline);
        None
    }

    fn evict_when_asked(&mut self) {
        let Some(after) = self.facts.behaviour.delete_after else {
            return;
        };
        let due = self
            .pod
            .status
            .start_time
            .unwrap_or(self.now)
            .micro()
            .plus(after);
        if self.facts.now >= due {
            self.outcome.evict = true;
        } else {
            self.wake_at(due);
        }
    }

    /// Asks to be called again at `at`, if nothing else comes first.
    fn wake_at(&mut self, at: MicroTime) {
        let soonest = self.outcome.wake_at.map_or(at, |held| held.min(at));
        self.outcome.wake_at = Some(soonest);
    }

    fn tell(
        &mut self,
        warning: bool,
        reason: impl Into<Cow<'static, str>>,
        message: String,
        field_path: String,
    ) {
        self.outcome.events.push(PodEvent {
            warning,
            reason: reason.into(),
            message,
            field_path,
        });
    }
}

fn failed(end: &Terminated) -> bool {
    end.exit_code != 0
}
