//! The words for key usages, and what X.509 makes of them.

use std::collections::BTreeSet;

use api::Istr;

/// What a certificate may be used for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usages {
    /// The numbers of the bits of `KeyUsage`.
    bits: BTreeSet<usize>,
    /// Places in [`EXTENDED`], which is sorted as upstream sorts them.
    pub extended: BTreeSet<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized usage values: {0:?}")]
pub struct UnrecognizedUsages(Vec<String>);

/// (word, number of the bit)
const BITS: [(&str, usize); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// (words, object identifier)
const EXTENDED: [(&[&str], &[u64]); 12] = [
    (&["any"], &[2, 5, 29, 37, 0]),
    (&["server auth"], &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    (&["client auth"], &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    (&["code signing"], &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    (
        &["email protection", "s/mime"],
        &[1, 3, 6, 1, 5, 5, 7, 3, 4],
    ),
    (&["ipsec end system"], &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    (&["ipsec tunnel"], &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    (&["ipsec user"], &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    (&["timestamping"], &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    (&["ocsp signing"], &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    (&["microsoft sgc"], &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    (&["netscape sgc"], &[2, 16, 840, 1, 113_730, 4, 1]),
];

impl Usages {
    pub fn read(words: &[Istr]) -> Result<Usages, UnrecognizedUsages> {
        let mut usages = Usages::default();
        let mut unrecognized = Vec::new();
        for word in words.iter().map(Istr::as_str) {
            if let Some((_, bit)) = BITS.iter().find(|(known, _)| *known == word) {
                usages.bits.insert(*bit);
            } else if let Some(at) = EXTENDED.iter().position(|(known, _)| known.contains(&word)) {
                usages.extended.insert(at);
            } else {
                unrecognized.push(word.to_owned());
            }
        }
        match unrecognized.is_empty() {
            true => Ok(usages),
            false => Err(UnrecognizedUsages(unrecognized)),
        }
    }

    /// The bits of `KeyUsage`, the first one highest, and how many they are up to the last one; none if there is none.
    pub fn key_usage(&self) -> Option<(Vec<u8>, usize)> {
        let last = self.bits.last()?;
        let mut bytes = vec![0; last / 8 + 1];
        for bit in &self.bits {
            bytes[bit / 8] |= 0x80 >> (bit % 8);
        }
        Some((bytes, last + 1))
    }

    pub fn extended_oids(&self) -> impl Iterator<Item = &'static [u64]> {
        self.extended.iter().map(|at| EXTENDED[*at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Usages, String> {
        let words: Vec<Istr> = words.iter().map(|word| Istr::new(word)).collect();
        Usages::read(&words).map_err(|error| error.to_string())
    }

    // Upstream: TestKeyUsagesFromStrings.
    #[test]
    fn words_become_bits_and_identifiers() {
        assert_eq!(
            read(&["signing"]).unwrap().key_usage(),
            Some((vec![0x80], 1))
        );
        assert_eq!(read(&["client auth"]).unwrap().key_usage(), None);
        let both = read(&["digital signature", "signing", "key encipherment"]).unwrap();
        assert_eq!(both.key_usage(), Some((vec![0xa0], 3)));
        let last = read(&["decipher only"]).unwrap();
        assert_eq!(last.key_usage(), Some((vec![0, 0x80], 9)));
        let both = read(&["cert sign", "encipher only"]).unwrap();
        assert_eq!(both.key_usage(), Some((vec![0x05], 8)));
        let mixed = read(&["ocsp signing", "crl sign", "s/mime", "content commitment"]);
        let mixed = mixed.unwrap();
        assert_eq!(mixed.key_usage(), Some((vec![0x42], 7)));
        let oids: Vec<&[u64]> = mixed.extended_oids().collect();
        let (mail, ocsp) = ([1, 3, 6, 1, 5, 5, 7, 3, 4], [1, 3, 6, 1, 5, 5, 7, 3, 9]);
        assert_eq!(oids, [&mail[..], &ocsp]);
        let twice = read(&["client auth", "client auth"]).unwrap();
        assert_eq!(twice, read(&["client auth"]).unwrap());
        let sorted = read(&["s/mime", "client auth", "any", "email protection"]).unwrap();
        let oids: Vec<&[u64]> = sorted.extended_oids().collect();
        let expected: [&[u64]; 3] = [
            &[2, 5, 29, 37, 0],
            &[1, 3, 6, 1, 5, 5, 7, 3, 2],
            &[1, 3, 6, 1, 5, 5, 7, 3, 4],
        ];
        assert_eq!(oids, expected);
        assert_eq!(
            read(&["signing", "bad usage", "worse"]).unwrap_err(),
            r#"unrecognized usage values: ["bad usage", "worse"]"#
        );
    }
}
