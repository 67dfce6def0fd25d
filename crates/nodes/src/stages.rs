//! Stages: behaviours for many pods at once, from a file.
//!
//! The model is KWOK's `Stage`: a selector, a delay with jitter, and what comes next. A stage is not a step
//! that is taken by itself here; it sets one part of the [`Behaviour`] of the pods that it selects, and the
//! kubelet's own state machine does the rest. Chance is drawn from the pod's uid, so that a restart, or
//! another run of a simulation with the same seed, decides the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::usage::{Curve, External};
use api::{Istr, Rng, Time};
use serde::Deserialize;

use crate::behaviour::{Answer, Behaviour, RunFor, duration};
use crate::error::{Error, parse_yaml, senseless};
use crate::pod::Pod;
use crate::pod_selector::{PodSelector, WireSelector};
use crate::usage::{Declaration, ExternalMetric, Usage};

/// All stages of a file, in its order; where two set the same part, the later one wins.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    stages: Vec<Stage>,
    external: Vec<ExternalMetric>,
}

#[derive(Clone, Debug)]
struct Stage {
    name: String,
    selector: PodSelector,
    percent: u8,
    delay: Delay,
    next: Outcome,
    exit_code: Option<i32>,
    container: Option<String>,
    lasts: Option<Duration>,
    text: String,
    image_user: Option<i64>,
    usage: Usage,
}

impl Stages {
    /// Reads a stages file; `name` is how messages call it.
    pub fn parse(text: &str, name: &str) -> Result<Stages, Error> {
        let file: File = parse_yaml(text, name)?;
        let stages = file.stages.into_iter().enumerate().map(|(index, stage)| {
            stage.compile().map_err(|(field, problem)| {
                senseless(text, name, format!("stages[{index}].{field}"), problem)
            })
        });
        Ok(Stages {
            stages: stages.collect::<Result<Vec<Stage>, Error>>()?,
            external: file.external_metrics,
        })
    }

    pub fn load(path: &Path) -> Result<Stages, Error> {
        let name = path.display().to_string();
        let text = crate::error::read_text(path, &name)?;
        Stages::parse(&text, &name)
    }

    /// The stages of both: where they say of the same what it is, the later ones do.
    #[must_use]
    pub fn followed_by(mut self, later: Stages) -> Stages {
        self.stages.extend(later.stages);
        self.external.extend(later.external);
        self
    }

    /// Sets what the stages that select this pod say.
    pub fn apply(&self, pod: &Pod, behaviour: &mut Behaviour) {
        for stage in &self.stages {
            if stage.selects(pod) {
                stage.apply(pod, behaviour);
            }
        }
    }

    /// Whether any of them says what pods use, or what autoscalers read from outside.
    pub fn declare_usage(&self) -> bool {
        let mut stages = self.stages.iter();
        !self.external.is_empty()
            || stages.any(|stage| matches!(stage.next, Outcome::Use | Outcome::Load))
    }

    /// Metrics from outside; those that do not say when they begin do so then.
    pub(crate) fn external_metrics(&self, started_at: Time) -> Vec<External> {
        let external = self.external.iter();
        external.map(|metric| metric.begun(started_at)).collect()
    }
}

impl Stage {
    fn selects(&self, pod: &Pod) -> bool {
        self.selector.selects(pod) && self.chance(pod, "select") * 100.0 < f64::from(self.percent)
    }

    fn apply(&self, pod: &Pod, behaviour: &mut Behaviour) {
        let after = self.delay.duration + self.delay.jitter.mul_f64(self.chance(pod, "delay"));
        let fails = Some(Answer::Fails {
            after,
            lasts: self.lasts,
        });
        match self.next {
            Outcome::Start => behaviour.start_delay = after,
            Outcome::Ready => behaviour.ready_delay = after,
            Outcome::NeverReady => behaviour.never_ready = true,
            Outcome::Unready => behaviour.unready_after = Some(after),
            Outcome::Crash => behaviour.crash_after = Some(after),
            Outcome::Exit => behaviour.run_for = Some(RunFor::Time(after)),
            Outcome::RunForever => behaviour.run_for = Some(RunFor::Forever),
            Outcome::Stop => behaviour.stop_delay = after,
            Outcome::ImagePullFailure => behaviour.image_pull_failure = true,
            Outcome::Delete => behaviour.delete_after = Some(after),
            Outcome::StartupProbeFails => behaviour.startup_probe = fails,
            Outcome::LivenessProbeFails => behaviour.liveness_probe = fails,
            Outcome::ReadinessProbeFails => behaviour.readiness_probe = fails,
            Outcome::Log => behaviour.log.push((after, self.text.clone())),
            Outcome::RunAs => behaviour.image_user = self.image_user,
            Outcome::Use | Outcome::Load => {
                let declared = Declaration {
                    by: &self.name,
                    container: self.container.as_deref(),
                    after,
                    is_shared: self.next == Outcome::Load,
                };
                self.usage.declare(&declared, &mut behaviour.usage);
                // Only what is used is of that container, not what the pod does besides.
                return;
            }
        }
        if self.exit_code.is_some() {
            behaviour.exit_code = self.exit_code;
        }
        if self.container.is_some() {
            behaviour.container.clone_from(&self.container);
        }
    }

