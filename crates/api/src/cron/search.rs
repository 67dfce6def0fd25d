//! When a schedule of fields comes next.
//!
//! Field by field from the month down: one that does not fit is moved on until it does, and all below it start anew.
//! Hours and minutes move in absolute time, days and months on the wall clock, which decides what happens where the
//! clocks change: a time that is skipped does not come on that day, one that comes twice comes twice.

use jiff::ToSpan;
use jiff::civil::{DateTime, Time as WallTime};

use super::Fields;

/// UPSTREAM: what does not come within five years never comes. 29 February does not around 2100.
const YEARS_MAX: i16 = 5;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

impl Fields {
    /// The first second after this one that fits.
    pub(super) fn next(&self, after: i64) -> Option<i64> {
        let parts = [self.minute, self.hour, self.day, self.month, self.weekday];
        if parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        let at = after.checked_add(1)?;
        let mut search = Search {
            fields: self,
            at,
            wall: self.zone.wall(at)?,
            started_anew: false,
        };
        let last_year = search.wall.year() + YEARS_MAX;
        while search.wall.year() <= last_year {
            if search.find_month()? && search.find_day()? && search.find_time()? {
                return Some(search.at);
            }
        }
        None
    }

    /// Where both days are restricted, either will do.
    fn fits_day(&self, wall: DateTime) -> bool {
        let day = self.day.contains(wall.day());
        let weekday = wall.weekday().to_sunday_zero_offset();
        let weekday = self.weekday.contains(weekday);
        match self.day.is_star() || self.weekday.is_star() {
            true => day && weekday,
            false => day || weekday,
        }
    }
}

struct Search<'a> {
    fields: &'a Fields,
    /// Where the search is, in seconds since 1970, and what the wall clock shows then.
    at: i64,
    wall: DateTime,
    /// Has a field been moved, and everything below it been set back to its beginning?
    started_anew: bool,
}

/// Each step gives none where the calendar ends, and false where a field began anew, so that those above it have to be
/// looked at again.
impl Search<'_> {
    fn find_month(&mut self) -> Option<bool> {
        while !self.fields.month.contains(self.wall.month()) {
            if self.starts_anew() {
                let first = self.wall.date().first_of_month();
                self.go_to_wall(first.to_datetime(WallTime::midnight()))?;
            }
            // A first that begins at one o'clock is taken for the evening before; the day that a month does not have is
            // then one of the next month.
            let days = i32::from(self.wall.day()) - 1;
            let first = self.wall.first_of_month().checked_add(1.month());
            let next = first.and_then(|first| first.checked_add(days.days()));
            self.go_on_to_wall(next.ok()?)?;
            if self.wall.month() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn find_day(&mut self) -> Option<bool> {
        while !self.fields.fits_day(self.wall) {
            if self.starts_anew() {
                self.go_to_wall(self.wall.date().to_datetime(WallTime::midnight()))?;
            }
            let next = self.wall.checked_add(1.day()).ok()?;
            self.go_on_to_wall(next)?;
            // A midnight that is skipped is an hour before or after it: back to where the day begins.
            match i64::from(self.wall.hour()) {
                0 => {}
                hour if hour > 12 => self.go_on_for((24 - hour) * HOUR)?,
                hour => self.go_on_for(-hour * HOUR)?,
            }
            if self.wall.day() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn find_time(&mut self) -> Option<bool> {
        while !self.fields.hour.contains(self.wall.hour()) {
            if self.starts_anew() {
                let hour = WallTime::constant(self.wall.hour(), 0, 0, 0);
                self.go_to_wall(self.wall.date().to_datetime(hour))?;
            }
            self.go_on_for(HOUR)?;
            if self.wall.hour() == 0 {
                return Some(false);
            }
        }
        while !self.fields.minute.contains(self.wall.minute()) {
            if self.starts_anew() {
                self.go_on_for(-self.at.rem_euclid(MINUTE))?;
            }
            self.go_on_for(MINUTE)?;
            if self.wall.minute() == 0 {
                return Some(false);
            }
        }
        if self.wall.second() == 0 {
            return Some(true);
        }
        self.started_anew = true;
        self.go_on_for(MINUTE - i64::from(self.wall.second()))?;
        Some(false)
    }

    /// Is this the first field that is moved?
    fn starts_anew(&mut self) -> bool {
        !std::mem::replace(&mut self.started_anew, true)
    }

    fn go_on_for(&mut self, seconds: i64) -> Option<()> {
        self.at = self.at.checked_add(seconds)?;
        self.wall = self.fields.zone.wall(self.at)?;
        Some(())
    }

    fn go_to_wall(&mut self, wall: DateTime) -> Option<()> {
        self.at = self.fields.zone.instant(wall)?;
        self.wall = self.fields.zone.wall(self.at)?;
        Some(())
    }

    /// As [`Search::go_to_wall`], and always forward.
    fn go_on_to_wall(&mut self, wall: DateTime) -> Option<()> {
        let before = self.at;
        self.go_to_wall(wall)?;
        if self.at <= before {
            // UPSTREAM: goes round in circles where a zone skipped a whole day, as Samoa did on 30 December 2011.
            self.at = before;
            self.go_on_for(DAY)?;
        }
        Some(())
    }
}
