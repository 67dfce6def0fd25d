//! Times as the API has them: seconds (`Time`) and microseconds (`MicroTime`), always UTC.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::calendar::{civil_from_days, days_from_civil, days_in_month};

/// A point in time with a second's precision (`metav1.Time`).
///
/// Most times of most objects are absent, so `Option<Time>` takes no more room than `Time`: what is kept are the
/// seconds with their sign bit turned, which keeps their order, and no time is the one that would be zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64);

/// A point in time with a microsecond's precision (`metav1.MicroTime`); also what a clock reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MicroTime(i64);

const MICROS: i64 = 1_000_000;

const SIGN: u64 = 1 << 63;

impl Time {
    /// The first and the last second that RFC 3339 can write: years have four digits.
    pub const FIRST_UNIX: i64 = -62_167_219_200;
    pub const LAST_UNIX: i64 = 253_402_300_799;

    pub fn from_unix(seconds: i64) -> Time {
        Time(NonZeroU64::new(seconds.cast_unsigned() ^ SIGN).unwrap_or(NonZeroU64::MIN))
    }

    pub fn unix(self) -> i64 {
        (self.0.get() ^ SIGN).cast_signed()
    }

    pub fn micro(self) -> MicroTime {
        MicroTime(self.unix().saturating_mul(MICROS))
    }

    /// RFC 3339 with any offset; fractions of a second are dropped, as upstream drops them.
    pub fn parse(text: &str) -> Option<Time> {
        MicroTime::parse(text).map(MicroTime::time)
    }
}

impl Default for Time {
    fn default() -> Time {
        Time::from_unix(0)
    }
}

impl MicroTime {
    pub fn from_unix_micros(micros: i64) -> MicroTime {
        MicroTime(micros)
    }

    pub fn unix_micros(self) -> i64 {
        self.0
    }

    /// Truncated to the second, as upstream serialises `metav1.Now()`.
    pub fn time(self) -> Time {
        Time::from_unix(self.0.div_euclid(MICROS))
    }

    pub fn plus(self, duration: Duration) -> MicroTime {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        MicroTime(self.0.saturating_add(micros))
    }

    pub fn minus(self, duration: Duration) -> MicroTime {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        MicroTime(self.0.saturating_sub(micros))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: impl Into<MicroTime>) -> Duration {
        let micros = self.0.saturating_sub(earlier.into().0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    pub fn parse(text: &str) -> Option<MicroTime> {
        let bytes = text.as_bytes();
        let shape = bytes.len() >= 20
            && bytes[4] == b'-'
            && bytes[7] == b'-'
            && matches!(bytes[10], b'T' | b't')
            && bytes[13] == b':'
            && bytes[16] == b':';
        if !shape {
            return None;
        }
        let year = digits(&bytes[0..4])?;
        let month = digits(&bytes[5..7])?;
        let day = digits(&bytes[8..10])?;
        let (hour, minute, second) = (
            digits(&bytes[11..13])?,
            digits(&bytes[14..16])?,
            digits(&bytes[17..19])?,
        );
        let in_range = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !in_range {
            return None;
        }
        let (micros, zone) = fraction(&bytes[19..])?;
        let offset = zone_offset(zone)?;
        let seconds =
            days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        Some(MicroTime((seconds - offset) * MICROS + micros))
    }
}

impl From<Time> for MicroTime {
    fn from(time: Time) -> MicroTime {
        time.micro()
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

/// Microseconds of a fraction like `.123456789`, and what follows it.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(after_dot) = rest.strip_prefix(b".") else {
        return Some((0, rest));
    };
    let length = after_dot
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if length == 0 {
        return None;
    }
    let mut micros = 0;
    for place in 0..6 {
        let digit = after_dot[..length]
            .get(place)
            .map_or(0, |digit| i64::from(digit - b'0'));
        micros = micros * 10 + digit;
    }
    Some((micros, &after_dot[length..]))
}

fn zone_offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            let seconds = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

/// A time beyond the years that can be written is the last, or the first, that can: nobody could read another.
fn write_seconds(f: &mut fmt::Formatter<'_>, unix: i64) -> fmt::Result {
    let unix = unix.clamp(Time::FIRST_UNIX, Time::LAST_UNIX);
    let (year, month, day) = civil_from_days(unix.div_euclid(86_400));
    let second = unix.rem_euclid(86_400);
    // By hand: every write prints a few, and formatting six numbers takes far longer than making them.
    let mut text = *b"0000-00-00T00:00:00";
    for (at, number, digits) in [
        (0, year, 4),
        (5, month, 2),
        (8, day, 2),
        (11, second / 3600, 2),
        (14, second / 60 % 60, 2),
        (17, second % 60, 2),
    ] {
        let mut rest = number;
        for place in text[at..at + digits].iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    f.write_str(std::str::from_utf8(&text).unwrap_or_default())
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.unix())?;
        f.write_str("Z")
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.0.div_euclid(MICROS))?;
        write!(f, ".{:06}Z", self.0.rem_euclid(MICROS))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! serde_as_text {
    ($kind:ident) => {
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$kind, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $kind;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a time like 2006-01-02T15:04:05Z")
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$kind, E> {
                        $kind::parse(text).ok_or_else(|| {
                            E::invalid_value(serde::de::Unexpected::Str(text), &self)
                        })
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    };
}

serde_as_text!(Time);
serde_as_text!(MicroTime);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_within_the_years_of_rfc_3339() {
        for (unix, expected) in [
            (i64::MIN, "0000-01-01T00:00:00Z"),
            (Time::FIRST_UNIX, "0000-01-01T00:00:00Z"),
            (Time::LAST_UNIX, "9999-12-31T23:59:59Z"),
            (Time::LAST_UNIX + 1, "9999-12-31T23:59:59Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            let written = Time::from_unix(unix).to_string();
            assert_eq!(written, expected);
            assert!(Time::parse(&written).is_some());
        }
        let end = MicroTime::from_unix_micros(i64::MAX).to_string();
        assert!(MicroTime::parse(&end).is_some(), "{end}");
    }

    #[test]
    fn a_time_that_may_be_absent_takes_no_more_room() {
        assert_eq!(size_of::<Option<Time>>(), size_of::<Time>());
        let seconds = [i64::MIN + 1, -1, 0, 1, i64::MAX];
        assert_eq!(seconds.map(|at| Time::from_unix(at).unix()), seconds);
        assert!(seconds.map(Time::from_unix).is_sorted());
        assert_eq!(Time::default(), Time::from_unix(0));
        assert_eq!(
            Time::from_unix(i64::MIN).unix(),
            i64::MIN + 1,
            "nothing is that old"
        );
    }

    #[test]
    fn parses_and_prints() {
        for (text, printed) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
            ("2024-02-29T23:59:59.999999999Z", "2024-02-29T23:59:59Z"),
            ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(Time::parse(text).unwrap().to_string(), printed, "{text}");
        }
        assert_eq!(
            MicroTime::parse("2024-05-06T07:08:09.12Z")
                .unwrap()
                .to_string(),
            "2024-05-06T07:08:09.120000Z"
        );
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in [
            "",
            "2024-01-01",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+1:00",
            "２024-01-01T00:00:00Z",
        ] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn arithmetic() {
        let time = Time::from_unix(100).micro();
        assert_eq!(
            time.plus(Duration::from_millis(1500)).since(time),
            Duration::from_millis(1500)
        );
        assert_eq!(
            time.since(time.plus(Duration::from_secs(1))),
            Duration::ZERO
        );
    }
}
