//! An amount that changes over time: `250m`, or `0s=100m,5m=2,20m=100m`, or the same repeatedly with `every 30m:`
//! before it. Pure.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::GoDuration;
use crate::quantity::{Format, Quantity};

/// What somebody declares that something uses, over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Moments and amounts, in the order of time; between two of them the amount changes evenly.
    points: Vec<(Duration, Quantity)>,
    /// After which time it begins again.
    period: Option<Duration>,
}

/// More points than this describe no load that anybody has drawn.
const POINTS_MAX: usize = 1000;

impl Curve {
    /// Reads one; the error says what is wrong, and not with which text.
    pub fn parse(text: &str) -> Result<Curve, String> {
        let (period, rest) = match text.trim().strip_prefix("every ") {
            None => (None, text),
            Some(rest) => {
                let (period, rest) = rest
                    .split_once(':')
                    .ok_or("there is no colon after the period, as in every 30m: 0s=1,15m=2")?;
                (Some(duration(period)?), rest)
            }
        };
        if period.is_some_and(|period| period.is_zero()) {
            return Err("its period has no length".to_owned());
        }
        let points: Vec<(Duration, Quantity)> =
            rest.split(',').map(point).collect::<Result<_, _>>()?;
        if points.len() > POINTS_MAX {
            return Err(format!("it has more than {POINTS_MAX} points"));
        }
        if !points.is_sorted_by(|one, next| one.0 < next.0) {
            return Err("its points are not in the order of time".to_owned());
        }
        Ok(Curve { points, period })
    }

    /// How much it is after this time: the first amount before the first point, and the last one after the last.
    pub fn at(&self, elapsed: Duration) -> Quantity {
        let elapsed = match self.period {
            Some(period) => {
                let nanos = elapsed.as_nanos() % period.as_nanos();
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            None => elapsed,
        };
        let next = self.points.partition_point(|(at, _)| *at <= elapsed);
        match (self.points.get(next.wrapping_sub(1)), self.points.get(next)) {
            (Some(before), Some(after)) => between(before, after, elapsed),
            (Some((_, amount)), None) | (None, Some((_, amount))) => amount.clone(),
            (None, None) => Quantity::default(),
        }
    }
}

/// As people write it in a file: a number or a text.
impl<'de> Deserialize<'de> for Curve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Curve, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl Visitor<'_> for Written {
    type Value = Curve;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount such as 250m, or a curve such as \"0s=100m,5m=2\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Curve, E> {
        Curve::parse(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Curve, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Curve, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Curve, E> {
        self.visit_str(&number.to_string())
    }
}

fn point(text: &str) -> Result<(Duration, Quantity), String> {
    let (at, amount) = match text.split_once('=') {
        Some((at, amount)) => (duration(at)?, amount),
        None => (Duration::ZERO, text),
    };
    let amount = amount.trim();
    let parsed = Quantity::parse(amount).map_err(|_| format!("{amount:?} is not an amount"))?;
    match parsed.sign() {
        -1 => Err(format!("{amount} is negative")),
        _ => Ok((at, parsed)),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let parsed = GoDuration::parse(text).map(GoDuration::to_std);
    parsed.map_err(|_| format!("{text:?} is not a duration such as 90s or 1h30m"))
}

fn between(
    (from, low): &(Duration, Quantity),
    (to, high): &(Duration, Quantity),
    elapsed: Duration,
) -> Quantity {
    let part = (elapsed - *from).as_secs_f64() / (*to - *from).as_secs_f64();
    let mix = |low: i64, high: i64| {
        // Amounts of metrics are far below what a float counts exactly.
        let mixed = low as f64 + (high as f64 - low as f64) * part;
        mixed.round() as i64
    };
    in_unit(low, |unit| match unit {
        Unit::Whole => mix(low.value(), high.value()),
        Unit::Milli => mix(low.milli_value(), high.milli_value()),
    })
}

enum Unit {
    Whole,
    Milli,
}

/// An amount like this one: bytes are counted whole, everything else in thousandths.
fn in_unit(like: &Quantity, count: impl Fn(Unit) -> i64) -> Quantity {
    match like.format() {
        Format::BinarySi => Quantity::new(count(Unit::Whole), Format::BinarySi),
        format => Quantity::from_milli(count(Unit::Milli), format),
    }
}

/// What each has if so many share an amount.
pub fn share_of(amount: &Quantity, among: usize) -> Quantity {
    let among = i64::try_from(among.max(1)).unwrap_or(i64::MAX);
    in_unit(amount, |unit| match unit {
        Unit::Whole => amount.value() / among,
        Unit::Milli => amount.milli_value() / among,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_change_evenly_between_points() {
        let check = |curve: &str, expected: &[(u64, &str)]| {
            let curve = Curve::parse(curve).unwrap();
            for (at, amount) in expected {
                let told = curve.at(Duration::from_secs(*at)).to_string();
                assert_eq!(told, *amount, "{curve:?} at {at}");
            }
        };
        check("250m", &[(0, "250m"), (1000, "250m")]);
        let wave = "10s=1, 20s=3, 1m=500m";
        check(
            wave,
            &[
                (0, "1"),
                (10, "1"),
                (15, "2"),
                (20, "3"),
                (40, "1750m"),
                (90, "500m"),
            ],
        );
        check("0s=64Mi,1m=128Mi", &[(30, "96Mi"), (60, "128Mi")]);
        let again = "every 1m: 0s=0,30s=30,1m=0";
        check(again, &[(15, "15"), (45, "15"), (75, "15"), (90, "30")]);
    }

    #[test]
    fn nonsense_is_named() {
        for (text, why) in [
            ("lots", "\"lots\" is not an amount"),
            ("-5", "-5 is negative"),
            ("0s=1,5=2", "\"5\" is not a duration such as 90s or 1h30m"),
            ("5m=1,1m=2", "its points are not in the order of time"),
            ("every 0s: 1", "its period has no length"),
        ] {
            assert_eq!(Curve::parse(text).unwrap_err(), why);
        }
    }
}
