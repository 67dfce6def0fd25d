//! Amounts by the name of a resource: what is asked for, what is granted, what is used.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};

use crate::intern::Istr;
use crate::protobuf::{Malformed, Message, Value};
use crate::quantity::Quantity;

/// A `ResourceList`.
pub type Amounts = BTreeMap<Istr, Quantity>;

pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

/// The larger of both, for each resource.
pub fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        match total.get_mut(name) {
            Some(held) if *held >= *amount => {}
            Some(held) => *held = amount.clone(),
            None => {
                total.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// What is more in the first than in the second, and nothing less than nothing.
pub fn growth(new: &Amounts, old: &Amounts) -> Amounts {
    let mut growth = new.clone();
    for (name, amount) in old {
        if let Some(held) = growth.get_mut(name) {
            *held -= amount;
        }
    }
    growth.retain(|_, amount| amount.sign() > 0);
    growth
}

/// `cpu=1,memory=1Gi`: as quota prints it.
pub fn show<'a>(amounts: impl IntoIterator<Item = (&'a Istr, &'a Quantity)>) -> String {
    let parts = amounts.into_iter();
    let parts: Vec<String> = parts
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    parts.join(",")
}

/// Reads a resource list; what is no amount was refused by the API server, and is left out.
pub fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amounts, D::Error> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Amounts;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of amounts")
        }

        fn visit_unit<E>(self) -> Result<Amounts, E> {
            Ok(Amounts::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Amounts, A::Error> {
            let mut amounts = Amounts::new();
            while let Some(name) = map.next_key::<Istr>()? {
                if let MaybeAmount(Some(amount)) = map.next_value()? {
                    amounts.insert(name, amount);
                }
            }
            Ok(amounts)
        }
    }
    deserializer.deserialize_any(Entries)
}

/// A text or a number that may be an amount.
struct MaybeAmount(Option<Quantity>);

impl<'de> serde::Deserialize<'de> for MaybeAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MaybeAmount, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = MaybeAmount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount")
            }

            fn visit_str<E>(self, text: &str) -> Result<MaybeAmount, E> {
                Ok(MaybeAmount(Quantity::parse(text).ok()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<MaybeAmount, E> {
                Ok(MaybeAmount(Quantity::parse(&number.to_string()).ok()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<MaybeAmount, E> {
                Ok(MaybeAmount(Quantity::parse(&number.to_string()).ok()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<MaybeAmount, E> {
                Ok(MaybeAmount(Quantity::parse(&number.to_string()).ok()))
            }

            fn visit_bool<E>(self, _: bool) -> Result<MaybeAmount, E> {
                Ok(MaybeAmount(None))
            }

            fn visit_unit<E>(self) -> Result<MaybeAmount, E> {
                Ok(MaybeAmount(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// One entry of a resource list in protobuf.
#[derive(Default)]
pub(crate) struct Entry<'a> {
    name: &'a str,
    amount: Option<Quantity>,
}

impl Entry<'_> {
    pub(crate) fn put_into(self, amounts: &mut Amounts) {
        if let Some(amount) = self.amount {
            amounts.insert(self.name.into(), amount);
        }
    }
}

impl<'a> Message<'a> for Entry<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = value.text()?,
            // A quantity is a message around its text.
            2 => crate::protobuf::descend(value, &[1], &mut |text| {
                self.amount = Quantity::parse(text.text()?).ok();
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(text: &str) -> Amounts {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(name, amount)| (name.into(), Quantity::parse(amount).unwrap()))
            .collect()
    }

    // Upstream: TestEquals, TestAdd, TestMax, TestSubtract, TestIsZero, TestRemoveZeros.
    #[test]
    fn lists_are_added_compared_and_subtracted_name_by_name() {
        let (one, two) = (amounts("cpu=1,memory=5Gi"), amounts("cpu=500m,pods=2"));
        let mut sum = one.clone();
        add(&mut sum, &two);
        assert_eq!(show(&sum), "cpu=1500m,memory=5Gi,pods=2");
        let mut most = one.clone();
        raise(&mut most, &two);
        assert_eq!(show(&most), "cpu=1,memory=5Gi,pods=2");
        assert_eq!(show(&growth(&one, &two)), "cpu=500m,memory=5Gi");
        assert_eq!(show(&growth(&two, &one)), "pods=2", "less is nothing");
        assert_eq!(amounts("cpu=1000m"), amounts("cpu=1"));
        assert_ne!(amounts("cpu=1"), amounts("cpu=1,pods=0"));
    }

    #[test]
    fn what_is_no_amount_is_left_out() {
        let json = r#"{"cpu": "1", "a": "oops", "b": 5, "c": null, "d": 1.5, "e": true}"#;
        let read = lenient(&mut serde_json::Deserializer::from_str(json)).unwrap();
        assert_eq!(show(&read), "b=5,cpu=1,d=1500m");
    }
}
