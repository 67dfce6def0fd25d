//! Quotas: what they count, how much of it is used, and whom they refuse.

use api::Resource;
use std::collections::BTreeMap;

use api::Amounts;
use api::decision::reasons;
use api::kinds::ResourceQuota;
use serde::Deserialize;
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{text, time};
use crate::kinds::{Kind, Need};
use crate::{Draft, Obstacle, State, help, refusal};

pub(crate) const KIND: Kind = Kind {
    resource: ResourceQuota::TYPE,
    inputs: &[],
    needs: &[Need::Refused],
    explain,
    tells_deletion: false,
};

pub(crate) fn explain(facts: &Facts, draft: &mut Draft<'_>) {
    let Ok(quota) = ResourceQuota::deserialize(&facts.object) else {
        return;
    };
    draft.wants(format!(
        "no more than {}",
        api::amounts::show(&quota.spec.hard)
    ));
    let scopes: Vec<String> = quota
        .scopes()
        .map(|scope| match scope.values {
            [] => scope.name.to_owned(),
            values => format!("{} {} {}", scope.name, scope.operator, values.join(", ")),
        })
        .collect();
    if !scopes.is_empty() {
        draft.wants(format!("of what is in scope {}", scopes.join(" and ")));
    }
    let Some(hard) = &quota.status.hard else {
        let why = "its usage is not computed yet: until then it limits nothing";
        return draft.conclude(State::Progressing, why);
    };
    let none = Amounts::new();
    let used = quota.status.used.as_ref().unwrap_or(&none);
    let refuses = said_of_exhausted(facts);
    draft.see_decisions(|line| line.reason != reasons::EXHAUSTED);
    for (name, most) in hard {
        draft.sees(match used.get(name) {
            Some(used) if used >= most && !refuses.is_empty() => {
                format!("{name}: {used} of {most} used: {refuses}")
            }
            Some(used) => format!("{name}: {used} of {most} used"),
            None => format!("{name}: not counted, so it limits nothing"),
        });
    }
    for (object, why) in refused(facts) {
        draft.in_the_way(Obstacle::named(object.0, object.1, why));
    }
    if *hard != quota.spec.hard {
        let why = "its limits have changed, and the old ones are enforced until its usage is computed again";
        return draft.conclude(State::Progressing, why);
    }
    let exhausted = exhausted(hard, used);
    let first = draft.explanation.in_the_way.first();
    let first = first.map(|one| format!("{} {}", one.object, one.why));
    match (exhausted.as_str(), first) {
        ("", Some(first)) => {
            let why = "set what the pods request, or spec.hard";
            draft.offer(help::hint(why.to_owned()));
            draft.conclude(State::Stuck, format!("has room, but not for all: {first}"));
        }
        ("", None) => draft.conclude(State::Settled, "has room for more of everything"),
        (_, None) => draft.conclude(State::Settled, format!("is used up: {exhausted}")),
        (_, Some(_)) => {
            let name = &quota.metadata.name;
            let why = "raise spec.hard, or delete what is not needed";
            draft.offer(help::on(facts, &format!("edit resourcequota {name}"), why));
            draft.conclude(
                State::Stuck,
                format!("is used up and refuses more: {exhausted}"),
            );
        }
    }
}

/// What the controller says of a resource that is used up.
fn said_of_exhausted(facts: &Facts) -> String {
    let decided = facts.decisions_about(&facts.object);
    let last = decided.iter().filter_map(|one| one.decisions.last());
    let mut lines = last.flat_map(|decision| decision.lines.iter());
    let line = lines.find(|line| line.reason == reasons::EXHAUSTED);
    line.map_or(String::new(), |line| line.why.to_string())
}

/// `pods 2 of 2`
fn exhausted(hard: &Amounts, used: &Amounts) -> String {
    let full = hard.iter().filter_map(|(name, most)| {
        let used = used.get(name).filter(|used| *used >= most)?;
        Some(format!("{name} {used} of {most}"))
    });
    full.collect::<Vec<_>>().join(", ")
}

/// A controller that was refused longer ago than this has had time to retry: they do so every 17 minutes at least.
const REFUSED_WITHIN_SECONDS: i64 = 20 * 60;

/// Who was refused something lately and would be refused it by this quota now.
fn refused(facts: &Facts) -> BTreeMap<(&str, &str), String> {
    // Each try of the same object leaves an event.
    let mut found = BTreeMap::new();
    for owner in &facts.related {
        let mut events = facts.events_of(owner, "FailedCreate").into_iter();
        let is_recent = |event: &Value| {
            let last = time(event, "/lastTimestamp");
            last.is_none_or(|at| facts.now.unix() - at.unix() <= REFUSED_WITHIN_SECONDS)
        };
        if events.any(is_recent)
            && let Some(refusal) = refusal::refused_by(&facts.object, owner, facts.now.micro())
        {
            let object = (text(owner, "/kind"), text(owner, "/metadata/name"));
            found.insert(object, format!("was refused: {}", refusal.why));
        }
    }
    found
}
