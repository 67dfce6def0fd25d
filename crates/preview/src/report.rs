//! What a preview comes to.

use std::collections::{BTreeMap, BTreeSet};

use api::decision::counted;
use api::{MicroTime, Time, Uid};
use serde::Serialize;
use serde_json::Value;

use crate::facts::Gathered;
use crate::log::{Noted, PodLife};
use crate::rollout::Failure;
use crate::run::{Applied, Run};
use crate::scope::Scope;
use crate::series::{Count, Sample};
use crate::timeline::{self, Entry};
use crate::warnings::{self, Warning};
use crate::{Setup, rollout, text::duration};

/// What would happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    pub completes: bool,
    /// How long it takes, if it completes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// How much time was given to it.
    pub given_seconds: f64,
    pub workloads: Vec<Workload>,
    pub timeline: Vec<Entry>,
    pub warnings: Vec<Warning>,
    /// What was taken for granted.
    pub assumptions: Vec<String>,
}

/// What becomes of one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// `deployment/web`
    pub object: String,
    pub namespace: String,
    pub wanted: i32,
    pub completes: bool,
    /// When its pods changed last, if it completes.
    pub seconds: Option<f64>,
    /// Why a Job gives up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// A Job that waits until somebody resumes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
    /// The fewest pods that are available at any moment; none for a workload that did not exist before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_available: Option<i32>,
    pub peak_pods: i32,
    /// How many pods there are at most beyond what is wanted.
    pub peak_surge: i32,
    pub samples: Vec<Sample>,
    #[serde(skip)]
    pub(crate) uid: String,
    /// How many pods were available before anything was applied.
    #[serde(skip)]
    pub(crate) available_before: i32,
}

impl Preview {
    /// In a few words, without a full stop.
    pub fn verdict(&self) -> String {
        if let Some(seconds) = self.seconds {
            return format!("Completes in {}", duration(seconds));
        }
        let mut incomplete = self.workloads.iter().filter(|one| !one.completes);
        let failures: Option<Vec<String>> = incomplete
            .clone()
            .map(|one| {
                let at = duration(one.failure.as_ref()?.at);
                Some(format!("{} fails after {at}", one.object))
            })
            .collect();
        match failures {
            Some(failures) if incomplete.next().is_some() => {
                format!("Does not complete: {}", failures.join(", "))
            }
            _ => format!("Does not complete within {}", duration(self.given_seconds)),
        }
    }

    /// When the last workload that completes does so.
    pub(crate) fn last_change(workloads: &[Workload]) -> f64 {
        let ends = workloads.iter().filter_map(|one| one.seconds);
        ends.fold(0.0, f64::max)
    }
}

impl Workload {
    /// Its pods are meant to end.
    pub(crate) fn is_job(&self) -> bool {
        self.object.starts_with("job/")
    }

    /// Where a chart of it ends, in seconds.
    pub(crate) fn chart_end(&self, given_seconds: f64) -> f64 {
        let last = self.samples.last().map_or(0.0, |last| last.at);
        match self.completes || self.failure.is_some() {
            // A little of what comes after shows that it is done.
            true => (last * 1.05).max(1.0),
            false => given_seconds.min(last * 1.5 + 60.0),
        }
    }
}

pub(crate) async fn report(run: &Run, setup: &Setup) -> Preview {
    let gathered = Gathered::of(run).await;
    let noted = run.log.lock();
    let mut workloads = Vec::new();
    let mut pods = pods_by_owner(&noted);
    for one in followed(run, &gathered, &noted) {
        if let Some(object) = gathered.find(&one.uid) {
            let pods = pods.remove(&one.uid).unwrap_or_default();
            workloads.push(workload(run, &gathered, pods, &one, object));
        }
    }
    let scope = Scope::of(run, &gathered, &noted, &workloads);
    let timeline = timeline::entries(run, &gathered, &noted, &scope, &workloads);
    let completes = run.completed.is_some();
    let seconds = run
        .completed
        .map(|at| seconds(run.start, at).max(Preview::last_change(&workloads)));
    let warnings = warnings::all(run, setup, &gathered, &noted, &scope, &workloads);
    Preview {
        completes,
        seconds,
        given_seconds: setup.length.as_secs_f64(),
        workloads,
        timeline,
        warnings,
        assumptions: assumptions(setup, &gathered),
    }
}

pub(crate) fn seconds(start: MicroTime, at: MicroTime) -> f64 {
    // Milliseconds are enough for anybody.
    (at.since(start).as_secs_f64() * 1000.0).round() / 1000.0
}

