//! The five fields of a schedule, each a set of numbers.

use std::num::IntErrorKind;

use crate::syntax::go_quote;

use super::ScheduleError;

/// The numbers below 63 that a field allows, as bits; the highest bit says that it is a star.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set(u64);

/// Where a field begins and ends, and what its numbers are called.
pub(super) struct Bounds {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

pub(super) const MINUTES: Bounds = Bounds::new(0, 59, &[]);
pub(super) const HOURS: Bounds = Bounds::new(0, 23, &[]);
pub(super) const DAYS: Bounds = Bounds::new(1, 31, &[]);
pub(super) const MONTHS: Bounds = Bounds::new(
    1,
    12,
    &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
);
pub(super) const WEEKDAYS: Bounds =
    Bounds::new(0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]);

/// Set where a field was written as a star: such a day does not restrict, it agrees with the other day.
const STAR: u64 = 1 << 63;

impl Bounds {
    const fn new(least: u64, most: u64, names: &'static [&'static str]) -> Bounds {
        Bounds { least, most, names }
    }
}

impl Set {
    pub(super) fn contains(self, number: i8) -> bool {
        self.0 & 1 << number != 0
    }

    pub(super) fn is_star(self) -> bool {
        self.0 & STAR != 0
    }

    /// UPSTREAM: a field of commas alone is accepted, and never comes.
    pub(super) fn is_empty(self) -> bool {
        self.0 & !STAR == 0
    }

    pub(super) fn all(bounds: &Bounds) -> Set {
        Set(range(bounds.least, bounds.most, 1) | STAR)
    }

    pub(super) fn first(bounds: &Bounds) -> Set {
        Set(1 << bounds.least)
    }

    /// Ranges with commas between them; empty ones do not count.
    pub(super) fn parse(text: &str, bounds: &Bounds) -> Result<Set, ScheduleError> {
        let ranges = text.split(',').filter(|range| !range.is_empty());
        ranges.map(|range| parse_range(range, bounds)).sum()
    }
}

impl std::iter::Sum for Set {
    fn sum<I: Iterator<Item = Set>>(sets: I) -> Set {
        Set(sets.fold(0, |bits, set| bits | set.0))
    }
}

/// `5`, `5-10`, `5-10/2`, `5/2` (which goes on to the end), `*`, `*/2`.
fn parse_range(text: &str, bounds: &Bounds) -> Result<Set, ScheduleError> {
    let fail = |problem: String| Err(ScheduleError(format!("{problem}: {text}")));
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end, mut star) = match ends[..] {
        // UPSTREAM: what follows the hyphen of `*-5` is not read.
        ["*" | "?", ..] => (bounds.least, bounds.most, STAR),
        [only] => {
            let number = number_or_name(only, bounds.names)?;
            (number, number, 0)
        }
        [start, end] => {
            let start = number_or_name(start, bounds.names)?;
            (start, number_or_name(end, bounds.names)?, 0)
        }
        [start, ..] => {
            number_or_name(start, bounds.names)?;
            return fail("too many hyphens".to_owned());
        }
        [] => unreachable!("splitting gives at least one part"),
    };
    let step = match parts[1..] {
        [] => 1,
        [step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.most;
            }
            if step > 1 {
                star = 0;
            }
            step
        }
        _ => return fail("too many slashes".to_owned()),
    };
    let Bounds { least, most, .. } = bounds;
    if start < *least {
        return fail(format!(
            "beginning of range ({start}) below minimum ({least})"
        ));
    }
    if end > *most {
        return fail(format!("end of range ({end}) above maximum ({most})"));
    }
    if start > end {
        return fail(format!(
            "beginning of range ({start}) beyond end of range ({end})"
        ));
    }
    if step == 0 {
        return fail("step of range should be a positive number".to_owned());
    }
    Ok(Set(range(start, end, step) | star))
}

fn range(start: u64, end: u64, step: u64) -> u64 {
    // A step that is longer than any field takes the start alone.
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    (start..=end)
        .step_by(step)
        .fold(0, |bits, at| bits | 1 << at)
}

fn number_or_name(text: &str, names: &[&str]) -> Result<u64, ScheduleError> {
    let is_called = |name: &&str| name.eq_ignore_ascii_case(text);
    match names.iter().position(is_called) {
        // Months count from one, days of the week from zero.
        Some(at) => Ok(at as u64 + u64::from(names.len() == 12)),
        None => number(text),
    }
}

