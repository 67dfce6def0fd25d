//! Strategic merge patch: a merge patch that knows, from the schema, which lists are sets or maps in disguise.
//!
//! Directives: `$patch: replace|delete|merge`, `$retainKeys`, `$setElementOrder/<list>` and
//! `$deleteFromPrimitiveList/<list>`.

use crate::schema::{Field, PatchStrategy, Shape, Type};
use crate::status::Status;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

/// Merges `patch` into `target`, an object of the given type (none: every list is replaced).
pub(crate) fn apply(
    target: &mut Value,
    patch: Value,
    ty: Option<&'static Type>,
) -> Result<(), Status> {
    let (Value::Object(original), Value::Object(patch)) = (target.take(), patch) else {
        return Err(Status::bad_request(
            "a strategic merge patch is a JSON object",
        ));
    };
    *target = Value::Object(merge_object(original, patch, ty)?);
    Ok(())
}

fn merge_object(
    mut original: Object,
    mut patch: Object,
    ty: Option<&'static Type>,
) -> Result<Object, Status> {
    match patch
        .remove(PATCH)
        .as_ref()
        .map(|directive| directive.as_str())
    {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => return Ok(drop_directives_of(patch)),
        Some(Some("delete")) => return Ok(Object::new()),
        Some(other) => return Err(unknown_directive(other.unwrap_or("(not a string)"))),
    }
    retain_keys(&mut original, &mut patch)?;
    let (orders, patch) = take_prefixed(patch, SET_ORDER);
    let (deletions, patch) = take_prefixed(patch, DELETE_FROM);
    for (key, unwanted) in deletions {
        if let (Some(Value::Array(list)), Value::Array(unwanted)) =
            (original.get_mut(&key), unwanted)
        {
            let unwanted: BTreeSet<String> = unwanted.iter().map(Value::to_string).collect();
            list.retain(|item| !unwanted.contains(&item.to_string()));
        }
    }
    let server_orders: Vec<(String, Vec<Identity>)> = orders
        .iter()
        .filter_map(|(key, _)| {
            let merge_key = ty
                .and_then(|ty| ty.field(key))
                .and_then(|field| field.merge_key);
            let list = original.get(key)?.as_array()?;
            Some((key.clone(), identities(list, merge_key)))
        })
        .collect();
    for (key, value) in patch {
        merge_member(&mut original, &key, value, ty.and_then(|ty| ty.field(&key)))?;
    }
    for (key, order) in orders {
        let server = server_orders.iter().find(|(name, _)| *name == key);
        reorder_member(
            &mut original,
            &key,
            &order,
            server
                .map(|(_, order)| order.as_slice())
                .unwrap_or_default(),
            ty.and_then(|ty| ty.field(&key)),
        );
    }
    Ok(original)
}

fn merge_member(
    original: &mut Object,
    key: &str,
    value: Value,
    field: Option<&'static Field>,
) -> Result<(), Status> {
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    let Some(existing) = original.get_mut(key) else {
        original.insert(key.to_owned(), drop_directives(value));
        return Ok(());
    };
    let strategy = field.map_or(PatchStrategy::None, |field| field.patch_strategy);
    let merged = match (existing.take(), value) {
        (Value::Object(before), Value::Object(patch)) if strategy != PatchStrategy::Replace => {
            Value::Object(merge_object(
                before,
                patch,
                field.and_then(|field| object_type(&field.ty)),
            )?)
        }
        (Value::Array(before), Value::Array(patch)) if merges(strategy) => {
            Value::Array(merge_list(before, patch, field)?)
        }
        (_, Value::Array(patch)) => Value::Array(plain_list(patch)),
        (_, value) => drop_directives(value),
    };
    *existing = merged;
    Ok(())
}

fn merges(strategy: PatchStrategy) -> bool {
    matches!(
        strategy,
        PatchStrategy::Merge | PatchStrategy::MergeRetainKeys
    )
}

