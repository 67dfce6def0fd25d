//! Times as HTTP has them in its `Date` header: `Sun, 06 Nov 1994 08:49:37 GMT`.

use crate::Time;
use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999: HTTP has four digits for a year.
const LAST: i64 = 253_402_300_799;

impl Time {
    pub fn to_http_date(self) -> String {
        let seconds = self.unix().clamp(0, LAST).unsigned_abs();
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    pub fn from_http_date(text: &str) -> Option<Time> {
        let time = httpdate::parse_http_date(text.trim()).ok()?;
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        Some(Time::from_unix(since.as_secs().try_into().ok()?))
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
            ("2024-02-29T12:00:00Z", "Thu, 29 Feb 2024 12:00:00 GMT"),
        ] {
            let time = Time::parse(text).unwrap();
            assert_eq!(time.to_http_date(), http);
            assert_eq!(Time::from_http_date(http), Some(time));
        }
    }

    #[test]
    fn nonsense_is_no_time() {
        for text in ["", "yesterday", "a, 06 Nox 1994 x GMT"] {
            assert_eq!(Time::from_http_date(text), None, "{text}");
        }
    }

    #[test]
    fn times_that_http_cannot_say_are_the_nearest_that_it_can() {
        let said = |text: &str| Time::parse(text).unwrap().to_http_date();
        assert_eq!(
            said("1969-12-31T23:59:59Z"),
            "Thu, 01 Jan 1970 00:00:00 GMT"
        );
        let last = Time::from_unix(i64::MAX).to_http_date();
        assert_eq!(last, "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
