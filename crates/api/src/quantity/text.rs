//! Reading and printing quantities exactly as upstream does, its leniencies included.

use std::fmt;
use std::sync::Arc;

use super::{
    Format, Quantity, QuantityError, divide_away_from_zero, saturating_exponent, scale_up,
};

/// The largest number that a binary suffix may express: larger ones are cut down to it.
const BINARY_MAX: i128 = i64::MAX as i128;

/// Digits that upstream reads without big numbers; see `is_quickly_read`.
const FAST_DECIMAL_DIGITS: i64 = 18;
const FAST_BINARY_DIGITS: i64 = 15;

/// Decimal suffixes by power of ten.
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Binary suffixes by power of two.
const BINARY_SUFFIXES: [(&str, i32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// Reads what nearly all quantities look like: a few digits and a suffix, as they would be printed again.
pub(super) fn plain(text: &str) -> Option<Quantity> {
    let bytes = text.as_bytes();
    let digits = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 || digits > FAST_BINARY_DIGITS as usize || bytes[0] == b'0' {
        return None;
    }
    let number = bytes[..digits].iter().fold(0, |number: i64, digit| {
        number * 10 + i64::from(digit - b'0')
    });
    let decimal = |exponent: i32| {
        // A multiple of 1000 is printed with the next suffix.
        let kept = number % 1000 != 0;
        kept.then(|| Quantity::from_parts(number.into(), exponent, Format::DecimalSi))
    };
    let binary = |power: u32| {
        let kept = number % 1024 != 0 && number.leading_zeros() > power + 1;
        kept.then(|| Quantity::from_parts((number << power).into(), 0, Format::BinarySi))
    };
    match &bytes[digits..] {
        b"" => decimal(0),
        b"m" => decimal(-3),
        b"k" => decimal(3),
        b"M" => decimal(6),
        b"G" => decimal(9),
        b"Ki" => binary(10),
        b"Mi" => binary(20),
        b"Gi" => binary(30),
        _ => None,
    }
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (format, power) = interpret_suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
    if !parts.has_digits && !is_quickly_read(&parts, format, power) {
        return Err(QuantityError::Numeric);
    }
    let mut quantity = build(&parts, format, power)?;
    if is_echoed(&parts, format, power) && quantity.to_string() != text {
        quantity.spelling = Some(Arc::from(text));
    }
    Ok(quantity)
}

/// The pieces of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros; "0" if there are none.
    whole: &'a str,
    has_digits: bool,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

/// Splits sign, digits and suffix.
///
/// UPSTREAM: its scanner accepts texts that its own grammar does not: `+`, `.` and `Ki` are all zero.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let starts_with_zero = rest.starts_with('0');
    let rest = rest.trim_start_matches('0');
    let (whole, rest) = take_digits(rest);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => take_digits(rest),
        None => ("", rest),
    };
    let after_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let after_sign = after_letters
        .strip_prefix(['+', '-'])
        .unwrap_or(after_letters);
    if !take_digits(after_sign).1.is_empty() {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative,
        whole: if whole.is_empty() { "0" } else { whole },
        has_digits: starts_with_zero || !whole.is_empty() || !fraction.is_empty(),
        fraction,
        suffix,
    })
}

fn take_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// The format that a suffix implies and its power (of two for binary suffixes, else of ten).
fn interpret_suffix(suffix: &str) -> Option<(Format, i32)> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::DecimalSi, *power));
    }
    if let Some((_, power)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::BinarySi, *power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((Format::DecimalExponent, exponent.parse().ok()?))
}

fn build(parts: &Parts<'_>, format: Format, power: i32) -> Result<Quantity, QuantityError> {
    let (mut mantissa, mut exponent) = read_digits(parts)?;
    if format == Format::BinarySi {
        (mantissa, exponent) = multiply_by_power_of_two(mantissa, exponent, power);
    } else {
        exponent += i64::from(power);
    }
    if exponent < i64::from(Quantity::NANO) {
        let (rounded, _) = divide_away_from_zero(mantissa, i64::from(Quantity::NANO) - exponent);
        (mantissa, exponent) = (rounded, i64::from(Quantity::NANO));
    }
    let mut format = format;
    if format == Format::BinarySi {
        if scale_up(BINARY_MAX, -exponent.min(0)).is_some_and(|max| mantissa > max) {
            (mantissa, exponent) = (BINARY_MAX, 0);
        }
        if mantissa != 0 && scale_up(1, -exponent.min(0)).is_some_and(|one| mantissa < one) {
            // UPSTREAM: less than one is printed in thousandths, which no binary suffix can express.
            format = Format::DecimalSi;
        }
    }
    if parts.negative {
        mantissa = -mantissa;
    }
    Ok(Quantity::from_parts(
        mantissa,
        saturating_exponent(exponent),
        format,
    ))
}

/// All digits as one number and its exponent. Digits beyond the 38 that fit are rounded up.
fn read_digits(parts: &Parts<'_>) -> Result<(i128, i64), QuantityError> {
    let mut mantissa: i128 = 0;
    let mut exponent = -(parts.fraction.len() as i64);
    let mut rest_is_zero = true;
    let mut full = false;
    for digit in parts.whole.bytes().chain(parts.fraction.bytes()) {
        let digit = i128::from(digit - b'0');
        let grown = mantissa
            .checked_mul(10)
            .and_then(|ten| ten.checked_add(digit));
        match grown {
            Some(grown) if !full => mantissa = grown,
            _ => {
                full = true;
                exponent += 1;
                rest_is_zero &= digit == 0;
            }
        }
    }
    if !rest_is_zero {
        mantissa = mantissa.checked_add(1).ok_or(QuantityError::Numeric)?;
    }
    Ok((mantissa, exponent))
}