fn merge_list(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    field: Option<&'static Field>,
) -> Result<Vec<Value>, Status> {
    let merge_key = field.and_then(|field| field.merge_key);
    let server_order = identities(&original, merge_key);
    let Some(key) = merge_key else {
        let patch_order = identities(&patch, None);
        let mut known: BTreeSet<String> = original.iter().map(Value::to_string).collect();
        for item in patch {
            if known.insert(item.to_string()) {
                original.push(item);
            }
        }
        return Ok(in_order(original, &patch_order, &server_order, None));
    };
    let element = field.and_then(|field| element_type(&field.ty));
    if patch.iter().any(|item| item[PATCH] == "replace") {
        let kept = patch.into_iter().filter(|item| item[PATCH] != "replace");
        return Ok(kept.map(drop_directives).collect());
    }
    let mut touched = Vec::with_capacity(patch.len());
    // Where the items of each identity are: what is searched for in a list of a hundred thousand is never found.
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, item) in original.iter().enumerate() {
        if let Some(identity) = item.get(key) {
            places.entry(identity.to_string()).or_default().push(place);
        }
    }
    let mut original: Vec<Option<Value>> = original.into_iter().map(Some).collect();
    for item in patch {
        let Some(identity) = item.get(key).cloned() else {
            return Err(Status::unexpected(format!(
                "map: {} does not contain declared merge key: {key}",
                go_text(&item)
            )));
        };
        let text = identity.to_string();
        if item[PATCH] == "delete" {
            for place in places.remove(&text).unwrap_or_default() {
                original[place] = None;
            }
            continue;
        }
        touched.push(Some(identity));
        let found = places.get(&text).and_then(|places| places.first());
        match (found.and_then(|place| original[*place].as_mut()), item) {
            (Some(existing), Value::Object(item)) => {
                let Value::Object(before) = existing.take() else {
                    continue;
                };
                *existing = Value::Object(merge_object(before, item, element)?);
            }
            (_, item) => {
                places.entry(text).or_default().push(original.len());
                original.push(Some(drop_directives(item)));
            }
        }
    }
    let merged = original.into_iter().flatten().collect();
    Ok(in_order(merged, &touched, &server_order, Some(key)))
}

/// `$setElementOrder`: the listed items in that order; items that only the server has stay where they were
/// relative to them.
fn reorder_member(
    original: &mut Object,
    name: &str,
    order: &Value,
    server: &[Identity],
    field: Option<&Field>,
) {
    let (Some(Value::Array(list)), Value::Array(order)) = (original.get_mut(name), order) else {
        return;
    };
    let key = field.and_then(|field| field.merge_key);
    *list = in_order(std::mem::take(list), &identities(order, key), server, key);
}

/// By what an item is told from others: its merge key, or itself.
type Identity = Option<Value>;

fn identities(items: &[Value], key: Option<&str>) -> Vec<Identity> {
    items
        .iter()
        .map(|item| identity(item, key).cloned())
        .collect()
}

fn identity<'a>(item: &'a Value, key: Option<&str>) -> Option<&'a Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

/// Sorts a merged list: items of the patch in the patch's order, the others in the server's, interleaved by the
/// server's order where it knows both.
fn in_order(
    merged: Vec<Value>,
    patch_order: &[Identity],
    server_order: &[Identity],
    key: Option<&str>,
) -> Vec<Value> {
    let (patch_order, server_order) = (positions(patch_order), positions(server_order));
    let position = |order: &BTreeMap<Option<String>, usize>, item: &Value| {
        let wanted = identity(item, key).map(Value::to_string);
        order.get(&wanted).copied()
    };
    let (mut patched, mut others): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|item| position(&patch_order, item).is_some());
    patched.sort_by_cached_key(|item| position(&patch_order, item));
    others.sort_by_cached_key(|item| position(&server_order, item).unwrap_or(usize::MAX));
    let mut result = Vec::with_capacity(patched.len() + others.len());
    let (mut patched, mut others) = (
        patched.into_iter().peekable(),
        others.into_iter().peekable(),
    );
    loop {
        let other_first = match (others.peek(), patched.peek()) {
            (None, None) => return result,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(patch)) => {
                match (
                    position(&server_order, other),
                    position(&server_order, patch),
                ) {
                    (Some(other), Some(patch)) => other < patch,
                    _ => false,
                }
            }
        };
        result.extend(if other_first {
            others.next()
        } else {
            patched.next()
        });
    }
}

/// Where each identity comes first.
fn positions(order: &[Identity]) -> BTreeMap<Option<String>, usize> {
    let mut positions = BTreeMap::new();
    for (position, identity) in order.iter().enumerate() {
        let identity = identity.as_ref().map(Value::to_string);
        positions.entry(identity).or_insert(position);
    }
    positions
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Some(keys) = keys.as_array() else {
        return Err(Status::bad_request("$retainKeys must be a list of keys"));
    };
    let keys: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |key: &str| keys.contains(key);
    if let Some(stray) = patch
        .keys()
        .find(|key| !key.starts_with('$') && !patch[*key].is_null() && !listed(key))
    {
        let message = format!("bad patch format for retainKeys: {stray} is not in the list");
        return Err(Status::bad_request(message));
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

fn take_prefixed(patch: Object, prefix: &str) -> (Vec<(String, Value)>, Object) {
    let mut taken = Vec::new();
    // Directives are rare, and moving all members from map to map takes as long as merging them.
    if !patch.keys().any(|key| key.starts_with(prefix)) {
        return (taken, patch);
    }
    let mut rest = Object::new();
    for (key, value) in patch {
        match key.strip_prefix(prefix) {
            Some(name) => taken.push((name.to_owned(), value)),
            None => {
                rest.insert(key, value);
            }
        }
    }
    (taken, rest)
}

fn unknown_directive(directive: &str) -> Status {
    Status::unexpected(format!(
        "unknown patch type: {directive} in map: map[$patch:{directive}]"
    ))
}

/// A value as Go prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_text(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        plain => plain.to_string(),
    }
}

