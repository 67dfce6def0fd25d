//! What happens when, and why. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::decision::{Class, Line, agree, counted, reasons};
use api::{Key, Time, Uid};
use serde::Serialize;

use crate::facts::{self, Gathered};
use crate::log::Noted;
use crate::report::{Preview, Workload, seconds};
use crate::run::{Applied, Run};
use crate::scope::Scope;

/// One line of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Seconds from the moment of applying.
    pub at: f64,
    /// `deployment/web`
    pub object: String,
    pub what: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The reasons of the cluster's warnings that a person wants to know of.
pub(crate) const REPORTED: [&str; 8] = [
    "FailedScheduling",
    "FailedCreate",
    "Failed",
    "Unhealthy",
    "FailedMount",
    "ProvisioningFailed",
    "FailedBinding",
    "BackOff",
];

pub(crate) fn entries(
    run: &Run,
    gathered: &Gathered,
    noted: &Noted,
    scope: &Scope<'_>,
    workloads: &[Workload],
) -> Vec<Entry> {
    let mut all: Vec<Entry> = run
        .applied
        .iter()
        .map(|one| Entry {
            at: 0.0,
            object: one.object(),
            what: match (one.existed, one.unchanged) {
                (true, true) => "you apply it; it is unchanged".to_owned(),
                (true, false) => "you apply a change".to_owned(),
                (false, _) => "you apply it; it is new".to_owned(),
            },
            why: one.file.clone(),
        })
        .collect();
    // Pods that become ready are what the controllers then act on.
    all.extend(workloads.iter().flat_map(became_ready));
    all.extend(workloads.iter().flat_map(ended));
    all.extend(decided(run, noted, workloads));
    all.extend(warned(run, gathered, noted, scope));
    all.extend(disrupted(run, noted));
    let claims = noted.claims_deleted.iter();
    for (at, claim) in claims.filter(|(at, key)| *at >= run.start && scope.has_claim(key)) {
        all.push(Entry {
            at: seconds(run.start, *at),
            object: format!("persistentvolumeclaim/{}", claim.name),
            what: "is deleted, with its data".to_owned(),
            why: "the retention policy of its StatefulSet, or its owner is gone".to_owned(),
        });
    }
    for (uid, at) in &noted.timed_out {
        if let Some(workload) = scope.workload(uid).filter(|_| *at >= run.start) {
            all.push(Entry {
                at: seconds(run.start, *at),
                object: workload.object.clone(),
                what: "exceeds its progress deadline".to_owned(),
                why: "no progress within progressDeadlineSeconds".to_owned(),
            });
        }
    }
    if let Some(at) = run
        .completed
        .filter(|_| !run.applied.iter().any(Applied::is_endless) && !run.is_loaded)
    {
        all.push(Entry {
            at: seconds(run.start, at).max(Preview::last_change(workloads)),
            object: String::new(),
            what: "complete".to_owned(),
            why: String::new(),
        });
    }
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    all
}

/// What the controllers of these workloads do, not what they wait for.
fn decided(run: &Run, noted: &Noted, workloads: &[Workload]) -> Vec<Entry> {
    let mut found = Vec::new();
    let own = workloads
        .iter()
        .map(|one| (&one.id.uid, (one.object.as_str(), one)));
    let scaled = workloads.iter().filter_map(|one| {
        let autoscaler = one.autoscaler.as_deref()?;
        Some((one.scaled_by.as_ref()?, (autoscaler, one)))
    });
    let followed: BTreeMap<&Uid, (&str, &Workload)> = own.chain(scaled).collect();
    for decision in noted.decisions.iter().filter(|one| one.at >= run.start) {
        let Some((object, workload)) = followed.get(&decision.object.uid) else {
            continue;
        };
        // That a Job fails is an entry of its own.
        let is_reported = |line: &&Line| workload.failure.is_some() && line.reason == reasons::ENDS;
        // The load that is assumed is an annotation, which a Deployment hands down.
        let is_ours = |line: &&Line| run.is_loaded && line.reason == reasons::ANNOTATES;
        let lines = decision.lines.iter().filter(|line| !is_reported(line));
        let lines = lines.filter(|line| !is_ours(line));
        let acts: Vec<&Line> = lines.filter(|line| line.class == Class::Acts).collect();
        let at = seconds(run.start, decision.at);
        let entry = |what: &str, why: &str| Entry {
            at,
            object: (*object).to_owned(),
            what: what.to_owned(),
            why: why.to_owned(),
        };
        // What metrics ask for is why an autoscaler scales.
        let asked = decision
            .lines
            .iter()
            .filter(|line| line.reason == reasons::PROPOSES);
        let asked: Vec<&str> = asked.map(|line| &*line.what).collect();
        let asked = asked.join(", ");
        // What they ask for now may be less than what the target goes to.
        let mut lines = decision.lines.iter();
        let asked = match lines.find(|line| line.reason == reasons::STABILIZED) {
            Some(held) => format!("{asked}; {}", held.why),
            None => asked,
        };
        let shown = acts.iter().take(ACTS_MAX);
        found.extend(shown.map(|line| match &*line.why {
            "" if line.reason == reasons::SCALES => entry(&line.what, &asked),
            why => entry(&line.what, why),
        }));
        if acts.len() > ACTS_MAX {
            let what = format!("and {}", counted(acts.len() - ACTS_MAX, "more step"));
            found.push(entry(&what, ""));
        }
    }
    found
}