/// A number as Go's `strconv.Atoi` reads it, in its words where it cannot.
fn number(text: &str) -> Result<u64, ScheduleError> {
    let parsed: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let problem = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let quoted = go_quote(text);
        ScheduleError(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {problem}"
        ))
    })?;
    u64::try_from(parsed)
        .map_err(|_| ScheduleError(format!("negative number ({parsed}) not allowed: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, least: u64, most: u64, expected: Result<&[u64], &str>) {
        let parsed = Set::parse(text, &Bounds::new(least, most, &[]));
        match expected {
            Ok(numbers) => {
                let bits = numbers.iter().fold(0, |bits, number| bits | 1 << number);
                assert_eq!(parsed, Ok(Set(bits)), "{text}");
            }
            Err(problem) => assert_eq!(parsed.unwrap_err().0, problem, "{text}"),
        }
    }

    // robfig/cron: TestRange (20 rows), TestField (4 rows), TestBits (4 rows: each is a range with a step).
    #[test]
    fn a_field_is_a_list_of_ranges_with_steps() {
        check("5", 0, 7, Ok(&[5]));
        check("0", 0, 7, Ok(&[0]));
        check("7", 0, 7, Ok(&[7]));
        check("5-5", 0, 7, Ok(&[5]));
        check("5-6", 0, 7, Ok(&[5, 6]));
        check("5-7", 0, 7, Ok(&[5, 6, 7]));
        check("5-6/2", 0, 7, Ok(&[5]));
        check("5-7/2", 0, 7, Ok(&[5, 7]));
        check("5-7/1", 0, 7, Ok(&[5, 6, 7]));
        check("*", 1, 3, Ok(&[1, 2, 3, 63]));
        check("*/2", 1, 3, Ok(&[1, 3]));
        check("5", 1, 7, Ok(&[5]));
        check("5,6", 1, 7, Ok(&[5, 6]));
        check("5,6,7", 1, 7, Ok(&[5, 6, 7]));
        check("1,5-7/2,3", 1, 7, Ok(&[1, 3, 5, 7]));
        check("0", 0, 0, Ok(&[0]));
        check("1-1/1", 1, 1, Ok(&[1]));
        check("1-5/2", 0, 7, Ok(&[1, 3, 5]));
        check("1-4/2", 0, 7, Ok(&[1, 3]));
        check("0/15", 0, 59, Ok(&[0, 15, 30, 45]));
        check("0-59/60", 0, 59, Ok(&[0]));
        check("?/1", 1, 3, Ok(&[1, 2, 3, 63]));
        check("*-9", 1, 3, Ok(&[1, 2, 3, 63]));
        check("+5,", 0, 7, Ok(&[5]));
        check(",", 0, 7, Ok(&[]));
        check("1/9223372036854775807", 0, 7, Ok(&[1]));
    }

    // robfig/cron: TestRange, the rows with errors; TestSlash0NoHang. The messages are what users see in events.
    #[test]
    fn says_what_is_wrong_with_a_field() {
        let unreadable = |text| {
            format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
            )
        };
        check("5--5", 0, 0, Err("too many hyphens: 5--5"));
        check("jan-x", 0, 0, Err(&unreadable("jan")));
        check("2-x", 1, 5, Err(&unreadable("x")));
        check("", 1, 5, Ok(&[]));
        check("-1", 1, 5, Err(&unreadable("")));
        check("1.5", 1, 5, Err(&unreadable("1.5")));
        check("*/-12", 0, 0, Err("negative number (-12) not allowed: -12"));
        check("*//2", 0, 0, Err("too many slashes: *//2"));
        check(
            "1",
            3,
            5,
            Err("beginning of range (1) below minimum (3): 1"),
        );
        check("6", 3, 5, Err("end of range (6) above maximum (5): 6"));
        check(
            "5-3",
            3,
            5,
            Err("beginning of range (5) beyond end of range (3): 5-3"),
        );
        let no_step = |text| format!("step of range should be a positive number: {text}");
        check("*/0", 0, 0, Err(&no_step("*/0")));
        check("15/0", 0, 59, Err(&no_step("15/0")));
        check(
            "99999999999999999999",
            0,
            59,
            Err(
                r#"failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range"#,
            ),
        );
    }

    // robfig/cron: TestAll (5 rows).
    #[test]
    fn a_star_is_every_number_of_a_field() {
        let all = |bounds| Set::all(&bounds).0 & !STAR;
        assert_eq!(all(MINUTES), 0xfff_ffff_ffff_ffff);
        assert_eq!(all(HOURS), 0xff_ffff);
        assert_eq!(all(DAYS), 0xffff_fffe);
        assert_eq!(all(MONTHS), 0x1ffe);
        assert_eq!(all(WEEKDAYS), 0x7f);
        assert!(Set::all(&DAYS).is_star() && !Set::first(&DAYS).is_star());
    }

    #[test]
    fn months_and_days_have_names() {
        let numbers = |text, bounds| Set::parse(text, &bounds).unwrap().0;
        assert_eq!(numbers("JAN-dec", MONTHS), 0x1ffe);
        assert_eq!(numbers("Sun-sat", WEEKDAYS), 0x7f);
        assert_eq!(numbers("Mon/2", WEEKDAYS), 1 << 1 | 1 << 3 | 1 << 5);
        assert!(
            Set::parse("mon", &MONTHS).is_err(),
            "each field has its own"
        );
        assert!(
            Set::parse("1/mon", &WEEKDAYS).is_err(),
            "a step is a number"
        );
    }
}