/// What was applied; where that was no workload, those whose pods came or went.
fn followed(run: &Run, gathered: &Gathered, noted: &Noted) -> Vec<Applied> {
    let applied = run.followed();
    if !applied.is_empty() {
        return applied;
    }
    let moved: BTreeSet<&Uid> = noted
        .pods
        .values()
        .filter(|pod| pod.created > run.start || pod.left.is_some_and(|at| at > run.start))
        .filter_map(|pod| top_owner(noted, pod.owner.as_ref()?))
        .collect();
    let objects = gathered.workloads().filter(|object| {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        uid.is_some_and(|uid| moved.iter().any(|moved| moved.to_string() == uid))
    });
    objects.map(Applied::of).collect()
}

/// The Deployment of a ReplicaSet, or the owner itself.
fn top_owner<'a>(noted: &'a Noted, owner: &'a Uid) -> Option<&'a Uid> {
    match noted.sets.get(owner) {
        Some((_, above)) => above.as_ref().or(Some(owner)),
        None => Some(owner),
    }
}

/// The pods of each workload, by its uid; a pod that nobody owns is its own.
fn pods_by_owner(noted: &Noted) -> BTreeMap<String, Vec<&PodLife>> {
    let mut found: BTreeMap<String, Vec<&PodLife>> = BTreeMap::new();
    for (own, life) in &noted.pods {
        let owner = life.owner.as_ref();
        let owner = owner.and_then(|owner| top_owner(noted, owner));
        let uid = owner.unwrap_or(own).to_string();
        found.entry(uid).or_default().push(life);
    }
    found
}

fn workload(
    run: &Run,
    gathered: &Gathered,
    pods: Vec<&PodLife>,
    one: &Applied,
    object: &Value,
) -> Workload {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let wanted = i32::try_from(rollout::wanted(object)).unwrap_or(i32::MAX);
    let current = gathered.current_hash(object);
    let current =
        current.unwrap_or_else(|| pods.first().map_or(String::new(), |pod| pod.hash.clone()));
    let is_job = object["kind"] == "Job";
    let count = Count {
        pods,
        current,
        // A Job does not serve anybody: nothing is missing while it runs.
        wanted: if is_job { 0 } else { wanted },
        with_finished: is_job,
        min_ready_seconds: number("/spec/minReadySeconds"),
        start: run.start,
        end: run.end,
    };
    let (before, samples) = (count.before(), count.samples());
    let peak_after = samples.iter().map(Sample::total).max().unwrap_or(0);
    let fewest = samples.iter().map(|sample| sample.available).min();
    let completes = rollout::is_complete(object);
    let changed = samples
        .last()
        .map_or(0.0, |last| (last.at * 1000.0).round() / 1000.0);
    Workload {
        object: one.object(),
        namespace: one.namespace.clone(),
        wanted,
        completes,
        seconds: completes.then_some(changed),
        failure: failure(run, object),
        suspended: rollout::is_suspended(object),
        minimum_available: fewest.filter(|_| one.existed && !is_job),
        peak_pods: peak_after.max(before.total()),
        // What is there before because more was wanted is no surge.
        peak_surge: (peak_after - wanted).max(0),
        samples,
        uid: one.uid.clone(),
        available_before: before.available,
    }
}

fn failure(run: &Run, object: &Value) -> Option<Failure> {
    let condition = rollout::failed(object)?;
    let text = |pointer: &str| crate::facts::text(condition, pointer).to_owned();
    let at = Time::parse(&text("/lastTransitionTime")).map_or(run.end, Time::micro);
    Some(Failure {
        reason: text("/reason"),
        message: text("/message"),
        at: seconds(run.start, at.max(run.start)),
    })
}

impl Applied {
    /// An object that is there.
    pub(crate) fn of(object: &Value) -> Applied {
        let text = |pointer: &str| crate::facts::text(object, pointer).to_owned();
        Applied {
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            file: String::new(),
            existed: true,
            unchanged: false,
            is_workload: rollout::KINDS.contains(&explain::kind_of(object)),
        }
    }

    /// `deployment/web`
    pub(crate) fn object(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }
}

fn assumptions(setup: &Setup, gathered: &Gathered) -> Vec<String> {
    let mut assumed = vec![format!(
        "pods are ready {} after their containers start",
        crate::text::duration(setup.ready_after.as_secs_f64())
    )];
    for image in &setup.fail_images {
        assumed.push(format!("image {image} cannot be pulled"));
    }
    let nodes = counted(gathered.of_kind("Node").count(), "node");
    assumed.push(match setup.is_empty() {
        true => format!("an empty cluster of {nodes}"),
        false => format!("the given state on {nodes}"),
    });
    assumed.extend(setup.missing.iter().map(|what| format!("without {what}")));
    assumed
}
