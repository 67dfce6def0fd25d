//! Resource amounts: the `Quantity` of the Kubernetes API (`100m`, `1.5Gi`, `12e6`).
//!
//! A quantity is an exact decimal number plus the family of suffixes it was written with. Quota,
//! autoscaling and scheduling add and compare many of them, so the number is a plain `i128` mantissa
//! with a decimal exponent: nothing is allocated unless the text was written in a way that upstream
//! echoes back unchanged.

mod text;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{AddAssign, Neg, SubAssign};
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// An exact amount of a resource. Two quantities are equal when their numbers are, however they were written.
#[derive(Clone, Default)]
pub struct Quantity {
    /// Number = mantissa * 10^exponent. Kept without trailing zeros; zero is (0, 0).
    mantissa: i128,
    exponent: i32,
    format: Format,
    /// How the number was written, where upstream prints that again instead of the canonical form.
    spelling: Option<Arc<str>>,
}

/// The family of suffixes a quantity is printed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12M`: powers of 1000.
    #[default]
    DecimalSi,
    /// `12Mi`: powers of 1024.
    BinarySi,
    /// `12e6`: a decimal exponent.
    DecimalExponent,
}

/// The power of ten that the magnitude of a capped amount does not exceed.
const MAX_CAPPED_EXPONENT: i32 = 99;

/// Why a text is not a quantity. The messages are upstream's: users search for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// The exponent of the smallest amount that can be told apart: a billionth. Finer ones round up to it.
    pub const NANO: i32 = -9;
    /// A thousandth: the unit in which CPU is usually compared.
    pub const MILLI: i32 = -3;

    /// A whole number, printed in `format`.
    pub fn new(value: i64, format: Format) -> Self {
        Self::from_parts(i128::from(value), 0, format)
    }

    /// `value` thousandths, printed in `format`.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self::from_parts(i128::from(value), Self::MILLI, format)
    }

    /// `value * 10^exponent` in decimal format.
    pub fn from_scaled(value: i64, exponent: i32) -> Self {
        Self::from_parts(i128::from(value), exponent, Format::DecimalSi)
    }

    /// Reads a quantity as the API server does.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        text::plain(text).map_or_else(|| text::parse(text), Ok)
    }

    /// Whether a text is a quantity of thousandths or more that is written as it would be printed. Quick, so that
    /// not all of them are recognized.
    pub fn is_plain(text: &str) -> bool {
        text::plain(text).is_some()
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// The number rounded away from zero to a whole one; what does not fit saturates.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The number in thousandths, rounded away from zero; what does not fit saturates.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(Self::MILLI)
    }

    /// The number in units of `10^exponent`, rounded away from zero.
    ///
    /// Upstream answers 0 where the result does not fit an int64, which turns "far too much" into
    /// "nothing"; this saturates.
    pub fn scaled_value(&self, exponent: i32) -> i64 {
        let shift = i64::from(self.exponent) - i64::from(exponent);
        let scaled = if shift >= 0 {
            scale_up(self.mantissa, shift)
        } else {
            Some(divide_away_from_zero(self.mantissa, -shift).0)
        };
        match scaled.and_then(|wide| i64::try_from(wide).ok()) {
            Some(value) => value,
            None if self.mantissa < 0 => i64::MIN,
            None => i64::MAX,
        }
    }

    /// The whole number this is, or nothing if it has a fraction or does not fit.
    pub fn as_i64(&self) -> Option<i64> {
        if self.exponent < 0 {
            return None;
        }
        scale_up(self.mantissa, i64::from(self.exponent)).and_then(|wide| i64::try_from(wide).ok())
    }

    /// The number as a float, for averages and ratios that tolerate its precision.
    pub fn to_f64(&self) -> f64 {
        self.mantissa as f64 * 10f64.powi(self.exponent)
    }

    /// Rounds away from zero to a multiple of `10^exponent`. False when that changed the number.
    pub fn round_up(&mut self, exponent: i32) -> bool {
        if self.exponent >= exponent {
            return true;
        }
        let shift = i64::from(exponent) - i64::from(self.exponent);
        let (mantissa, exact) = divide_away_from_zero(self.mantissa, shift);
        *self = Self::from_parts(mantissa, exponent, self.format);
        exact
    }

    /// Multiplies by a whole number, rounding up where the result has more digits than fit.
    pub fn multiply(&mut self, factor: i64) {
        let factor = i128::from(factor);
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        let product = loop {
            if let Some(product) = mantissa.checked_mul(factor) {
                break product;
            }
            (mantissa, _) = divide_away_from_zero(mantissa, 1);
            exponent = exponent.saturating_add(1);
        };
        *self = Self::from_parts(product, exponent, self.format);
    }

    /// Cuts an amount down that nobody can mean. Go writes out all digits of what it computes with: a hundred are
    /// nothing, the billion of `1e999999999` keep every client busy for minutes.
    pub fn cap(&mut self) {
        let most = Self::from_parts(self.mantissa.signum(), MAX_CAPPED_EXPONENT, self.format);
        let is_beyond = match self.sign() {
            1 => *self > most,
            -1 => *self < most,
            _ => false,
        };
        if is_beyond {
            *self = most;
        }
    }

    /// Builds a quantity in its normal form: no trailing zeros in the mantissa.
    fn from_parts(mut mantissa: i128, mut exponent: i32, format: Format) -> Self {
        if mantissa == 0 {
            exponent = 0;
        }
        // Numbers of everyday size are divided by the machine itself.
        if let Ok(mut small) = i64::try_from(mantissa) {
            while small != 0 && small % 10 == 0 && exponent < i32::MAX {
                small /= 10;
                exponent += 1;
            }
            mantissa = i128::from(small);
        }
        while mantissa != 0 && mantissa % 10 == 0 && exponent < i32::MAX {
            mantissa /= 10;
            exponent += 1;
        }
        Self {
            mantissa,
            exponent,
            format,
            spelling: None,
        }
    }

    /// The sum's mantissa and exponent. Exact unless the operands lie more than 38 digits apart.
    fn sum(&self, other_mantissa: i128, other_exponent: i32) -> (i128, i32) {
        let (low, high) = if self.exponent <= other_exponent {
            (
                (self.mantissa, self.exponent),
                (other_mantissa, other_exponent),
            )
        } else {
            (
                (other_mantissa, other_exponent),
                (self.mantissa, self.exponent),
            )
        };
        if low.0 == 0 {
            return high;
        }
        if high.0 == 0 {
            return low;
        }
        let distance = i64::from(high.1) - i64::from(low.1);
        // Give up low digits (rounding up) one at a time until the sum fits: at most 38 attempts,
        // because nothing can be raised by more than that.
        for dropped in (distance - MAX_POWER).max(0)..=distance {
            let Some(raised) = scale_up(high.0, distance - dropped) else {
                continue;
            };
            let (rounded, _) = divide_away_from_zero(low.0, dropped);
            if let Some(sum) = raised.checked_add(rounded) {
                return (sum, saturating_exponent(i64::from(low.1) + dropped));
            }
        }
        let (a, _) = divide_away_from_zero(high.0, 1);
        let (b, _) = divide_away_from_zero(low.0, distance.saturating_add(1));
        (a + b, high.1.saturating_add(1))
    }

    fn add_parts(&mut self, mantissa: i128, exponent: i32, format: Format) {
        // UPSTREAM: a sum that starts at zero takes the format of what is added to it.
        let format = if self.is_zero() { format } else { self.format };
        let (mantissa, exponent) = self.sum(mantissa, exponent);
        *self = Self::from_parts(mantissa, exponent, format);
    }
}

