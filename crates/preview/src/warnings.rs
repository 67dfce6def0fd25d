//! What to be warned of. Pure.

use std::collections::BTreeSet;

use api::decision::counted;
use explain::Budget;
use serde::Serialize;
use serde_json::Value;

use crate::Setup;
use crate::drain::Leaving;
use crate::facts::{self, Gathered};
use crate::log::Noted;
use crate::report::{Workload, label, seconds};
use crate::run::Run;
use crate::scope::Scope;
use crate::text::duration;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    pub kind: WarningKind,
    /// `deployment/web`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    pub text: String,
    /// Seconds from the moment of applying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WarningKind {
    NeverFinishes,
    /// A Job gives up.
    Fails,
    /// A CronJob whose schedule never comes.
    NeverRuns,
    DeadlineExceeded,
    QuotaExceeded,
    DisruptionBudget,
    ClaimsDeleted,
    Fight,
    /// A pod may not be evicted, so that its node is not drained.
    DrainBlocked,
    /// A pod is gone for good.
    NotRecreated,
    /// Pods had to wait until there was room on a node.
    NoRoom,
    /// Something about the present state.
    State,
}

pub(crate) fn all(
    run: &Run,
    setup: &Setup,
    gathered: &Gathered,
    noted: &Noted,
    scope: &Scope<'_>,
    workloads: &[Workload],
) -> Vec<Warning> {
    let mut found = never_finishes(run, setup, gathered, workloads);
    found.extend(workloads.iter().filter_map(fails));
    found.extend(deadlines(run, noted, scope));
    found.extend(quotas(run, gathered, scope));
    found.extend(budgets(gathered, workloads));
    found.extend(claims(run, noted, scope));
    found.extend(fights(gathered, workloads));
    found.extend(waited_for_room(run, gathered, noted, workloads));
    found.extend(run.notes.iter().map(|note| Warning {
        kind: WarningKind::State,
        object: String::new(),
        text: note.clone(),
        at: None,
    }));
    found.sort_by_key(|warning| warning.kind);
    found
}

fn never_finishes(
    run: &Run,
    setup: &Setup,
    gathered: &Gathered,
    workloads: &[Workload],
) -> Vec<Warning> {
    if run.completed.is_some()
        || run.is_endless()
            && workloads
                .iter()
                .all(|one| one.completes || one.autoscaler.is_some())
    {
        return Vec::new();
    }
    let given = duration(setup.length.as_secs_f64());
    if !run.drains.are_done() {
        // What holds the drain is said for each pod.
        return Vec::new();
    }
    let is_underway =
        |one: &&Workload| !one.completes && one.failure.is_none() && one.autoscaler.is_none();
    let incomplete = workloads.iter().filter(is_underway);
    let found: Vec<Warning> = incomplete
        .map(|one| {
            let why = gathered
                .find(&one.id.uid.to_string())
                .map_or(String::new(), |object| {
                    gathered.explain(run, object).verdict
                });
            Warning {
                kind: WarningKind::NeverFinishes,
                object: one.object.clone(),
                text: format!("does not finish within {given}: {why}"),
                at: None,
            }
        })
        .collect();
    // What was to be there and is drained away for good is told of for itself.
    let is_gone = |pod: &Leaving| pod.is_bare && pod.evicted.is_some();
    let drained = run.drains.all();
    if drained.iter().any(|one| one.pods.values().any(is_gone)) {
        return found;
    }
    if found.is_empty() && workloads.iter().all(|one| one.completes) {
        return vec![Warning {
            kind: WarningKind::NeverFinishes,
            object: String::new(),
            text: format!("keeps changing: it was complete, but never for long within {given}"),
            at: None,
        }];
    }
    found
}

fn fails(workload: &Workload) -> Option<Warning> {
    let failure = workload.failure.as_ref()?;
    Some(Warning {
        kind: WarningKind::Fails,
        object: workload.object.clone(),
        text: format!(
            "fails after {}: {}: {}",
            duration(failure.at),
            failure.reason,
            failure.message
        ),
        at: Some(failure.at),
    })
}

