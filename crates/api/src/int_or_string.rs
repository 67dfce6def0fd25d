//! A number or a percentage: the `IntOrString` of the Kubernetes API, and how rollouts resolve it.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::syntax::go_quote;

/// An int32 or a string; in rollout settings the string is a percentage such as `25%`, in ports a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntOrString {
    Int(i32),
    Text(Arc<str>),
}

/// How far a rollout may go above and below the desired number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenceposts {
    pub max_surge: i32,
    pub max_unavailable: i32,
}

/// Why a value is neither a number nor a percentage. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntOrStringError {
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    #[error(
        "invalid value for IntOrString: invalid value {}: strconv.Atoi: parsing {}: {problem}",
        go_quote(text),
        go_quote(text.strip_suffix('%').unwrap_or(text)),
    )]
    BadPercentage {
        text: Arc<str>,
        problem: &'static str,
    },
}

impl IntOrString {
    /// The number itself, or the percentage of `total`, rounded up or down.
    pub fn scaled(&self, total: i32, round_up: bool) -> Result<i32, IntOrStringError> {
        let percent = match self {
            Self::Int(value) => return Ok(*value),
            Self::Text(text) => parse_percentage(text)?,
        };
        let hundredths = i128::from(percent) * i128::from(total);
        let floor = hundredths.div_euclid(100);
        let value = if round_up && hundredths.rem_euclid(100) != 0 {
            floor + 1
        } else {
            floor
        };
        Ok(value.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32)
    }

    /// The number, or the text read as one; 0 if it is none (upstream's `IntValue`).
    pub fn int_value(&self) -> i32 {
        match self {
            Self::Int(value) => *value,
            Self::Text(text) => text.parse().unwrap_or(0),
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Int(_) => None,
            Self::Text(text) => Some(text),
        }
    }

    /// Whether the value is a well-formed percentage: digits and a percent sign.
    pub fn is_percentage(&self) -> bool {
        self.as_text()
            .and_then(|text| text.strip_suffix('%'))
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    }
}

/// Resolves surge and unavailability together, since both must not become zero; what is absent counts as 0.
pub fn resolve_fenceposts(
    max_surge: Option<&IntOrString>,
    max_unavailable: Option<&IntOrString>,
    desired: i32,
) -> Result<Fenceposts, IntOrStringError> {
    let zero = IntOrString::Int(0);
    let max_surge = max_surge.unwrap_or(&zero).scaled(desired, true)?;
    let max_unavailable = max_unavailable.unwrap_or(&zero).scaled(desired, false)?;
    if max_surge == 0 && max_unavailable == 0 {
        // Rounding down can leave no room to move at all. Going one below is the way that needs no quota.
        return Ok(Fenceposts {
            max_surge,
            max_unavailable: 1,
        });
    }
    Ok(Fenceposts {
        max_surge,
        max_unavailable,
    })
}

fn parse_percentage(text: &Arc<str>) -> Result<i64, IntOrStringError> {
    let digits = text
        .strip_suffix('%')
        .ok_or(IntOrStringError::NotAPercentage)?;
    digits.parse::<i64>().map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        IntOrStringError::BadPercentage {
            text: text.clone(),
            problem: match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            },
        }
    })
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl From<i32> for IntOrString {
    fn from(value: i32) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::Text(Arc::from(text))
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(formatter, "{value}"),
            Self::Text(text) => formatter.write_str(text),
        }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(value) => serializer.serialize_i32(*value),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntOrStringVisitor)
    }
}

struct IntOrStringVisitor;

