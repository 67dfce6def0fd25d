//! How a simulated pod behaves: annotations on the pod, a stages file, and what the pod itself says.
//!
//! The defaults are a healthy cluster: pods start at once, become ready as their probes allow, Jobs' pods
//! finish after a second. Everything else is asked for, either by an annotation with the prefix
//! `steersman.dev/` or by a [`Stages`] file. `docs/behaviours.md` is the list.

mod command;
pub(crate) mod duration;
mod probe;

use std::time::Duration;

use api::Time;
use api::usage::{Curve, Declared};

use crate::pod::{Container, Pod, Probe, RestartPolicy};
use crate::stages::Stages;

pub use duration::parse_duration;
pub use probe::{Answer, ProbeKind, failure};

pub const PREFIX: &str = "steersman.dev/";

/// Set on a node: its kubelet says nothing and does nothing, as if the network were cut.
pub const NODE_SILENT: &str = "steersman.dev/silent";

/// Set on a node: the machine is gone, and so is the Node object.
pub const NODE_GONE: &str = "steersman.dev/gone";

/// Set on a pod: containers that run at this moment are killed. `now` becomes the time at which the kubelet
/// saw it.
pub const POD_CRASH_AT: &str = "steersman.dev/crash-at";

/// The value of [`POD_CRASH_AT`] that leaves the time to the kubelet.
pub(crate) const NOW: &str = "now";

/// How long containers of pods run that are meant to end, unless they say otherwise.
// Long enough to be seen by `kubectl get -w`, short enough to wait for.
const SHORT_RUN: Duration = Duration::from_secs(1);

/// Everything that can be asked of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    pub start_delay: Duration,
    pub ready_delay: Duration,
    pub stop_delay: Duration,
    pub never_ready: bool,
    /// Turns unready this long after it became ready.
    pub unready_after: Option<Duration>,
    /// Exits with an error after running this long, each time.
    pub crash_after: Option<Duration>,
    /// Containers that were started before this moment exit with an error.
    pub crash_at: Option<Time>,
    pub run_for: Option<RunFor>,
    pub exit_code: Option<i32>,
    /// Images cannot be pulled.
    pub image_pull_failure: bool,
    /// Only this container misbehaves; all if not given.
    pub container: Option<String>,
    /// The kubelet deletes the pod this long after it was scheduled, as an eviction would.
    pub delete_after: Option<Duration>,
    /// What stages say that it uses; what its annotations say is read by whoever serves metrics.
    pub usage: Vec<Declared>,
    /// How probes are answered, where it is not left to the probe itself.
    pub startup_probe: Option<Answer>,
    pub liveness_probe: Option<Answer>,
    pub readiness_probe: Option<Answer>,
    /// What containers print, and how long after their start, besides what their commands do.
    pub log: Vec<(Duration, String)>,
    /// Whom images run as, unless the pod says.
    pub image_user: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFor {
    Forever,
    Time(Duration),
}

/// How and when a run of a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub after: Duration,
    pub code: i32,
}

impl Behaviour {
    /// What is asked of this pod, and what was asked in words that make no sense. Annotations win over
    /// stages.
    pub fn of(pod: &Pod, stages: &Stages) -> (Behaviour, Vec<String>) {
        let mut behaviour = Behaviour::default();
        stages.apply(pod, &mut behaviour);
        let mut problems = Vec::new();
        for (key, value) in pod.metadata.annotations.iter() {
            let Some(name) = key.strip_prefix(PREFIX) else {
                continue;
            };
            if let Err(expected) = behaviour.set(name, value, pod) {
                problems.push(format!("annotation {key}: {value:?} is not {expected}"));
            }
        }
        (behaviour, problems)
    }

