//! The end of a pod: asked for by a deletion, or because it is done.

use std::time::Duration;

use api::{Istr, MicroTime};

use super::Course;
use crate::pod::{ContainerState, ContainerStatus, Phase, Terminated};

/// UPSTREAM: what a process that had to be killed exits with (128 + SIGKILL).
pub(super) const KILLED: i32 = 137;

const DEADLINE_EXCEEDED: &str = "Pod was active on the node longer than the specified deadline";

impl Course<'_> {
    pub(super) fn terminate(&mut self) {
        let meta = &self.pod.metadata;
        if !meta.is_terminating() {
            return;
        }
        if self.pod.is_finished() {
            // With a grace period of 0 our own DELETE has been here: finalizers hold the rest. Without any, a
            // server that was restored has forgotten the last part of it.
            let is_held = !meta.finalizers.is_empty();
            self.outcome.delete = meta.deletion_grace_period_seconds != Some(0) || !is_held;
            return;
        }
        let (stops_at, exit_code) = self.stops_at();
        if self.facts.now < stops_at {
            if self.just_asked_to_stop() {
                self.tell_killing();
            }
            return self.wake_at(stops_at);
        }
        if self.is_running() && !self.waited_to_stop() {
            self.tell_killing();
        }
        if self.status.start_time.is_none() {
            self.admit();
        }
        self.stop_everything(exit_code);
        self.status.phase = match exit_code {
            0 => self.final_phase(),
            _ => Phase::Failed,
        };
        self.set_conditions(true);
        self.outcome.delete = true;
    }

    /// When the containers have stopped, and with which code: by themselves, or killed when their grace
    /// period is over.
    fn stops_at(&self) -> (MicroTime, i32) {
        let meta = &self.pod.metadata;
        let grace = Duration::from_secs(
            u64::try_from(meta.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0),
        );
        let deadline = meta.deleted_at.unwrap_or(self.now).micro();
        let asked_at = deadline.minus(grace);
        if !self.is_running() {
            return (asked_at, 0);
        }
        let wanted = self.facts.behaviour.stop_delay;
        match wanted > grace {
            true => (deadline, KILLED),
            false => (asked_at.plus(wanted), 0),
        }
    }

    fn is_running(&self) -> bool {
        let statuses = self
            .status
            .init_containers
            .iter()
            .chain(&self.status.containers);
        statuses
            .map(|status| &status.state)
            .any(|state| matches!(state, ContainerState::Running { .. }))
    }

    fn waited_to_stop(&self) -> bool {
        !self.facts.behaviour.stop_delay.is_zero()
    }

    /// Within a second of the request: later looks at the same pod must not tell it again.
    fn just_asked_to_stop(&self) -> bool {
        let meta = &self.pod.metadata;
        let grace = meta.deletion_grace_period_seconds.unwrap_or(0);
        let asked_at = meta
            .deleted_at
            .unwrap_or(self.now)
            .unix()
            .saturating_sub(grace);
        self.now.unix() - asked_at <= 1
    }

    fn tell_killing(&mut self) {
        let spec = &self.pod.spec;
        let init = spec
            .init_containers
            .iter()
            .map(|one| ("initContainers", one));
        let main = spec.containers.iter().map(|one| ("containers", one));
        let running: Vec<(&str, Istr)> = init
            .chain(main)
            .zip(
                self.status
                    .init_containers
                    .iter()
                    .chain(&self.status.containers),
            )
            .filter(|(_, status)| matches!(status.state, ContainerState::Running { .. }))
            .map(|((list, container), _)| (list, container.name.clone()))
            .collect();
        for (list, name) in running {
            let path = format!("spec.{list}{{{name}}}");
            self.tell(false, "Killing", format!("Stopping container {name}"), path);
        }
    }

    /// Every container that still runs ends now; those that wait never will run, and are said to be lost.
    pub(super) fn stop_everything(&mut self, exit_code: i32) {
        let now = self.now;
        let status = &mut self.status;
        let statuses = status
            .init_containers
            .iter_mut()
            .chain(&mut status.containers)
            .chain(&mut status.ephemeral_containers);
        for status in statuses {
            if let ContainerState::Running { started_at } = status.state {
                status.end(started_at, now, exit_code);
            }
            status.ready = false;
            status.started = false;
        }
        self.end_those_that_wait();
        let status = &mut self.status;
        let inits = self.pod.spec.init_containers.iter();
        for (container, status) in inits.zip(&mut status.init_containers) {
            let is_done =
                matches!(&status.state, ContainerState::Terminated(end) if end.exit_code == 0);
            status.ready = is_done && !container.is_sidecar;
        }
    }

    /// UPSTREAM: `TerminatePod`: a container that had its turn and whose end is not known counts as failed.
    fn end_those_that_wait(&mut self) {
        let is_deleted = self.pod.metadata.is_terminating();
        let mains = match self.has_initialized() {
            true => self.status.containers.len(),
            false => 0,
        };
        let has_begun = |status: &ContainerStatus| {
            !matches!(status.state, ContainerState::Waiting { .. }) || status.last.is_some()
        };
        let inits = &mut self.status.init_containers;
        // UPSTREAM: the first one always has its turn.
        let begun = inits.iter().rposition(has_begun).unwrap_or(0) + 1;
        let waiting = inits
            .iter_mut()
            .take(begun)
            .chain(&mut self.status.containers[..mains])
            .filter(|status| matches!(status.state, ContainerState::Waiting { .. }));
        for status in waiting {
            // A container that backs off will not run again: its last run is what there is to say of it.
            let last = status.last.as_ref().filter(|end| end.started_at.is_some());
            let end = last.filter(|_| is_deleted).cloned();
            status.state = ContainerState::Terminated(end.unwrap_or_else(lost));
        }
    }

    /// UPSTREAM: has a main container begun, or is the last init container done?
    fn has_initialized(&self) -> bool {
        let held = &self.pod.status;
        let mut main = held.containers.iter();
        let Some(last) = self.pod.spec.init_containers.last() else {
            return true;
        };
        if main
            .any(|one| one.last.is_some() || !matches!(one.state, ContainerState::Waiting { .. }))
        {
            return true;
        }
        held.init_containers
            .last()
            .is_some_and(|status| match &status.state {
                ContainerState::Running { .. } => last.is_sidecar && status.started,
                ContainerState::Terminated(end) => !last.is_sidecar && end.exit_code == 0,
                ContainerState::Waiting { .. } => false,
            })
    }

    /// A pod whose containers all ended well has succeeded, even if it was told to end.
    fn final_phase(&self) -> Phase {
        let well = |state: &ContainerState| matches!(state, ContainerState::Terminated(end) if end.exit_code == 0);
        match self
            .status
            .containers
            .iter()
            .all(|status| well(&status.state))
        {
            true => Phase::Succeeded,
            false => Phase::Failed,
        }
    }

    pub(super) fn fail_by_deadline(&mut self, _seconds: i64) {
        self.tell_killing();
        self.stop_everything(KILLED);
        self.status.phase = Phase::Failed;
        self.status.reason = Istr::from("DeadlineExceeded");
        self.status.message = Istr::from(DEADLINE_EXCEEDED);
        self.tell(
            false,
            "DeadlineExceeded",
            DEADLINE_EXCEEDED.to_owned(),
            String::new(),
        );
        self.set_conditions(true);
    }
}

/// The end of a container that nobody has seen.
fn lost() -> Terminated {
    Terminated {
        exit_code: KILLED,
        reason: Istr::from("ContainerStatusUnknown"),
        message: Istr::from("The container could not be located when the pod was terminated"),
        ..Terminated::default()
    }
}
