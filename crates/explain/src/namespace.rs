//! Namespaces: what is left, and who holds it.

use api::Resource;
use api::kinds::Namespace;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::facts::{Facts, kind_of};
use crate::json::{condition, list, text, time};
use crate::kinds::{Kind, Need};
use crate::pod::problem;
use crate::time::human;
use crate::{Draft, Obstacle, State, finalizers, help};

pub(crate) const KIND: Kind = Kind {
    resource: Namespace::TYPE,
    inputs: &[],
    needs: &[Need::Content],
    tells_deletion: true,
    explain,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let namespace = &facts.object;
    let Some(since) = time(namespace, "/metadata/deletionTimestamp") else {
        draft.wants("to exist");
        draft.conclude(State::Settled, "is active and not deleted");
        return;
    };
    let age = human(facts.now.unix() - since.unix());
    draft.wants(format!("to be gone, since {since} ({age} ago)"));
    let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for object in &facts.related {
        *by_kind.entry(text(object, "/kind")).or_default() += 1;
    }
    let left: Vec<String> = by_kind
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    draft.sees(match left.is_empty() {
        true => "nothing is left in it".to_owned(),
        false => format!("left in it: {}", left.join(", ")),
    });
    let mut objects: Vec<&Value> = facts.related.iter().collect();
    // What is held by somebody first: the rest follows by itself.
    objects.sort_by_key(|object| finalizers::names(object).next().is_none());
    for object in objects {
        note_left(facts, object, draft);
    }
    note_failures(facts, draft);
    note_own_finalizers(facts, draft);
    let held = draft
        .explanation
        .in_the_way
        .iter()
        .find(|held| !held.passing)
        .cloned();
    match held {
        Some(held) => draft.conclude(
            State::Stuck,
            format!("deletion is blocked: {} {}", held.object, held.why),
        ),
        None => draft.conclude(
            State::Progressing,
            "is being deleted; nothing blocks the deletion",
        ),
    }
}

fn note_left(facts: &Facts, object: &Value, draft: &mut Draft<'_>) {
    if let Some(obstacle) = finalizers::holding(object) {
        if finalizers::foreign(object) {
            draft.offer(help::finalizer(facts, object));
        }
        draft.in_the_way(obstacle);
        return;
    }
    let is_terminating = !text(object, "/metadata/deletionTimestamp").is_empty();
    if kind_of(object) == "Pod" && is_terminating {
        if let Some(problem) = problem(facts, object, 0) {
            draft.offer(help::for_pod(facts, object, &problem.cause));
            draft.in_the_way(problem.obstacle(object));
        }
        return;
    }
    draft.in_the_way(Obstacle::of(object, match is_terminating {
            true => "is being deleted, and no finalizer holds it: it is gone any moment",
            false => {
                "has not been deleted yet: other kinds come first, or its kind cannot be deleted just now"
            }
        }
        .to_owned()).passing(true));
}

/// What the namespace controller could not do, by its conditions.
fn note_failures(facts: &Facts, draft: &mut Draft<'_>) {
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
            draft.offer(Some(help::Help {
                command: "kubectl get apiservices".into(),
                why: "shows which API does not answer: what is left of it is unknown".into(),
            }));
        }
        draft.in_the_way(
            Obstacle::of(&facts.object, text(held, "/message").to_owned())
                .since(time(held, "/lastTransitionTime")),
        );
    }
}

/// Finalizers of the namespace itself beside the one that stands for its content.
fn note_own_finalizers(facts: &Facts, draft: &mut Draft<'_>) {
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
    draft.in_the_way(
        Obstacle::of(&facts.object, format!("held by {}", held.join(" and ")))
            .since(time(&facts.object, "/metadata/deletionTimestamp")),
    );
}
