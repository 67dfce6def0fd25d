//! What single calls can cost at most.

use crate::cost::{CHECK, FORMAT_REGEX, LIST, REGEX, STRUCT, TRAVERSE, costs_one};
use crate::estimate::{CallCost, Part, Range, int_literal};
use crate::types::Type;

type Sizes<'a> = dyn Fn(&Part<'_>) -> Range + 'a;

fn cost(cost: Range) -> Option<CallCost> {
    Some(CallCost { cost, size: None })
}

fn sized(cost: Range, size: Range) -> Option<CallCost> {
    let size = Some(size);
    Some(CallCost { cost, size })
}

/// The extension libraries of lists and sets.
pub(crate) fn by_overload(
    overload: &str,
    target: Option<&Part<'_>>,
    args: &[Part<'_>],
    sizes: &Sizes<'_>,
) -> Option<CallCost> {
    let allocating = |factor: f64, size: Range| {
        let own = size.scaled(factor).plus(Range::fixed(1 + LIST));
        sized(own, size)
    };
    let constant = |part: &Part<'_>, otherwise: u64| {
        int_literal(part.expr).map_or(otherwise, |number| u64::try_from(number).unwrap_or(0))
    };
    match (overload, target, args) {
        ("list_sets_contains_list" | "list_sets_intersects_list", _, [one, two]) => {
            cost(sizes(one).times(sizes(two)).plus(Range::fixed(1)))
        }
        ("list_sets_equivalent_list", _, [one, two]) => {
            let pairs = sizes(one).times(sizes(two));
            cost(pairs.scaled(2.0).plus(Range::fixed(1)))
        }
        ("list_slice", Some(list), [from, to]) => {
            let from = constant(from, 0);
            let to = constant(to, sizes(list).max);
            allocating(1.0, Range::fixed(to.wrapping_sub(from)))
        }
        ("lists_range", None, [count]) => allocating(1.0, Range::fixed(constant(count, u64::MAX))),
        ("list_reverse", Some(list), []) => allocating(1.0, sizes(list)),
        ("list_flatten", Some(list), []) => allocating(1.0, sizes(list)),
        ("list_flatten_int", Some(list), [depth]) => {
            allocating(constant(depth, u64::MAX) as f64, sizes(list))
        }
        ("list_distinct", Some(list), []) => allocating(2.0, sizes(list).times(sizes(list))),
        (_, Some(list), []) if overload.starts_with("list_") && overload.ends_with("_sort") => {
            allocating(sort_factor(overload), sizes(list).times(sizes(list)))
        }
        (_, Some(_), [keys]) if overload.ends_with("_sortByAssociatedKeys") => {
            allocating(sort_factor(overload), sizes(keys).times(sizes(keys)))
        }
        _ => None,
    }
}

fn sort_factor(overload: &str) -> f64 {
    if overload.starts_with("list_string") || overload.starts_with("list_bytes") {
        2.0 + TRAVERSE
    } else {
        2.0
    }
}

/// Kubernetes' own functions.
pub(crate) fn by_function(
    function: &str,
    overload: &str,
    target: Option<&Part<'_>>,
    args: &[Part<'_>],
    sizes: &Sizes<'_>,
    element: &dyn Fn(&Part<'_>) -> Option<(Type, Range)>,
) -> Option<CallCost> {
    let one = Range::fixed(1);
    match (function, target, args) {
        ("check", ..) => cost(Range::fixed(CHECK)),
        (
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
            | "allowed" | "reason" | "error" | "errored",
            ..,
        ) => cost(one),
        ("fieldSelector" | "labelSelector", _, [selector]) => {
            let length = sizes(selector);
            let requirements = length.scaled(0.5).scaled((LIST + STRUCT) as f64);
            cost(
                Range::fixed(LIST)
                    .plus(length.scaled(TRAVERSE))
                    .plus(requirements),
            )
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(list), _) => {
            match element(list) {
                Some((of, size)) => {
                    let texts = matches!(of, Type::String | Type::Bytes);
                    let each = if texts {
                        one.plus(size.scaled(TRAVERSE))
                    } else {
                        one
                    };
                    cost(sizes(list).times(each))
                }
                None => cost(sizes(list).scaled(TRAVERSE)),
            }
        }
        ("url" | "jsonpatch.escapeKey", _, [text]) => {
            sized(sizes(text).scaled(TRAVERSE), sizes(text))
        }
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            sized(sizes(text).scaled(TRAVERSE), sizes(text))
        }
        ("replace", Some(text), [old, new, ..]) => {
            let size = replaced(sizes(text), sizes(old), sizes(new));
            sized(sizes(text).scaled(2.0 * TRAVERSE), size)
        }
        ("split", Some(text), args) => {
            let size = sizes(text);
            let most = args.get(1).and_then(|count| int_literal(count.expr));
            let max = most.map_or(size.max, |most| most as u64);
            sized(size.scaled(2.0 * TRAVERSE), Range { min: 0, max })
        }
        ("join", Some(list), args) => {
            let count = sizes(list);
            let each = element(list).map(|(_, size)| size);
            let mut size = each.map_or(Range::default(), |each| count.times(each));
            if let Some(by) = args.first() {
                let between = Range {
                    min: count.min.saturating_sub(1),
                    max: count.max.saturating_sub(1),
                };
                size = size.plus(sizes(by).times(between));
            }
            sized(size.scaled(TRAVERSE), size)
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            let size = sizes(text);
            let own = size
                .plus(one)
                .scaled(TRAVERSE)
                .times(sizes(pattern).scaled(REGEX));
            let found = Range {
                min: 0,
                max: size.max,
            };
            sized(own, found)
        }
        ("ip", ..) if overload == "cidr_ip" => cost(one),
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            _,
            [text, ..],
        ) => cost(sizes(text).scaled(TRAVERSE)),
        ("ip.isCanonical", _, [text]) => cost(sizes(text).scaled(2.0 * TRAVERSE)),
        _ if costs_one(function) => cost(one),
        ("containsIP" | "containsCIDR", _, [other]) => {
            let bytes = Range { min: 4, max: 16 };
            let mut own = bytes.plus(bytes).scaled(TRAVERSE);
            if function == "containsCIDR" {
                own = own.plus(bytes.scaled(TRAVERSE)).plus(one);
            }
            if overload.ends_with("_string") {
                own = own.plus(sizes(other).scaled(TRAVERSE));
            }
            cost(own)
        }
        ("validate", _, [text]) => {
            let own = sizes(text).scaled(TRAVERSE);
            cost(own.scaled(FORMAT_REGEX as f64 * REGEX))
        }
        ("_==_", _, [left, right]) if left.of == right.of => equality(&left.of, right),
        _ => None,
    }
}

