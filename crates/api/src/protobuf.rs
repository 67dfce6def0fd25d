//! Reading protobuf: the wire format of hot kinds, because what is not wanted is skipped unseen.
//!
//! A [`Message`] says what it does with each field it knows; the rest is passed over by its length.
//! Nothing is generated and nothing is copied: texts are slices of the input. A [`Writer`] is for what a view keeps in
//! this form because it is the smallest one, and for documents that clients ask for in it.

use std::fmt;

/// A message that fills itself from fields.
pub trait Message<'a>: Default {
    /// Takes one field; fields that are not known are ignored.
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed>;
}

/// Reads a whole message.
pub fn read<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, Malformed> {
    let mut message = M::default();
    let mut fields = Reader::new(bytes);
    while let Some((field, value)) = fields.next()? {
        message
            .take(field, value)
            .map_err(|problem| problem.within(field))?;
    }
    Ok(message)
}

/// Calls back with every value that lies at `path`, a field number for each level.
pub fn descend<'a>(
    value: Value<'a>,
    path: &[u32],
    found: &mut dyn FnMut(Value<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let Some((wanted, below)) = path.split_first() else {
        return found(value);
    };
    let mut fields = Reader::new(value.bytes()?);
    while let Some((field, value)) = fields.next()? {
        if field == *wanted {
            descend(value, below, found).map_err(|problem| problem.within(field))?;
        }
    }
    Ok(())
}

/// One value as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn number(self) -> Result<i64, Malformed> {
        match self {
            Value::Number(number) => Ok(number.cast_signed()),
            _ => Err(Malformed::new("not a number")),
        }
    }

    pub fn flag(self) -> Result<bool, Malformed> {
        Ok(self.number()? != 0)
    }

    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::new("a number where bytes belong")),
        }
    }

    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::new("text is not UTF-8"))
    }

    pub fn message<M: Message<'a>>(self) -> Result<M, Malformed> {
        read(self.bytes()?)
    }
}

/// Bytes that are no such message, and the fields that lead to the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// From the inside out.
    path: Vec<u32>,
    pub problem: &'static str,
}

impl Malformed {
    pub fn new(problem: &'static str) -> Malformed {
        Malformed {
            path: Vec::new(),
            problem,
        }
    }

    fn within(mut self, field: u32) -> Malformed {
        self.path.push(field);
        self
    }

    /// `field 2.8`: the numbers of the fields from the outside in.
    pub fn path(&self) -> String {
        let numbers: Vec<String> = self.path.iter().rev().map(u32::to_string).collect();
        format!("field {}", numbers.join("."))
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        f.write_str(self.problem)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for String {
    fn from(malformed: Malformed) -> String {
        malformed.to_string()
    }
}

/// The fields of a message, one after the other.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next field's number and value, nothing at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would go on after an error"
    )]
    pub fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = u32::try_from(tag >> 3).map_err(|_| Malformed::new("no such field"))?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length =
                    usize::try_from(length).map_err(|_| Malformed::new("longer than memory"))?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Malformed::new("a wire type that the API does not use").within(field)),
        };
        Ok(Some((field, value)))
    }

    /// A number without a tag, as packed lists have them.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (index, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        Err(Malformed::new("a varint breaks off"))
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| Malformed::new("breaks off"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self
            .0
            .split_first_chunk()
            .ok_or_else(|| Malformed::new("breaks off"))?;
        self.0 = rest;
        Ok(*array)
    }
}

/// Writes the fields of a message, one after the other.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub fn number(&mut self, field: u32, number: i64) {
        self.varint(u64::from(field) << 3);
        self.varint(number.cast_unsigned());
    }

    pub fn flag(&mut self, field: u32, flag: bool) {
        self.number(field, i64::from(flag));
    }

    /// A message within this one.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Debug, PartialEq)]
    struct Sample<'a> {
        number: i64,
        text: &'a str,
        inner: Option<Box<Sample<'a>>>,
    }

    impl<'a> Message<'a> for Sample<'a> {
        fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
            match field {
                1 => self.number = value.number()?,
                2 => self.text = value.text()?,
                3 => self.inner = Some(Box::new(value.message()?)),
                _ => {}
            }
            Ok(())
        }
    }

    #[test]
    fn reads_what_it_knows_and_skips_the_rest() {
        // 1: -1, 9: fixed64, 10: fixed32, 2: "hé", 3: {1: 300}
        let bytes = [
            &[
                0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ][..],
            &[0x49, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x55, 1, 2, 3, 4],
            &[0x12, 3, b'h', 0xc3, 0xa9],
            &[0x1a, 3, 0x08, 0xac, 0x02],
        ]
        .concat();
        let sample: Sample<'_> = read(&bytes).unwrap();
        assert_eq!((sample.number, sample.text), (-1, "hé"));
        assert_eq!(sample.inner.unwrap().number, 300);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let long = "x".repeat(300);
        let mut writer = Writer::default();
        writer.number(1, -1);
        writer.text(2, &long);
        writer.message(3, |inner| inner.number(1, 300));
        let bytes = writer.finish();
        let sample: Sample<'_> = read(&bytes).unwrap();
        assert_eq!((sample.number, sample.text), (-1, &*long));
        assert_eq!(sample.inner.unwrap().number, 300);
    }

    #[test]
    fn says_where_it_is_broken() {
        for (bytes, problem) in [
            (&[0x1a, 2, 0x12, 9][..], "field 3: breaks off"),
            (&[0x1a, 3, 0x12, 1, 0xff], "field 3.2: text is not UTF-8"),
            (&[0x08], "a varint breaks off"),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f], "breaks off"),
            (&[0x0b], "field 1: a wire type that the API does not use"),
            (
                &[
                    0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                ],
                "a varint breaks off",
            ),
        ] {
            assert_eq!(read::<Sample<'_>>(bytes).unwrap_err().to_string(), problem);
        }
    }
}
