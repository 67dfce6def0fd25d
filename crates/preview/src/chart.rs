//! Counts over time as rows of characters. Pure.

use std::time::Duration;

use api::usage::Curve;

use crate::load::Load;
use crate::marks::Mark;
use crate::report::Workload;
use crate::schedules::Schedule;
use crate::series::{BANDS, Sample};
use crate::text::{Style, duration};
use crate::ticks;

/// What a cell of the chart shows: characters with and without Unicode, and a colour, for each of [`BANDS`].
const LOOKS: [(char, char, &str); BANDS.len()] = [
    ('▓', '*', "\u{1b}[36m"),
    ('█', '#', "\u{1b}[32m"),
    ('▒', '+', "\u{1b}[33m"),
    ('░', '=', "\u{1b}[34m"),
    ('·', '.', "\u{1b}[35m"),
    ('×', 'x', "\u{1b}[31m"),
];

/// Rows of a chart; with fewer pods each has a row of its own.
const HEIGHT_MAX: i32 = 12;

/// What stands left of the chart: a number and a line.
const MARGIN: usize = 7;

/// The chart of one workload, from 0 to `end` seconds.
pub(crate) fn chart(workload: &Workload, end: f64, style: Style) -> Vec<String> {
    let mut rows = counts(&workload.samples, end, style);
    if rows.is_empty() {
        return rows;
    }
    let width = width(style);
    let legend = rows.pop();
    rows.extend(
        workload
            .loads
            .iter()
            .filter_map(|load| load_row(load, end, width, style)),
    );
    rows.extend(
        workload
            .marks
            .iter()
            .map(|mark| mark_row(mark, end, width, style)),
    );
    rows.extend(legend);
    rows
}

/// When a CronJob runs, from 0 to `end` seconds.
pub(crate) fn strip(schedule: &Schedule, end: f64, style: Style) -> Vec<String> {
    let width = width(style);
    let cells = schedule.strip(end, width, style.unicode);
    vec![
        format!("{:>5}  {}", "runs", cells.trim_end()),
        axis(width, end, style),
        times(width, end),
    ]
}

fn width(style: Style) -> usize {
    style.width.clamp(30, 120) - MARGIN - 2
}

/// How many moments of a curve are looked at for its peak: every second of the longest that anybody draws.
const PEAK_SAMPLES: usize = 100_000;

/// The load in each column, as high as its part of the highest.
fn load_row(load: &Load, end: f64, width: usize, style: Style) -> Option<String> {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let curve = Curve::parse(&load.curve).ok()?;
    let amounts: Vec<i64> = (0..width)
        .map(|column| {
            let time = end * column as f64 / width as f64;
            curve.at(Duration::from_secs_f64(time)).milli_value()
        })
        .collect();
    let most = amounts.iter().copied().max().unwrap_or(0).max(1);
    let cells: String = amounts
        .iter()
        .map(|amount| {
            let part = *amount as f64 / most as f64;
            match style.unicode {
                true => HEIGHTS[(part * 7.0).round() as usize % 8],
                false => char::from_digit((part * 9.0).round() as u32, 10).unwrap_or('9'),
            }
        })
        .collect();
    // Between two columns lie minutes, and a peak may be there: people write whole seconds.
    let step = (end as usize / PEAK_SAMPLES).max(1);
    let highest = (0..=end as u64)
        .step_by(step)
        .map(|second| curve.at(Duration::from_secs(second)))
        .max_by_key(api::quantity::Quantity::milli_value)?;
    Some(format!(
        "{:>5}  {cells}\n{}{}: up to {highest}",
        "load",
        " ".repeat(MARGIN),
        load.metric
    ))
}

/// A pointer to a moment, with its words on the side that has room for them.
fn mark_row(mark: &Mark, end: f64, width: usize, style: Style) -> String {
    let pointer = if style.unicode { '▲' } else { '^' };
    let column = ((mark.at / end * width as f64) as usize).min(width.saturating_sub(1));
    let text = format!("{} after {}", mark.text, duration(mark.at));
    let length = text.chars().count();
    match column + 2 + length <= width || column < length + 1 {
        true => format!("{}{pointer} {text}", " ".repeat(MARGIN + column)),
        false => format!(
            "{}{text} {pointer}",
            " ".repeat(MARGIN + column - length - 1)
        ),
    }
}

