//! Times as HTTP has them in its `Date` header: `Sun, 06 Nov 1994 08:49:37 GMT`.

use crate::Time;
use crate::time::civil_from_days;

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAY_SECONDS: i64 = 86_400;

impl Time {
    pub fn to_http_date(self) -> String {
        let (days, second) = (
            self.unix().div_euclid(DAY_SECONDS),
            self.unix().rem_euclid(DAY_SECONDS),
        );
        let (year, month, day) = civil_from_days(days);
        // 1970-01-01 was a Thursday.
        let weekday = WEEKDAYS[(days + 4).rem_euclid(7) as usize];
        let month = MONTHS[(month - 1).rem_euclid(12) as usize];
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }

    /// The form that every server sends; none for anything else.
    pub fn from_http_date(text: &str) -> Option<Time> {
        let words: Vec<&str> = text.trim().split(' ').collect();
        let [_, day, month, year, time, "GMT"] = words[..] else {
            return None;
        };
        let month = MONTHS.iter().position(|name| *name == month)? + 1;
        Time::parse(&format!("{year}-{month:02}-{day}T{time}Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (text, http) in [
            ("1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("1969-12-31T23:59:59Z", "Wed, 31 Dec 1969 23:59:59 GMT"),
            ("2024-02-29T12:00:00Z", "Thu, 29 Feb 2024 12:00:00 GMT"),
        ] {
            let time = Time::parse(text).unwrap();
            assert_eq!(time.to_http_date(), http);
            assert_eq!(Time::from_http_date(http), Some(time));
        }
    }

    #[test]
    fn nonsense_is_no_time() {
        for text in [
            "",
            "yesterday",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "a, 06 Nox 1994 x GMT",
        ] {
            assert_eq!(Time::from_http_date(text), None, "{text}");
        }
    }
}
