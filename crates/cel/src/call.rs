//! Functions on values: which one a call means, by its name and what its arguments turned out to be.

use std::cmp::Ordering;
use std::sync::Arc;

use api::cidr::Cidr;
use api::quantity::{Format as QuantityFormat, Quantity};

use crate::authorizer::{self, Authorize};
use crate::convert::{convert, is_conversion, time_part};
use crate::formats::Format;
use crate::kube::Kube;
use crate::lists;
use crate::operators::{arithmetic, compare, equal, negate};
use crate::semver::Semver;
use crate::text;
use crate::url::Url;
use crate::value::{Evaluated, Fault, Map, Value};

pub(crate) fn call<'a>(
    name: &str,
    args: Vec<Value<'a>>,
    authorizer: Option<&dyn Authorize>,
) -> Evaluated<'a> {
    if let Some(known) = operator(name, &args) {
        return known;
    }
    match (name, args.len()) {
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", 2) => {
            let mut args = args.into_iter();
            match (args.next(), args.next()) {
                (Some(left), Some(right)) => arithmetic(name, left, right),
                _ => Err(Fault::NoSuchOverload),
            }
        }
        ("cel.@mapInsert", _) => map_insert(args),
        (_, 1) if is_conversion(name) => args
            .into_iter()
            .next()
            .map_or_else(|| Err(Fault::NoSuchOverload), |arg| convert(name, arg)),
        _ => function(name, &args)
            .or_else(|| method(name, &args, authorizer))
            .unwrap_or(Err(Fault::NoSuchOverload)),
    }
}

fn operator<'a>(name: &str, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    let ordered = |holds: fn(Ordering) -> bool| match args {
        [left, right] => compare(left, right).map(|order| Value::Bool(holds(order))),
        _ => Err(Fault::NoSuchOverload),
    };
    Some(match (name, args) {
        ("_==_", [left, right]) => Ok(Value::Bool(equal(left, right))),
        ("_!=_", [left, right]) => Ok(Value::Bool(!equal(left, right))),
        ("_<_", _) => ordered(Ordering::is_lt),
        ("_<=_", _) => ordered(Ordering::is_le),
        ("_>_", _) => ordered(Ordering::is_gt),
        ("_>=_", _) => ordered(Ordering::is_ge),
        ("!_", [Value::Bool(flag)]) => Ok(Value::Bool(!flag)),
        ("-_", [value]) => negate(value.clone()),
        ("@in", [element, Value::List(list)]) => lists::contains(list, element),
        ("@in", [key, Value::Map(map)]) => match map.get(key) {
            Some(Err(fault)) => Err(fault),
            found => Ok(Value::Bool(found.is_some())),
        },
        ("size", [value]) => match value.size() {
            Some(size) if !matches!(value, Value::Kube(_)) => Ok(Value::Int(size as i64)),
            _ => Err(Fault::NoSuchOverload),
        },
        _ => return None,
    })
}