fn counts(samples: &[Sample], end: f64, style: Style) -> Vec<String> {
    let peak = samples.iter().map(Sample::height).max().unwrap_or(0);
    if peak == 0 || samples.is_empty() {
        return Vec::new();
    }
    let width = width(style);
    let columns: Vec<Sample> = (0..width)
        .map(|column| at(samples, end, column, width))
        .collect();
    let height = peak.min(HEIGHT_MAX);
    let scale = f64::from(peak) / f64::from(height);
    let mut rows = Vec::new();
    let ticks = ticks::counts(peak);
    for row in (1..=height).rev() {
        let (below, number) = (f64::from(row - 1) * scale, f64::from(row) * scale);
        // The highest is always told; the others are round.
        let is_here = |tick: &&i32| f64::from(**tick) > below && f64::from(**tick) <= number + 1e-9;
        let tick = match row == height {
            true => Some(&peak),
            false => ticks.iter().find(is_here),
        };
        let label = match tick {
            Some(tick) => format!("{tick:>4} "),
            None => " ".repeat(5),
        };
        let level = (f64::from(row) - 0.5) * scale;
        let cells: String = cells(&columns, level, style);
        rows.push(
            format!("{label}{} {cells}", if style.unicode { "│" } else { "|" })
                .trim_end()
                .to_owned(),
        );
    }
    rows.push(axis(width, end, style));
    rows.push(times(width, end));
    if let Some(missing) = missing(&columns) {
        rows.push(missing);
    }
    rows.push(legend(samples, style));
    rows
}

/// The sample in effect at the end of a column; the first column shows how it begins.
fn at(samples: &[Sample], end: f64, column: usize, width: usize) -> Sample {
    let time = match column {
        0 => 0.0,
        column => end * (column + 1) as f64 / width as f64,
    };
    let index = samples.partition_point(|sample| sample.at <= time);
    samples[index.saturating_sub(1)]
}

fn cells(columns: &[Sample], level: f64, style: Style) -> String {
    let mut out = String::new();
    let mut before = None;
    for sample in columns {
        let band = band(sample, level);
        if style.colour && band != before {
            out.push_str(band.map_or("\u{1b}[0m", colour));
        }
        before = band;
        out.push(band.map_or(' ', |band| symbol(band, style)));
    }
    if style.colour && before.is_some() {
        out.push_str("\u{1b}[0m");
    }
    out
}

/// The place of a band among [`BANDS`].
fn band(sample: &Sample, level: f64) -> Option<usize> {
    let mut top = 0.0;
    sample.bands().iter().position(|height| {
        top += f64::from(*height);
        level < top
    })
}

fn symbol(band: usize, style: Style) -> char {
    let (unicode, plain, _) = LOOKS[band];
    if style.unicode { unicode } else { plain }
}

fn colour(band: usize) -> &'static str {
    LOOKS[band].2
}

fn axis(width: usize, end: f64, style: Style) -> String {
    let (corner, line, tick) = match style.unicode {
        true => ('└', '─', '┬'),
        false => ('+', '-', '+'),
    };
    let mut cells = vec![line; width + 1];
    for time in ticks::times(end).into_iter().skip(1) {
        if let Some(cell) = cells.get_mut(1 + column_of(time, end, width)) {
            *cell = tick;
        }
    }
    let cells: String = cells.into_iter().collect();
    format!("   0 {corner}{cells}")
}

fn column_of(time: f64, end: f64, width: usize) -> usize {
    ((time / end * width as f64) as usize).min(width.saturating_sub(1))
}

/// Round times below the axis, where there is room for them.
fn times(width: usize, end: f64) -> String {
    let mut line = format!("{}0s", " ".repeat(MARGIN));
    for time in ticks::times(end).into_iter().skip(1) {
        let text = duration(time);
        let wanted = MARGIN + column_of(time, end, width);
        let start = wanted.min((MARGIN + width).saturating_sub(text.len()));
        if line.len() + 2 <= start {
            line.push_str(&" ".repeat(start - line.len()));
            line.push_str(&text);
        }
    }
    line
}