/// Workloads that completed, but had to wait until nodes had room for their pods.
fn waited_for_room(
    run: &Run,
    gathered: &Gathered,
    noted: &Noted,
    workloads: &[Workload],
) -> Vec<Warning> {
    let mut found: Vec<Warning> = Vec::new();
    let mut reported = BTreeSet::new();
    for event in &gathered.events {
        let text = |pointer: &str| facts::text(event, pointer);
        let Some(at) = api::Time::parse(text("/firstTimestamp")) else {
            continue;
        };
        if text("/reason") != "FailedScheduling" || at < run.start.time() {
            continue;
        }
        let uid = api::Uid::parse(text("/involvedObject/uid"));
        let owner = noted.pods.get(&uid).and_then(|life| life.owner.as_ref());
        let owner = owner.and_then(|owner| crate::report::top_owner(noted, owner));
        let owner = owner.unwrap_or(&uid);
        let workload = workloads
            .iter()
            .find(|one| one.id.uid == *owner && one.completes);
        let Some(workload) = workload else {
            continue;
        };
        let object = gathered.find(&workload.id.uid.to_string());
        if object.is_some_and(|object| lacked_room(gathered, object))
            && reported.insert(&workload.id.uid)
        {
            found.push(Warning {
                kind: WarningKind::NoRoom,
                object: workload.object.clone(),
                text: format!("had to wait for room on the nodes: {}", text("/message")),
                at: Some(seconds(run.start, at.micro().max(run.start))),
            });
        }
    }
    found
}

/// Would nodes do for the pods of a workload, if they had room? Pods with claims may have waited for those.
fn lacked_room(gathered: &Gathered, object: &Value) -> bool {
    let Some(template) = object.pointer("/spec/template") else {
        return false;
    };
    let volumes = template.pointer("/spec/volumes").and_then(Value::as_array);
    let is_claim = |volume: &Value| volume.get("persistentVolumeClaim").is_some();
    let has_claims = object.pointer("/spec/volumeClaimTemplates").is_some()
        || volumes.is_some_and(|volumes| volumes.iter().any(is_claim));
    !has_claims && explain::lacks_room(template, gathered.of_kind("Node"))
}

fn name_of(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    format!(
        "{kind}/{}",
        object["metadata"]["name"].as_str().unwrap_or_default()
    )
}

fn deadlines(run: &Run, noted: &Noted, scope: &Scope<'_>) -> Vec<Warning> {
    let late = noted
        .timed_out
        .iter()
        .filter(|(_, at)| **at >= run.start)
        .filter_map(|(uid, at)| Some((scope.workload(uid)?, at)));
    late.map(|(workload, at)| {
        let at = seconds(run.start, *at);
        Warning {
            kind: WarningKind::DeadlineExceeded,
            object: workload.object.clone(),
            text: format!(
                "exceeds its progress deadline after {}: `kubectl rollout status` fails then",
                duration(at)
            ),
            at: Some(at),
        }
    })
    .collect()
}

/// What a quota did not admit, each quota once.
fn quotas(run: &Run, gathered: &Gathered, scope: &Scope<'_>) -> Vec<Warning> {
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    let refused_before = refused_before(run, gathered);
    let refused = gathered.events.iter().filter(|event| is_refusal(event));
    // Others hit a quota because of what is applied, unless they did so before.
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        refused.partition(|event| scope.concerns(event));
    let others = others
        .into_iter()
        .filter(|event| !refused_before.contains(facts::text(event, "/involvedObject/uid")));
    for event in own.into_iter().chain(others) {
        let text = |pointer: &str| facts::text(event, pointer);
        let Some(at) = api::Time::parse(text("/firstTimestamp")) else {
            continue;
        };
        let owner = gathered.find(text("/involvedObject/uid"));
        let Some(owner) = owner.filter(|_| at >= run.start.time()) else {
            continue;
        };
        let kind = text("/involvedObject/kind").to_lowercase();
        for quota in gathered.of_kind("ResourceQuota") {
            let Some(why) = refusal(run, quota, owner) else {
                continue;
            };
            if reported.insert(facts::text(quota, "/metadata/uid").to_owned()) {
                found.push(Warning {
                    kind: WarningKind::QuotaExceeded,
                    object: format!("{kind}/{}", text("/involvedObject/name")),
                    text: why,
                    at: Some(seconds(run.start, at.micro().max(run.start))),
                });
            }
        }
    }
    found
}

