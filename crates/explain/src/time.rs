//! Times and durations as people read them.

use api::Time;
use api::decision::Line;

use crate::words::Reason;

/// `45s`, `3m20s`, `2h`, `5d`: two units at most, and one where the second would not matter.
pub fn human(seconds: i64) -> String {
    let two = |major: i64, unit: &str, minor: i64, minor_unit: &str| match minor {
        0 => format!("{major}{unit}"),
        _ => format!("{major}{unit}{minor}{minor_unit}"),
    };
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ => format!("{}d", hours / 24),
    }
}

/// `2m ago`, `in 30s`, `now`.
pub(crate) fn relative(at: Time, now: Time) -> String {
    match now.unix() - at.unix() {
        0 => "now".to_owned(),
        past if past > 0 => format!("{} ago", human(past)),
        future => format!("in {}", human(-future)),
    }
}

/// `progress deadline in 9m35s (09:43:07Z): 2 new pods are not available yet`
pub(crate) fn sentence(line: &Line, now: Time) -> String {
    reason(line, now).to_string()
}

/// The same, of which a headline has no more than what is due and how soon.
pub(crate) fn reason(line: &Line, now: Time) -> Reason {
    let (what, why) = (&line.what, &*line.why);
    let Some(at) = line.until else {
        return match why {
            "" => Reason::from(what.to_string()),
            why => Reason::quoting(&format!("{what}: "), why),
        };
    };
    let due = if at > now { "" } else { ", due" };
    let told = due_at(&format!("{what}{due}"), at, now);
    match why {
        "" => told,
        why => told.with_detail(&format!(": {why}")),
    }
}

/// What happens `in 9m35s (09:43:07Z)`.
pub(crate) fn due_at(what: &str, at: Time, now: Time) -> Reason {
    let told = Reason::from(format!("{what} {}", relative(at, now)));
    told.with_detail(&format!(" ({})", clock(at, now)))
}

/// `in 9m35s (09:43:07Z)`
pub(crate) fn when(at: Time, now: Time) -> String {
    format!("{} ({})", relative(at, now), clock(at, now))
}

/// `09:43:07Z`, with the day where it is another one.
fn clock(at: Time, now: Time) -> String {
    let (full, today) = (at.to_string(), now.to_string());
    match (full.split_once('T'), today.split_once('T')) {
        (Some((day, time)), Some((today, _))) if day == today => time.to_owned(),
        _ => full,
    }
}
