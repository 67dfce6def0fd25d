//! Changes of an input, from a seed.

use api::Rng;

/// Longer inputs are for the limits of bodies, which have tests of their own.
const LONGEST: usize = 256 * 1024;

/// What parsers look for.
const WORDS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e999999999",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "\n",
    "\r\n",
    "\t",
    "---\n",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "|\n",
    "? ",
    "$patch",
    "$setElementOrder/containers",
    "metadata",
    "k8s\0",
    "..",
    "/",
    "~1",
    "==",
    " in (",
    "notin",
    "x-kubernetes-validations",
    "self.",
];

/// Another input made of one or two.
pub fn mutate(rng: &Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=rng.below(4) {
        step(rng, &mut bytes, other);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn step(rng: &Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = rng.below(bytes.len() + 1);
    let (from, to) = range(rng, bytes.len());
    match rng.below(10) {
        0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        1 if at < bytes.len() => bytes[at] = (rng.next_u64() & 0xff) as u8,
        2 => drop(bytes.drain(from..to)),
        3 => {
            let part = bytes[from..to].to_vec();
            insert(bytes, at, &part);
        }
        // Deep and long: the same many times over.
        4 => {
            let part = bytes[from..to.min(from + 64)].to_vec();
            let times = 1 << rng.below(13);
            let much: Vec<u8> = part
                .iter()
                .copied()
                .cycle()
                .take(part.len() * times)
                .collect();
            insert(bytes, at, &much);
        }
        5 => {
            let (from, to) = range(rng, other.len());
            insert(bytes, at, &other[from..to]);
        }
        6 => {
            bytes.truncate(at);
            let from = rng.below(other.len() + 1);
            bytes.extend_from_slice(&other[from..]);
        }
        // A number, or whatever is there, becomes another.
        7 => {
            bytes.drain(from..to.min(from + 8));
            insert(bytes, from, word(rng));
        }
        _ => insert(bytes, at, word(rng)),
    }
}

fn word(rng: &Rng) -> &'static [u8] {
    WORDS[rng.below(WORDS.len())].as_bytes()
}

fn range(rng: &Rng, length: usize) -> (usize, usize) {
    let from = rng.below(length + 1);
    let most = (length - from).min(1 + rng.below(256));
    (from, from + rng.below(most + 1))
}

fn insert(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    if bytes.len() + part.len() <= LONGEST {
        let at = at.min(bytes.len());
        bytes.splice(at..at, part.iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_they_are_bounded() {
        let make = || {
            let rng = Rng::from_seed(7);
            let mut bytes = b"{\"a\": [1, 2]}".to_vec();
            for _ in 0..5000 {
                bytes = mutate(&rng, &bytes, b"other");
                assert!(bytes.len() <= LONGEST);
            }
            bytes
        };
        assert_eq!(make(), make());
    }
}
