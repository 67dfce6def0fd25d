//! Namespaces: what is left, and who holds it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::facts::Facts;
use crate::json::{condition, list, text, time};
use crate::pod::trouble;
use crate::time::human;
use crate::{Obstacle, State, Telling, finalizers, help};

pub(crate) fn tell(facts: &Facts, told: &mut Telling<'_>) {
    let namespace = &facts.object;
    let Some(since) = time(namespace, "/metadata/deletionTimestamp") else {
        told.wants("to exist");
        told.conclude(State::Settled, "is active; nobody has deleted it");
        return;
    };
    let age = human(facts.now.unix() - since.unix());
    told.wants(format!("to be gone, since {since} ({age} ago)"));
    let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for object in &facts.related {
        *by_kind.entry(text(object, "/kind")).or_default() += 1;
    }
    let left: Vec<String> = by_kind
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    told.sees(match left.is_empty() {
        true => "nothing is left in it".to_owned(),
        false => format!("left in it: {}", left.join(", ")),
    });
    let mut objects: Vec<&Value> = facts.related.iter().collect();
    // What is held by somebody first: the rest follows by itself.
    objects.sort_by_key(|object| finalizers::names(object).next().is_none());
    for object in objects {
        note_left(facts, object, told);
    }
    note_failures(facts, told);
    note_own_finalizers(facts, told);
    let held = told
        .explanation
        .in_the_way
        .iter()
        .find(|held| !held.passing)
        .cloned();
    match held {
        Some(held) => told.conclude(
            State::Stuck,
            format!("does not go: {} {}", held.object, held.why),
        ),
        None => told.conclude(State::Progressing, "is going; nothing holds it for long"),
    }
}

fn note_left(facts: &Facts, object: &Value, told: &mut Telling<'_>) {
    if let Some(obstacle) = finalizers::holding(facts, object) {
        if finalizers::foreign(object) {
            told.offer(help::finalizer(facts, object));
        }
        told.in_the_way(obstacle);
        return;
    }
    let going = !text(object, "/metadata/deletionTimestamp").is_empty();
    if text(object, "/kind") == "Pod" && going {
        if let Some(trouble) = trouble(facts, object, 0) {
            told.offer(help::for_pod(facts, object, &trouble.cause));
            told.in_the_way(trouble.obstacle(facts, object));
        }
        return;
    }
    told.in_the_way(Obstacle {
        object: facts.name_of(object),
        more: 0,
        why: match going {
            true => "is being deleted and held by nobody: it goes at any moment",
            false => {
                "has not been deleted yet: its turn comes, or its kind cannot be deleted just now"
            }
        }
        .to_owned(),
        since: None,
        passing: true,
    });
}

/// What the namespace controller could not do, by its conditions.
fn note_failures(facts: &Facts, told: &mut Telling<'_>) {
    let failures = [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
    ];
    for type_ in failures {
        let Some(held) = condition(&facts.object, type_) else {
            continue;
        };
        if text(held, "/status") != "True" {
            continue;
        }
        if type_ == "NamespaceDeletionDiscoveryFailure" {
            told.offer(Some(help::Help {
                command: "kubectl get apiservices".into(),
                why: "shows which API does not answer: nobody can tell what is left of it".into(),
            }));
        }
        told.in_the_way(Obstacle {
            object: facts.name_of(&facts.object),
            more: 0,
            why: text(held, "/message").to_owned(),
            since: time(held, "/lastTransitionTime"),
            passing: false,
        });
    }
}

/// Finalizers of the namespace itself beside the one that stands for its content.
fn note_own_finalizers(facts: &Facts, told: &mut Telling<'_>) {
    let own = list(&facts.object, "/metadata/finalizers").iter();
    let spec = list(&facts.object, "/spec/finalizers").iter();
    let held: Vec<String> = own
        .chain(spec)
        .filter_map(Value::as_str)
        .filter(|name| *name != "kubernetes")
        .map(finalizers::describe)
        .collect();
    if held.is_empty() {
        return;
    }
    told.in_the_way(Obstacle {
        object: facts.name_of(&facts.object),
        more: 0,
        why: format!("held by {}", held.join(" and ")),
        since: time(&facts.object, "/metadata/deletionTimestamp"),
        passing: false,
    });
}