/// What a patch adds where nothing was: itself, without directives and nulls.
fn drop_directives(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(drop_directives_of(map)),
        Value::Array(list) => Value::Array(plain_list(list)),
        value => value,
    }
}

fn drop_directives_of(map: Object) -> Object {
    let kept = map
        .into_iter()
        .filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    kept.map(|(key, value)| (key, drop_directives(value)))
        .collect()
}

fn plain_list(list: Vec<Value>) -> Vec<Value> {
    let directive = |item: &Value| matches!(item[PATCH].as_str(), Some("delete" | "replace"));
    list.into_iter()
        .filter(|item| !directive(item))
        .map(drop_directives)
        .collect()
}

fn object_type(shape: &Shape) -> Option<&'static Type> {
    match shape {
        Shape::Ref(ty) => Some(ty.get()),
        _ => None,
    }
}

fn element_type(shape: &Shape) -> Option<&'static Type> {
    match shape {
        Shape::List(element) => object_type(element),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use serde_json::json;

    fn check(original: Value, patch: Value, expected: Value) {
        let ty = schema::type_for("", "v1", "Pod");
        let mut target = original;
        apply(&mut target, patch.clone(), ty).unwrap();
        assert_eq!(target, expected, "{patch}");
    }

    fn containers(names: &[&str]) -> Value {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": list}})
    }

    #[test]
    fn lists_with_a_merge_key_merge_by_it() {
        check(
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}),
            json!({"spec": {"containers": [{"name": "b", "image": "2"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}}),
        );
        check(
            containers(&["a", "b"]),
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
            containers(&["b"]),
        );
        check(
            containers(&["a", "b"]),
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}}),
            containers(&["c"]),
        );
    }

    #[test]
    fn the_patch_can_set_the_order() {
        check(
            containers(&["a", "b", "c"]),
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": [{"name": "c", "image": "x"}]}}),
            json!({"spec": {"containers": [{"name": "b"}, {"name": "c", "image": "x"}, {"name": "a"}]}}),
        );
    }

    #[test]
    fn primitive_lists_merge_as_sets_where_the_schema_says_so() {
        check(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}),
            json!({"metadata": {"finalizers": ["c", "b"]}}),
        );
        check(
            json!({"spec": {"containers": [{"name": "a", "args": ["1", "2"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "args": ["3"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "args": ["3"]}]}}),
        );
    }

    #[test]
    fn objects_can_be_replaced_and_keys_retained() {
        check(
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}),
            json!({"metadata": {"labels": {"b": "2"}}}),
        );
        check(
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
        );
    }

    /// Each item searched for among all others would take hours.
    #[test]
    fn lists_of_a_hundred_thousand_items_merge() {
        const COUNT: usize = 100_000;
        let names: Vec<String> = (0..COUNT).map(|n| format!("n{n}")).collect();
        let list = |from: usize| -> Vec<Value> {
            let names = names[from..].iter().rev();
            names.map(|name| json!({"name": name})).collect()
        };
        let mut target =
            json!({"spec": {"containers": list(0)}, "metadata": {"finalizers": names}});
        let mut patch = json!({
            "spec": {"containers": list(COUNT / 2)},
            "metadata": {"finalizers": names[1..], "$deleteFromPrimitiveList/finalizers": names[2..]},
        });
        patch["spec"]["containers"][0]["$patch"] = json!("delete");
        apply(&mut target, patch, schema::type_for("", "v1", "Pod")).unwrap();
        let count = |path: &str| target.pointer(path).unwrap().as_array().unwrap().len();
        assert_eq!(count("/spec/containers"), COUNT - 1);
        assert_eq!(count("/metadata/finalizers"), COUNT);
        let members: Object = names.iter().map(|name| (name.clone(), json!(""))).collect();
        let mut target = json!({"data": members});
        let patch = json!({"data": {"$retainKeys": names[1..], "n7": "x"}});
        apply(&mut target, patch, schema::type_for("", "v1", "ConfigMap")).unwrap();
        assert_eq!(target["data"].as_object().unwrap().len(), COUNT - 1);
    }

    #[test]
    fn bad_directives_are_refused() {
        let ty = schema::type_for("", "v1", "Pod");
        for (patch, code) in [
            // UPSTREAM: not the client's fault, it says.
            (json!({"$patch": "dance"}), 500),
            (json!({"$retainKeys": 1}), 400),
            (json!([]), 400),
        ] {
            assert_eq!(apply(&mut json!({}), patch, ty).unwrap_err().code, code);
        }
    }
}
