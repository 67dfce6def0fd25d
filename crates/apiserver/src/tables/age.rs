//! Durations as people read them: `45s`, `3m20s`, `5d4h`.

use serde_json::Value;

/// Seconds since 1970 of a time as objects spell it.
pub(super) fn seconds(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>()
        .ok()
        .map(jiff::Timestamp::as_second)
}

/// How long ago a time was, `<unknown>` when there is none.
pub(super) fn since(time: &Value, now: i64) -> String {
    match time.as_str().and_then(seconds) {
        Some(time) => human(now.saturating_sub(time)),
        None => "<unknown>".to_owned(),
    }
}

/// Two units at most, and one where the second would not matter.
pub(super) fn human(seconds: i64) -> String {
    let two = |major: i64, unit: &str, minor: i64, minor_unit: &str| match minor {
        0 => format!("{major}{unit}"),
        _ => format!("{major}{unit}{minor}{minor_unit}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}
