//! Whether a schedule is one that the CronJob controller can follow: five fields, or a descriptor.

/// The fields of a schedule, with their bounds and the names they know.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// Says what is wrong with a schedule, in the words of the parser that upstream uses.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule.trim();
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        let (zone, after) = rest
            .split_once(' ')
            .ok_or_else(|| format!("missing schedule: {rest}"))?;
        let name = zone.split_once('=').map_or("", |(_, name)| name);
        if jiff::tz::TimeZone::get(name).is_err() {
            return Err(format!(
                "provided bad location {name}: unknown time zone {name}"
            ));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    for (text, (least, most, names)) in fields.into_iter().zip(FIELDS) {
        for range in text.split(',') {
            check_range(range, least, most, names)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => {
            return Ok(());
        }
        _ => {}
    }
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    let valid = !duration.is_empty() && is_duration(duration);
    if valid {
        Ok(())
    } else {
        Err(format!(
            "failed to parse duration {text}: time: invalid duration {duration:?}"
        ))
    }
}

/// Go's durations: `1h30m`, `1.5s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        let units = rest[digits..]
            .bytes()
            .take_while(u8::is_ascii_lowercase)
            .count();
        let unit = &rest[digits..digits + units];
        if digits == 0 || !matches!(unit, "ns" | "us" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = &rest[digits + units..];
    }
    true
}

fn check_range(text: &str, least: u32, most: u32, names: &[&str]) -> Result<(), String> {
    let mut step_parts = text.split('/');
    let range = step_parts.next().unwrap_or_default();
    let step = step_parts.next();
    if step_parts.next().is_some() {
        return Err(format!("too many slashes: {text}"));
    }
    let (start, mut end);
    if matches!(range, "*" | "?") {
        (start, end) = (least, most);
    } else {
        let mut bounds = range.split('-');
        start = number(bounds.next().unwrap_or_default(), names)?;
        end = match bounds.next() {
            Some(text) => number(text, names)?,
            None => start,
        };
        if bounds.next().is_some() {
            return Err(format!("too many hyphens: {text}"));
        }
        if step.is_some() && !range.contains('-') {
            end = most;
        }
    }
    if let Some(step) = step
        && number(step, &[])? == 0
    {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    if start < least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({least}): {text}"
        ));
    }
    if end > most {
        return Err(format!(
            "end of range ({end}) above maximum ({most}): {text}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    Ok(())
}

fn number(text: &str, names: &[&str]) -> Result<u32, String> {
    if let Some(index) = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text))
    {
        // Months count from one, days of the week from zero.
        return Ok(u32::try_from(index).unwrap_or_default() + u32::from(names.len() == 12));
    }
    let parsed: i64 = text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })?;
    u32::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}
