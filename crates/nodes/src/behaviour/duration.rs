//! Durations as people write them.

use std::time::Duration;

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
