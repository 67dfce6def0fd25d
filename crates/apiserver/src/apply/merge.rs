//! Merging an applied configuration into an object, and removing what is no longer applied.

use super::schema::{Place, Relation};
use super::set::{FieldSet, Node};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Puts what the configuration says over the live object.
pub(super) fn merge(place: Place<'_>, live: &mut Value, config: &Value) {
    match (place.relation(config), live, config) {
        (Relation::Map, Value::Object(live), Value::Object(config)) => {
            for (key, value) in config {
                match live.get_mut(key) {
                    Some(existing) => merge(place.member(key), existing, value),
                    None => {
                        live.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (
            relation @ (Relation::ListByKeys(_) | Relation::ListOfValues),
            Value::Array(live),
            Value::Array(config),
        ) => {
            *live = merge_list(place, &relation, std::mem::take(live), config);
        }
        (_, live, config) => *live = config.clone(),
    }
}

/// The configuration's order wins; items that only the live list has stay where they were between them.
fn merge_list(
    place: Place<'_>,
    relation: &Relation,
    live: Vec<Value>,
    config: &[Value],
) -> Vec<Value> {
    let identify = |item: &Value| place.identity(relation, item).unwrap_or_default();
    let wanted: Vec<String> = config.iter().map(identify).collect();
    // Looked up, not searched for: a list of a megabyte has a hundred thousand items.
    let is_wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let mut live: Vec<(String, Option<Value>)> = live
        .into_iter()
        .map(|item| (identify(&item), Some(item)))
        .collect();
    let mut indexes: BTreeMap<String, usize> = BTreeMap::new();
    for (index, (identity, _)) in live.iter().enumerate() {
        // Of several the first one counts.
        indexes.entry(identity.clone()).or_insert(index);
    }
    let mut merged = Vec::with_capacity(live.len() + config.len());
    let mut next_live = 0;
    for (index, item) in config.iter().enumerate() {
        // Live items up to the next shared one come first.
        while let Some((identity, own)) = live.get_mut(next_live) {
            if is_wanted.contains(identity.as_str()) {
                break;
            }
            merged.extend(own.take());
            next_live += 1;
        }
        if live
            .get(next_live)
            .is_some_and(|(identity, _)| *identity == wanted[index])
        {
            next_live += 1;
        }
        let found = indexes.get(&wanted[index]);
        let found = found.and_then(|index| live.get_mut(*index));
        match found.and_then(|(_, own)| own.take()) {
            Some(mut existing) => {
                merge(place.item(), &mut existing, item);
                merged.push(existing);
            }
            None => merged.push(item.clone()),
        }
    }
    merged.extend(
        live.into_iter()
            .filter(|(identity, _)| !is_wanted.contains(identity.as_str()))
            .filter_map(|(_, own)| own),
    );
    merged
}

/// Removes fields that were applied before and that nobody owns any more. True if that left nothing of the value: then
/// it goes too.
pub(super) fn prune(
    place: Place<'_>,
    value: &mut Value,
    before: &FieldSet,
    owned: &FieldSet,
) -> bool {
    let nothing = FieldSet::default();
    // Whether a member goes, itself or because nothing is left of it.
    let goes =
        |place: Place<'_>, element: &str, is_applied: bool, applied: &Node, member: &mut Value| {
            let owned = owned.child(element);
            let is_owned = owned.is_some_and(|node| !node.is_empty());
            let below = owned.map_or(&nothing, |node| &node.below);
            (is_applied && !is_owned) || prune(place, member, &applied.below, below)
        };
    match value {
        Value::Object(map) => {
            let count = map.len();
            for (element, applied) in before.children() {
                let Some(name) = element.strip_prefix("f:") else {
                    continue;
                };
                // UPSTREAM: whoever applied a field within a struct applied the struct as well, with all that is in it.
                let is_applied = applied.member || place.declares(name);
                let member = map.get_mut(name);
                if member.is_some_and(|member| {
                    goes(place.member(name), element, is_applied, applied, member)
                }) {
                    map.remove(name);
                }
            }
            map.is_empty() && count > 0
        }
        Value::Array(list) => {
            let count = list.len();
            let relation = place.relation(&Value::Array(Vec::new()));
            // Of several items with one identity the first one counts.
            let mut seen = BTreeSet::new();
            list.retain_mut(|item| {
                let identity = place.identity(&relation, item);
                let Some(identity) = identity.filter(|identity| !seen.contains(identity)) else {
                    return true;
                };
                let applied = before.child(&identity);
                let goes = applied.is_some_and(|applied| {
                    goes(place.item(), &identity, applied.member, applied, item)
                });
                seen.insert(identity);
                !goes
            });
            list.is_empty() && count > 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare::fields_of;
    use super::*;
    use crate::kinds;
    use serde_json::json;

    /// Each item searched for among all others would take hours.
    #[test]
    fn lists_of_a_hundred_thousand_items_merge_and_are_pruned() {
        const COUNT: usize = 100_000;
        let place = Place::of(kinds::find("", "Pod").unwrap(), None);
        let object = |from: usize| {
            let names = (from..COUNT).rev().map(|n| format!("n{n}"));
            json!({"metadata": {"finalizers": names.collect::<Vec<_>>()}})
        };
        let (all, half) = (object(0), object(COUNT / 2));
        let mut merged = half.clone();
        merge(place, &mut merged, &all);
        assert_eq!(merged, all);
        let (before, mut owned) = (fields_of(place, &all), fields_of(place, &half));
        owned.union(&fields_of(
            place,
            &json!({"metadata": {"finalizers": ["a"]}}),
        ));
        prune(place, &mut merged, &before, &owned);
        assert_eq!(merged, half);
        // Without any of its items the list goes as well.
        assert!(prune(place, &mut merged, &before, &FieldSet::default()));
        assert_eq!(merged, json!({}));
    }
}
