//! `"%s has %d".format([…])`.

use api::syntax::go_quote;

use crate::convert::{go_float, to_text};
use crate::value::{Fault, List, Value};

const PRECISION: usize = 6;
/// Digits after the point that anybody could want; more would only cost memory.
const PRECISION_MAX: usize = 1_000;
const DEPTH_MAX: usize = 100;

/// One clause of a format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex(bool),
    Octal,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Clause(Clause),
}

/// A format's literal text and clauses.
pub(crate) fn parse(format: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut next = chars.next().ok_or("unexpected end of string")?;
        if next == '%' {
            text.push('%');
            continue;
        }
        let mut precision = None;
        if next == '.' {
            let mut digits = String::new();
            loop {
                next = chars.next().ok_or(
                    "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
                )?;
                if !next.is_ascii_digit() {
                    break;
                }
                digits.push(next);
            }
            let parsed = digits.parse::<usize>().map_err(|_| {
                format!("could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {digits:?}: invalid syntax")
            })?;
            precision = Some(parsed.min(PRECISION_MAX));
        }
        let digits = precision.unwrap_or(PRECISION);
        let clause = match next {
            's' => Clause::String,
            'd' => Clause::Decimal,
            'f' => Clause::Fixed(digits),
            'e' => Clause::Scientific(digits),
            'b' => Clause::Binary,
            'x' => Clause::Hex(false),
            'X' => Clause::Hex(true),
            'o' => Clause::Octal,
            other => {
                return Err(format!(
                    "could not parse formatting clause: unrecognized formatting clause {:?}",
                    other.to_string()
                ));
            }
        };
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(Part::Clause(clause));
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

pub(crate) fn format(format: &str, args: &List<'_>) -> Result<String, Fault> {
    let mut written = String::new();
    let mut index = 0;
    for part in parse(format).map_err(Fault::new)? {
        match part {
            Part::Text(text) => written.push_str(&text),
            Part::Clause(clause) => {
                let arg = args
                    .get(index)
                    .ok_or_else(|| Fault::new(format!("index {index} out of range")))??;
                index += 1;
                written.push_str(&write(clause, &arg)?);
            }
        }
    }
    Ok(written)
}

/// What a clause takes, for messages.
pub(crate) fn wrong_type(clause: Clause, found: &str) -> String {
    let wanted = match clause {
        Clause::String => {
            return format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {found}"
            );
        }
        Clause::Decimal => "decimal clause can only be used on integers",
        Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
        Clause::Scientific(_) => "scientific clause can only be used on doubles",
        Clause::Binary => "only integers and bools can be formatted as binary",
        Clause::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
        Clause::Octal => "octal clause can only be used on integers",
    };
    format!("error during formatting: {wanted}, was given {found}")
}

fn write(clause: Clause, arg: &Value<'_>) -> Result<String, Fault> {
    let wrong = || Err(Fault::new(wrong_type(clause, &arg.type_name())));
    Ok(match (clause, arg) {
        (Clause::String, arg) => return string(arg, 0).map_or_else(wrong, Ok),
        (Clause::Decimal, Value::Int(number)) => number.to_string(),
        (Clause::Decimal, Value::Uint(number)) => number.to_string(),
        (Clause::Fixed(digits), _) if float(arg).is_some() => {
            let number = float(arg).unwrap_or_default();
            if number.is_finite() {
                grouped(&format!("{number:.digits$}"))
            } else {
                odd(number)
            }
        }
        (Clause::Scientific(digits), _) if float(arg).is_some() => {
            let number = float(arg).unwrap_or_default();
            if number.is_finite() {
                scientific(number, digits)
            } else {
                odd(number)
            }
        }
        (Clause::Binary, Value::Bool(flag)) => u8::from(*flag).to_string(),
        (Clause::Binary, Value::Int(number)) => signed(*number, |number| format!("{number:b}")),
        (Clause::Binary, Value::Uint(number)) => format!("{number:b}"),
        (Clause::Octal, Value::Int(number)) => signed(*number, |number| format!("{number:o}")),
        (Clause::Octal, Value::Uint(number)) => format!("{number:o}"),
        (Clause::Hex(upper), arg) => {
            let hex = match arg {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return wrong(),
            };
            if upper { hex.to_ascii_uppercase() } else { hex }
        }
        _ => return wrong(),
    })
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn odd(number: f64) -> String {
    let named = if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    };
    named.to_owned()
}

/// Thousands apart, as English has it.
fn grouped(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut shown = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    if !fraction.is_empty() {
        shown.push('.');
        shown.push_str(fraction);
    }
    shown
}

fn scientific(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { "⁻" } else { "" };
    let raised: String = format!("{:02}", exponent.abs())
        .chars()
        .map(|digit| {
            const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
            RAISED[digit.to_digit(10).unwrap_or(0) as usize]
        })
        .collect();
    format!("{mantissa}×10{sign}{raised}")
}

fn string(value: &Value<'_>, depth: usize) -> Option<String> {
    match value {
        Value::Null => Some("null".to_owned()),
        Value::List(_) | Value::Map(_) => nested(value, depth),
        Value::Optional(_) | Value::Object(_) | Value::Kube(_) => None,
        other => to_text(other).ok(),
    }
}

/// A value inside of a list or map.
fn nested(value: &Value<'_>, depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match value {
        Value::String(text) => go_quote(text),
        Value::Bytes(bytes) => format!("b{}", go_quote(std::str::from_utf8(bytes).ok()?)),
        Value::Double(number) if !number.is_finite() => go_quote(&go_float(*number)),
        Value::Double(number) => format!("{number:.PRECISION$}"),
        Value::Timestamp(_) => format!("timestamp({})", go_quote(&to_text(value).ok()?)),
        Value::Duration(_) => format!("duration({})", go_quote(&to_text(value).ok()?)),
        Value::List(list) => {
            let items = list.iter().map(|item| nested(&item.ok()?, depth + 1));
            format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Map(map) => {
            let entries = map.entries().into_iter().map(|(key, value)| {
                let key = nested(&key, depth + 1)?;
                Some(format!("{key}:{}", nested(&value.ok()?, depth + 1)?))
            });
            let mut entries = entries.collect::<Option<Vec<_>>>()?;
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => string(other, depth)?,
    })
}
