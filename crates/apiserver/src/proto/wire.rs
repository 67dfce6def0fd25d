//! Writing the protobuf wire format; `api::protobuf` reads it.

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
