//! One container: pulled, started, ready, ended, started again.

use std::time::Duration;

use api::{Istr, MicroTime, Time};

use super::attempts::{Attempts, BACKOFF_BASE_S, BACKOFF_MAX_S};
use super::restarts::{awaits_its_turn, was_removed};
use super::{Course, Progress};
use crate::behaviour::Exit;
use crate::pod::{
    AfterExit, Container, ContainerState, ContainerStatus, PullPolicy, RestartPolicy, Terminated,
};

/// UPSTREAM: a container that ran this long (twice the longest back-off) has its crashes forgotten.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// What a container says that waits for its next run.
const BACKING_OFF: &str = "CrashLoopBackOff";

/// How long a pull is reported as failed before it is reported as backed off.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(2);

/// What the simulated registry says every image weighs: honest about being invented, yet plausible.
const IMAGE_BYTES: u64 = 50_000_000;

/// Where in the spec a container is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Init,
    Sidecar,
    Main,
    Ephemeral,
}

impl Course<'_> {
    /// Runs init containers one after the other; sidecars stay while the next one runs.
    pub(super) fn run_init_containers(&mut self) -> Progress {
        let count = self.pod.spec.init_containers.len();
        self.status
            .init_containers
            .resize_with(count, ContainerStatus::default);
        self.status
            .containers
            .resize_with(self.pod.spec.containers.len(), ContainerStatus::default);
        let pod = self.pod;
        let is_initialized = self.is_initialized();
        let mut progress = Progress::Going;
        for (index, container) in pod.spec.init_containers.iter().enumerate() {
            if matches!(progress, Progress::Initializing) && !self.has_begun(index) {
                break;
            }
            let role = if container.is_sidecar {
                Role::Sidecar
            } else {
                Role::Init
            };
            let mut status = std::mem::take(&mut self.status.init_containers[index]);
            self.step(container, &mut status, role);
            let through = match role {
                Role::Sidecar => status.started || is_initialized,
                _ => matches!(&status.state, ContainerState::Terminated(end) if end.exit_code == 0),
            };
            self.status.init_containers[index] = status;
            if !through {
                progress = Progress::Initializing;
            }
        }
        progress
    }

    /// UPSTREAM: a sidecar that restarts does not hold back containers that have begun.
    fn is_initialized(&self) -> bool {
        let mut states = self.status.containers.iter().map(|status| &status.state);
        states.any(|state| !matches!(state, ContainerState::Waiting { .. }))
    }

    /// A sidecar that runs goes on even while one before it is restarting.
    fn has_begun(&self, index: usize) -> bool {
        let status = &self.status.init_containers[index];
        matches!(status.state, ContainerState::Running { .. })
            || status.last.is_some() && !awaits_its_turn(status)
    }

    pub(super) fn run_container(&mut self, index: usize) {
        let pod = self.pod;
        let mut status = std::mem::take(&mut self.status.containers[index]);
        self.step(&pod.spec.containers[index], &mut status, Role::Main);
        self.status.containers[index] = status;
    }

    /// Containers that were added to look at the others: they run once, and nothing depends on them.
    pub(super) fn run_ephemeral_containers(&mut self) {
        let pod = self.pod;
        let containers = &pod.spec.ephemeral_containers;
        let statuses = &mut self.status.ephemeral_containers;
        statuses.resize_with(containers.len(), ContainerStatus::default);
        for (index, container) in containers.iter().enumerate() {
            let mut status = std::mem::take(&mut self.status.ephemeral_containers[index]);
            self.step(container, &mut status, Role::Ephemeral);
            self.status.ephemeral_containers[index] = status;
        }
    }

    /// Takes one container as far as the time allows.
    fn step(&mut self, container: &Container, status: &mut ContainerStatus, role: Role) {
        status.name = container.name.clone();
        if let ContainerState::Waiting { .. } = &status.state {
            if !self.backoff_is_over(status) || !self.create(container, status, role) {
                return;
            }
            let restarting = status.last.is_some() && !was_removed(status);
            self.start(container, status, restarting, role);
        }
        if let ContainerState::Running { started_at } = status.state {
            self.watch_running(container, status, role, started_at);
        }
        if let ContainerState::Terminated(end) = &status.state
            && self.after_exit(container, role, end.exit_code) == AfterExit::Restarts
        {
            let end = end.clone();
            self.restart_later(container, status, role, end);
        }
        status.ready = match &status.state {
            ContainerState::Running { .. } => status.ready,
            // What an init container had to do is done.
            ContainerState::Terminated(end) => role == Role::Init && end.exit_code == 0,
            ContainerState::Waiting { .. } => false,
        };
    }

    fn start(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        again: bool,
        role: Role,
    ) {
        if again {
            status.restart_count += 1;
        }
        status.state = ContainerState::Running {
            started_at: self.now,
        };
        status.started = false;
        status.ready = false;
        let has =
            Some(&container.resources).filter(|has| !has.is_empty() && role != Role::Ephemeral);
        status.resources = has.cloned();
        status.allocated = has.map(|has| has.requests_alone());
        for (reason, message) in [
            ("Created", "Container created"),
            ("Started", "Container started"),
        ] {
            self.tell(
                false,
                reason,
                message.to_owned(),
                field_path(container, role),
            );
        }
    }

    /// Probes and the end of a run.
    fn watch_running(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        role: Role,
        started_at: Time,
    ) {
        let behaviour = self.facts.behaviour;
        let policy = container.policy(self.pod.spec.restart_policy);
        let exit = match role {
            Role::Init => behaviour.init_exit(container, started_at),
            Role::Ephemeral => behaviour.exit(container, RestartPolicy::Never, started_at),
            _ => behaviour.exit(container, policy, started_at),
        };
        if let Some(Exit { after, code }) = exit {
            let due = started_at.micro().plus(after);
            if self.facts.now >= due {
                return self.exited(status, started_at, code);
            }
            self.wake_at(due);
        }
        self.probe(container, status, role, started_at);
    }

    /// Has the moment come? If not, asks to be woken then.
    pub(super) fn is_due(&mut self, due: MicroTime) -> bool {
        let is_due = self.facts.now >= due;
        if !is_due {
            self.wake_at(due);
        }
        is_due
    }

    pub(super) fn exited(
        &mut self,
        status: &mut ContainerStatus,
        started_at: Time,
        exit_code: i32,
    ) {
        status.end(started_at, self.now, exit_code);
    }

    fn restart_later(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        role: Role,
        end: Terminated,
    ) {
        let delay = restart_delay(status.restart_count, &end);
        status.last = Some(end);
        status.state = ContainerState::Waiting {
            reason: Istr::from(BACKING_OFF),
            message: Istr::from(format!(
                "back-off {} restarting failed container={} pod={}",
                go_duration(delay),
                container.name,
                self.pod.formatted()
            )),
        };
        if self.backoff_is_over(status) {
            // UPSTREAM: the first restart comes at once.
            if self.create(container, status, role) {
                self.start(container, status, true, role);
            }
            // Probes and an exit that is due at once wait for the next look, so that a container which
            // dies at birth cannot keep us here.
            self.wake_at(self.facts.now.plus(Duration::from_secs(1)));
        } else {
            let message = format!(
                "Back-off restarting failed container {} in pod {}",
                container.name,
                self.pod.formatted()
            );
            self.tell(true, "BackOff", message, field_path(container, role));
        }
    }

    fn backoff_is_over(&mut self, status: &ContainerStatus) -> bool {
        let backs_off = matches!(&status.state, ContainerState::Waiting { reason, .. } if *reason == *BACKING_OFF);
        let Some(last) = status.last.as_ref().filter(|_| backs_off) else {
            return true;
        };
        let delay = restart_delay(status.restart_count, last);
        let ended_at = last.finished_at.unwrap_or(self.now);
        self.is_due(ended_at.micro().plus(delay))
    }

    /// Pulls the image and puts the container's configuration together; false where one of them fails.
    fn create(&mut self, container: &Container, status: &mut ContainerStatus, role: Role) -> bool {
        let error = match self.facts.behaviour.fails_to_pull(container) {
            true => None,
            false => self.config_error(container),
        };
        let Some(error) = error else {
            return self.pull(container, status, role);
        };
        let (attempt_at, next_at) = Attempts::TO_CONFIGURE.around(self.starts_at(), self.facts.now);
        if self.is_news(attempt_at) {
            self.pull(container, status, role);
            let path = field_path(container, role);
            self.tell(true, "Failed", format!("Error: {error}"), path);
        }
        status.state = ContainerState::Waiting {
            reason: Istr::from("CreateContainerConfigError"),
            message: Istr::from(error),
        };
        self.wake_at(next_at);
        false
    }

    fn config_error(&self, container: &Container) -> Option<String> {
        (self.facts.config_error)(container).or_else(|| self.root_error(container))
    }

    /// Why a container that must not run as root would.
    fn root_error(&self, container: &Container) -> Option<String> {
        let behaviour = self.facts.behaviour;
        let why = match container.run_as_user {
            _ if !container.run_as_non_root => return None,
            Some(0) => "container's runAsUser breaks non-root policy",
            None if behaviour.runs_as_root(container) => {
                "container has runAsNonRoot and image will run as root"
            }
            _ => return None,
        };
        let (pod, name) = (self.pod.formatted(), &container.name);
        Some(format!("{why} (pod: {pod:?}, container: {name})"))
    }

    /// Is the image there? If not, pulls it; says what it says when that fails.
    fn pull(&mut self, container: &Container, status: &mut ContainerStatus, role: Role) -> bool {
        let image = &container.image;
        let path = field_path(container, role);
        if !self.facts.behaviour.fails_to_pull(container) {
            if container.pull_policy != PullPolicy::Always && (self.facts.has_image)(image) {
                let message = format!(
                    "Container image \"{image}\" already present on machine and can be accessed by the pod"
                );
                self.tell(false, "Pulled", message, path);
            } else {
                let took = self.pull_time();
                self.tell(
                    false,
                    "Pulling",
                    format!("Pulling image \"{image}\""),
                    path.clone(),
                );
                let message = format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {IMAGE_BYTES} bytes."
                );
                self.tell(false, "Pulled", message, path);
            }
            return true;
        }
        self.fail_to_pull(image, status, path);
        false
    }

    /// How long the pull is said to have taken: the start delay, if one was asked for.
    fn pull_time(&self) -> String {
        let delay = self.facts.behaviour.start_delay;
        let shown = if delay.is_zero() {
            Duration::from_millis(100)
        } else {
            delay
        };
        go_duration(shown)
    }

    /// Attempts come 10, 20, 40... seconds after each other, counted from when the pod could start.
    fn fail_to_pull(&mut self, image: &str, status: &mut ContainerStatus, path: String) {
        let (attempt_at, next_at) = Attempts::TO_PULL.around(self.starts_at(), self.facts.now);
        let error = format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": not found"
        );
        let held = match &status.state {
            ContainerState::Waiting { reason, .. } => reason.clone(),
            _ => Istr::default(),
        };
        let backs_off_at = attempt_at.plus(PULL_ERROR_SHOWN);
        let shows_error = self.facts.now < backs_off_at;
        if shows_error && held != "ErrImagePull" {
            self.tell(
                false,
                "Pulling",
                format!("Pulling image \"{image}\""),
                path.clone(),
            );
            let message = format!("Failed to pull image \"{image}\": {error}");
            self.tell(true, "Failed", message, path.clone());
            self.tell(true, "Failed", "Error: ErrImagePull".to_owned(), path);
        } else if !shows_error && held != "ImagePullBackOff" {
            self.tell(
                false,
                "BackOff",
                format!("Back-off pulling image \"{image}\""),
                path.clone(),
            );
            self.tell(true, "Failed", "Error: ImagePullBackOff".to_owned(), path);
        }
        let (reason, message) = match shows_error {
            true => ("ErrImagePull", error),
            false => (
                "ImagePullBackOff",
                format!("Back-off pulling image \"{image}\": ErrImagePull: {error}"),
            ),
        };
        status.state = ContainerState::Waiting {
            reason: Istr::from(reason),
            message: Istr::from(message),
        };
        self.wake_at(if shows_error { backs_off_at } else { next_at });
    }
}