impl de::Visitor<'_> for IntOrStringVisitor {
    type Value = IntOrString;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an int32 or a string")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<IntOrString, E> {
        i32::try_from(value)
            .map(IntOrString::Int)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<IntOrString, E> {
        i32::try_from(value)
            .map(IntOrString::Int)
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<IntOrString, E> {
        Ok(IntOrString::from(text))
    }

    fn visit_unit<E: de::Error>(self) -> Result<IntOrString, E> {
        // UPSTREAM: null reads as the number zero.
        Ok(IntOrString::Int(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(value: impl Into<IntOrString>, total: i32, round_up: bool) -> i32 {
        value.into().scaled(total, round_up).unwrap()
    }

    #[test]
    fn numbers_ignore_the_total() {
        assert_eq!(scaled(123, 0, true), 123);
        assert_eq!(scaled(-1, 50, false), -1);
    }

    #[test]
    fn percentages_round_as_told() {
        assert_eq!(scaled("90%", 100, true), 90);
        assert_eq!(scaled("90%", 95, true), 86);
        assert_eq!(scaled("90%", 95, false), 85);
        assert_eq!(scaled("25%", 10, true), 3);
        assert_eq!(scaled("25%", 10, false), 2);
        assert_eq!(scaled("1%", 1, true), 1);
        assert_eq!(scaled("0%", 10, true), 0);
        assert_eq!(scaled("200%", 3, false), 6);
        assert_eq!(scaled("-5%", 30, true), -1);
        assert_eq!(scaled("-5%", 30, false), -2);
        assert_eq!(scaled("9223372036854775807%", i32::MAX, true), i32::MAX);
    }

    #[test]
    fn other_texts_are_refused_in_upstreams_words() {
        let error = |text: &str| {
            IntOrString::from(text)
                .scaled(10, true)
                .unwrap_err()
                .to_string()
        };
        let plain = "invalid value for IntOrString: invalid type: string is not a percentage";
        assert_eq!(error("10"), plain);
        assert_eq!(error(""), plain);
        assert_eq!(
            error("a%"),
            "invalid value for IntOrString: invalid value \"a%\": strconv.Atoi: parsing \"a\": invalid syntax"
        );
        assert_eq!(
            error("99999999999999999999%"),
            "invalid value for IntOrString: invalid value \"99999999999999999999%\": strconv.Atoi: parsing \"99999999999999999999\": value out of range"
        );
        assert!(error("%").ends_with("parsing \"\": invalid syntax"));
        assert!(error("1%%").ends_with("parsing \"1%\": invalid syntax"));
    }

    // TestResolveFenceposts
    #[test]
    fn fenceposts_never_both_become_zero() {
        let resolve = |surge: Option<&str>, unavailable: Option<&str>, desired| {
            let parse = |text: Option<&str>| {
                text.map(|text| match text.parse::<i32>() {
                    Ok(number) => IntOrString::Int(number),
                    Err(_) => IntOrString::from(text),
                })
            };
            resolve_fenceposts(parse(surge).as_ref(), parse(unavailable).as_ref(), desired)
                .map(|posts| (posts.max_surge, posts.max_unavailable))
        };
        assert_eq!(resolve(Some("0%"), Some("0%"), 0), Ok((0, 1)));
        assert_eq!(resolve(Some("39%"), Some("39%"), 10), Ok((4, 3)));
        assert_eq!(resolve(None, None, 10), Ok((0, 1)));
        assert_eq!(resolve(None, Some("39%"), 10), Ok((0, 3)));
        assert_eq!(resolve(Some("39%"), None, 10), Ok((4, 0)));
        assert_eq!(resolve(Some("0"), Some("0"), 10), Ok((0, 1)));
        assert_eq!(resolve(Some("0%"), Some("1%"), 2), Ok((0, 1)));
        assert_eq!(resolve(Some("1%"), Some("25%"), 2), Ok((1, 0)));
        assert_eq!(resolve(Some("25%"), Some("25%"), 10), Ok((3, 2)));
        assert_eq!(resolve(Some("1"), None, 10), Ok((1, 0)));
        assert!(resolve(Some("oops"), Some("39%"), 10).is_err());
        assert!(resolve(Some("55%"), Some("urg"), 10).is_err());
    }

    #[test]
    fn reads_and_writes_the_inner_type() {
        let read = |json: &str| serde_json::from_str::<IntOrString>(json);
        assert_eq!(read("7").unwrap(), IntOrString::Int(7));
        assert_eq!(read("\"25%\"").unwrap(), IntOrString::from("25%"));
        assert_eq!(read("null").unwrap(), IntOrString::Int(0));
        assert!(read("2147483648").is_err());
        assert!(read("1.5").is_err());
        assert!(read("true").is_err());
        assert_eq!(
            serde_json::to_string(&IntOrString::from("http")).unwrap(),
            "\"http\""
        );
        assert_eq!(serde_json::to_string(&IntOrString::Int(-1)).unwrap(), "-1");
    }

    #[test]
    fn plain_readings() {
        assert_eq!(IntOrString::from("8080").int_value(), 8080);
        assert_eq!(IntOrString::from("http").int_value(), 0);
        assert!(IntOrString::from("5%").is_percentage());
        assert!(!IntOrString::from("-5%").is_percentage());
        assert!(!IntOrString::from("%").is_percentage());
        assert!(!IntOrString::Int(5).is_percentage());
        assert_eq!(IntOrString::Int(5).to_string(), "5");
    }
}
