//! What differs between two objects, and which fields an object sets, as sets of fields.

use super::schema::{Place, Relation};
use super::set::{FieldSet, Node};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn of(place: Place<'_>, left: &Value, right: &Value) -> Comparison {
        let found = Found::at(place, Some(left), Some(right));
        Comparison {
            added: found.added.below,
            modified: found.modified.below,
            removed: found.removed.below,
        }
    }
}

/// What differs at a place and below it.
#[derive(Default)]
struct Found {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Found {
    fn at(place: Place<'_>, left: Option<&Value>, right: Option<&Value>) -> Found {
        let mut found = Found::default();
        let Some(shown) = right.filter(|value| !value.is_null()).or(left).or(right) else {
            return found;
        };
        let relation = place.relation(shown);
        let empty = |value: Option<&Value>| match value {
            None | Some(Value::Null) => true,
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(_) => false,
        };
        let mixed = !empty(left) && !empty(right) && !same_type(left, right);
        let whole = relation == Relation::Leaf || mixed || (empty(left) && empty(right));
        match (left, right) {
            (None, Some(_)) => found.added.member = true,
            (Some(_), None) => found.removed.member = true,
            (left, right) if whole && left != right => found.modified.member = true,
            _ => {}
        }
        if whole {
            return found;
        }
        if relation == Relation::Map {
            found.compare_maps(place, left, right);
        } else {
            found.compare_lists(place, &relation, left, right);
        }
        found
    }

    /// As [`Found::at`], for values that most writes leave as they are: then nothing is looked for.
    fn between(place: Place<'_>, left: Option<&Value>, right: Option<&Value>) -> Found {
        if left == right {
            return Found::default();
        }
        Found::at(place, left, right)
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Takes what was found below, under the name that it has here.
    fn take(&mut self, element: String, below: Found) {
        let Found {
            added,
            modified,
            removed,
        } = below;
        match (!added.is_empty(), !modified.is_empty(), !removed.is_empty()) {
            (false, false, false) => {}
            // By far the most: nothing is cloned.
            (true, false, false) => self.added.below.put(element, added),
            (changed, modifies, removes) => {
                if changed {
                    self.added.below.put(element.clone(), added);
                }
                if modifies {
                    self.modified.below.put(element.clone(), modified);
                }
                if removes {
                    self.removed.below.put(element, removed);
                }
            }
        }
    }

    fn compare_maps<'v>(
        &mut self,
        place: Place<'_>,
        left: Option<&'v Value>,
        right: Option<&'v Value>,
    ) {
        let members = |value: Option<&'v Value>| {
            let map = value.and_then(Value::as_object);
            map.into_iter().flatten()
        };
        let (mut lefts, mut rights) = (members(left).peekable(), members(right).peekable());
        loop {
            // Both are in the order of their names.
            let order = match (lefts.peek(), rights.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((left, _)), Some((right, _))) => left.cmp(right),
            };
            let left = lefts.next_if(|_| order != Ordering::Greater);
            let right = rights.next_if(|_| order != Ordering::Less);
            let Some((name, _)) = left.or(right) else {
                return;
            };
            let (left, right) = (left.map(|(_, value)| value), right.map(|(_, value)| value));
            let below = Found::between(place.member(name), left, right);
            if !below.is_empty() {
                self.take(["f:", name].concat(), below);
            }
        }
    }

    fn compare_lists(
        &mut self,
        place: Place<'_>,
        relation: &Relation,
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
            self.take(identity, Found::between(place.item(), left, right));
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
    collect(place, value).below
}

fn collect(place: Place<'_>, value: &Value) -> Node {
    let mut node = Node::default();
    match place.relation(value) {
        Relation::Leaf => node.member = true,
        Relation::Map => {
            for (name, member) in value.as_object().into_iter().flatten() {
                let mut below = collect(place.member(name), member);
                let empty =
                    member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
                below.member |= empty || !place.declares(name);
                node.below.put(["f:", name].concat(), below);
            }
        }
        relation => {
            let items = value.as_array().into_iter().flatten();
            let mut found: Vec<(String, Node)> = items
                .filter_map(|item| {
                    let identity = place.identity(&relation, item)?;
                    let mut below = collect(place.item(), item);
                    below.member = true;
                    Some((identity, below))
                })
                .collect();
            // In the order of the set each is put at its end.
            found.sort_by(|(one, _), (two, _)| one.cmp(two));
            for (identity, below) in found {
                node.below.put(identity, below);
            }
        }
    }
    node
}