/// How long a container that ended waits for its next run.
pub(super) fn restart_delay(restart_count: i32, end: &Terminated) -> Duration {
    let ran = match (end.started_at, end.finished_at) {
        (Some(started_at), Some(finished_at)) => finished_at.micro().since(started_at),
        _ => Duration::ZERO,
    };
    if restart_count <= 0 || ran >= FORGIVEN_AFTER {
        return Duration::ZERO;
    }
    // 2^5 * 10 s is past the maximum already.
    let doubled = BACKOFF_BASE_S << (restart_count - 1).clamp(0, 5);
    Duration::from_secs(doubled.min(BACKOFF_MAX_S))
}

pub(super) fn field_path(container: &Container, role: Role) -> String {
    let list = match role {
        Role::Main => "containers",
        Role::Ephemeral => "ephemeralContainers",
        Role::Init | Role::Sidecar => "initContainers",
    };
    format!("spec.{list}{{{}}}", container.name)
}

/// `1m20s`, `100ms`: as Go prints durations of the sizes that occur here.
pub(super) fn go_duration(duration: Duration) -> String {
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    match (minutes, duration.subsec_millis()) {
        (0, millis) if seconds == 0 => format!("{millis}ms"),
        (0, 0) => format!("{seconds}s"),
        (0, millis) => format!("{}s", seconds as f64 + f64::from(millis) / 1000.0),
        (minutes, _) => format!("{minutes}m{seconds}s"),
    }
}
