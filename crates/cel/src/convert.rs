//! From one type to another: `int("1")`, `string(1.5)`, `timestamp("…")`.

use api::GoDuration;
use api::calendar::{civil_from_days, days_from_civil, days_in_month};

use crate::types::Type;
use crate::value::{Evaluated, Fault, Instant, Text, Value};

const TIME_MIN: i64 = -62_135_596_800;
const TIME_MAX: i64 = 253_402_300_799;

/// Whether the name is that of a conversion, which is done once if its argument is a constant.
pub(crate) fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    )
}

pub(crate) fn convert<'a>(function: &str, value: Value<'a>) -> Evaluated<'a> {
    let to = match function {
        "dyn" => return Ok(value),
        "type" => return Ok(Value::Type(value.type_of())),
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "duration" => Type::Duration,
        "int" => Type::Int,
        "string" => Type::String,
        "timestamp" => Type::Timestamp,
        _ => Type::Uint,
    };
    if value.type_of() == to {
        return Ok(value);
    }
    if to == Type::String {
        return to_text(&value).map(Value::text);
    }
    let overflow = |what: &str| Err(Fault::new(format!("{what} overflow")));
    match (&to, &value) {
        (Type::Bool, Value::String(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => failed(&value, &to),
        },
        (Type::Bytes, Value::String(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        (Type::Double, Value::Int(number)) => Ok(Value::Double(*number as f64)),
        (Type::Double, Value::Uint(number)) => Ok(Value::Double(*number as f64)),
        (Type::Double, Value::String(text)) => match parse_float(text) {
            Some(number) => Ok(Value::Double(number)),
            None => failed(&value, &to),
        },
        (Type::Int, Value::Double(number)) => {
            // UPSTREAM: the very ends of the range are refused.
            if number.is_nan() || *number <= i64::MIN as f64 || *number >= i64::MAX as f64 {
                return overflow("integer");
            }
            Ok(Value::Int(*number as i64))
        }
        (Type::Int, Value::Uint(number)) => match i64::try_from(*number) {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => overflow("integer"),
        },
        (Type::Int, Value::Duration(nanos)) => Ok(Value::Int(*nanos)),
        (Type::Int, Value::Timestamp(instant)) => Ok(Value::Int(instant.seconds)),
        (Type::Int, Value::String(text)) => match text.parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => failed(&value, &to),
        },
        (Type::Uint, Value::Int(number)) => match u64::try_from(*number) {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => overflow("unsigned integer"),
        },
        (Type::Uint, Value::Double(number)) => {
            if number.is_nan() || *number < 0.0 || *number >= 18_446_744_073_709_551_616.0 {
                return overflow("unsigned integer");
            }
            Ok(Value::Uint(*number as u64))
        }
        (Type::Uint, Value::String(text)) => match text.parse() {
            Ok(number) if !text.starts_with('+') => Ok(Value::Uint(number)),
            _ => failed(&value, &to),
        },
        (Type::Duration, Value::Int(nanos)) => Ok(Value::Duration(*nanos)),
        (Type::Duration, Value::String(text)) => match GoDuration::parse(text) {
            Ok(duration) => Ok(Value::Duration(duration.as_nanos())),
            Err(_) => failed(&value, &to),
        },
        (Type::Timestamp, Value::Int(seconds)) => {
            if !(TIME_MIN..=TIME_MAX).contains(seconds) {
                return overflow("timestamp");
            }
            let seconds = *seconds;
            Ok(Value::Timestamp(Instant { seconds, nanos: 0 }))
        }
        (Type::Timestamp, Value::String(text)) => match timestamp(text) {
            Some(instant) if (TIME_MIN..=TIME_MAX).contains(&instant.seconds) => {
                Ok(Value::Timestamp(instant))
            }
            Some(_) => overflow("timestamp"),
            None => failed(&value, &to),
        },
        _ => Err(Fault::NoSuchOverload),
    }
}

fn failed<'a>(value: &Value<'a>, to: &Type) -> Evaluated<'a> {
    Err(Fault::new(format!(
        "type conversion error from '{}' to '{}'",
        value.type_name(),
        to.runtime_name()
    )))
}

/// `string(value)`.
pub(crate) fn to_text(value: &Value<'_>) -> Result<String, Fault> {
    Ok(match value {
        Value::String(Text::Borrowed(text)) => (*text).to_owned(),
        Value::String(Text::Shared(text)) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => go_float(*number),
        Value::Duration(nanos) => format!("{}s", shortest(*nanos as f64 / 1e9)),
        Value::Timestamp(instant) => rfc3339(*instant),
        Value::Type(of) => of.runtime_name().to_owned(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Err(Fault::new(
                    "invalid UTF-8 in bytes, cannot convert to string",
                ));
            }
        },
        Value::Kube(kube) => match kube.as_text() {
            Some(text) => text,
            None => return Err(Fault::NoSuchOverload),
        },
        _ => return Err(Fault::NoSuchOverload),
    })
}

fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let named = matches!(&*unsigned.to_ascii_lowercase(), "inf" | "infinity" | "nan");
    if !named && !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (named || number.is_finite()).then_some(number)
}

/// Digits without an exponent, as few as tell the number apart.
fn shortest(number: f64) -> String {
    format!("{number}")
}

/// A float as Go prints it with `%g`.
pub(crate) fn go_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Go takes a precision of six to choose the form where digits are the shortest.
    if (-4..6).contains(&exponent) || number == 0.0 {
        return shortest(number);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Go's durations, and the days and weeks of OpenAPI's.
pub(crate) fn duration(text: &str) -> Option<i64> {
    if let Ok(duration) = GoDuration::parse(text) {
        return Some(duration.as_nanos());
    }
    let mut total = 0i64;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit: i64 = match &*rest[..end].to_ascii_lowercase() {
            "ns" | "nano" => 1,
            "us" | "micro" => 1_000,
            "ms" | "milli" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "wk" | "week" | "weeks" => 604_800_000_000_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = rest[end..].trim_start();
    }
    (!text.trim().is_empty()).then_some(total)
}

/// RFC 3339, as Go reads it.
pub(crate) fn timestamp(text: &str) -> Option<Instant> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        let all = digits.iter().all(u8::is_ascii_digit);
        all.then(|| {
            digits
                .iter()
                .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
        })
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !marks.iter().all(|(at, mark)| bytes.get(*at) == Some(mark)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let mut at = 19;
    let mut nanos = 0u32;
    if bytes.get(at) == Some(&b'.') {
        let begin = at + 1;
        at = begin;
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        if at == begin {
            return None;
        }
        for place in 0..9 {
            let digit = bytes.get(begin + place).filter(|_| begin + place < at);
            nanos = nanos * 10 + u32::from(digit.map_or(0, |digit| digit - b'0'));
        }
    }
    let offset = match bytes.get(at)? {
        b'Z' if bytes.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == at + 6 && bytes[at + 3] == b':' => {
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(Instant {
        seconds: seconds - offset,
        nanos,
    })
}

fn rfc3339(instant: Instant) -> String {
    let days = instant.seconds.div_euclid(86_400);
    let second = instant.seconds.rem_euclid(86_400);
    let (year, month, day) = civil_from_days(days);
    let mut text = format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    if instant.nanos > 0 {
        let fraction = format!("{:09}", instant.nanos);
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// A part of a point in time: `getHours()` and its like, in UTC or a named zone.
pub(crate) fn time_part(
    function: &str,
    instant: Instant,
    zone: Option<&str>,
) -> Result<i64, Fault> {
    let offset = match zone {
        None => 0,
        Some(zone) => zone_offset(zone, instant)?,
    };
    let seconds = instant.seconds.saturating_add(offset);
    let days = seconds.div_euclid(86_400);
    let second = seconds.rem_euclid(86_400);
    let (year, month, day) = civil_from_days(days);
    Ok(match function {
        "getFullYear" => year,
        "getMonth" => month - 1,
        "getDayOfYear" => days - days_from_civil(year, 1, 1),
        "getDayOfMonth" => day - 1,
        "getDate" => day,
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getHours" => second / 3600,
        "getMinutes" => second / 60 % 60,
        "getSeconds" => second % 60,
        _ => i64::from(instant.nanos / 1_000_000),
    })
}

fn zone_offset(zone: &str, instant: Instant) -> Result<i64, Fault> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        let unknown =
            |text: &str| Fault::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax"));
        let hour: i64 = hours.parse().map_err(|_| unknown(hours))?;
        let minute: i64 = minutes.parse().map_err(|_| unknown(minutes))?;
        let sign = if hours.starts_with('-') { -1 } else { 1 };
        let offset = hour
            .saturating_mul(3600)
            .saturating_add(sign * minute.clamp(0, 10_000) * 60);
        return Ok(offset.clamp(-1_000_000, 1_000_000));
    }
    if zone.is_empty() || zone == "UTC" {
        return Ok(0);
    }
    let unknown = || Fault::new(format!("unknown time zone {zone}"));
    let found = jiff::tz::TimeZone::get(zone).map_err(|_| unknown())?;
    let at = jiff::Timestamp::from_second(instant.seconds).map_err(|_| unknown())?;
    Ok(i64::from(found.to_offset(at).seconds()))
}
