//! Compresses against a dictionary that was looked through before.
//!
//! What comes out is an LZ4 block, as any decoder of them reads it. Encoders look through their dictionary each time,
//! which takes several times as long as the object that follows: here that is done once.

use std::sync::Arc;

/// Text to compress others against, and where in it what is.
pub(super) struct Dictionary {
    pub(super) text: Arc<[u8]>,
    /// By hash of the eight bytes at a place: the last such place, or [`NOWHERE`].
    places: Box<[u16]>,
}

/// A place that is none; dictionary and text together are shorter.
const NOWHERE: u16 = u16::MAX;

/// Of the places that are remembered: enough for a dictionary of 12 KB, most of which says the same many times.
const PLACES_MAX: usize = 8192;

/// Shorter matches save little, and in JSON there is always a longer one nearby.
const MATCH_MIN: usize = 8;

/// LZ4: a block ends with five bytes that are copied, and no match begins in its last twelve.
const LAST: usize = 5;
const LAST_MATCH: usize = 12;

/// After so many bytes without a match every second place is skipped, then two of three, and so on.
const PATIENCE: usize = 64;

/// What a thread works with, kept because clearing new memory takes as long as the work.
#[derive(Default)]
pub(super) struct Desk {
    text: Vec<u8>,
    places: Vec<u16>,
    out: Vec<u8>,
}

impl Dictionary {
    pub(super) fn new(text: Arc<[u8]>) -> Dictionary {
        let count = text.len().next_power_of_two().clamp(256, PLACES_MAX);
        let mut places = vec![NOWHERE; count].into_boxed_slice();
        for place in 0..(text.len() + 1).saturating_sub(MATCH_MIN) {
            let slot = slot(word(&text, place), count);
            places[slot] = place as u16;
        }
        Dictionary { text, places }
    }
}

/// An LZ4 block. Dictionary and body must be shorter than 64 KB together.
pub(super) fn compress<'a>(desk: &'a mut Desk, dictionary: &Dictionary, body: &[u8]) -> &'a [u8] {
    let Desk { text, places, out } = desk;
    text.clear();
    text.extend_from_slice(&dictionary.text);
    text.extend_from_slice(body);
    assert!(text.len() < usize::from(NOWHERE), "places are two bytes");
    places.clear();
    places.extend_from_slice(&dictionary.places);
    out.clear();
    // No match begins from here on; a text that is shorter than this has none.
    let unmatched = text
        .len()
        .saturating_sub(LAST_MATCH.max(MATCH_MIN + LAST) - 1);
    // Up to where everything is written, where the search is, and how far back the last match was.
    let (mut written, mut place, mut distance) = (dictionary.text.len(), dictionary.text.len(), 0);
    while place < unmatched {
        let here = word(text, place);
        let slot = slot(here, places.len());
        let remembered = usize::from(std::mem::replace(&mut places[slot], place as u16));
        // Where alike objects differ in a few letters, they go on alike at the same distance.
        let repeated = place - distance;
        let mut from = if distance > 0 && word(text, repeated) == here {
            repeated
        } else if remembered < place && word(text, remembered) == here {
            remembered
        } else {
            place += 1 + (place - written) / PATIENCE;
            continue;
        };
        let mut end = place + MATCH_MIN;
        end += alike(&text[from + MATCH_MIN..], &text[end..text.len() - LAST]);
        while place > written && from > 0 && text[place - 1] == text[from - 1] {
            (place, from) = (place - 1, from - 1);
        }
        distance = place - from;
        sequence(out, &text[written..place], Some((distance, end - place)));
        (written, place) = (end, end);
    }
    sequence(out, &text[written..], None);
    out
}

fn word(text: &[u8], place: usize) -> u64 {
    let bytes = text[place..].first_chunk();
    u64::from_le_bytes(*bytes.expect("there are eight more bytes"))
}

/// One of a power of two.
fn slot(word: u64, count: usize) -> usize {
    /// Odd, with bits all over: the high bits of the product depend on all of the word.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (word.wrapping_mul(FACTOR) >> (64 - count.trailing_zeros())) as usize
}

/// How many bytes two texts have in common; the second is the shorter one.
fn alike(one: &[u8], other: &[u8]) -> usize {
    let (words, rest) = other.as_chunks::<8>();
    let mut count = 0;
    for (one, other) in one.as_chunks::<8>().0.iter().zip(words) {
        let differs = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differs != 0 {
            return count + differs.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    let rest = one[count..].iter().zip(rest);
    count + rest.take_while(|(one, other)| one == other).count()
}

/// Bytes that are copied, then a match: how far back, and how long.
fn sequence(out: &mut Vec<u8>, copied: &[u8], matched: Option<(usize, usize)>) {
    // A length of 15 or more goes on in bytes of its own.
    let short = |length: usize| length.min(15) as u8;
    let more = |out: &mut Vec<u8>, length: usize| {
        if let Some(rest) = length.checked_sub(15) {
            out.extend(std::iter::repeat_n(255, rest / 255));
            out.push((rest % 255) as u8);
        }
    };
    let (distance, length) = matched.unwrap_or((0, 4));
    out.push(short(copied.len()) << 4 | short(length - 4));
    more(out, copied.len());
    out.extend_from_slice(copied);
    if matched.is_some() {
        out.extend_from_slice(&(distance as u16).to_le_bytes());
        more(out, length - 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(dictionary: &[u8], body: &[u8]) -> usize {
        let mut desk = Desk::default();
        let block = compress(&mut desk, &Dictionary::new(dictionary.into()), body).to_vec();
        let back = lz4_flex::block::decompress_with_dict(&block, body.len(), dictionary);
        assert!(back.unwrap() == body);
        block.len()
    }

    #[test]
    fn what_the_dictionary_has_takes_next_to_nothing() {
        let text: Vec<u8> = (0..3000_u32)
            .flat_map(|number| number.to_string().into_bytes())
            .collect();
        assert!(there_and_back(&text, &text) < 70);
        let mut other = text.clone();
        for place in (100..other.len()).step_by(1000) {
            other[place] = b'x';
        }
        assert!(there_and_back(&text, &other) < 150);
    }

    proptest! {
        #[test]
        fn every_text_is_found_again(
            dictionary in prop::collection::vec(0_u8..4, 0..600),
            words in prop::collection::vec((prop::collection::vec(0_u8..4, 0..40), 1_usize..30), 0..12),
        ) {
            let body: Vec<u8> = words.iter().flat_map(|(word, times)| word.repeat(*times)).collect();
            there_and_back(&dictionary, &body);
        }

        #[test]
        fn noise_is_found_again(dictionary in any::<Vec<u8>>(), body in any::<Vec<u8>>()) {
            there_and_back(&dictionary, &body);
        }
    }
}
