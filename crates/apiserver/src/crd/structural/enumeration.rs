//! The values that a schema lists: `enum`.

use serde_json::Value;
use std::collections::BTreeSet;

/// From so many values on they are looked up, not tried one after the other for each item of a list.
pub(super) const LONG_ENUMERATION: usize = 64;

/// The values that there may be.
#[derive(Default)]
pub(super) struct Enumeration {
    integers: BTreeSet<i64>,
    /// By their bits.
    fractions: BTreeSet<u64>,
    /// All others as JSON.
    texts: BTreeSet<String>,
}

impl Enumeration {
    pub(super) fn of(values: &[Value]) -> Enumeration {
        let mut all = Enumeration::default();
        for value in values {
            match (value, value.as_i64(), value.as_f64()) {
                (Value::Null, ..) => {}
                (_, Some(integer), _) => drop(all.integers.insert(integer)),
                (_, None, Some(fraction)) => drop(all.fractions.insert(fraction.to_bits())),
                (other, None, None) => drop(all.texts.insert(other.to_string())),
            }
        }
        all
    }

    /// As [`equals`] of any of them.
    pub(super) fn has(&self, value: &Value) -> bool {
        let Some(float) = value.as_f64() else {
            return self.texts.contains(&value.to_string());
        };
        let integer = value.as_i64().unwrap_or(float as i64);
        self.integers.contains(&integer) || self.fractions.contains(&float.to_bits())
    }
}

/// UPSTREAM: the value is converted to the type of what it is compared with.
pub(super) fn equals(allowed: &Value, value: &Value) -> bool {
    match (allowed, value) {
        (Value::Null, _) => false,
        (Value::Number(allowed), Value::Number(value)) => {
            match (allowed.as_i64(), value.as_i64(), value.as_f64()) {
                (Some(allowed), Some(value), _) => allowed == value,
                (Some(allowed), None, Some(value)) => allowed == value as i64,
                (None, _, Some(value)) => allowed.as_f64() == Some(value),
                _ => false,
            }
        }
        _ => allowed == value,
    }
}