/// Equality of Kubernetes' values is cheap.
fn equality(of: &Type, right: &Part<'_>) -> Option<CallCost> {
    let (Type::Opaque(name, _) | Type::Struct(name)) = of else {
        return None;
    };
    match &**name {
        "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => {
            cost(Range::fixed(1))
        }
        name if name.starts_with("kubernetes.authorization.") => cost(Range::fixed(1)),
        "kubernetes.NamedFormat" => cost(Range { min: 1, max: 64 }.scaled(TRAVERSE)),
        "kubernetes.URL" => {
            let max = right.computed.map_or(1, |size| size.max);
            cost(Range { min: 1, max }.scaled(TRAVERSE))
        }
        _ => None,
    }
}

/// How long a text can be after replacing.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let divided = |size: u64, by: u64| (size as f64 / by as f64).ceil() as u64;
    let (most, kept_most) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (divided(text.max, old.min), 0)
    };
    let (least, kept_least) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (divided(text.min, old.max), 0)
    };
    let count = Range {
        min: least,
        max: most,
    };
    count.times(new).plus(Range {
        min: kept_least,
        max: kept_most,
    })
}

/// CEL's own functions.
pub(crate) fn plain(overload: &str, target: Option<&Part<'_>>, args: &[Part<'_>]) -> CallCost {
    let size = |part: &Part<'_>| part.computed.unwrap_or(Range::UNKNOWN);
    let found = match (overload, target, args) {
        ("string_format", Some(text), _) => cost(size(text).scaled(TRAVERSE)),
        ("string_to_bytes", _, [text]) => {
            let from = size(text);
            let to = Range {
                min: from.min,
                max: from.max.wrapping_mul(4),
            };
            sized(from.scaled(TRAVERSE), to)
        }
        ("bytes_to_string", _, [bytes]) => {
            let from = size(bytes);
            let to = Range {
                min: from.min / 4,
                max: from.max,
            };
            sized(from.scaled(TRAVERSE), to)
        }
        ("strings_quote", _, [text]) => {
            let from = size(text);
            let to = Range {
                min: from.min.wrapping_add(2),
                max: from.max.wrapping_mul(2).wrapping_add(2),
            };
            sized(from.scaled(TRAVERSE), to)
        }
        ("starts_with_string" | "ends_with_string", _, [part]) => cost(size(part).scaled(TRAVERSE)),
        ("in_list", _, [_, list]) => cost(size(list).scaled(1.0)),
        ("matches_string", Some(text), [pattern]) => {
            let own = size(text).plus(Range::fixed(1)).scaled(TRAVERSE);
            cost(own.times(size(pattern).scaled(REGEX)))
        }
        ("contains_string", Some(text), [part]) => cost(
            size(text)
                .scaled(TRAVERSE)
                .times(size(part).scaled(TRAVERSE)),
        ),
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [left, right],
        ) => {
            let max = size(left).max.min(size(right).max);
            let min = u64::from(max > 0);
            cost(Range { min, max }.scaled(TRAVERSE))
        }
        _ => None,
    };
    found.unwrap_or(CallCost {
        cost: Range::fixed(1),
        size: None,
    })
}
