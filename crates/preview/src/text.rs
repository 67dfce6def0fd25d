//! A preview as text, for terminals of any width, with and without colour. Pure.

use api::decision::{agree, counted};
use explain::Tone;

use crate::chart::{chart, strip};
use crate::report::{Preview, Workload};
use crate::timeline::Entry;

/// What the terminal can do.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub width: usize,
    pub colour: bool,
    pub unicode: bool,
}

/// The first and the last lines of a long timeline; JSON has all of it.
const HEAD: usize = 40;
const TAIL: usize = 15;

pub fn text(preview: &Preview, style: Style) -> String {
    let mut lines = vec![format!("From {}.", preview.from), verdict(preview, style)];
    for drain in &preview.drains {
        lines.push(String::new());
        lines.push(drain.summary());
    }
    for schedule in &preview.schedules {
        lines.push(String::new());
        lines.push(schedule.summary(preview.given_seconds));
        if !schedule.runs.is_empty() {
            lines.extend(strip(schedule, preview.given_seconds, style));
        }
    }
    for workload in &preview.workloads {
        lines.push(String::new());
        lines.push(summary(workload));
        let end = workload.chart_end(preview.given_seconds);
        lines.extend(chart(workload, end, style));
        lines.extend(
            workload
                .notes
                .iter()
                .map(|note| format!("{}: {note}", workload.object)),
        );
    }
    lines.push(String::new());
    lines.extend(timeline(&preview.timeline, style));
    if !preview.warnings.is_empty() {
        lines.push(String::new());
        for warning in &preview.warnings {
            let object = match warning.object.as_str() {
                "" => String::new(),
                object => format!("{object} "),
            };
            lines.push(format!(
                "{} {object}{}",
                Tone::Warning.paint("warning:", style.colour),
                warning.text
            ));
        }
    }
    lines.push(String::new());
    lines.push(format!("Assumed: {}.", preview.assumptions.join("; ")));
    lines.join("\n") + "\n"
}

fn verdict(preview: &Preview, style: Style) -> String {
    let tone = match preview.completes {
        true => Tone::Good,
        false => Tone::Bad,
    };
    tone.paint(&format!("{}.", preview.verdict()), style.colour)
}

fn summary(workload: &Workload) -> String {
    let Workload {
        object,
        namespace,
        wanted,
        ..
    } = workload;
    if let Some(autoscaler) = &workload.autoscaler {
        let range = workload.range();
        return format!("{object} in {namespace}: {range}, as {autoscaler} scales it");
    }
    if workload.is_pod() {
        let outcome = match workload.seconds {
            Some(seconds) => format!("ready or done after {}", duration(seconds)),
            None => "neither ready nor done".to_owned(),
        };
        return format!(
            "{object} in {namespace}: {outcome}; not managed by a controller, nothing recreates it"
        );
    }
    let outcome = match (workload.seconds, &workload.failure) {
        (Some(seconds), _) if *wanted == 0 && !workload.is_job() && workload.peak_pods > 0 => {
            return format!(
                "{object} in {namespace}: scaled to zero, the last of {} is gone after {}",
                counted(workload.peak_pods, "pod"),
                duration(seconds)
            );
        }
        (Some(_), _) if *wanted == 0 && !workload.is_job() => {
            return format!("{object} in {namespace}: wants no pods and has none");
        }
        _ if workload.suspended => "suspended: it runs when it is resumed".to_owned(),
        (Some(seconds), _) => format!("done after {}", duration(seconds)),
        (None, Some(failure)) => {
            format!("fails after {} ({})", duration(failure.at), failure.reason)
        }
        (None, None) => "not done".to_owned(),
    };
    let fewest = workload.minimum_available.map_or(String::new(), |fewest| {
        format!(", never fewer than {fewest} of {wanted} available")
    });
    let most = match workload.peak_surge {
        _ if workload.suspended => String::new(),
        0 => format!(", at most {}", counted(workload.peak_pods, "pod")),
        surge => format!(
            ", at most {} ({surge} more than wanted)",
            counted(workload.peak_pods, "pod")
        ),
    };
    let ended = ended(workload);
    format!("{object} in {namespace}: {outcome}{fewest}{most}{ended}")
}

