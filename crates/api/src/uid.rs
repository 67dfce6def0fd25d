//! Object uids in sixteen bytes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::intern::Istr;

/// The uid of an object. Upstream's are random UUIDs, but the API allows any text: what is not a
/// canonical UUID is kept as it came.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    Uuid([u8; 16]),
    Text(Istr),
}

impl Uid {
    pub fn parse(text: &str) -> Uid {
        match parse_uuid(text) {
            Some(bytes) => Uid(Form::Uuid(bytes)),
            None => Uid(Form::Text(Istr::new(text))),
        }
    }

    /// A version 4 UUID from 128 random bits.
    pub fn from_random(bits: u128) -> Uid {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uid(Form::Uuid(bytes))
    }

    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }
}

impl Default for Uid {
    fn default() -> Uid {
        Uid(Form::Text(Istr::default()))
    }
}

/// Only the canonical lower-case form is compact, so that printing gives back what was read.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut at = 0;
    for byte in &mut bytes {
        if matches!(at, 8 | 13 | 18 | 23) {
            if text[at] != b'-' {
                return None;
            }
            at += 1;
        }
        *byte = nibble(text[at])? << 4 | nibble(text[at + 1])?;
        at += 2;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Uuid(bytes) => f.write_str(str::from_utf8(&digits(bytes)).unwrap_or_default()),
        }
    }
}

/// The canonical form, which is printed for every reference to an owner and every write of a node.
fn digits(bytes: &[u8; 16]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in bytes {
        if matches!(at, 8 | 13 | 18 | 23) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 0xf)];
        at += 2;
    }
    text
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Uid {
        Uid::parse(text)
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Uid, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Uid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a uid")
            }
            fn visit_str<E>(self, text: &str) -> Result<Uid, E> {
                Ok(Uid::parse(text))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was() {
        for text in [
            "6f0e7d3a-9f0b-4d53-8f3e-0123456789ab",
            "6F0E7D3A-9F0B-4D53-8F3E-0123456789AB",
            "not-a-uuid",
            "",
            "6f0e7d3a99f0b-4d53-8f3e-0123456789ab",
            "ä".repeat(18).as_str(),
        ] {
            assert_eq!(Uid::parse(text).to_string(), text);
        }
        assert!(matches!(
            Uid::parse("6f0e7d3a-9f0b-4d53-8f3e-0123456789ab").0,
            Form::Uuid(_)
        ));
    }

    #[test]
    fn random_ones_are_version_4() {
        let text = Uid::from_random(u128::MAX).to_string();
        assert_eq!(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
