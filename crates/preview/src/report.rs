//! What a preview comes to.

use std::collections::{BTreeMap, BTreeSet};

use api::decision::{agree, counted};
use api::kinds::{Job, Pod};
use api::{MicroTime, ObjectId, Resource, Time, Uid};
use serde::Serialize;
use serde_json::Value;

use crate::drained::{Drain, drains};
use crate::facts::Gathered;
use crate::kinds::Kind;
use crate::load::Load;
use crate::log::{Noted, PodLife};
use crate::marks::{Mark, marks};
use crate::rollout::Failure;
use crate::run::{Applied, Run};
use crate::schedules::{Schedule, schedules};
use crate::scope::Scope;
use crate::series::{Count, Sample};
use crate::timeline::{self, Entry};
use crate::warnings::{self, Warning};
use crate::{Setup, rollout, text::duration};

/// What would happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// What it starts from.
    pub from: String,
    pub completes: bool,
    /// How long it takes, if it completes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// How much time was given to it.
    pub given_seconds: f64,
    /// It is about schedules or autoscalers, which are never done, and shows all of the time given.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub endless: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drains: Vec<Drain>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<Schedule>,
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
    /// What scales it: `horizontalpodautoscaler/web`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<String>,
    /// What else there is to say: which pods keep the old template.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// When it began to fail, and when it was given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// The loads that its pods share.
    #[serde(skip)]
    pub(crate) loads: Vec<Load>,
    #[serde(skip)]
    pub(crate) id: ObjectId,
    /// What scales it.
    #[serde(skip)]
    pub(crate) scaled_by: Option<Uid>,
    /// How many pods were available before anything was applied.
    #[serde(skip)]
    pub(crate) available_before: i32,
}

impl Preview {
    /// In a few words, without a full stop.
    pub fn verdict(&self) -> String {
        if !self.drains.is_empty() {
            let all = self.drains.iter();
            let all: Vec<String> = all.map(|one| one.verdict(self.given_seconds)).collect();
            let all = all.join(", ");
            return match self.completes || self.drains.iter().any(|one| !one.completes) {
                true => all,
                false => format!("{all}, and what ran there does not all run again"),
            };
        }
        if self.endless {
            return self.course();
        }
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

    /// What schedules and autoscalers do in the time given.
    fn course(&self) -> String {
        let schedules = self.schedules.iter().map(Schedule::course);
        let scaled = self.workloads.iter().filter(|one| one.autoscaler.is_some());
        let scaled = scaled.map(|one| format!("{} has {}", one.object, one.range()));
        let all: Vec<String> = schedules.chain(scaled).collect();
        let given = duration(self.given_seconds);
        match all.is_empty() {
            true => format!("Nothing is scheduled or scaled within {given}"),
            false => format!("Within {given} {}", all.join(", ")),
        }
    }

    /// When the last workload that completes does so.
    pub(crate) fn last_change(workloads: &[Workload]) -> f64 {
        let ends = workloads.iter().filter_map(|one| one.seconds);
        ends.fold(0.0, f64::max)
    }
}

impl Workload {
    /// A pod that nobody owns.
    pub(crate) fn is_pod(&self) -> bool {
        is::<Pod>(&self.id)
    }

    /// Its pods are meant to end.
    pub(crate) fn is_job(&self) -> bool {
        is::<Job>(&self.id)
    }

    /// `2 to 9 pods`
    pub(crate) fn range(&self) -> String {
        let totals = || self.samples.iter().map(Sample::total);
        let (least, most) = (totals().min().unwrap_or(0), totals().max().unwrap_or(0));
        match least == most {
            true => counted(most, "pod").to_string(),
            false => format!("{least} to {}", counted(most, "pod")),
        }
    }

