//! Generated names, by upstream's alphabet and limits.

use crate::random::Rng;

/// No vowels and no digits that look like letters: no accidental words, no misreadings.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Upstream cuts the base so that base and suffix fit a DNS label.
const BASE_MAX: usize = 63 - SUFFIX;
const SUFFIX: usize = 5;

/// `base` plus five random characters, as `metadata.generateName` gives.
pub fn generate_name(base: &str, rng: &Rng) -> String {
    let mut name = String::from(cut(base, BASE_MAX));
    for _ in 0..SUFFIX {
        name.push(ALPHABET[rng.below(ALPHABET.len())] as char);
    }
    name
}

/// Maps each byte of a number's text into the alphabet of generated names, as upstream does with
/// hashes before they become part of a name.
pub fn safe_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| ALPHABET[byte as usize % ALPHABET.len()] as char)
        .collect()
}

/// At most `max` bytes of `text`, never in the middle of a character.
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit_and_use_the_alphabet() {
        let rng = Rng::from_seed(1);
        let name = generate_name(&"x".repeat(80), &rng);
        assert_eq!(name.len(), 63);
        assert!(name[58..].bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_ne!(generate_name("a-", &rng), generate_name("a-", &rng));
    }

    #[test]
    fn safe_encoding_matches_upstream() {
        // Bytes modulo 27: this is why template hashes only hold 4-9 and bcdf.
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
        assert_eq!(safe_encode("abc"), "vwx");
    }
}
