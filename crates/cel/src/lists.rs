//! Functions on lists.

use std::cmp::Ordering;

use api::collections::HashSet;

use crate::operators::{arithmetic, compare, equal};
use crate::value::{Evaluated, Fault, Key, List, Value};

/// The longest list that `lists.range` makes: more than a program's cost limit lets it pay for.
const RANGE_MAX: i64 = 1_000_000;
const DEPTH_MAX: usize = 200;

fn items<'a>(list: &List<'a>) -> Result<Vec<Value<'a>>, Fault> {
    list.iter().collect()
}

pub(crate) fn contains<'a>(list: &List<'_>, element: &Value<'_>) -> Evaluated<'a> {
    for item in list.iter() {
        if equal(&item?, element) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// Whether every element of one is in the other.
pub(crate) fn includes(list: &List<'_>, part: &List<'_>) -> Result<bool, Fault> {
    if let Some(known) = keys(list) {
        for item in part.iter() {
            match Key::of(&item?) {
                Some(key) if known.contains(&key) => {}
                _ => return Ok(false),
            }
        }
        return Ok(true);
    }
    for item in part.iter() {
        if !matches!(contains(list, &item?)?, Value::Bool(true)) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn intersects(one: &List<'_>, two: &List<'_>) -> Result<bool, Fault> {
    for item in one.iter() {
        if matches!(contains(two, &item?)?, Value::Bool(true)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All elements as keys, if all of them can be.
fn keys(list: &List<'_>) -> Option<HashSet<Key>> {
    list.iter().map(|item| Key::of(&item.ok()?)).collect()
}

pub(crate) fn range<'a>(count: i64) -> Evaluated<'a> {
    if count > RANGE_MAX {
        return Err(Fault::Cancelled);
    }
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

pub(crate) fn unwrap<'a>(list: &List<'a>) -> Evaluated<'a> {
    let mut held = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => held.push((*value).clone()),
            Value::Optional(None) => {}
            other => {
                return Err(Fault::new(format!("value {other:?} is not optional")));
            }
        }
    }
    Ok(Value::list(held))
}

/// A method of a list; `None` if there is none of that name for these arguments.
pub(crate) fn method<'a>(name: &str, list: &List<'a>, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    Some(match (name, args) {
        ("isSorted", []) => is_sorted(list),
        ("sum", []) => sum(list),
        ("min", []) => extreme(list, "min", Ordering::Greater),
        ("max", []) => extreme(list, "max", Ordering::Less),
        ("indexOf", [item]) => position(list, item, false),
        ("lastIndexOf", [item]) => position(list, item, true),
        ("join", []) => join(list, ""),
        ("join", [Value::String(by)]) => join(list, by),
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(list, *from, *to),
        ("flatten", []) => flatten(list, 1),
        ("flatten", [Value::Int(depth)]) => flatten(list, *depth),
        ("sort", []) => sort_by(list, list),
        ("@sortByAssociatedKeys", [Value::List(keys)]) => sort_by(list, keys),
        ("reverse", []) => items(list).map(|mut items| {
            items.reverse();
            Value::list(items)
        }),
        ("distinct", []) => distinct(list),
        ("first", []) => at(list, 0),
        ("last", []) => at(list, list.len().wrapping_sub(1)),
        ("unwrapOpt", []) => unwrap(list),
        _ => return None,
    })
}

fn at<'a>(list: &List<'a>, index: usize) -> Evaluated<'a> {
    match list.get(index) {
        Some(item) => item.map(Value::some),
        None => Ok(Value::none()),
    }
}

fn is_sorted<'a>(list: &List<'_>) -> Evaluated<'a> {
    let items = items(list)?;
    for pair in items.windows(2) {
        if compare(&pair[0], &pair[1]) == Ok(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(list: &List<'a>) -> Evaluated<'a> {
    let mut items = list.iter();
    let Some(first) = items.next() else {
        return Ok(Value::Int(0));
    };
    let mut total = first?;
    for item in items {
        total = arithmetic("_+_", total, item?)?;
    }
    Ok(total)
}

fn extreme<'a>(list: &List<'a>, name: &str, replaced_if: Ordering) -> Evaluated<'a> {
    let mut chosen: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        chosen = Some(match chosen {
            Some(before) if compare(&before, &item)? != replaced_if => before,
            _ => item,
        });
    }
    chosen.ok_or_else(|| Fault::new(format!("{name} called on empty list")))
}

fn position<'a>(list: &List<'_>, wanted: &Value<'_>, last: bool) -> Evaluated<'a> {
    let items = items(list)?;
    let found = if last {
        items.iter().rposition(|item| equal(item, wanted))
    } else {
        items.iter().position(|item| equal(item, wanted))
    };
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn join<'a>(list: &List<'_>, by: &str) -> Evaluated<'a> {
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(by);
        }
        match item? {
            Value::String(text) => joined.push_str(&text),
            other => {
                let shown = crate::show::plain(&other);
                return Err(Fault::new(format!("join: invalid input: {shown}")));
            }
        }
    }
    Ok(Value::text(joined))
}

fn slice<'a>(list: &List<'a>, from: i64, to: i64) -> Evaluated<'a> {
    let cannot = |why: String| Err(Fault::new(format!("cannot slice({from}, {to}), {why}")));
    if from < 0 || to < 0 {
        return cannot("negative indexes not supported".to_owned());
    }
    if from > to {
        return cannot("start index must be less than or equal to end index".to_owned());
    }
    let length = list.len() as i64;
    if length < to {
        return cannot(format!("list is length {length}"));
    }
    let part = (from as usize..to as usize).filter_map(|index| list.get(index));
    part.collect::<Result<_, _>>().map(Value::list)
}

fn flatten<'a>(list: &List<'a>, depth: i64) -> Evaluated<'a> {
    fn into<'a>(
        list: &List<'a>,
        depth: i64,
        level: usize,
        out: &mut Vec<Value<'a>>,
    ) -> Result<(), Fault> {
        for item in list.iter() {
            match item? {
                Value::List(inner) if depth > 0 && level < DEPTH_MAX => {
                    into(&inner, depth - 1, level + 1, out)?;
                }
                other => out.push(other),
            }
        }
        Ok(())
    }
    if depth < 0 {
        return Err(Fault::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    into(list, depth, 0, &mut flat)?;
    Ok(Value::list(flat))
}

fn sort_by<'a>(list: &List<'a>, keys: &List<'a>) -> Evaluated<'a> {
    let (items, keys) = (items(list)?, items(keys)?);
    if items.len() != keys.len() {
        return Err(Fault::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else {
        return Ok(Value::list(items));
    };
    if compare(first, first) == Err(Fault::NoSuchOverload) {
        return Err(Fault::new("list elements must be comparable"));
    }
    let kind = first.type_name();
    if keys.iter().any(|key| key.type_name() != kind) {
        return Err(Fault::new("list elements must have the same type"));
    }
    let mut paired: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(items).collect();
    paired.sort_by(|(one, _), (two, _)| compare(one, two).unwrap_or(Ordering::Equal));
    Ok(Value::list(
        paired.into_iter().map(|(_, item)| item).collect(),
    ))
}

fn distinct<'a>(list: &List<'a>) -> Evaluated<'a> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    let mut known: HashSet<Key> = HashSet::default();
    for item in list.iter() {
        let item = item?;
        let new = match Key::of(&item) {
            Some(key) => known.insert(key),
            None => !kept.iter().any(|before| equal(before, &item)),
        };
        if new {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}
