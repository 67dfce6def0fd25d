//! Durations as people write them.

use std::fmt;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// `1h2m3.5s`, `500ms`, or a bare number of seconds. Nothing negative, nothing beyond a century.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return bounded(seconds);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        // Milliseconds before minutes: both begin with an m.
        let units = [("ms", 0.001), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        seconds += amount * factor;
        rest = &rest[unit.len()..];
    }
    if text.is_empty() {
        None
    } else {
        bounded(seconds)
    }
}

fn bounded(seconds: f64) -> Option<Duration> {
    const CENTURY: f64 = 100.0 * 365.0 * 86_400.0;
    (0.0..=CENTURY)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// A duration in a file: a text or a number.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(Written)
}

pub(crate) fn deserialize_some<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    deserialize(deserializer).map(Some)
}

struct Written;

impl Visitor<'_> for Written {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 5s or 1m30s")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text)
            .ok_or_else(|| E::custom(format!("{text:?} is not a duration such as 5s or 1m30s")))
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
        self.visit_str(&seconds.to_string())
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        self.visit_str(&seconds.to_string())
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Duration, E> {
        self.visit_str(&seconds.to_string())
    }
}
