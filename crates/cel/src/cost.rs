//! What a call costs while evaluating.

use crate::kube::Kube;
use crate::value::Value;

pub(crate) const TRAVERSE: f64 = 0.1;
pub(crate) const REGEX: f64 = 0.25;
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const STRUCT: u64 = 40;
/// One question to the authorizer.
pub(crate) const CHECK: u64 = 350_000;
/// The biggest regular expression of a named format.
pub(crate) const FORMAT_REGEX: u64 = 128;

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn size(args: &[Value<'_>], index: usize) -> u64 {
    args.get(index).map_or(1, Value::cost_size)
}

/// The cost of a call of `function`, whose overload is known if just one was possible.
pub(crate) fn call(
    function: &str,
    overload: &str,
    args: &[Value<'_>],
    result: Option<&Value<'_>>,
) -> u64 {
    if let Some(cost) = by_overload(overload, args, result) {
        return cost;
    }
    if let Some(cost) = by_function(function, overload, args, result) {
        return cost;
    }
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
        | "strings_quote" | "string_format" => scaled(size(args, 0), TRAVERSE),
        "in_list" => size(args, 1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => scaled(size(args, 0).min(size(args, 1)), TRAVERSE),
        "add_string" | "add_bytes" => scaled(size(args, 0) + size(args, 1), TRAVERSE),
        "matches_string" => regex(args),
        "contains_string" => scaled(size(args, 0), TRAVERSE) * scaled(size(args, 1), TRAVERSE),
        _ => 1,
    }
}

fn regex(args: &[Value<'_>]) -> u64 {
    scaled(size(args, 0) + 1, TRAVERSE).saturating_mul(scaled(size(args, 1), REGEX))
}

/// Lists and sets, whose cost follows from their sizes.
fn by_overload(overload: &str, args: &[Value<'_>], result: Option<&Value<'_>>) -> Option<u64> {
    let allocating = |factor: f64, size: u64| (size as f64 * factor) as u64 + 1 + LIST;
    Some(match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => {
            1 + size(args, 0).saturating_mul(size(args, 1))
        }
        "list_sets_equivalent_list" => {
            1 + size(args, 0)
                .saturating_mul(size(args, 1))
                .saturating_mul(2)
        }
        "list_slice" | "lists_range" | "list_reverse" => {
            allocating(1.0, result.map_or(0, Value::cost_size))
        }
        "list_flatten" => allocating(1.0, size(args, 0)),
        "list_flatten_int" => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => *depth as f64,
                _ => 1.0,
            };
            allocating(depth.max(0.0), size(args, 0))
        }
        "list_distinct" => self_compare(args.first()),
        _ if overload.starts_with("list_") && overload.ends_with("_sort") => {
            self_compare(args.first())
        }
        _ if overload.ends_with("_sortByAssociatedKeys") => self_compare(args.get(1)),
        _ => return None,
    })
}

fn self_compare(list: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(list)) = list else {
        return 1;
    };
    let size = list.len() as u64;
    let texts = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let factor = if texts { 2.0 + TRAVERSE } else { 2.0 };
    (size.saturating_mul(size) as f64 * factor) as u64 + 1 + LIST
}

fn by_function(
    function: &str,
    overload: &str,
    args: &[Value<'_>],
    result: Option<&Value<'_>>,
) -> Option<u64> {
    Some(match function {
        "check" => CHECK,
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
        | "allowed" | "reason" | "error" | "errored" => 1,
        "fieldSelector" | "labelSelector" if args.len() >= 2 => {
            let length = size(args, 1);
            LIST + scaled(length, TRAVERSE) + scaled(scaled(length, 0.5), (LIST + STRUCT) as f64)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            args.first().map_or(0, traversal)
        }
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => scaled(size(args, 0), TRAVERSE),
        "replace" | "split" | "ip.isCanonical" => scaled(size(args, 0), 2.0 * TRAVERSE),
        "join" => scaled(result.map_or(1, Value::cost_size), 2.0 * TRAVERSE),
        "find" | "findAll" => regex(args),
        "ip" if overload == "cidr_ip" => 1,
        "ip" => scaled(size(args, 0), TRAVERSE),
        _ if costs_one(function) => 1,
        "containsIP" | "containsCIDR" => {
            let own = size(args, 0);
            let mut cost = scaled(own + own, TRAVERSE);
            if function == "containsCIDR" {
                cost += scaled(own, TRAVERSE) + 1;
            }
            if matches!(
                overload,
                "cidr_contains_ip_string" | "cidr_contains_cidr_string"
            ) {
                cost += scaled(size(args, 1), TRAVERSE);
            }
            cost
        }
        "validate" => match args.first() {
            Some(Value::Kube(kube)) => match &**kube {
                Kube::Format(format) => {
                    scaled(size(args, 1) + 1, TRAVERSE) * scaled(format.regex_size, REGEX)
                }
                _ => return None,
            },
            _ => return None,
        },
        "_==_" if matches!(args.first(), Some(Value::Kube(_))) => 1,
        _ => return None,
    })
}

/// Functions of upstream's libraries that look at what was parsed before, however long it is.
pub(crate) fn costs_one(function: &str) -> bool {
    matches!(
        function,
        "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

/// Everything in a value, once.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * TRAVERSE) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TRAVERSE) as u64,
        Value::List(list) => list
            .iter()
            .map(|item| item.map_or(1, |item| traversal(&item)))
            .sum(),
        Value::Map(map) => map
            .entries()
            .into_iter()
            .map(|(key, value)| traversal(&key) + value.map_or(1, |value| traversal(&value)))
            .sum(),
        _ => 1,
    }
}