fn multiply_by_power_of_two(mut mantissa: i128, mut exponent: i64, power: i32) -> (i128, i64) {
    loop {
        if let Some(product) = mantissa.checked_mul(1i128 << power) {
            return (product, exponent);
        }
        (mantissa, _) = divide_away_from_zero(mantissa, 1);
        exponent += 1;
    }
}

/// Whether upstream reads the number without big arithmetic, which decides two of its quirks.
fn is_quickly_read(parts: &Parts<'_>, format: Format, power: i32) -> bool {
    let digits = (parts.whole.len() + parts.fraction.len()) as i64;
    match format {
        Format::BinarySi => {
            let suffix_digits = i64::from(power * 3 / 10);
            parts.fraction.is_empty() && FAST_BINARY_DIGITS - digits - suffix_digits > 0
        }
        Format::DecimalSi | Format::DecimalExponent => {
            let scale = i64::from(power) - parts.fraction.len() as i64;
            digits <= FAST_DECIMAL_DIGITS && scale >= i64::from(Quantity::NANO)
        }
    }
}

/// Whether upstream keeps the text as it was written.
///
/// UPSTREAM: numbers that are quickly read and look canonical at a glance are echoed rather than
/// printed, so `1.500` and `+1` stay as they are. Objects are compared and hashed as text, hence kept.
fn is_echoed(parts: &Parts<'_>, format: Format, power: i32) -> bool {
    if !is_quickly_read(parts, format, power) {
        return false;
    }
    if format == Format::BinarySi {
        return parts
            .whole
            .parse::<i64>()
            .is_ok_and(|number| number & 7 != 0);
    }
    let scale = i64::from(power) - parts.fraction.len() as i64;
    let ends_in_thousand = match parts.fraction.len() {
        0 => parts.whole.ends_with("000"),
        1 => parts.fraction == "0" && parts.whole.ends_with("00"),
        2 => parts.fraction == "00" && parts.whole.ends_with('0'),
        _ => parts.fraction.ends_with("000"),
    };
    scale % 3 == 0 && !ends_in_thousand && !parts.whole.starts_with('0')
}

/// Prints the canonical form: no fraction, the largest suffix that loses nothing.
pub(super) fn write_canonical(
    quantity: &Quantity,
    formatter: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if quantity.is_zero() {
        return formatter.write_str("0");
    }
    match quantity.format {
        Format::BinarySi => match large_whole_number(quantity) {
            Some(whole) => write_binary(whole, formatter),
            None => write_decimal(quantity, formatter),
        },
        Format::DecimalSi => write_decimal(quantity, formatter),
        Format::DecimalExponent => {
            let (mantissa, exponent) = in_thousands(quantity.mantissa, quantity.exponent);
            write_exponent(mantissa, exponent, formatter)
        }
    }
}

/// The number, if it is whole and at least 1024 in magnitude: what binary suffixes are used for.
fn large_whole_number(quantity: &Quantity) -> Option<i128> {
    if quantity.exponent < 0 {
        return None;
    }
    scale_up(quantity.mantissa, i64::from(quantity.exponent))
        .filter(|whole| whole.unsigned_abs() >= 1024)
}

fn write_binary(mut whole: i128, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut suffix = "";
    for (name, _) in BINARY_SUFFIXES {
        if whole % 1024 != 0 {
            break;
        }
        whole /= 1024;
        suffix = name;
    }
    write!(formatter, "{whole}{suffix}")
}

fn write_decimal(quantity: &Quantity, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut mantissa, mut exponent) = in_thousands(quantity.mantissa, quantity.exponent);
    let (_, largest) = DECIMAL_SUFFIXES[DECIMAL_SUFFIXES.len() - 1];
    if exponent > largest {
        // Upstream drops the suffix here and prints a number that is wrong by 21 digits.
        match scale_up(mantissa, i64::from(exponent) - i64::from(largest)) {
            Some(raised) => (mantissa, exponent) = (raised, largest),
            None => return write_exponent(mantissa, exponent, formatter),
        }
    }
    match DECIMAL_SUFFIXES
        .iter()
        .find(|(_, power)| *power == exponent)
    {
        Some((suffix, _)) => write!(formatter, "{mantissa}{suffix}"),
        None => write_exponent(mantissa, exponent, formatter),
    }
}

fn write_exponent(
    mantissa: i128,
    exponent: i32,
    formatter: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match exponent {
        0 => write!(formatter, "{mantissa}"),
        _ => write!(formatter, "{mantissa}e{exponent}"),
    }
}

/// The same number with an exponent that is a multiple of three.
fn in_thousands(mantissa: i128, exponent: i32) -> (i128, i32) {
    let excess = exponent.rem_euclid(3);
    // Rounding leaves at most 38 digits; two more zeros may not fit, then the odd exponent stays.
    match scale_up(mantissa, i64::from(excess)) {
        Some(raised) => (raised, exponent - excess),
        None => (mantissa, exponent),
    }
}