    /// Where a chart of it ends, in seconds.
    pub(crate) fn chart_end(&self, given_seconds: f64) -> f64 {
        if self.autoscaler.is_some() {
            return given_seconds;
        }
        let last = self.samples.last().map_or(0.0, |last| last.at);
        let marked = self.marks.iter().map(|mark| mark.at).fold(0.0, f64::max);
        match self.completes || self.failure.is_some() {
            // A little of what comes after shows that it is done.
            true => (last * 1.05).max(1.0),
            false => given_seconds.min((last * 1.5 + 60.0).max(marked * 1.1)),
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
            let mut workload = workload(run, &gathered, pods, &one, object);
            if let Some(autoscaler) = autoscaler_of(&gathered, object) {
                workload.scaled_by = Some(autoscaler.uid.clone());
                workload.autoscaler = Some(label(&autoscaler));
                workload.forget_what_is_wanted();
            }
            let name = &one.name;
            let loads = setup
                .loads
                .iter()
                .filter(|load| load.is_of(&run.discovery, &one.kind, name));
            workload.loads = loads.cloned().collect();
            workload.marks = marks(run, &gathered, &noted, &workload);
            workloads.push(workload);
        }
    }
    let (drains, schedules) = (drains(run), schedules(run, &gathered, &noted));
    let endless = run.is_endless();
    let scope = Scope::of(run, &gathered, &noted, &workloads);
    let mut timeline = timeline::entries(run, &gathered, &noted, &scope, &workloads);
    let drained: Vec<Entry> = drains.iter().flat_map(Drain::entries).collect();
    timeline.splice(0..0, drained);
    timeline.extend(schedules.iter().flat_map(Schedule::entries));
    timeline.sort_by(|one, other| one.at.total_cmp(&other.at));
    // What an autoscaler scales is on its way whenever time is up.
    let is_well = |one: &Workload| {
        one.completes || one.autoscaler.is_some() && !is_stuck(run, &gathered, one)
    };
    let completes = run.completed.is_some() || endless && workloads.iter().all(is_well);
    let seconds = run
        .completed
        .filter(|_| !endless)
        .map(|at| seconds(run.start, at).max(Preview::last_change(&workloads)));
    let mut warnings = warnings::all(run, setup, &gathered, &noted, &scope, &workloads);
    let given = setup.length.as_secs_f64();
    warnings.extend(drains.iter().flat_map(|one| one.warnings(given)));
    warnings.extend(schedules.iter().filter_map(Schedule::warning));
    warnings.sort_by_key(|warning| warning.kind);
    Preview {
        from: from(setup, &gathered),
        endless,
        drains,
        schedules,
        completes,
        seconds,
        given_seconds: setup.length.as_secs_f64(),
        workloads,
        timeline,
        warnings,
        assumptions: assumptions(setup, &gathered),
    }
}

fn is_stuck(run: &Run, gathered: &Gathered, workload: &Workload) -> bool {
    let object = gathered.find(&workload.id.uid.to_string());
    object.is_some_and(|object| gathered.explain(run, object).state == explain::State::Stuck)
}

/// Who scales a workload.
fn autoscaler_of(gathered: &Gathered, object: &Value) -> Option<ObjectId> {
    let mut all = gathered.of_kind("HorizontalPodAutoscaler");
    let found = all.find(|one| is_target(one, object));
    found.map(explain::id_of)
}

fn is_target(autoscaler: &Value, object: &Value) -> bool {
    let text = crate::facts::text;
    let target = |field: &str| text(autoscaler, &format!("/spec/scaleTargetRef/{field}"));
    autoscaler["metadata"]["namespace"] == object["metadata"]["namespace"]
        && (target("kind"), target("name"))
            == (text(object, "/kind"), text(object, "/metadata/name"))
}

/// What the preview starts from: `the cluster at https://127.0.0.1:6443, on 3 nodes`.
fn from(setup: &Setup, gathered: &Gathered) -> String {
    let nodes = counted(gathered.of_kind("Node").count(), "node");
    match setup.from.as_str() {
        "" => format!("an empty cluster of {nodes}"),
        from => format!("{from}, on {nodes}"),
    }
}

/// `deployment/web`
pub(crate) fn label(object: &ObjectId) -> String {
    format!("{}/{}", object.kind.to_lowercase(), object.name)
}

/// Is it an object of this kind?
pub(crate) fn is<K: Resource>(object: &ObjectId) -> bool {
    object.group == K::TYPE.group && object.kind == K::TYPE.kind
}

pub(crate) fn seconds(start: MicroTime, at: MicroTime) -> f64 {
    // Milliseconds are enough for anybody.
    (at.since(start).as_secs_f64() * 1000.0).round() / 1000.0
}

/// What was applied; where that was no workload, those whose pods came or went.
fn followed(run: &Run, gathered: &Gathered, noted: &Noted) -> Vec<Applied> {
    let mut applied = run.followed();
    let targets = gathered.workloads().filter(|object| {
        let mut autoscalers = gathered.of_kind("HorizontalPodAutoscaler");
        let is_applied = |uid: &str| run.applied.iter().any(|one| one.uid == uid);
        let uid = crate::facts::text(object, "/metadata/uid");
        autoscalers.any(|one| {
            let is_new = is_applied(crate::facts::text(one, "/metadata/uid"));
            (is_new || run.is_loaded) && is_target(one, object)
        }) && !is_applied(uid)
    });
    applied.extend(targets.map(Applied::of));
    if !applied.is_empty() {
        return applied;
    }
    let moved: BTreeSet<&Uid> = noted
        .pods
        .values()
        // Evictions of a drain are made in the very moment in which it starts, and the pods that take the place as well.
        .filter(|pod| pod.created >= run.start || pod.left.is_some_and(|at| at >= run.start))
        .filter_map(|pod| top_owner(noted, pod.owner.as_ref()?))
        .collect();
    // The Jobs of a CronJob are its runs, also those that are gone by now.
    let is_run = |object: &&Value| {
        let uid = Uid::parse(crate::facts::text(object, "/metadata/uid"));
        noted.jobs.get(&uid).is_some_and(|job| job.owner.is_some())
    };
    let objects = gathered.workloads().filter(|object| !is_run(object));
    let objects = objects.filter(|object| {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        uid.is_some_and(|uid| moved.iter().any(|moved| moved.to_string() == uid))
    });
    objects.map(Applied::of).collect()
}

/// The Deployment of a ReplicaSet, or the owner itself.
pub(crate) fn top_owner<'a>(noted: &'a Noted, owner: &'a Uid) -> Option<&'a Uid> {
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
    let id = explain::id_of(object);
    let is_job = is::<Job>(&id);
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
        minimum_available: fewest.filter(|_| one.existed && !is_job && wanted > 0),
        peak_pods: peak_after.max(before.total()),
        // What is there before because more was wanted is no surge.
        peak_surge: (peak_after - wanted).max(0),
        samples,
        autoscaler: None,
        notes: kept_old(object, wanted),
        marks: Vec::new(),
        loads: Vec::new(),
        id,
        scaled_by: None,
        available_before: before.available,
    }
}

