//! Stages: behaviours for many pods at once, from a file.
//!
//! The model is KWOK's `Stage`: a selector, a delay with jitter, and what comes next. A stage is not a step
//! that is taken by itself here; it sets one part of the [`Behaviour`] of the pods that it selects, and the
//! kubelet's own state machine does the rest. Chance is drawn from the pod's uid, so that a restart, or
//! another run of a simulation with the same seed, decides the same.

use std::path::Path;
use std::time::Duration;

use api::selector::{LabelSelector, LabelSelectorRequirement, Selector};
use api::{Istr, LabelSet, Rng};
use serde::{Deserialize, Deserializer};

use crate::behaviour::{Answer, Behaviour, RunFor, parse_duration};
use crate::error::{Error, parse_yaml, senseless};
use crate::pod::Pod;

/// All stages of a file, in its order; where two set the same part, the later one wins.
#[derive(Clone, Debug, Default)]
pub struct Stages(Vec<Stage>);

#[derive(Clone, Debug)]
struct Stage {
    name: String,
    namespaces: Vec<Istr>,
    labels: Selector,
    annotations: LabelSet,
    images: Vec<String>,
    owners: Vec<Istr>,
    percent: u8,
    delay: Delay,
    next: Outcome,
    exit_code: Option<i32>,
    container: Option<String>,
    lasts: Option<Duration>,
    text: String,
    image_user: Option<i64>,
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
        Ok(Stages(stages.collect::<Result<Vec<Stage>, Error>>()?))
    }

    pub fn load(path: &Path) -> Result<Stages, Error> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
            file: name.clone(),
            source,
        })?;
        Stages::parse(&text, &name)
    }

    /// Sets what the stages that select this pod say.
    pub fn apply(&self, pod: &Pod, behaviour: &mut Behaviour) {
        for stage in &self.0 {
            if stage.selects(pod) {
                stage.apply(pod, behaviour);
            }
        }
    }
}

impl Stage {
    fn selects(&self, pod: &Pod) -> bool {
        let meta = &pod.metadata;
        let listed =
            |list: &[Istr], value: &str| list.is_empty() || list.iter().any(|one| *one == *value);
        let owner = meta.controller().map_or("", |owner| owner.kind.as_str());
        let mut annotations = self.annotations.iter();
        let mut images = pod
            .spec
            .all_containers()
            .map(|container| container.image.as_str());
        listed(&self.namespaces, &meta.namespace)
            && listed(&self.owners, owner)
            && self.labels.matches(&meta.labels)
            && annotations.all(|(key, value)| meta.annotation(key) == Some(value))
            && (self.images.is_empty()
                || images.any(|image| self.images.iter().any(|pattern| matches(pattern, image))))
            && self.chance(pod, "select") * 100.0 < f64::from(self.percent)
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

/// `postgres:*`: a star stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|left| {
            let mut ends = left.char_indices().map(|(end, _)| end).chain([left.len()]);
            ends.any(|end| matches(rest, &left[end..]))
        }),
    }
}

/// The file, as people write it.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    stages: Vec<WireStage>,
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
    #[serde(default, rename = "for", deserialize_with = "some_duration")]
    lasts: Option<Duration>,
    /// What a container prints.
    #[serde(default)]
    text: Option<String>,
    /// Whom the image runs as.
    #[serde(default)]
    user: Option<i64>,
}

fn all() -> u8 {
    100
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireSelector {
    namespaces: Vec<Istr>,
    match_labels: LabelSet,
    match_expressions: Vec<LabelSelectorRequirement>,
    match_annotations: LabelSet,
    images: Vec<String>,
    owners: Vec<Istr>,
}

#[derive(Clone, Copy, Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Delay {
    #[serde(deserialize_with = "duration")]
    duration: Duration,
    /// Up to this much more, by chance.
    #[serde(deserialize_with = "duration")]
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
}

impl Outcome {
    fn is_probe(self) -> bool {
        matches!(
            self,
            Outcome::StartupProbeFails | Outcome::LivenessProbeFails | Outcome::ReadinessProbeFails
        )
    }
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Seconds(f64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Seconds(seconds) => seconds.to_string(),
        Written::Text(text) => text,
    };
    parse_duration(&text).ok_or_else(|| {
        serde::de::Error::custom(format!("{text:?} is not a duration such as 5s or 1m30s"))
    })
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
        let labels = LabelSelector {
            match_labels: self.selector.match_labels,
            match_expressions: self.selector.match_expressions.into(),
        };
        Ok(Stage {
            labels: labels
                .compile()
                .map_err(|error| ("selector", error.to_string()))?,
            name: self.name,
            namespaces: self.selector.namespaces,
            annotations: self.selector.match_annotations,
            images: self.selector.images,
            owners: self.selector.owners,
            percent: self.percent,
            delay: self.delay,
            next: self.next,
            exit_code: self.exit_code,
            container: self.container,
            lasts: self.lasts,
            text: self.text.unwrap_or_default(),
            image_user: self.user,
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
        Ok(())
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
            "stages.yaml: line 3: stages[0].next: unknown variant `Explode`, expected one of `Start`, `Ready`, `NeverReady`, `Unready`, `Crash`, `Exit`, `RunForever`, `Stop`, `ImagePullFailure`, `Delete`, `StartupProbeFails`, `LivenessProbeFails`, `ReadinessProbeFails`, `Log`, `RunAs`"
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
    fn stars_match_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*:missing", "x/y:missing", true),
            ("a*c*e", "abcde", true),
            ("a*c", "abd", false),
            ("abc", "abc", true),
            ("*ü", "xü", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
