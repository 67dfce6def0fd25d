//! What a word stands for that is in no quotes.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    /// Wide enough for all of 64 bits with and without a sign.
    Integer(i128),
    Float(f64),
    Text(String),
}

impl Scalar {
    pub(super) fn resolve(word: &str) -> Result<Scalar, String> {
        Ok(match word {
            "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                Scalar::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => Scalar::Bool(false),
            ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
            | "-.inf" | "-.Inf" | "-.INF" => return Err(format!("{word} is no value in JSON")),
            _ => number(word).unwrap_or_else(|| Scalar::Text(word.to_owned())),
        })
    }

    /// A word that says what it is, such as `!!int 7`.
    pub(super) fn resolve_as(tag: &str, word: &str) -> Result<Scalar, String> {
        let found = Scalar::resolve(word)?;
        match (tag, found) {
            ("null", Scalar::Null) => Ok(Scalar::Null),
            ("bool", found @ Scalar::Bool(_)) | ("int", found @ Scalar::Integer(_)) => Ok(found),
            ("float", found @ (Scalar::Float(_) | Scalar::Integer(_))) => Ok(found),
            ("null" | "bool" | "int" | "float", _) => {
                Err(format!("cannot decode `{word}` as a !!{tag}"))
            }
            // UPSTREAM: what it does not know is text.
            _ => Ok(Scalar::Text(word.to_owned())),
        }
    }

    /// As the name of a member.
    pub(super) fn into_name(self) -> Result<String, String> {
        match self {
            Scalar::Null => Err("null cannot be a name".to_owned()),
            Scalar::Text(text) => Ok(text),
            other => Ok(other.json()),
        }
    }

    pub(super) fn json(&self) -> String {
        match self {
            Scalar::Null => "null".to_owned(),
            Scalar::Bool(flag) => flag.to_string(),
            Scalar::Integer(number) => number.to_string(),
            // UPSTREAM: Go prints 1.0 as 1, and fields that are integers take it.
            Scalar::Float(number) if number.fract() == 0.0 && number.abs() < 1e21 => {
                format!("{number:.0}")
            }
            Scalar::Float(number) => Value::from(*number).to_string(),
            Scalar::Text(text) => quoted(text),
        }
    }
}

pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn number(word: &str) -> Option<Scalar> {
    let first = word.bytes().next()?;
    if !first.is_ascii_digit() && !matches!(first, b'+' | b'-' | b'.') {
        return None;
    }
    if first == b'.' {
        return is_float(word).then(|| float(word)).flatten();
    }
    let plain = word.replace('_', "");
    if let Some(number) = integer(&plain) {
        return Some(Scalar::Integer(number));
    }
    is_float(&plain).then(|| float(&plain)).flatten()
}

/// Within 64 bits, in any base that Go's literals have: `0755` is octal.
fn integer(word: &str) -> Option<i128> {
    let (is_negative, digits) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // The parser takes a sign of its own.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i128::from(u64::from_str_radix(digits, base).ok()?);
    let number = if is_negative { -number } else { number };
    (number >= i128::from(i64::MIN)).then_some(number)
}

fn float(word: &str) -> Option<Scalar> {
    let number: f64 = word.parse().ok()?;
    number.is_finite().then_some(Scalar::Float(number))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(word: &str) -> bool {
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (word, None),
    };
    let without_sign = |text: &str| text.strip_prefix(['-', '+']).unwrap_or(text).to_owned();
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa = without_sign(mantissa);
    let is_mantissa = match mantissa.split_once('.') {
        Some((before, after)) => {
            are_digits(before) && are_digits(after) && !(before.is_empty() && after.is_empty())
        }
        None => !mantissa.is_empty() && are_digits(&mantissa),
    };
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = without_sign(exponent);
        !digits.is_empty() && are_digits(&digits)
    });
    is_mantissa && is_exponent
}
