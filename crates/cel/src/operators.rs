//! Arithmetic, order and equality.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::decl::ListType;
use crate::value::{Evaluated, Fault, Instant, List, Map, Value};

/// Seconds that a timestamp may reach.
const TIME_MIN: i128 = -62_135_596_800;
const TIME_MAX: i128 = 253_402_300_799;
/// Comparison goes no deeper than data can.
const DEPTH_MAX: usize = 1_000;

fn overflow<'a>(what: &str) -> Evaluated<'a> {
    Err(Fault::new(format!("{what} overflow")))
}

fn int<'a>(result: Option<i64>) -> Evaluated<'a> {
    result.map_or_else(|| overflow("integer"), |number| Ok(Value::Int(number)))
}

fn uint<'a>(result: Option<u64>) -> Evaluated<'a> {
    result.map_or_else(
        || overflow("unsigned integer"),
        |number| Ok(Value::Uint(number)),
    )
}

fn span<'a>(result: Option<i64>) -> Evaluated<'a> {
    result.map_or_else(|| overflow("duration"), |nanos| Ok(Value::Duration(nanos)))
}

fn moved<'a>(instant: Instant, nanos: i128) -> Evaluated<'a> {
    let total = i128::from(instant.seconds) * 1_000_000_000 + i128::from(instant.nanos) + nanos;
    let seconds = total.div_euclid(1_000_000_000);
    if !(TIME_MIN..=TIME_MAX).contains(&seconds) {
        return overflow("timestamp");
    }
    Ok(Value::Timestamp(Instant {
        seconds: seconds as i64,
        nanos: total.rem_euclid(1_000_000_000) as u32,
    }))
}

/// `+ - * / %` on two values.
pub(crate) fn arithmetic<'a>(operator: &str, left: Value<'a>, right: Value<'a>) -> Evaluated<'a> {
    use Value::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let zero = |what: &str| Err(Fault::new(format!("{what} by zero")));
    match (operator, left, right) {
        ("_+_", Int(a), Int(b)) => int(a.checked_add(b)),
        ("_-_", Int(a), Int(b)) => int(a.checked_sub(b)),
        ("_*_", Int(a), Int(b)) => int(a.checked_mul(b)),
        ("_/_", Int(_), Int(0)) | ("_/_", Uint(_), Uint(0)) => zero("division"),
        ("_%_", Int(_), Int(0)) | ("_%_", Uint(_), Uint(0)) => zero("modulus"),
        ("_/_", Int(a), Int(b)) => int(a.checked_div(b)),
        ("_%_", Int(a), Int(b)) => int(a.checked_rem(b)),
        ("_+_", Uint(a), Uint(b)) => uint(a.checked_add(b)),
        ("_-_", Uint(a), Uint(b)) => uint(a.checked_sub(b)),
        ("_*_", Uint(a), Uint(b)) => uint(a.checked_mul(b)),
        ("_/_", Uint(a), Uint(b)) => uint(a.checked_div(b)),
        ("_%_", Uint(a), Uint(b)) => uint(a.checked_rem(b)),
        ("_+_", Double(a), Double(b)) => Ok(Double(a + b)),
        ("_-_", Double(a), Double(b)) => Ok(Double(a - b)),
        ("_*_", Double(a), Double(b)) => Ok(Double(a * b)),
        ("_/_", Double(a), Double(b)) => Ok(Double(a / b)),
        ("_+_", Duration(a), Duration(b)) => span(a.checked_add(b)),
        ("_-_", Duration(a), Duration(b)) => span(a.checked_sub(b)),
        ("_+_", Duration(by), Timestamp(at)) | ("_+_", Timestamp(at), Duration(by)) => {
            moved(at, i128::from(by))
        }
        ("_-_", Timestamp(at), Duration(by)) => moved(at, -i128::from(by)),
        ("_-_", Timestamp(a), Timestamp(b)) => {
            let seconds = i128::from(a.seconds) - i128::from(b.seconds);
            let nanos = seconds * 1_000_000_000 + i128::from(a.nanos) - i128::from(b.nanos);
            span(i64::try_from(nanos).ok())
        }
        ("_+_", String(a), String(b)) => {
            let mut joined = std::string::String::with_capacity(a.len() + b.len());
            joined.push_str(&a);
            joined.push_str(&b);
            Ok(Value::text(joined))
        }
        ("_+_", Bytes(a), Bytes(b)) => Ok(Bytes(a.iter().chain(b.iter()).copied().collect())),
        ("_+_", Value::List(a), Value::List(b)) => add_lists(a, b),
        _ => Err(Fault::NoSuchOverload),
    }
}