/// How a quota of its namespace kept an owner from creating what it wanted.
fn refusal(run: &Run, quota: &Value, owner: &Value) -> Option<String> {
    if quota["metadata"]["namespace"] != owner["metadata"]["namespace"] {
        return None;
    }
    if run.completed.is_some() {
        let limits = explain::limited_by(quota, owner)?;
        let name = facts::text(quota, "/metadata/name");
        return Some(format!(
            "has to wait for room in a quota: {name}, limited: {limits}"
        ));
    }
    let refused = explain::refused_by(quota, owner, run.end)?;
    Some(format!(
        "the quota does not let it create its pods: {}, {}",
        refused.quota, refused.why
    ))
}

fn is_refusal(event: &Value) -> bool {
    facts::text(event, "/reason") == "FailedCreate"
}

/// Whose pods were refused before anything was applied.
fn refused_before<'a>(run: &Run, gathered: &'a Gathered) -> BTreeSet<&'a str> {
    let before = gathered.events.iter().filter(|event| {
        let at = api::Time::parse(facts::text(event, "/firstTimestamp"));
        at.is_some_and(|at| at < run.start.time()) && is_refusal(event)
    });
    before
        .map(|event| facts::text(event, "/involvedObject/uid"))
        .collect()
}

/// Rollouts do not ask budgets; drains do.
fn budgets(gathered: &Gathered, workloads: &[Workload]) -> Vec<Warning> {
    let mut found = Vec::new();
    for budget in gathered.of_kind("PodDisruptionBudget") {
        let Some(selector) = explain::selector_of(budget) else {
            continue;
        };
        for workload in workloads {
            let same_place = budget["metadata"]["namespace"] == *workload.namespace;
            let covers = gathered
                .find(&workload.id.uid.to_string())
                .is_some_and(|object| {
                    selector.matches(&explain::labels(object, "/spec/template/metadata/labels"))
                });
            if !same_place || !covers {
                continue;
            }
            let of = |text: String| Warning {
                kind: WarningKind::DisruptionBudget,
                object: name_of(budget),
                text,
                at: None,
            };
            if explain::allows_no_disruption(budget, workload.wanted) {
                found.push(of(format!(
                    "never lets a pod of {} be evicted: draining a node that has one waits for ever",
                    workload.object
                )));
            }
            let least = Budget::of(budget, workload.wanted).map(|budget| budget.must_stay);
            if let (Some(least), Some(fewest)) = (least, workload.minimum_available)
                && fewest < least.min(workload.available_before)
            {
                found.push(of(format!(
                    "asks for {} of {}, and the rollout leaves {fewest} for a while: rollouts do not obey budgets, and drains wait meanwhile",
                    counted(least, "pod"),
                    workload.object
                )));
            }
        }
    }
    found
}

fn claims(run: &Run, noted: &Noted, scope: &Scope<'_>) -> Vec<Warning> {
    let all = noted.claims_deleted.iter();
    let gone = all.filter(|(at, key)| *at >= run.start && scope.has_claim(key));
    let at = gone.clone().map(|(at, _)| *at).next();
    let deleted: Vec<&str> = gone.map(|(_, key)| &*key.name).collect();
    if deleted.is_empty() {
        return Vec::new();
    }
    vec![Warning {
        kind: WarningKind::ClaimsDeleted,
        object: format!("persistentvolumeclaim/{}", deleted[0]),
        text: format!(
            "{} deleted with all data, by the retention policy of the StatefulSet: {}",
            match deleted.len() {
                1 => "is".to_owned(),
                count => format!("and {} more are", count - 1),
            },
            deleted.join(", ")
        ),
        at: at.map(|at| seconds(run.start, at)),
    }]
}

fn fights(gathered: &Gathered, workloads: &[Workload]) -> Vec<Warning> {
    let overlaps = explain::overlaps(gathered.workloads());
    let concerns = |overlap: &explain::Overlap| {
        let mut workloads = workloads.iter();
        workloads.any(|one| one.id == overlap.selects || one.id == overlap.pods_of)
    };
    overlaps
        .into_iter()
        .filter(concerns)
        .map(|overlap| Warning {
            kind: WarningKind::Fight,
            text: format!(
                "also selects the pods of {}: two controllers would fight over them; give each its own labels",
                label(&overlap.pods_of)
            ),
            object: label(&overlap.selects),
            at: None,
        })
        .collect()
}