    /// A number in [0, 1) that depends on the pod, the stage and the question alone.
    fn chance(&self, pod: &Pod, question: &str) -> f64 {
        let mut hash = api::hash::Fnv32a::new();
        hash.write(pod.metadata.uid.to_string().as_bytes());
        hash.write(self.name.as_bytes());
        hash.write(question.as_bytes());
        Rng::from_seed(u64::from(hash.finish())).unit()
    }
}

/// The file, as people write it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct File {
    stages: Vec<WireStage>,
    external_metrics: Vec<ExternalMetric>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireStage {
    name: String,
    #[serde(default)]
    selector: WireSelector,
    #[serde(default = "all")]
    percent: u8,
    #[serde(default)]
    delay: Delay,
    next: Outcome,
    #[serde(default)]
    exit_code: Option<i32>,
    #[serde(default)]
    container: Option<String>,
    /// How long a probe fails; for good if not given.
    #[serde(
        default,
        rename = "for",
        deserialize_with = "duration::deserialize_some"
    )]
    lasts: Option<Duration>,
    /// What a container prints.
    #[serde(default)]
    text: Option<String>,
    /// Whom the image runs as.
    #[serde(default)]
    user: Option<i64>,
    #[serde(default)]
    cpu: Option<Curve>,
    #[serde(default)]
    memory: Option<Curve>,
    #[serde(default)]
    metrics: BTreeMap<Istr, Curve>,
}

fn all() -> u8 {
    100
}

#[derive(Clone, Copy, Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Delay {
    #[serde(deserialize_with = "duration::deserialize")]
    duration: Duration,
    /// Up to this much more, by chance.
    #[serde(deserialize_with = "duration::deserialize")]
    jitter: Duration,
}

/// What happens after the delay.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
enum Outcome {
    Start,
    Ready,
    NeverReady,
    Unready,
    Crash,
    Exit,
    RunForever,
    Stop,
    ImagePullFailure,
    Delete,
    StartupProbeFails,
    LivenessProbeFails,
    ReadinessProbeFails,
    Log,
    RunAs,
    /// What each container is said to use.
    Use,
    /// What all pods of one owner are said to use together.
    Load,
}

impl Outcome {
    fn is_probe(self) -> bool {
        matches!(
            self,
            Outcome::StartupProbeFails | Outcome::LivenessProbeFails | Outcome::ReadinessProbeFails
        )
    }
}

impl WireStage {
    fn compile(self) -> Result<Stage, (&'static str, String)> {
        if self.percent > 100 {
            return Err(("percent", format!("{} is more than 100", self.percent)));
        }
        let exits = matches!(self.next, Outcome::Crash | Outcome::Exit);
        if self.exit_code.is_some() && !exits {
            return Err((
                "exitCode",
                format!("goes with Crash and Exit, not with {:?}", self.next),
            ));
        }
        if self
            .exit_code
            .is_some_and(|code| !(0..=255).contains(&code))
        {
            return Err(("exitCode", "must be a number from 0 to 255".to_owned()));
        }
        self.check_extras()?;
        let usage = Usage::new(self.cpu, self.memory, self.metrics);
        Ok(Stage {
            selector: self
                .selector
                .compile()
                .map_err(|problem| ("selector", problem))?,
            name: self.name,
            percent: self.percent,
            delay: self.delay,
            next: self.next,
            exit_code: self.exit_code,
            container: self.container,
            lasts: self.lasts,
            text: self.text.unwrap_or_default(),
            image_user: self.user,
            usage,
        })
    }

