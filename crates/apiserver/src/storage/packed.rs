//! Objects kept small.
//!
//! Ten thousand pods of one Deployment differ in a few hundred bytes. So an object is compressed against a
//! dictionary that is made of others of its kind, in microseconds, once it has not been written for a while,
//! and unpacked whenever it is read. Which objects make the dictionary follows from what is written, in its
//! order, and from nothing else.

use super::compress::{Desk, Dictionary, compress};
use bytes::Bytes;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// The JSON of one object.
#[derive(Clone)]
pub(crate) enum Packed {
    Plain(Bytes),
    Compressed {
        bytes: Box<[u8]>,
        length: u32,
        dictionary: Arc<[u8]>,
    },
}

/// Packs the objects of one kind.
#[derive(Default)]
pub(crate) struct Packer {
    dictionary: Option<Arc<Dictionary>>,
    /// How many objects were packed with it. A dictionary lives as long as any of them.
    uses: u32,
}

/// Below it there is little to gain; above it are single objects that have nothing in common.
const SIZES: std::ops::RangeInclusive<usize> = 200..=32 * 1024;

/// Enough for a few different pods.
const DICTIONARY_BYTES: usize = 12 * 1024;

/// A dictionary that does badly stays for so many objects all the same: shared out over them it costs less
/// than they save.
const USES_MIN: u32 = 100;

/// Packs a body with the dictionary of its kind, and lets the dictionary learn from it.
pub(super) fn pack(packer: &Mutex<Packer>, body: Bytes) -> Packed {
    if !SIZES.contains(&body.len()) {
        return Packed::Plain(body);
    }
    let dictionary = super::lock(packer).dictionary.clone();
    let Some(dictionary) = dictionary else {
        super::lock(packer).learn(&body);
        return Packed::Plain(body);
    };
    thread_local! {
        static DESK: RefCell<Desk> = RefCell::default();
    }
    let bytes: Box<[u8]> = DESK.with_borrow_mut(|desk| compress(desk, &dictionary, &body).into());
    // A pod among its like comes down to a tenth.
    super::lock(packer).used(&body, bytes.len() * 4 > body.len());
    // It has to be worth a reference to the dictionary.
    if bytes.len() * 5 > body.len() * 4 {
        return Packed::Plain(body);
    }
    Packed::Compressed {
        bytes,
        length: u32::try_from(body.len()).expect("it is within SIZES"),
        dictionary: dictionary.text.clone(),
    }
}

impl Packer {
    fn used(&mut self, body: &[u8], does_badly: bool) {
        self.uses += 1;
        if does_badly && self.uses >= USES_MIN {
            self.learn(body);
        }
    }

    /// The next objects are packed with what this one has, too: the latest come last, and the oldest go.
    fn learn(&mut self, body: &[u8]) {
        let known = self.dictionary.as_deref().map(|known| &*known.text);
        let words = [known.unwrap_or_default(), body].concat();
        let from = words.len().saturating_sub(DICTIONARY_BYTES);
        self.dictionary = Some(Arc::new(Dictionary::new(Arc::from(&words[from..]))));
        self.uses = 0;
    }
}

impl Packed {
    pub(crate) fn unpack(&self) -> Bytes {
        match self {
            Packed::Plain(body) => body.clone(),
            Packed::Compressed {
                bytes,
                length,
                dictionary,
            } => {
                let body =
                    lz4_flex::block::decompress_with_dict(bytes, *length as usize, dictionary);
                Bytes::from(body.expect("it was packed here, with this dictionary"))
            }
        }
    }

    /// How long it is unpacked.
    pub(crate) fn len(&self) -> usize {
        match self {
            Packed::Plain(body) => body.len(),
            Packed::Compressed { length, .. } => *length as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(kind: &str, number: usize) -> Bytes {
        let filling: String = (0..40)
            .map(|field| format!("\"{kind}-field-{field}\":\"value of {kind} {field}\","))
            .collect();
        Bytes::from(format!("{{{filling}\"name\":\"pod-{number}\"}}"))
    }

    fn kept(packed: &Packed) -> usize {
        match packed {
            Packed::Plain(body) => body.len(),
            Packed::Compressed { bytes, .. } => bytes.len(),
        }
    }

    #[test]
    fn what_is_alike_is_kept_once_and_found_again() {
        let packer = Mutex::default();
        let all: Vec<Packed> = (0..1000)
            .map(|number| pack(&packer, pod("web", number)))
            .collect();
        for (number, packed) in all.iter().enumerate() {
            assert_eq!(packed.unpack(), pod("web", number));
            assert_eq!(packed.len(), packed.unpack().len());
        }
        let total: usize = all.iter().map(kept).sum();
        assert!(total < all.len() * 200, "{total} bytes are kept");
    }

    #[test]
    fn a_new_sort_of_objects_is_learned() {
        let packer = Mutex::default();
        for number in 0..200 {
            pack(&packer, pod("web", number));
            pack(&packer, pod("other", number));
        }
        for kind in ["web", "other"] {
            let packed = pack(&packer, pod(kind, 7));
            assert!(kept(&packed) < 200, "{kind}: {}", kept(&packed));
            assert_eq!(packed.unpack(), pod(kind, 7));
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let packer = Mutex::default();
        let noise = |seed: u64| -> Bytes {
            let rng = api::Rng::from_seed(seed);
            (0..1000).map(|_| (rng.next_u64() % 256) as u8).collect()
        };
        for seed in 0..300 {
            let packed = pack(&packer, noise(seed));
            assert!(matches!(packed, Packed::Plain(_)));
            assert_eq!(packed.unpack(), noise(seed));
        }
        for body in [
            Bytes::new(),
            Bytes::from_static(b"{}"),
            Bytes::from(vec![b'x'; 100_000]),
        ] {
            assert_eq!(pack(&packer, body.clone()).unpack(), body);
        }
    }
}
