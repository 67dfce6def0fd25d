//! Objects that are on their way out: who holds them, down the whole tree.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::facts::{Facts, controller_uid, kind_of};
use crate::json::text;
use crate::kinds::Kind;
use crate::pod::problem;
use crate::{Draft, Obstacle, State, finalizers, help, storage};

/// An object that is being deleted is held by its finalizers, whatever its kind, and one that waits for what it owns
/// by whatever holds that.
pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let object = &facts.object;
    if Kind::of(object).is_some_and(|kind| kind.tells_deletion) {
        return;
    }
    let Some(own) = finalizers::holding(object) else {
        return;
    };
    // What kept it from being complete does not matter any more.
    draft.explanation.in_the_way.clear();
    draft.explanation.help = None;
    let mut held = Vec::new();
    note_owned(facts, object, &mut BTreeSet::new(), &mut held);
    held.sort_by_key(|(_, obstacle)| obstacle.passing);
    let first = held.first().map_or(String::new(), |(_, first)| {
        format!("; {} {}", first.object, first.why.headline())
    });
    draft.conclude(
        State::Stuck,
        format!("is being deleted; {}{first}", own.why),
    );
    storage::note_users(facts, draft);
    draft.offer(help::finalizer(facts, object));
    for (owned, obstacle) in held {
        if !obstacle.passing {
            draft.offer(help_for(facts, owned));
        }
        draft.in_the_way(obstacle);
    }
    draft.in_the_way(own);
}

/// What the owner controls, and what that controls, as far as its deletion is blocked. Owners may form a cycle: each
/// is visited once.
fn note_owned<'a>(
    facts: &'a Facts,
    owner: &'a Value,
    seen: &mut BTreeSet<&'a str>,
    held: &mut Vec<(&'a Value, Obstacle)>,
) {
    let uid = text(owner, "/metadata/uid");
    if uid.is_empty() || !seen.insert(uid) {
        return;
    }
    let owned = facts.related.iter();
    for object in owned.filter(|object| controller_uid(object) == Some(uid)) {
        let obstacle = match kind_of(object) {
            "Pod" if text(object, "/metadata/deletionTimestamp").is_empty() => None,
            "Pod" => problem(facts, object, 0).map(|problem| problem.obstacle(object)),
            // That it waits for what it owns in turn is said by what it owns.
            _ if finalizers::foreign(object) => finalizers::holding(object),
            _ => None,
        };
        held.extend(obstacle.map(|obstacle| (object, obstacle)));
        note_owned(facts, object, seen, held);
    }
}

fn help_for(facts: &Facts, object: &Value) -> Option<help::Help> {
    match kind_of(object) {
        "Pod" => help::for_pod(facts, object, &problem(facts, object, 0)?.cause),
        _ => help::finalizer(facts, object),
    }
}
