//! FNV, the hashes behind upstream's names: FNV-1a for templates, plain FNV-1 for the revisions of
//! StatefulSets. They differ in the order of two operations, and in every sum.

/// 32-bit FNV-1a.
#[derive(Clone, Copy)]
pub struct Fnv32a(u32);

impl Fnv32a {
    pub fn new() -> Fnv32a {
        // The offset basis of the FNV specification.
        Fnv32a(0x811c_9dc5)
    }

    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            // The 32-bit FNV prime.
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    pub fn finish(self) -> u32 {
        self.0
    }
}

impl Default for Fnv32a {
    fn default() -> Fnv32a {
        Fnv32a::new()
    }
}

/// 32-bit FNV-1 of all the parts, one after the other.
pub fn fnv32(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    // Offset basis and prime as above; here the multiplication comes first.
    bytes.fold(0x811c_9dc5, |sum: u32, byte| {
        sum.wrapping_mul(0x0100_0193) ^ u32::from(*byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vectors() {
        for (text, sum) in [
            ("", 0x811c_9dc5_u32),
            ("a", 0xe40c_292c),
            ("foobar", 0xbf9c_f968),
        ] {
            let mut hash = Fnv32a::new();
            hash.write(text.as_bytes());
            assert_eq!(hash.finish(), sum, "{text}");
        }
    }

    #[test]
    fn known_vectors_of_plain_fnv() {
        for (parts, sum) in [
            (["", ""], 0x811c_9dc5_u32),
            (["a", ""], 0x050c_5d7e),
            (["foo", "bar"], 0x31f0_b262),
        ] {
            assert_eq!(fnv32(&parts.map(str::as_bytes)), sum, "{parts:?}");
        }
    }
}