/// More of the same at the same moment is no news.
const ACTS_MAX: usize = 4;

fn became_ready(workload: &Workload) -> Vec<Entry> {
    let steps = workload.samples.windows(2);
    steps
        .filter(|pair| pair[1].new_ready > pair[0].new_ready)
        .map(|pair| {
            let more = pair[1].new_ready - pair[0].new_ready;
            let (pods, are) = (counted(more, "more pod"), agree(more, "is", "are"));
            Entry {
                at: (pair[1].at * 1000.0).round() / 1000.0,
                object: workload.object.clone(),
                what: format!("{pods} {are} ready"),
                why: match workload.is_job() || workload.autoscaler.is_some() || workload.is_pod() {
                    true => String::new(),
                    false => format!(
                        "{} of {} have the current template and are ready",
                        pair[1].new_ready, workload.wanted
                    ),
                },
            }
        })
        .collect()
}

/// Pods of a Job that end, and the Job that gives up because of them.
fn ended(workload: &Workload) -> Vec<Entry> {
    let of = |at: f64, what: String, why: String| Entry {
        at: (at * 1000.0).round() / 1000.0,
        object: workload.object.clone(),
        what,
        why,
    };
    let mut found = Vec::new();
    for pair in workload.samples.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let pods = |more: i32| {
            let have = agree(more, "has", "have");
            format!("{} {have}", counted(more, "more pod"))
        };
        let more = after.succeeded - before.succeeded;
        if more > 0 {
            let why = format!("{} of {} have", after.succeeded, workload.wanted);
            found.push(of(after.at, format!("{} succeeded", pods(more)), why));
        }
        let more = after.failed - before.failed;
        if more > 0 {
            let what = format!("{} failed", pods(more));
            found.push(of(after.at, what, String::new()));
        }
    }
    if let Some(failure) = &workload.failure {
        let why = format!("{}: {}", failure.reason, failure.message);
        found.push(of(failure.at, "fails".to_owned(), why));
    }
    found
}

/// The cluster's own warnings, each kind once for each workload.
fn warned(run: &Run, gathered: &Gathered, noted: &Noted, scope: &Scope<'_>) -> Vec<Entry> {
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    let lives = noted.pods.values();
    let owners: BTreeMap<&Key, String> = lives
        .filter_map(|life| Some((&life.key, life.owner.as_ref()?.to_string())))
        .collect();
    for event in &gathered.events {
        let text = |pointer: &str| facts::text(event, pointer);
        let reason = text("/reason");
        if text("/type") != "Warning" || !REPORTED.contains(&reason) || !scope.concerns(event) {
            continue;
        }
        let Some(first) = Time::parse(text("/firstTimestamp")) else {
            continue;
        };
        if first.micro() < run.start.time().micro() {
            continue;
        }
        let (kind, name) = (
            text("/involvedObject/kind").to_lowercase(),
            text("/involvedObject/name"),
        );
        let key = Key::new(text("/involvedObject/namespace"), name);
        let owner = owners.get(&key).map_or(name, String::as_str);
        // That an image is backed off from follows from the failure to pull it.
        let cause = if reason == "BackOff" {
            "Failed"
        } else {
            reason
        };
        if reported.insert((owner.to_owned(), cause.to_owned())) {
            found.push(Entry {
                at: seconds(run.start, first.micro().max(run.start)),
                object: format!("{kind}/{name}"),
                what: reason.to_owned(),
                why: text("/message").to_owned(),
            });
        }
    }
    found
}

/// Pods that are preempted or evicted, whoever they belong to: what is applied may do that to others.
fn disrupted(run: &Run, noted: &Noted) -> Vec<Entry> {
    let lives = noted.pods.values();
    // What a drain evicts is told with the drain.
    let is_drained = !run.drains.all().is_empty();
    let lost = lives.filter_map(|life| {
        let reason = life.disrupted.as_deref()?;
        if is_drained && reason == "EvictionByEvictionAPI" {
            return None;
        }
        let at = life.left.filter(|at| *at >= run.start)?;
        Some(Entry {
            at: seconds(run.start, at),
            object: format!("pod/{}", life.key.name),
            what: match reason {
                "PreemptionByScheduler" => "is preempted".to_owned(),
                _ => "is evicted".to_owned(),
            },
            why: match reason {
                "PreemptionByScheduler" => "a pod of a higher priority takes its place".to_owned(),
                reason => reason.to_owned(),
            },
        })
    });
    lost.collect()
}