impl AddAssign<&Quantity> for Quantity {
    fn add_assign(&mut self, other: &Quantity) {
        self.add_parts(other.mantissa, other.exponent, other.format);
    }
}

impl SubAssign<&Quantity> for Quantity {
    fn sub_assign(&mut self, other: &Quantity) {
        self.add_parts(
            other.mantissa.saturating_neg(),
            other.exponent,
            other.format,
        );
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Self::from_parts(self.mantissa.saturating_neg(), self.exponent, self.format)
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.mantissa.signum().cmp(&other.mantissa.signum());
        if by_sign != Ordering::Equal || self.exponent == other.exponent || self.is_zero() {
            return by_sign.then_with(|| self.mantissa.cmp(&other.mantissa));
        }
        let shift = i64::from(self.exponent) - i64::from(other.exponent);
        // A mantissa that overflows when scaled up is the one that is larger in magnitude.
        let overflowed = if self.mantissa > 0 {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        if shift > 0 {
            scale_up(self.mantissa, shift).map_or(overflowed, |wide| wide.cmp(&other.mantissa))
        } else {
            scale_up(other.mantissa, -shift)
                .map_or(overflowed.reverse(), |wide| self.mantissa.cmp(&wide))
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        // The normal form is unique.
        (self.mantissa, self.exponent) == (other.mantissa, other.exponent)
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.mantissa, self.exponent).hash(state);
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spelling {
            Some(spelling) => formatter.write_str(spelling),
            None => text::write_canonical(self, formatter),
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// The API takes a quantity as a string or as a bare number; null is zero.
struct QuantityVisitor;

impl de::Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a quantity such as \"100m\" or \"1Gi\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        // UPSTREAM: white space around the text is forgiven in JSON, though not by the parser.
        Quantity::parse(text.trim()).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
        Ok(Quantity::new(value, Format::DecimalSi))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
        Ok(Quantity::from_parts(
            i128::from(value),
            0,
            Format::DecimalSi,
        ))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Quantity, E> {
        // A float's shortest decimal text is the number that was written.
        Quantity::parse(&value.to_string()).map_err(E::custom)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }
}

/// The largest power of ten that an `i128` holds: 10^38.
const MAX_POWER: i64 = 38;

/// `value * 10^power`, if it fits.
fn scale_up(value: i128, power: i64) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    if power > MAX_POWER {
        return None;
    }
    value.checked_mul(10i128.pow(power as u32))
}

/// `value / 10^power` rounded away from zero, and whether that was exact.
fn divide_away_from_zero(value: i128, power: i64) -> (i128, bool) {
    if power > MAX_POWER {
        return (value.signum(), value == 0);
    }
    let divisor = 10i128.pow(power as u32);
    let (quotient, remainder) = (value / divisor, value % divisor);
    (quotient + remainder.signum(), remainder == 0)
}

fn saturating_exponent(exponent: i64) -> i32 {
    exponent.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}
