//! Time and chance, both injected so that the same seed gives the same bytes.

use std::sync::{Arc, Mutex, PoisonError};

/// The wall clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// From a function that tells the microseconds since 1970.
    pub fn new(now: impl Fn() -> i64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    pub fn now_micros(&self) -> i64 {
        (self.0)()
    }

    pub fn now_seconds(&self) -> i64 {
        self.now_micros().div_euclid(1_000_000)
    }
}

/// A source of random numbers that a seed determines (SplitMix64).
#[derive(Clone)]
pub struct Rng(Arc<Mutex<u64>>);

impl Rng {
    pub fn seeded(seed: u64) -> Rng {
        Rng(Arc::new(Mutex::new(seed)))
    }

    pub fn next_u64(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// `2006-01-02T15:04:05Z`
pub(crate) fn format_time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Seconds since 1970 of an RFC 3339 time in UTC; a fraction is cut off.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let time = time.split_once('.').map_or(time, |(whole, _)| whole);
    let mut time = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let in_range =
        (0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    in_range.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// The proleptic Gregorian date of a day since 1970 (Howard Hinnant's algorithm: eras of 400 years that start
/// in March).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_index = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_index + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
        ] {
            assert_eq!(format_time(seconds), text);
            assert_eq!(parse_time(text), Some(seconds));
        }
        assert_eq!(
            parse_time("2024-02-29T12:00:00.123456Z")
                .map(format_time)
                .unwrap(),
            "2024-02-29T12:00:00Z"
        );
        assert_eq!(parse_time("nonsense"), None);
    }
}
