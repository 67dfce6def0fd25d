//! What differs between two objects, and which fields an object sets, as sets of fields.

use super::schema::{Place, Relation};
use super::set::FieldSet;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn of(place: Place<'_>, left: &Value, right: &Value) -> Comparison {
        let mut comparison = Comparison::default();
        comparison.walk(place, &mut Vec::new(), Some(left), Some(right));
        comparison
    }

    fn walk(
        &mut self,
        place: Place<'_>,
        path: &mut Vec<String>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) {
        let Some(shown) = right.filter(|value| !value.is_null()).or(left).or(right) else {
            return;
        };
        let relation = place.relation(shown);
        let empty = |value: Option<&Value>| match value {
            None | Some(Value::Null) => true,
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(_) => false,
        };
        let mixed = !empty(left) && !empty(right) && !same_type(left, right);
        if relation == Relation::Leaf || mixed || (empty(left) && empty(right)) {
            match (left, right) {
                (None, Some(_)) => self.added.insert(path),
                (Some(_), None) => self.removed.insert(path),
                (left, right) if left != right => self.modified.insert(path),
                _ => {}
            }
            return;
        }
        if relation == Relation::Map {
            self.walk_map(place, path, left, right);
        } else {
            self.walk_list(place, &relation, path, left, right);
        }
        match (left, right) {
            (None, Some(_)) => self.added.insert(path),
            (Some(_), None) => self.removed.insert(path),
            _ => {}
        }
    }

    fn walk_map(
        &mut self,
        place: Place<'_>,
        path: &mut Vec<String>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) {
        let (left, right) = (
            left.and_then(Value::as_object),
            right.and_then(Value::as_object),
        );
        let keys = left.into_iter().chain(right).flat_map(|map| map.keys());
        let mut keys: Vec<&String> = keys.collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            path.push(format!("f:{key}"));
            self.walk(
                place.member(key),
                path,
                left.and_then(|map| map.get(key)),
                right.and_then(|map| map.get(key)),
            );
            path.pop();
        }
    }

    fn walk_list(
        &mut self,
        place: Place<'_>,
        relation: &Relation,
        path: &mut Vec<String>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) {
        let mut items: BTreeMap<String, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
        for item in left.and_then(Value::as_array).into_iter().flatten() {
            if let Some(identity) = place.identity(relation, item) {
                items.entry(identity).or_default().0 = Some(item);
            }
        }
        for item in right.and_then(Value::as_array).into_iter().flatten() {
            if let Some(identity) = place.identity(relation, item) {
                items.entry(identity).or_default().1 = Some(item);
            }
        }
        for (identity, (left, right)) in items {
            path.push(identity);
            self.walk(place.item(), path, left, right);
            path.pop();
        }
    }
}

fn same_type(left: Option<&Value>, right: Option<&Value>) -> bool {
    matches!(
        (left, right),
        (Some(Value::Object(_)), Some(Value::Object(_)))
            | (Some(Value::Array(_)), Some(Value::Array(_)))
    )
}

/// The fields that an applied configuration sets.
pub(super) fn fields_of(place: Place<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(place, value, &mut Vec::new(), &mut set);
    set
}

fn collect(place: Place<'_>, value: &Value, path: &mut Vec<String>, set: &mut FieldSet) {
    match place.relation(value) {
        Relation::Leaf => set.insert(path),
        Relation::Map => {
            for (key, member) in value.as_object().into_iter().flatten() {
                path.push(format!("f:{key}"));
                collect(place.member(key), member, path, set);
                let empty =
                    member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
                if empty || !place.declares(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        relation => {
            for item in value.as_array().into_iter().flatten() {
                let Some(identity) = place.identity(&relation, item) else {
                    continue;
                };
                path.push(identity);
                collect(place.item(), item, path, set);
                set.insert(path);
                path.pop();
            }
        }
    }
}
