//! Quotas: what they count, how much of it is used, and whom they refuse.

use api::Resource;
use std::collections::BTreeMap;

use api::Amounts;
use api::kinds::ResourceQuota;
use serde::Deserialize;
use serde_json::Value;

use crate::facts::Facts;
use crate::json::{text, time};
use crate::kinds::Kind;
use crate::{Draft, Obstacle, State, help};

pub(crate) const KIND: Kind = Kind {
    resource: ResourceQuota::TYPE,
    inputs: &[],
    needs: &[],
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
        let why = "nobody has counted yet what is used: until then it limits nothing";
        return draft.conclude(State::Progressing, why);
    };
    let none = Amounts::new();
    let used = quota.status.used.as_ref().unwrap_or(&none);
    for (name, most) in hard {
        let said = match used.get(name) {
            Some(used) => format!("{name}: {used} of {most} used"),
            None => format!("{name}: not counted, so it limits nothing"),
        };
        // The controller may have said the same.
        if !draft
            .explanation
            .sees
            .iter()
            .any(|seen| seen.starts_with(&said))
        {
            draft.sees(said);
        }
    }
    for (object, why) in refused(facts) {
        draft.in_the_way(Obstacle {
            object,
            more: 0,
            why,
            since: None,
            passing: false,
        });
    }
    if *hard != quota.spec.hard {
        let why =
            "its limits have changed, and the old ones are enforced until somebody has counted";
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

/// `pods 2 of 2`
fn exhausted(hard: &Amounts, used: &Amounts) -> String {
    let full = hard.iter().filter_map(|(name, most)| {
        let used = used.get(name).filter(|used| *used >= most)?;
        Some(format!("{name} {used} of {most}"))
    });
    full.collect::<Vec<_>>().join(", ")
}

/// Whoever was refused longer ago than this has had time to try again: controllers do so every 17 minutes at least.
const REFUSED_WITHIN_SECONDS: i64 = 20 * 60;

/// Who was refused by this quota lately, and with which words: events tell.
fn refused(facts: &Facts) -> BTreeMap<String, String> {
    let name = text(&facts.object, "/metadata/name");
    let words = [
        format!("exceeded quota: {name}, "),
        format!("failed quota: {name}: "),
    ];
    let told = |event: &Value| {
        let last = time(event, "/lastTimestamp");
        if last.is_some_and(|at| facts.now.unix() - at.unix() > REFUSED_WITHIN_SECONDS) {
            return None;
        }
        let message = text(event, "/message");
        let why = words.iter().find_map(|words| message.split(words).nth(1))?;
        let kind = text(event, "/involvedObject/kind").to_lowercase();
        let object = format!("{kind}/{}", text(event, "/involvedObject/name"));
        Some((object, format!("was refused: {why}")))
    };
    // Each try of the same object leaves an event.
    let mut found = BTreeMap::new();
    for (object, why) in facts.events.iter().filter_map(told) {
        found.entry(object).or_insert(why);
    }
    found
}
