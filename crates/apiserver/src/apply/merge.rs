//! Merging an applied configuration into an object, and removing what is no longer applied.

use super::schema::{Place, Relation};
use super::set::FieldSet;
use serde_json::Value;

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
    let mut live: Vec<(String, Option<Value>)> = live
        .into_iter()
        .map(|item| (identify(&item), Some(item)))
        .collect();
    let mut merged = Vec::with_capacity(live.len() + config.len());
    let mut next_live = 0;
    for (index, item) in config.iter().enumerate() {
        // Live items up to the next shared one come first.
        while let Some((identity, own)) = live.get_mut(next_live) {
            if wanted.contains(identity) {
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
        let found = live
            .iter_mut()
            .find(|(identity, own)| *identity == wanted[index] && own.is_some());
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
            .filter(|(identity, _)| !wanted.contains(identity))
            .filter_map(|(_, own)| own),
    );
    merged
}

/// Removes fields that were applied before and that nobody owns any more.
pub(super) fn prune(place: Place<'_>, value: &mut Value, before: &FieldSet, owned: &FieldSet) {
    let mut unowned: Vec<Vec<String>> = before
        .paths()
        .into_iter()
        .filter(|path| !owned.contains_at_or_below(path))
        .collect();
    // Items before their members: without its keys an item could not be found any more.
    unowned.sort_by_key(Vec::len);
    for path in unowned {
        remove(place, value, &path);
    }
}

/// Removes one path; true if the container that held it is now empty and should go too.
fn remove(place: Place<'_>, value: &mut Value, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return true;
    };
    match value {
        Value::Object(map) => {
            let Some(name) = first.strip_prefix("f:") else {
                return false;
            };
            let Some(member) = map.get_mut(name) else {
                return false;
            };
            if rest.is_empty() || remove(place.member(name), member, rest) {
                map.remove(name);
                return map.is_empty();
            }
            false
        }
        Value::Array(list) => {
            let relation = place.relation(&Value::Array(Vec::new()));
            let found = list
                .iter()
                .position(|item| place.identity(&relation, item).as_ref() == Some(first));
            let Some(index) = found else { return false };
            if rest.is_empty() || remove(place.item(), &mut list[index], rest) {
                list.remove(index);
                return list.is_empty();
            }
            false
        }
        _ => false,
    }
}