pub(crate) fn negate(value: Value<'_>) -> Evaluated<'_> {
    match value {
        Value::Int(number) => int(number.checked_neg()),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(nanos) => span(nanos.checked_neg()),
        _ => Err(Fault::NoSuchOverload),
    }
}

/// Lists joined; sets and maps of an object keep what makes them so.
fn add_lists<'a>(left: List<'a>, right: List<'a>) -> Evaluated<'a> {
    let list_type = match &left {
        List::Data(data) => data.list_type.clone(),
        List::Made(_) => ListType::Atomic,
    };
    let mut items = match left {
        List::Made(items) => items,
        data @ List::Data(_) => Arc::new(data.iter().collect::<Result<_, _>>()?),
    };
    // The one who sums up in a loop owns the list alone: it grows in place.
    let grown = Arc::make_mut(&mut items);
    for item in right.iter() {
        let item = item?;
        let same = match &list_type {
            ListType::Atomic => None,
            ListType::Set => grown.iter().position(|known| equal(known, &item)),
            ListType::Map(keys) => grown.iter().position(|known| same_key(known, &item, keys)),
        };
        match (same, &list_type) {
            (Some(at), ListType::Map(_)) => grown[at] = item,
            (Some(_), _) => {}
            (None, _) => grown.push(item),
        }
    }
    Ok(Value::List(List::Made(items)))
}

fn same_key(one: &Value<'_>, two: &Value<'_>, keys: &[String]) -> bool {
    let (Value::Map(one), Value::Map(two)) = (one, two) else {
        return false;
    };
    keys.iter().all(|key| {
        let key = Value::text(key.as_str());
        match (one.get(&key), two.get(&key)) {
            (Some(Ok(one)), Some(Ok(two))) => equal(&one, &two),
            (None, None) => true,
            _ => false,
        }
    })
}

/// Order; `None` where the two cannot be compared.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Fault> {
    use Value::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let floats = |a: f64, b: f64| {
        a.partial_cmp(&b)
            .ok_or_else(|| Fault::new("NaN values cannot be ordered"))
    };
    Ok(match (left, right) {
        (Bool(a), Bool(b)) => a.cmp(b),
        (Int(a), Int(b)) | (Duration(a), Duration(b)) => a.cmp(b),
        (Uint(a), Uint(b)) => a.cmp(b),
        (Int(a), Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Uint(a), Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Double(a), Double(b)) => return floats(*a, *b),
        (Double(a), Int(b)) => return float_to_whole(*a, i128::from(*b)),
        (Double(a), Uint(b)) => return float_to_whole(*a, i128::from(*b)),
        (Int(a), Double(b)) => return float_to_whole(*b, i128::from(*a)).map(Ordering::reverse),
        (Uint(a), Double(b)) => return float_to_whole(*b, i128::from(*a)).map(Ordering::reverse),
        (String(a), String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Timestamp(a), Timestamp(b)) => a.cmp(b),
        _ => return Err(Fault::NoSuchOverload),
    })
}

fn float_to_whole(float: f64, whole: i128) -> Result<Ordering, Fault> {
    if float.is_nan() {
        return Err(Fault::new("NaN values cannot be ordered"));
    }
    if float >= 1e30 || float <= -1e30 {
        return Ok(if float > 0.0 {
            Ordering::Greater
        } else {
            Ordering::Less
        });
    }
    let floor = float.floor();
    Ok(match (floor as i128).cmp(&whole) {
        Ordering::Equal if float > floor => Ordering::Greater,
        other => other,
    })
}

/// Equality: numbers by their worth, everything else by type and content.
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    equal_within(left, right, 0)
}

fn equal_within(left: &Value<'_>, right: &Value<'_>, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Type(a), Value::Type(b)) => a.runtime_name() == b.runtime_name(),
        (Value::List(a), Value::List(b)) => equal_lists(a, b, depth),
        (Value::Map(a), Value::Map(b)) => equal_maps(a, b, depth),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal_within(a, b, depth + 1),
        (Value::Object(a), Value::Object(b)) => {
            a.name == b.name
                && a.fields.len() == b.fields.len()
                && a.fields.iter().all(|(name, value)| {
                    let other = b.fields.iter().find(|(known, _)| known == name);
                    other.is_some_and(|(_, other)| equal_within(value, other, depth + 1))
                })
        }
        (Value::Kube(a), Value::Kube(b)) => a == b,
        (Value::Optional(_), _) | (_, Value::Optional(_)) => false,
        _ => compare(left, right) == Ok(Ordering::Equal),
    }
}

fn equal_items(one: Evaluated<'_>, two: Evaluated<'_>, depth: usize) -> bool {
    matches!((one, two), (Ok(one), Ok(two)) if equal_within(&one, &two, depth + 1))
}

fn equal_lists(left: &List<'_>, right: &List<'_>, depth: usize) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let list_type = match left {
        List::Data(data) => data.list_type,
        List::Made(_) => &ListType::Atomic,
    };
    match list_type {
        ListType::Atomic => left
            .iter()
            .zip(right.iter())
            .all(|(one, two)| equal_items(one, two, depth)),
        ListType::Set => {
            let known: Option<api::collections::HashSet<_>> = left
                .iter()
                .map(|item| crate::value::Key::of(&item.ok()?))
                .collect();
            match known {
                Some(known) => right.iter().all(|item| {
                    let key = item.ok().and_then(|item| crate::value::Key::of(&item));
                    key.is_some_and(|key| known.contains(&key))
                }),
                None => right.iter().all(|two| {
                    let Ok(two) = two else {
                        return false;
                    };
                    left.iter()
                        .any(|one| one.is_ok_and(|one| equal_within(&one, &two, depth + 1)))
                }),
            }
        }
        ListType::Map(keys) => right.iter().all(|two| {
            let Ok(two) = two else {
                return false;
            };
            let partner = left
                .iter()
                .find(|one| matches!(one, Ok(one) if same_key(one, &two, keys)));
            partner.is_some_and(|one| equal_items(one, Ok(two), depth))
        }),
    }
}

fn equal_maps(left: &Map<'_>, right: &Map<'_>, depth: usize) -> bool {
    if left.len() != right.len() {
        return false;
    }
    left.entries().into_iter().all(|(key, one)| {
        let two = right.get(&key);
        two.is_some_and(|two| equal_items(one, two, depth))
    })
}
