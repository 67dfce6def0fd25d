//! What startup, liveness and readiness probes do to a container that runs.

use std::time::Duration;

use api::{MicroTime, Time};

use super::Course;
use super::containers::{Role, field_path};
use super::schedule::Schedule;
use super::termination::KILLED;
use crate::behaviour::{Answer, ProbeKind, failure};
use crate::pod::{Container, ContainerStatus, Probe, RestartPolicy};

/// What a process ends with that a signal ended (128 + SIGTERM).
pub(super) const TERMINATED: i32 = 143;

/// UPSTREAM: what the API server sets where nothing was said.
const DEFAULT_GRACE_SECONDS: i64 = 30;

impl Course<'_> {
    /// Asks what there is to ask. A container that fails too often is killed.
    pub(super) fn probe(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        role: Role,
        started_at: Time,
    ) {
        let mut begun = started_at.micro();
        if let Some(probe) = &container.startup {
            let schedule = self.schedule(container, ProbeKind::Startup, probe, started_at, begun);
            let succeeds_at = schedule.succeeds_at();
            let is_open = succeeds_at.is_none_or(|at| self.facts.now < at);
            if is_open {
                self.tell_failures(container, role, ProbeKind::Startup, probe, &schedule);
            }
            match succeeds_at {
                Some(at) if self.is_due(at) => begun = at,
                Some(_) => return,
                None => {
                    let kill = Kill::of(ProbeKind::Startup, probe, &schedule);
                    return self.kill_when_failed(container, status, role, started_at, kill);
                }
            }
        }
        status.started = true;
        if matches!(role, Role::Init | Role::Ephemeral) {
            return;
        }
        if let Some(probe) = &container.liveness {
            let schedule = self.schedule(container, ProbeKind::Liveness, probe, started_at, begun);
            self.tell_failures(container, role, ProbeKind::Liveness, probe, &schedule);
            let kill = Kill::of(ProbeKind::Liveness, probe, &schedule);
            self.kill_when_failed(container, status, role, started_at, kill);
            if !status.started {
                return;
            }
        }
        self.probe_readiness(container, status, role, started_at, begun);
    }

    fn schedule(
        &self,
        container: &Container,
        kind: ProbeKind,
        probe: &Probe,
        started_at: Time,
        earliest: MicroTime,
    ) -> Schedule {
        let answer = self.facts.behaviour.answer(container, kind, probe);
        Schedule::new(probe, answer, started_at, earliest)
    }

    fn probe_readiness(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        role: Role,
        started_at: Time,
        begun: MicroTime,
    ) {
        let behaviour = self.facts.behaviour;
        let asked = started_at.micro().plus(behaviour.ready_delay);
        let (is_well, changes_at, ready_due) = match &container.readiness {
            Some(probe) => {
                let kind = ProbeKind::Readiness;
                let schedule = self.schedule(container, kind, probe, started_at, begun);
                self.tell_failures(container, role, kind, probe, &schedule);
                let (is_well, changes_at) = schedule.is_ready(self.facts.now);
                let good = Schedule::new(probe, Answer::Succeeds, started_at, begun);
                let first = good.is_ready(started_at.micro()).1.unwrap_or(begun);
                (is_well, changes_at, first.max(asked))
            }
            None => (!behaviour.never_ready, None, begun.max(asked)),
        };
        if let Some(at) = changes_at {
            self.wake_at(at);
        }
        let was_ready = status.ready;
        let unready_due = behaviour.unready_after.map(|after| ready_due.plus(after));
        status.ready =
            is_well && self.is_due(ready_due) && unready_due.is_none_or(|due| !self.is_due(due));
        if was_ready
            && !status.ready
            && is_well
            && let Some(probe) = &container.readiness
        {
            self.tell_unhealthy(container, role, ProbeKind::Readiness, probe);
        }
    }

    /// Says of each probe that fails that it did.
    fn tell_failures(
        &mut self,
        container: &Container,
        role: Role,
        kind: ProbeKind,
        probe: &Probe,
        schedule: &Schedule,
    ) {
        let (last, next) = schedule.failures_around(self.facts.now);
        if last.is_some_and(|at| self.is_news(at)) {
            self.tell_unhealthy(container, role, kind, probe);
        }
        if let Some(at) = next {
            self.wake_at(at);
        }
    }

    fn tell_unhealthy(
        &mut self,
        container: &Container,
        role: Role,
        kind: ProbeKind,
        probe: &Probe,
    ) {
        let output = failure(container, probe, self.status.ips.iter().next());
        let message = format!("{kind:?} probe failed: {output}");
        self.tell(true, "Unhealthy", message, field_path(container, role));
    }

    fn kill_when_failed(
        &mut self,
        container: &Container,
        status: &mut ContainerStatus,
        role: Role,
        started_at: Time,
        kill: Option<Kill>,
    ) {
        let Some(kill) = kill.filter(|kill| self.is_due(kill.at)) else {
            return;
        };
        if self.is_news(kill.at) {
            let path = field_path(container, role);
            self.tell(
                false,
                "Killing",
                self.killing_message(container, role, kill.by),
                path,
            );
        }
        let grace = kill
            .grace_seconds
            .or(self.pod.spec.termination_grace_period_seconds);
        let grace = grace.unwrap_or(DEFAULT_GRACE_SECONDS);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let wanted = self.facts.behaviour.stop_delay;
        if self.is_due(kill.at.plus(wanted.min(grace))) {
            let code = if wanted > grace { KILLED } else { TERMINATED };
            self.exited(status, started_at, code);
        }
    }

    fn killing_message(&self, container: &Container, role: Role, by: ProbeKind) -> String {
        let name = &container.name;
        let probe = match by {
            ProbeKind::Startup => "startup",
            ProbeKind::Liveness => "liveness",
            ProbeKind::Readiness => "readiness",
        };
        // UPSTREAM: the words for sidecars do not say that they restart.
        // UPSTREAM: rules are not looked at, because there is no exit code yet.
        match (role, container.policy(self.pod.spec.restart_policy)) {
            (Role::Main, RestartPolicy::Never) => {
                format!("Container {name} failed {probe} probe")
            }
            (Role::Main, _) => format!("Container {name} failed {probe} probe, will be restarted"),
            _ => format!("Init container {name} failed {probe} probe"),
        }
    }
}

/// A container that failed a probe too often.
struct Kill {
    by: ProbeKind,
    at: MicroTime,
    grace_seconds: Option<i64>,
}

impl Kill {
    fn of(by: ProbeKind, probe: &Probe, schedule: &Schedule) -> Option<Kill> {
        Some(Kill {
            by,
            at: schedule.fails_at()?,
            grace_seconds: probe.termination_grace_period_seconds,
        })
    }
}