/// Which pods keep the old template when all is done.
fn kept_old(object: &Value, wanted: i32) -> Vec<String> {
    let text = |pointer: &str| crate::facts::text(object, pointer);
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let is_on_delete = text("/spec/updateStrategy/type") == "OnDelete";
    let completion = Kind::of(object).and_then(Kind::completion);
    let Some(updated) = completion.and_then(|completion| (completion.updated)(object)) else {
        return Vec::new();
    };
    let name = text("/metadata/name");
    let old = i64::from(wanted) - updated;
    let partition = number("/spec/updateStrategy/rollingUpdate/partition");
    match (is_on_delete, old) {
        (_, ..=0) => Vec::new(),
        (true, old) => vec![format!(
            "{} {} the old template until a user deletes {}: updateStrategy is OnDelete",
            counted(old, "pod"),
            agree(old, "keeps", "keep"),
            agree(old, "it", "them")
        )],
        (false, old) if partition > 0 => {
            let first = number("/spec/ordinals/start");
            let names = match old {
                1 => format!("{name}-{first} keeps"),
                old => format!("{name}-{first} to {name}-{} keep", first + old - 1),
            };
            vec![format!(
                "{names} the old template: partition is {partition}"
            )]
        }
        _ => Vec::new(),
    }
}

impl Workload {
    /// An autoscaler changes what is wanted all the time: nothing is missing to what is wanted in the end.
    fn forget_what_is_wanted(&mut self) {
        self.peak_surge = 0;
        self.minimum_available = None;
        for sample in &mut self.samples {
            sample.unavailable = 0;
        }
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
            followed: Kind::of(object),
        }
    }

    /// Its progress is followed until it is done.
    pub(crate) fn completes(&self) -> bool {
        self.followed.is_some_and(|kind| !kind.is_endless())
    }

    /// It is never done: it acts for as long as it is there.
    pub(crate) fn is_endless(&self) -> bool {
        self.followed.is_some_and(Kind::is_endless)
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
    for load in &setup.loads {
        assumed.push(format!("load {load}"));
    }
    assumed.extend(setup.assumed.iter().cloned());
    if setup.loads.is_empty() && gathered.of_kind("HorizontalPodAutoscaler").next().is_some() {
        assumed.push("pods use half of what they request, where nothing says otherwise".to_owned());
    }
    assumed.extend(setup.missing.iter().map(|what| format!("without {what}")));
    assumed
}