/// How many pods are missing, where any are.
fn missing(columns: &[Sample]) -> Option<String> {
    if columns.iter().all(|sample| sample.unavailable == 0) {
        return None;
    }
    let digit = |sample: &Sample| match sample.unavailable {
        0 => ' ',
        few @ 1..=9 => char::from_digit(few.unsigned_abs(), 10).unwrap_or('+'),
        _ => '+',
    };
    let digits: String = columns.iter().map(digit).collect();
    Some(format!("{:>5}  {}", "miss", digits.trim_end()))
}

fn legend(samples: &[Sample], style: Style) -> String {
    let shown = |band: usize| samples.iter().any(|sample| sample.bands()[band] > 0);
    let parts: Vec<String> = BANDS
        .iter()
        .enumerate()
        .filter(|(band, _)| shown(*band))
        .map(|(band, (_, name))| {
            let symbol = symbol(band, style);
            match style.colour {
                true => format!("{}{symbol}\u{1b}[0m {name}", colour(band)),
                false => format!("{symbol} {name}"),
            }
        })
        .collect();
    let mut line = format!("{}{}", " ".repeat(MARGIN), parts.join("   "));
    if samples.iter().any(|sample| sample.unavailable > 0) {
        line.push_str("   miss: not available");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn samples() -> Vec<Sample> {
        let of = |at, old, new, new_ready| Sample {
            at,
            old,
            old_ready: old,
            new,
            new_ready,
            available: old + new_ready,
            unavailable: (4 - old - new_ready).max(0),
            ..Sample::default()
        };
        vec![of(0.0, 3, 2, 0), of(10.0, 1, 4, 2), of(20.0, 0, 4, 4)]
    }

    #[test]
    fn the_peak_of_a_load_counts_where_no_column_is() {
        let load = Load::parse("deploy/web:cpu=0s=1,10m=8,11m=1").unwrap();
        let style = Style {
            width: 39,
            colour: false,
            unicode: false,
        };
        let row = load_row(&load, 3600.0, 7, style).unwrap();
        assert!(row.ends_with("cpu: up to 8"), "{row}");
    }

    #[test]
    fn a_rollout_in_plain_characters() {
        let style = Style {
            width: 39,
            colour: false,
            unicode: false,
        };
        // The bars keep the blanks at the beginning of lines.
        let rows = counts(&samples(), 30.0, style).into_iter();
        let rows: Vec<String> = rows.map(|row| format!(">{row}")).collect();
        let rows = rows.join("\n");
        expect![[r#"
            >   5 | ===================
            >   4 | =========++++++++++###########
            >   3 | =========++++++++++###########
            >   2 | +++++++++#####################
            >   1 | +++++++++#####################
            >   0 +------+----+----+----+----+---+
            >       0s   5s   10s  15s  20s  25s
            > miss  1111111111111111111
            >       # new, ready   + new, not ready   = old, ready   miss: not available"#]]
        .assert_eq(&rows);
        assert!(!rows.contains('\u{1b}'));
        assert!(rows.is_ascii());
    }

    #[test]
    fn colours_are_closed_and_widths_are_kept() {
        let style = Style {
            width: 60,
            colour: true,
            unicode: true,
        };
        for row in counts(&samples(), 30.0, style) {
            assert_eq!(
                row.matches("\u{1b}[3").count() == 0,
                row.matches("\u{1b}[0m").count() == 0
            );
            let mut plain = row.clone();
            for code in [
                "\u{1b}[0m",
                "\u{1b}[32m",
                "\u{1b}[33m",
                "\u{1b}[34m",
                "\u{1b}[35m",
            ] {
                plain = plain.replace(code, "");
            }
            assert!(plain.chars().count() <= 80, "{plain}");
        }
        assert!(counts(&[], 30.0, style).is_empty());
    }
}
