//! The protobuf wire format: tags, varints and length-delimited bytes, read without copying.

#[derive(Clone, Copy)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next member's number and value, nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| "a field number is out of range")?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| "a length is out of range")?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.array::<4>()?;
                Wire::Fixed32
            }
            other => return Err(format!("wire type {other} is not supported")),
        };
        Ok(Some((number, wire)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        // Ten groups of seven bits hold 64.
        for shift in (0..70).step_by(7) {
            let [byte] = self.array::<1>()?;
            value |= u64::from(byte & 0x7f)
                .checked_shl(shift)
                .unwrap_or_default();
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a varint is longer than ten bytes".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or("unexpected end of the protobuf body")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.take(N)?;
        bytes
            .try_into()
            .map_err(|_| "unexpected end of the protobuf body".to_owned())
    }
}

/// Puts a message together.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn text(&mut self, number: u64, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    pub(crate) fn flag(&mut self, number: u64, flag: bool) {
        self.varint(number << 3);
        self.varint(u64::from(flag));
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, number: u64, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        write(&mut inner);
        self.bytes(number, &inner.0);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