    /// Fields that go with one outcome each.
    fn check_extras(&self) -> Result<(), (&'static str, String)> {
        let next = self.next;
        if self.lasts.is_some() && !next.is_probe() {
            return Err((
                "for",
                format!("goes with probes that fail, not with {next:?}"),
            ));
        }
        if self.text.is_some() != (next == Outcome::Log) {
            return Err(("text", "goes with Log, and Log with it".to_owned()));
        }
        if self
            .text
            .as_ref()
            .is_some_and(|text| text.len() > MOST_TEXT)
        {
            return Err(("text", format!("is longer than {MOST_TEXT} bytes")));
        }
        if self.user.is_some() != (next == Outcome::RunAs) {
            return Err(("user", "goes with RunAs, and RunAs with it".to_owned()));
        }
        let declares = self.cpu.is_some() || self.memory.is_some() || !self.metrics.is_empty();
        let is_usage = matches!(next, Outcome::Use | Outcome::Load);
        match (declares, is_usage) {
            (true, false) => Err((
                self.first_of_usage(),
                format!("goes with Use and Load, not with {next:?}"),
            )),
            (false, true) => Err((
                "next",
                format!("{next:?} declares nothing without cpu, memory or metrics"),
            )),
            _ if self.container.is_some() && !self.metrics.is_empty() => Err((
                "metrics",
                "are of the pod, so container does not go with them".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn first_of_usage(&self) -> &'static str {
        match (&self.cpu, &self.memory) {
            (Some(_), _) => "cpu",
            (None, Some(_)) => "memory",
            (None, None) => "metrics",
        }
    }
}

/// What one stage may print: enough for a banner or a stack trace.
const MOST_TEXT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use api::Resource;
    use serde_json::json;

    fn pod(uid: &str, app: &str) -> Pod {
        let json = json!({
            "metadata": {
                "name": "p", "namespace": "shop", "uid": uid, "labels": {"app": app},
                "annotations": {"steersman.dev/ready-delay": "1s"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}],
            },
            "spec": {"containers": [{"name": "main", "image": "postgres:16"}]},
        });
        Pod::decode(json.to_string().as_bytes()).unwrap()
    }

    fn behaviour(stages: &str, pod: &Pod) -> Behaviour {
        let stages = Stages::parse(stages, "stages.yaml").unwrap();
        Behaviour::of(pod, &stages).0
    }

    #[test]
    fn a_stage_sets_the_behaviour_of_the_pods_it_selects() {
        let stages = "
stages:
- name: slow-databases
  selector: {matchLabels: {app: db}, images: ['postgres:*'], owners: [ReplicaSet], namespaces: [shop]}
  delay: {duration: 10s}
  next: Start
- name: crashing
  selector: {matchExpressions: [{key: app, operator: In, values: [db]}]}
  delay: {duration: 3}
  next: Crash
  exitCode: 42
";
        let db = behaviour(stages, &pod("u1", "db"));
        assert_eq!(db.start_delay, Duration::from_secs(10));
        assert_eq!(
            (db.crash_after, db.exit_code),
            (Some(Duration::from_secs(3)), Some(42))
        );
        let web = behaviour(stages, &pod("u1", "web"));
        assert_eq!((web.start_delay, web.crash_after), (Duration::ZERO, None));
    }

    #[test]
    fn annotations_win_over_stages() {
        let stages = "stages: [{name: late, delay: {duration: 1h}, next: Ready}]";
        assert_eq!(
            behaviour(stages, &pod("u1", "db")).ready_delay,
            Duration::from_secs(1)
        );
    }

    #[test]
    fn chance_follows_the_pod_and_the_percentage() {
        let stages = "stages: [{name: some, percent: 30, delay: {duration: 1s, jitter: 10s}, next: Unready}]";
        let drawn =
            |number: usize| behaviour(stages, &pod(&format!("uid-{number}"), "db")).unready_after;
        let hit: Vec<Duration> = (0..1000).filter_map(drawn).collect();
        assert!((200..400).contains(&hit.len()), "{}", hit.len());
        assert!(hit.iter().all(|time| (1..11).contains(&time.as_secs())));
        assert!(
            hit.iter().any(|time| time.as_secs() > 8) && hit.iter().any(|time| time.as_secs() < 3)
        );
        assert_eq!(drawn(7), drawn(7));
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let check = |text: &str| Stages::parse(text, "stages.yaml").unwrap_err().to_string();
        assert_eq!(
            check("stages:\n- name: a\n  next: Explode\n"),
            "stages.yaml: line 3: stages[0].next: unknown variant `Explode`, expected one of `Start`, `Ready`, `NeverReady`, `Unready`, `Crash`, `Exit`, `RunForever`, `Stop`, `ImagePullFailure`, `Delete`, `StartupProbeFails`, `LivenessProbeFails`, `ReadinessProbeFails`, `Log`, `RunAs`, `Use`, `Load`"
        );
        assert_eq!(
            check("stages:\n- name: a\n  next: Ready\n  delay:\n    duration: soon\n"),
            "stages.yaml: line 5: stages[0].delay.duration: \"soon\" is not a duration such as 5s or 1m30s"
        );
        assert_eq!(
            check("stages:\n- name: a\n  next: Ready\n  exitCode: 3\n"),
            "stages.yaml: line 4: stages[0].exitCode: goes with Crash and Exit, not with Ready"
        );
        assert!(check("stages: [{next: Ready}]").contains("missing field `name`"));
        assert!(check("stages: [{name: a, next: Ready, percent: 101}]").contains("more than 100"));
    }

    #[test]
    fn a_stage_says_what_pods_use() {
        let stages = "
stages:
- {name: all, next: Use, cpu: 0.5, memory: 64Mi}
- {name: databases, selector: {images: ['postgres:*']}, next: Use, delay: {duration: 1m}, container: main, cpu: '0s=1,10m=4'}
- {name: front, selector: {matchLabels: {app: web}}, next: Load, metrics: {qps: 300}}
";
        let said = |app: &str| {
            let declared = behaviour(stages, &pod("u", app)).usage;
            let words = declared.iter().map(|one| {
                let container = one.container.as_deref().unwrap_or("each");
                let (by, after, shared) = (&one.by, one.after.as_secs(), one.is_shared);
                let late = one.curve.at(Duration::from_secs(300));
                format!(
                    "{by} {:?} {container} +{after} shared={shared} {late}",
                    one.metric
                )
            });
            words.collect::<Vec<_>>()
        };
        let everywhere = [
            "all Resource(\"cpu\") each +0 shared=false 500m",
            "all Resource(\"memory\") each +0 shared=false 64Mi",
            "databases Resource(\"cpu\") main +60 shared=false 2500m",
        ];
        assert_eq!(said("db"), everywhere);
        let shared = "front Custom(\"qps\") each +0 shared=true 300";
        assert_eq!(said("web"), [&everywhere[..], &[shared]].concat());
        // It is the usage that is of that container: whatever else the pod does it does as before.
        assert_eq!(behaviour(stages, &pod("u", "db")).container, None);
    }

    #[test]
    fn usage_that_makes_no_sense_is_named() {
        for (stage, expected) in [
            (
                "next: Use",
                "stages[0].next: Use declares nothing without cpu, memory or metrics",
            ),
            (
                "next: Ready, memory: 1Gi",
                "stages[0].memory: goes with Use and Load, not with Ready",
            ),
            (
                "next: Use, cpu: lots",
                "stages[0].cpu: \"lots\" is not an amount",
            ),
            ("next: Use, cpu: -1", "stages[0].cpu: -1 is negative"),
            (
                "next: Use, cpu: [1]",
                "stages[0].cpu: expected an amount such as 250m, or a curve such as \"0s=100m,5m=2\", not a list",
            ),
            (
                "next: Use, cpu: '5m=1,1m=2'",
                "stages[0].cpu: its points are not in the order of time",
            ),
            (
                "next: Use, container: web, metrics: {qps: 1}",
                "stages[0].metrics: are of the pod, so container does not go with them",
            ),
        ] {
            let text = format!("stages: [{{name: a, {stage}}}]");
            let error = Stages::parse(&text, "s.yaml").unwrap_err().to_string();
            assert_eq!(error, format!("s.yaml: line 1: {expected}"), "{stage}");
        }
        let error = Stages::parse("externalMetrics: [{name: depth}]", "s.yaml").unwrap_err();
        assert_eq!(
            error.to_string(),
            "s.yaml: line 1: externalMetrics[0]: missing field `value`"
        );
    }
}
