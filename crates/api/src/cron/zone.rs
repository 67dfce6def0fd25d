//! Time zones: names as Go knows them, and the way from an instant to a wall clock and back.
//!
//! The rules of zones that are named are those that were built in, not those of the machine: such a schedule means the
//! same on every host of a control plane, and in a container that has no time zones at all.

use crate::Time;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// Where a schedule's wall clock hangs.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

/// A name that no time zone has, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error("time: invalid location name")]
    InvalidName,
    #[error("unknown time zone {0}")]
    Unknown(String),
}

impl Zone {
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The zone of this machine: `TZ`, or else what the system says; UTC where neither does.
    pub fn of_machine() -> Zone {
        Zone(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// The zone of this name. Names are case-sensitive.
    pub fn load(name: &str) -> Result<Zone, ZoneError> {
        // UPSTREAM: `Local` is the zone of the machine; a schedule means the same on every host here.
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(Zone::UTC);
        }
        if name.contains("..") || name.starts_with(['/', '\\']) {
            return Err(ZoneError::InvalidName);
        }
        let found = TimeZoneDatabase::bundled().get(name).ok();
        // The database forgives case, and knows a zone for "unknown"; Go does neither.
        match found {
            Some(zone) if zone.iana_name() == Some(name) && !zone.is_unknown() => Ok(Zone(zone)),
            _ => Err(ZoneError::Unknown(name.to_owned())),
        }
    }

    /// What the wall clock shows at an instant, in seconds since 1970; none where years do not have four digits.
    pub fn wall(&self, unix: i64) -> Option<DateTime> {
        let at = Timestamp::from_second(unix).ok()?;
        Some(self.0.to_offset(at).to_datetime(at))
    }

    /// When the wall clock shows this.
    ///
    /// A time that is skipped or comes twice is resolved as Go's `time.Date` does: with the offset that holds at the
    /// instant at which the time would be if the offset were the one that holds at that time in UTC.
    pub(super) fn instant(&self, wall: DateTime) -> Option<i64> {
        let as_utc = Offset::UTC.to_timestamp(wall).ok()?.as_second();
        let guessed = self.offset(as_utc)?;
        let offset = self.offset(as_utc - guessed)?;
        Some(as_utc - offset)
    }

    fn offset(&self, unix: i64) -> Option<i64> {
        let at = Timestamp::from_second(unix).ok()?;
        Some(self.0.to_offset(at).seconds().into())
    }

    /// RFC 3339 with the zone's offset, as Go prints it: `Z` wherever that is zero.
    pub fn print(&self, time: Time) -> String {
        let (Some(wall), Some(offset)) = (self.wall(time.unix()), self.offset(time.unix())) else {
            return time.to_string();
        };
        if offset == 0 {
            return format!("{wall}Z");
        }
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
        format!("{wall}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_go_knows() {
        let load = |name: &str| match Zone::load(name) {
            Ok(zone) if zone == Zone::UTC => "UTC".to_owned(),
            Ok(_) => "found".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(load(""), "UTC");
        assert_eq!(load("UTC"), "UTC");
        for name in [
            "Europe/Rome",
            "America/Sao_Paulo",
            "US/Eastern",
            "Asia/Calcutta",
            "Etc/GMT+5",
        ] {
            assert_eq!(load(name), "found", "{name}");
        }
        for name in [
            "bad timezone",
            "europe/rome",
            "utc",
            "Etc/Unknown",
            "Mars/Base",
        ] {
            assert_eq!(load(name), format!("unknown time zone {name}"));
        }
        for name in ["../etc/passwd", "/etc/localtime", "\\x"] {
            assert_eq!(load(name), "time: invalid location name", "{name}");
        }
    }

    #[test]
    fn prints_the_offset() {
        let print = |zone, at: &str| Zone::load(zone).unwrap().print(Time::parse(at).unwrap());
        assert_eq!(print("", "2016-05-19T10:00:00Z"), "2016-05-19T10:00:00Z");
        assert_eq!(
            print("Europe/Rome", "2016-05-19T10:00:00Z"),
            "2016-05-19T12:00:00+02:00"
        );
        assert_eq!(
            print("America/New_York", "2016-01-19T03:00:00Z"),
            "2016-01-18T22:00:00-05:00"
        );
        assert_eq!(
            print("Asia/Kolkata", "2016-01-19T03:00:00Z"),
            "2016-01-19T08:30:00+05:30"
        );
        assert_eq!(
            print("Europe/London", "2016-01-19T03:00:00Z"),
            "2016-01-19T03:00:00Z"
        );
    }

    // Go prints `2011-12-29 00:00:00 -1000` for midnight of the day that Samoa skipped.
    #[test]
    fn a_wall_clock_time_that_is_skipped_or_comes_twice_is_resolved_as_go_does() {
        let instant = |zone, wall: &str| {
            let unix = Zone::load(zone).unwrap().instant(wall.parse().unwrap());
            Time::from_unix(unix.unwrap()).to_string()
        };
        assert_eq!(
            instant("Pacific/Apia", "2011-12-30T00:00:00"),
            "2011-12-29T10:00:00Z"
        );
        assert_eq!(
            instant("America/New_York", "2012-11-04T01:00:00"),
            "2012-11-04T05:00:00Z"
        );
        assert_eq!(
            instant("America/New_York", "2012-03-11T02:30:00"),
            "2012-03-11T06:30:00Z"
        );
    }
}
