//! Durations the way Go writes and reads them (`1h30m`, `1.5s`, `100ms`), because flags, `/configz` and
//! Kubernetes objects all carry that form.

use std::fmt;
use std::time::Duration;

/// A signed span of time in nanoseconds, printed and parsed like Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(i64);

impl GoDuration {
    pub const ZERO: GoDuration = GoDuration(0);

    pub const fn from_nanos(nanos: i64) -> GoDuration {
        GoDuration(nanos)
    }

    pub const fn from_secs(seconds: i64) -> GoDuration {
        GoDuration(seconds * SECOND)
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// As an unsigned duration; what is below zero counts as zero, which is how timers treat it.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Reads Go's form. The error is a phrase that completes "invalid argument: ".
    pub fn parse(text: &str) -> Result<GoDuration, String> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(GoDuration::ZERO);
        }
        if rest.is_empty() {
            return Err(malformed(text));
        }
        let mut total: i128 = 0;
        let mut rest = rest;
        while !rest.is_empty() {
            let (nanos, after) = parse_component(rest, text)?;
            total += nanos;
            if total > LIMIT {
                return Err(format!(
                    "{text:?} is longer than a duration can be (about 292 years)"
                ));
            }
            rest = after;
        }
        let total = if negative { -total } else { total };
        i64::try_from(total)
            .map(GoDuration)
            .map_err(|_| malformed(text))
    }
}

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Go keeps a duration in an i64 of nanoseconds; one more is allowed for its most negative value.
const LIMIT: i128 = 1 << 63;

fn malformed(text: &str) -> String {
    format!("{text:?} is not a duration; write a number with a unit, such as 30s, 1m30s or 100ms")
}

/// One number with its unit at the start of `rest`: its nanoseconds, and what follows it.
fn parse_component<'a>(rest: &'a str, whole: &str) -> Result<(i128, &'a str), String> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (integer, mut after) = rest.split_at(digits);
    let mut fraction = "";
    if let Some(stripped) = after.strip_prefix('.') {
        let digits = stripped.bytes().take_while(u8::is_ascii_digit).count();
        (fraction, after) = stripped.split_at(digits);
    }
    if integer.is_empty() && fraction.is_empty() {
        return Err(malformed(whole));
    }
    let unit_end = after
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_end);
    let nanos_per_unit = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        "" => {
            return Err(format!(
                "{whole:?} lacks a unit; write for example {whole}s"
            ));
        }
        _ => {
            return Err(format!(
                "{unit:?} in {whole:?} is not a unit; use ns, us, ms, s, m or h"
            ));
        }
    };
    // More digits than these cannot be a duration in range, and would overflow the arithmetic below.
    if integer.len() > 19 {
        return Err(format!(
            "{whole:?} is longer than a duration can be (about 292 years)"
        ));
    }
    let mut nanos = integer.parse::<i128>().unwrap_or(0) * i128::from(nanos_per_unit);
    let mut scale = i128::from(nanos_per_unit);
    for digit in fraction.bytes() {
        // Each place is cut to whole nanoseconds at the end only, so keep the remainder in `scale`.
        if scale < 10 {
            break;
        }
        nanos += i128::from(digit - b'0') * scale / 10;
        scale /= 10;
    }
    Ok((nanos, after))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let nanos = self.0.unsigned_abs();
        let second = SECOND.unsigned_abs();
        if nanos < second {
            let (unit, name) = match nanos {
                n if n < MICROSECOND.unsigned_abs() => (1, "ns"),
                n if n < MILLISECOND.unsigned_abs() => (MICROSECOND.unsigned_abs(), "µs"),
                _ => (MILLISECOND.unsigned_abs(), "ms"),
            };
            write!(f, "{}", nanos / unit)?;
            write_fraction(f, nanos % unit, unit)?;
            return f.write_str(name);
        }
        let (hour, minute) = (HOUR.unsigned_abs(), MINUTE.unsigned_abs());
        if nanos >= hour {
            write!(f, "{}h", nanos / hour)?;
        }
        if nanos >= minute {
            write!(f, "{}m", nanos % hour / minute)?;
        }
        write!(f, "{}", nanos % minute / second)?;
        write_fraction(f, nanos % second, second)?;
        f.write_str("s")
    }
}

/// Writes `rest / unit` as decimal places without trailing zeros; nothing if there is no rest.
fn write_fraction(f: &mut fmt::Formatter<'_>, rest: u64, unit: u64) -> fmt::Result {
    if rest == 0 {
        return Ok(());
    }
    let width = unit.ilog10() as usize;
    let places = format!("{rest:0width$}");
    write!(f, ".{}", places.trim_end_matches('0'))
}

impl serde::Serialize for GoDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> GoDuration {
        GoDuration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_gos_forms_and_writes_the_canonical_one() {
        for (text, canonical) in [
            ("0", "0s"),
            ("0s", "0s"),
            ("5s", "5s"),
            ("1m0s", "1m0s"),
            ("90s", "1m30s"),
            ("1.5h", "1h30m0s"),
            ("12h", "12h0m0s"),
            ("100ms", "100ms"),
            ("1500us", "1.5ms"),
            ("1h0.25s", "1h0m0.25s"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("-2m", "-2m0s"),
            ("+3ns", "3ns"),
            ("8760h0m0s", "8760h0m0s"),
            ("1µs", "1µs"),
            ("1.0000000001s", "1s"),
        ] {
            assert_eq!(
                GoDuration::parse(text).map(|d| d.to_string()),
                Ok(canonical.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_what_go_refuses_and_says_how_to_write_it() {
        for text in [
            "",
            "-",
            "s",
            "5",
            "5x",
            "1h5",
            ".s",
            "1 s",
            "9999999999999h",
            "99999999999999999999s",
            "5s ",
        ] {
            let error = GoDuration::parse(text).expect_err(text);
            assert!(!error.is_empty());
        }
        assert_eq!(
            GoDuration::parse("5").unwrap_err(),
            "\"5\" lacks a unit; write for example 5s"
        );
    }

    #[test]
    fn negative_counts_as_zero_for_timers() {
        assert_eq!(
            GoDuration::parse("-2m").map(GoDuration::to_std),
            Ok(Duration::ZERO)
        );
    }
}