    /// Sets one annotation; says what it should have been when it is something else.
    fn set(&mut self, name: &str, value: &str, pod: &Pod) -> Result<(), &'static str> {
        const DURATION: &str = "a duration such as 5s or 1m30s";
        const TRUTH: &str = "true or false";
        const USE: &str = "an amount such as 250m or 64Mi, or a curve such as 0s=100m,5m=2";
        let duration = || parse_duration(value).ok_or(DURATION);
        let truth = || value.parse::<bool>().map_err(|_| TRUTH);
        let answer = || Answer::parse(value).ok_or(Answer::EXPECTED);
        match name {
            "start-delay" => self.start_delay = duration()?,
            "ready-delay" => self.ready_delay = duration()?,
            "stop-delay" => self.stop_delay = duration()?,
            "never-ready" => self.never_ready = truth()?,
            "unready-after" => self.unready_after = Some(duration()?),
            "crash-after" => self.crash_after = Some(duration()?),
            // The kubelet puts the time in its place before anything else.
            "crash-at" if value == NOW => {}
            "crash-at" => {
                let expected = "a time such as 2006-01-02T15:04:05Z, or now";
                let at = Time::parse(value).ok_or(expected)?;
                self.crash_at = Some(at);
            }
            "run-for" if value == "forever" => self.run_for = Some(RunFor::Forever),
            "run-for" => {
                let time = parse_duration(value).ok_or("a duration such as 5s, or forever")?;
                self.run_for = Some(RunFor::Time(time));
            }
            "exit-code" => {
                let code = value.parse().ok().filter(|code| (0..=255).contains(code));
                self.exit_code = Some(code.ok_or("a number from 0 to 255")?);
            }
            "exit-code-by-index" => {
                let expected = "a list such as 0=0,1=42 of indexes and exit codes";
                let codes = codes_by_index(value).ok_or(expected)?;
                let index = index_of(pod);
                let found = codes.iter().find(|(one, _)| Some(*one) == index);
                self.exit_code = found.map(|(_, code)| *code).or(self.exit_code);
            }
            "image-pull-failure" => self.image_pull_failure = truth()?,
            "container" => self.container = Some(value.to_owned()),
            "delete-after" => self.delete_after = Some(duration()?),
            "cpu-use" | "memory-use" => {
                Curve::parse(value).map_err(|_| USE)?;
            }
            "startup-probe" => self.startup_probe = Some(answer()?),
            "liveness-probe" => self.liveness_probe = Some(answer()?),
            "readiness-probe" => self.readiness_probe = Some(answer()?),
            "log" => self.log.push((Duration::ZERO, value.to_owned())),
            "image-user" => {
                let user = value.parse().ok().filter(|user| *user >= 0);
                self.image_user = Some(user.ok_or("a user id such as 1000")?);
            }
            // Others may annotate under our prefix too: the kubelet has no say in it.
            _ => {}
        }
        Ok(())
    }

    fn concerns(&self, container: &Container) -> bool {
        self.container
            .as_deref()
            .is_none_or(|name| container.name == *name)
    }

    pub fn fails_to_pull(&self, container: &Container) -> bool {
        (self.image_pull_failure && self.concerns(container))
            || container.image.ends_with(":missing")
    }

    /// How the container answers this probe.
    pub fn answer(&self, container: &Container, kind: ProbeKind, probe: &Probe) -> Answer {
        let asked = match kind {
            ProbeKind::Startup => self.startup_probe,
            ProbeKind::Liveness => self.liveness_probe,
            ProbeKind::Readiness if self.never_ready => Some(Answer::FAILS),
            ProbeKind::Readiness => self.readiness_probe,
        };
        asked
            .filter(|_| self.concerns(container))
            .unwrap_or_else(|| Answer::of_probe(probe))
    }

    /// What a container prints besides what its command does.
    pub fn log_of(&self, container: &str) -> Vec<(Duration, String)> {
        let concerns = self
            .container
            .as_deref()
            .is_none_or(|name| name == container);
        match concerns {
            true => self.log.clone(),
            false => Vec::new(),
        }
    }

    /// Does the image run as root, as far as anybody can tell without pulling it? The images of Docker's own library do. What
    /// others do is not known here: a manifest that says `runAsNonRoot` was tried with its image elsewhere, and is believed.
    pub fn runs_as_root(&self, container: &Container) -> bool {
        match self.image_user.filter(|_| self.concerns(container)) {
            Some(user) => user == 0,
            None => is_of_dockers_library(&container.image),
        }
    }

    /// When the present run of a main container or sidecar ends; never, for most.
    pub fn exit(
        &self,
        container: &Container,
        policy: RestartPolicy,
        started_at: Time,
    ) -> Option<Exit> {
        if self.concerns(container) {
            if let Some(at) = self.crash_at.filter(|at| started_at < *at) {
                return Some(Exit {
                    after: at.micro().since(started_at),
                    code: self.exit_code.filter(|code| *code != 0).unwrap_or(137),
                });
            }
            if let Some(after) = self.crash_after {
                return Some(Exit {
                    after,
                    code: self.exit_code.unwrap_or(1),
                });
            }
            match self.run_for {
                Some(RunFor::Forever) => return None,
                Some(RunFor::Time(after)) => {
                    return Some(Exit {
                        after,
                        code: self.exit_code.unwrap_or(0),
                    });
                }
                None => {}
            }
        }
        if container.is_sidecar {
            return None;
        }
        let asked = self.exit_code.filter(|_| self.concerns(container));
        match command::read(&container.command) {
            Some(RunFor::Forever) => None,
            Some(RunFor::Time(after)) => Some(Exit {
                after,
                code: asked.unwrap_or_else(|| command::exit_code(&container.command)),
            }),
            None if container.command.is_empty()
                && is_pause(&container.image)
                && asked.is_none() =>
            {
                None
            }
            None if policy != RestartPolicy::Always || asked.is_some() => Some(Exit {
                after: SHORT_RUN,
                code: asked.unwrap_or(0),
            }),
            None => None,
        }
    }

    /// How an init container ends. Init containers are there to end, so those that do not say how take no
    /// time at all.
    pub fn init_exit(&self, container: &Container, started_at: Time) -> Option<Exit> {
        let named = self.container.is_some() && self.concerns(container);
        if named {
            return self.exit(container, RestartPolicy::Never, started_at);
        }
        match command::read(&container.command) {
            Some(RunFor::Forever) => None,
            Some(RunFor::Time(after)) => Some(Exit {
                after,
                code: command::exit_code(&container.command),
            }),
            None => Some(Exit {
                after: Duration::ZERO,
                code: 0,
            }),
        }
    }
}

/// The image that keeps a pod together, and that many use where nothing is to be done: it waits for ever.
fn is_pause(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next() == Some("pause")
}

/// `nginx`, `library/nginx`, `docker.io/library/nginx:1`: an image that names no other owner.
fn is_of_dockers_library(image: &str) -> bool {
    let owned = image.strip_prefix("docker.io/").unwrap_or(image);
    !owned
        .strip_prefix("library/")
        .unwrap_or(owned)
        .contains('/')
}

fn codes_by_index(text: &str) -> Option<Vec<(u32, i32)>> {
    let pair = |pair: &str| {
        let (index, code) = pair.split_once('=')?;
        Some((index.trim().parse().ok()?, code.trim().parse().ok()?))
    };
    text.split(',').map(pair).collect()
}

/// The completion index of a Job's pod, or the ordinal of a StatefulSet's.
fn index_of(pod: &Pod) -> Option<u32> {
    let meta = &pod.metadata;
    let given = meta
        .annotation("batch.kubernetes.io/job-completion-index")
        .or_else(|| meta.labels.get("apps.kubernetes.io/pod-index"));
    match given {
        Some(index) => index.parse().ok(),
        None => meta.name.rsplit_once('-')?.1.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