fn map_insert(args: Vec<Value<'_>>) -> Evaluated<'_> {
    let mut args = args.into_iter();
    let (Some(Value::Map(Map::Made(mut made))), Some(first), second) =
        (args.next(), args.next(), args.next())
    else {
        return Err(Fault::NoSuchOverload);
    };
    let new = match (first, second) {
        (key, Some(value)) => vec![(key, Ok(value))],
        (Value::Map(more), None) => more.entries(),
        _ => return Err(Fault::NoSuchOverload),
    };
    let grown = Arc::make_mut(&mut made);
    for (key, value) in new {
        let shown = crate::show::plain(&key);
        if grown.get(&key).is_some() {
            return Err(Fault::new(format!(
                "insert failed: key {shown} already exists"
            )));
        }
        grown.insert(key, value?)?;
    }
    Ok(Value::Map(Map::Made(made)))
}

fn kube<'a>(kube: Kube) -> Value<'a> {
    Value::Kube(Arc::new(kube))
}

/// Functions that are nobody's methods.
fn function<'a>(name: &str, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    if let (Some(key), []) = (name.strip_prefix("format."), args) {
        return Format::named(key).map(|format| Ok(kube(Kube::Format(format))));
    }
    Some(match (name, args) {
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Ok(Value::none()),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::some(value.clone())),
        ("optional.none", []) => Ok(Value::none()),
        ("optional.unwrap", [Value::List(list)]) => lists::unwrap(list),
        ("strings.quote", [Value::String(text)]) => Ok(Value::text(text::quote(text))),
        ("lists.range", [Value::Int(count)]) => lists::range(*count),
        ("sets.contains", [Value::List(list), Value::List(part)]) => {
            lists::includes(list, part).map(Value::Bool)
        }
        ("sets.equivalent", [Value::List(one), Value::List(two)]) => {
            let both = lists::includes(one, two)
                .and_then(|includes| Ok(includes && lists::includes(two, one)?));
            both.map(Value::Bool)
        }
        ("sets.intersects", [Value::List(one), Value::List(two)]) => {
            lists::intersects(one, two).map(Value::Bool)
        }
        ("quantity", [Value::String(text)]) => Quantity::parse(text)
            .map(|quantity| kube(Kube::Quantity(quantity)))
            .map_err(|why| Fault::new(why.to_string())),
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        ("ip", [Value::String(text)]) => crate::net::ip(text)
            .map(|address| kube(Kube::Ip(address)))
            .map_err(Fault::new),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(crate::net::ip(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => crate::net::ip(text)
            .map(|address| Value::Bool(address.to_string() == **text))
            .map_err(Fault::new),
        ("cidr", [Value::String(text)]) => crate::net::cidr(text)
            .map(|network| kube(Kube::Cidr(network)))
            .map_err(|why| {
                Fault::new(format!(
                    "network address parse error during conversion from string: {why}"
                ))
            }),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(crate::net::cidr(text).is_ok())),
        ("url", [Value::String(text)]) => {
            Url::parse(text)
                .map(|url| kube(Kube::Url(url)))
                .map_err(|why| {
                    Fault::new(format!(
                        "URL parse error during conversion from string: {why}"
                    ))
                })
        }
        ("isURL", [Value::String(text)]) => Ok(Value::Bool(Url::parse(text).is_ok())),
        ("semver", [Value::String(text), rest @ ..]) => version(text, rest)
            .map(|version| kube(Kube::Semver(version)))
            .map_err(Fault::new),
        ("isSemver", [Value::String(text), rest @ ..]) => {
            Ok(Value::Bool(version(text, rest).is_ok()))
        }
        ("format.named", [Value::String(key)]) => Ok(match Format::named(key) {
            Some(format) => Value::some(kube(Kube::Format(format))),
            None => Value::none(),
        }),
        ("jsonpatch.escapeKey", [Value::String(key)]) => {
            Ok(Value::text(key.replace('~', "~0").replace('/', "~1")))
        }
        ("sign", [Value::Kube(of)]) => match &**of {
            Kube::Quantity(quantity) => Ok(Value::Int(i64::from(quantity.sign()))),
            _ => Err(Fault::NoSuchOverload),
        },
        _ => return None,
    })
}

fn version(text: &str, lenient: &[Value<'_>]) -> Result<Semver, String> {
    match lenient {
        [Value::Bool(true)] => Semver::parse_lenient(text),
        _ => Semver::parse(text),
    }
}

fn method<'a>(
    name: &str,
    args: &[Value<'a>],
    authorizer: Option<&dyn Authorize>,
) -> Option<Evaluated<'a>> {
    let (target, args) = args.split_first()?;
    match target {
        Value::String(text) => text::method(name, text, args),
        Value::List(list) => lists::method(name, list, args),
        Value::Kube(of) => match (&**of, name) {
            (Kube::Check(check), _) => authorizer::method(name, check, args, authorizer),
            _ => kube_method(name, of, args),
        },
        Value::Optional(held) => Some(match (name, held) {
            ("hasValue", _) => Ok(Value::Bool(held.is_some())),
            ("value", Some(value)) => Ok((**value).clone()),
            ("value", None) => Err(Fault::new("optional.none() dereference")),
            _ => return None,
        }),
        Value::Timestamp(instant) if name.starts_with("get") => {
            let zone = match args {
                [Value::String(zone)] => Some(&**zone),
                _ => None,
            };
            Some(time_part(name, *instant, zone).map(Value::Int))
        }
        Value::Duration(nanos) => Some(Ok(Value::Int(match name {
            "getHours" => nanos / 3_600_000_000_000,
            "getMinutes" => nanos / 60_000_000_000,
            "getSeconds" => nanos / 1_000_000_000,
            "getMilliseconds" => nanos / 1_000_000,
            _ => return None,
        }))),
        _ => None,
    }
}

