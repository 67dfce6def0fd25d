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

/// A digest of texts, for telling objects of one process apart without keeping them. It is no name: nobody sees it,
/// and another release may compute another.
///
/// Folded multiplication, eight bytes at a time, as in wyhash. Two of 10,000 different values agree once in 10^11 times.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Digest {
    pub fn new() -> Digest {
        // Digits of pi: any odd-looking number does.
        Digest(0x243f_6a88_85a3_08d3)
    }

    /// Takes one text, and where it ends: "ab", "c" is not "a", "bc".
    #[must_use]
    pub fn text(self, text: &str) -> Digest {
        let mut words = text.as_bytes().chunks_exact(8);
        let mut sum = self.number(text.len() as u64);
        for word in &mut words {
            sum = sum.number(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let rest = words.remainder();
        if rest.is_empty() {
            return sum;
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum.number(u64::from_le_bytes(last))
    }

    /// A text that may be absent, which is not the same as empty.
    #[must_use]
    pub fn optional(self, text: Option<&str>) -> Digest {
        match text {
            Some(text) => self.number(1).text(text),
            None => self.number(0),
        }
    }

    #[must_use]
    pub fn number(self, number: u64) -> Digest {
        // More digits of pi, so that a zero moves the sum too.
        let product =
            u128::from(self.0 ^ 0xa409_3822_299f_31d0) * u128::from(number ^ 0x1319_8a2e_0370_7344);
        let folded = (product as u64) ^ ((product >> 64) as u64);
        // A factor of zero would forget all that came before.
        Digest(folded.wrapping_add(self.0.rotate_left(23)))
    }

    pub fn finish(self) -> u64 {
        self.number(0x082e_fa98_ec4e_6c89).0
    }
}

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_tell_texts_apart() {
        let mut seen = std::collections::HashSet::new();
        for (first, second) in [("", ""), ("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc")] {
            assert!(seen.insert(Digest::new().text(first).text(second).finish()));
        }
        for number in 0..10_000 {
            let digest = Digest::new().text(&format!("web-{number}")).finish();
            assert!(seen.insert(digest), "{number}");
        }
        assert!(seen.insert(Digest::new().optional(None).finish()));
        assert!(seen.insert(Digest::new().optional(Some("")).finish()));
    }

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