/// How the pods of a Job end.
fn ended(workload: &Workload) -> String {
    let Some(last) = workload.samples.last() else {
        return String::new();
    };
    let mut ended = String::new();
    for (count, verb) in [
        (last.succeeded, agree(last.succeeded, "succeeds", "succeed")),
        (last.failed, agree(last.failed, "fails", "fail")),
    ] {
        if count > 0 {
            ended.push_str(&format!(", {count} {verb}"));
        }
    }
    ended
}

fn timeline(entries: &[Entry], style: Style) -> Vec<String> {
    let skipped = entries.len().saturating_sub(HEAD + TAIL);
    let wide = entries
        .iter()
        .map(|entry| entry.object.len())
        .max()
        .unwrap_or(0)
        .min(40);
    let mut lines = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if skipped > 0 && (HEAD..HEAD + skipped).contains(&index) {
            if index == HEAD {
                lines.push(format!(
                    "{:>8}  {skipped} more, all of them in --output json",
                    "..."
                ));
            }
            continue;
        }
        let start = format!(
            "{:>8}  {:<wide$}  {}",
            duration(entry.at),
            entry.object,
            entry.what
        );
        if entry.why.is_empty() {
            lines.push(start);
        } else if start.chars().count() + entry.why.chars().count() + 2 <= style.width {
            lines.push(format!("{start}: {}", entry.why));
        } else {
            lines.push(start);
            lines.extend(wrap(&entry.why, 8 + 2 + wide + 4, style.width));
        }
    }
    lines
}

/// Words in lines of at most `width`, each behind an indent.
fn wrap(words: &str, indent: usize, width: usize) -> Vec<String> {
    let room = width.saturating_sub(indent).max(20);
    let mut lines: Vec<String> = vec![String::new()];
    for word in words.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
        .iter()
        .map(|line| format!("{}{line}", " ".repeat(indent)))
        .collect()
}

/// `0s`, `1.5s`, `20s`, `1m40s`, `1h5m`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    let two = |major: u64, unit: &str, minor: u64, minor_unit: &str| match minor {
        0 => format!("{major}{unit}"),
        _ => format!("{major}{unit}{minor}{minor_unit}"),
    };
    match whole {
        _ if seconds < 9.95 => {
            let tenths = (seconds.max(0.0) * 10.0).round() / 10.0;
            format!("{tenths}s")
        }
        ..60 => format!("{whole}s"),
        60..3600 => two(whole / 60, "m", whole % 60, "s"),
        _ => two(whole / 3600, "h", whole % 3600 / 60, "m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_say_them() {
        for (seconds, expected) in [
            (0.0, "0s"),
            (0.04, "0s"),
            (1.46, "1.5s"),
            (9.96, "10s"),
            (59.6, "1m"),
            (100.0, "1m40s"),
            (3900.0, "1h5m"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn a_long_timeline_is_cut_in_the_middle() {
        let entries: Vec<Entry> = (0..100)
            .map(|number| Entry {
                at: f64::from(number),
                object: "deployment/web".to_owned(),
                what: format!("step {number}"),
                why: "because ".repeat(8).trim_end().to_owned(),
            })
            .collect();
        let style = Style {
            width: 60,
            colour: false,
            unicode: true,
        };
        let lines = timeline(&entries, style);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 60),
            "{lines:#?}"
        );
        let text = lines.join("\n");
        assert!(text.contains("45 more, all of them in --output json"));
        assert!(text.contains("step 39") && !text.contains("step 40"));
        assert!(!text.contains("step 84") && text.contains("step 85"));
    }
}