fn kube_method<'a>(name: &str, of: &Kube, args: &[Value<'a>]) -> Option<Evaluated<'a>> {
    let other = match args {
        [Value::Kube(other)] => Some(&**other),
        _ => None,
    };
    match of {
        Kube::Quantity(quantity) => quantity_method(name, quantity, args, other),
        Kube::Ip(address) => crate::net::ip_method(name, address).map(Ok),
        Kube::Cidr(network) => cidr_method(name, network, args, other),
        Kube::Url(url) => Some(Ok(match name {
            "getScheme" => Value::text(url.scheme.as_str()),
            "getHost" => Value::text(url.host.as_str()),
            "getHostname" => Value::text(url.hostname()),
            "getPort" => Value::text(url.port()),
            "getEscapedPath" => Value::text(url.escaped_path()),
            "getQuery" => {
                let mut made = crate::value::BuiltMap::default();
                for (key, values) in url.query() {
                    let _ = made.insert(Value::text(key), Value::texts(values));
                }
                Value::Map(Map::Made(Arc::new(made)))
            }
            _ => return None,
        })),
        Kube::Semver(version) => {
            let order = match other {
                Some(Kube::Semver(other)) => version.compare(other),
                _ => Ordering::Equal,
            };
            Some(Ok(match name {
                "major" => Value::Int(version.major as i64),
                "minor" => Value::Int(version.minor as i64),
                "patch" => Value::Int(version.patch as i64),
                "isGreaterThan" => Value::Bool(order.is_gt()),
                "isLessThan" => Value::Bool(order.is_lt()),
                "compareTo" => Value::Int(order as i64),
                _ => return None,
            }))
        }
        Kube::Format(format) => match (name, args) {
            ("validate", [Value::String(text)]) => {
                let complaints = format.validate(text);
                Some(Ok(if complaints.is_empty() {
                    Value::none()
                } else {
                    Value::some(Value::texts(complaints))
                }))
            }
            _ => None,
        },
        Kube::Check(_) => None,
    }
}

fn quantity_method<'a>(
    name: &str,
    quantity: &Quantity,
    args: &[Value<'a>],
    other: Option<&Kube>,
) -> Option<Evaluated<'a>> {
    let other = match (other, args) {
        (Some(Kube::Quantity(other)), _) => Some(other.clone()),
        (_, [Value::Int(number)]) => Some(Quantity::new(*number, QuantityFormat::DecimalExponent)),
        _ => None,
    };
    let order = other.as_ref().map(|other| quantity.cmp(other));
    Some(Ok(match (name, order, other) {
        ("isGreaterThan", Some(order), _) => Value::Bool(order.is_gt()),
        ("isLessThan", Some(order), _) => Value::Bool(order.is_lt()),
        ("compareTo", Some(order), _) => Value::Int(order as i64),
        ("add", _, Some(other)) => {
            let mut sum = quantity.clone();
            sum += &other;
            kube(Kube::Quantity(sum))
        }
        ("sub", _, Some(other)) => {
            let mut difference = quantity.clone();
            difference -= &other;
            kube(Kube::Quantity(difference))
        }
        ("asApproximateFloat", ..) => Value::Double(quantity.to_f64()),
        ("isInteger", ..) => Value::Bool(quantity.as_i64().is_some()),
        ("asInteger", ..) => match quantity.as_i64() {
            Some(number) => Value::Int(number),
            None => return Some(Err(Fault::new("cannot convert value to integer"))),
        },
        _ => return None,
    }))
}

fn cidr_method<'a>(
    name: &str,
    network: &Cidr,
    args: &[Value<'a>],
    other: Option<&Kube>,
) -> Option<Evaluated<'a>> {
    Some(match (name, args, other) {
        ("ip", ..) => Ok(kube(Kube::Ip(crate::net::address(network)))),
        ("prefixLength", ..) => Ok(Value::Int(i64::from(network.prefix()))),
        ("masked", ..) => Ok(kube(Kube::Cidr(network.masked()))),
        ("containsIP", [Value::String(text)], _) => crate::net::ip(text)
            .map(|address| Value::Bool(network.contains(&address)))
            .map_err(Fault::new),
        ("containsIP", _, Some(Kube::Ip(address))) => Ok(Value::Bool(network.contains(address))),
        ("containsCIDR", [Value::String(text)], _) => crate::net::cidr(text)
            .map(|other| Value::Bool(network.covers(&other)))
            .map_err(|why| {
                Fault::new(format!(
                    "network address parse error during conversion from string: {why}"
                ))
            }),
        ("containsCIDR", _, Some(Kube::Cidr(other))) => Ok(Value::Bool(network.covers(other))),
        _ => return None,
    })
}
