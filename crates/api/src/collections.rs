//! Hash maps whose hashes nobody outside can foresee, and whose order the simulator can repeat.
//!
//! Keys are names, labels and values that clients choose. With a hash that is known, somebody who may create objects makes
//! thousands of names that fall into one bucket, and every look-up of one of them walks through all. So hashes depend on
//! a key of the process, which servers and managers draw at their start ([`key_hashes`]). Where none was drawn, in tests and
//! in the simulator, it is a constant: the same inserts give the same iteration order in every run.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

pub type HashMap<K, V> = std::collections::HashMap<K, V, KeyedState>;
pub type HashSet<K> = std::collections::HashSet<K, KeyedState>;

/// Makes hashers with the key of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyedState;

static KEY: OnceLock<(u64, SharedSeed)> = OnceLock::new();

/// Draws the key of the process from a seed that nobody else knows. To be called before anything is hashed; false if it is
/// too late.
pub fn key_hashes(seed: u64) -> bool {
    KEY.set((seed.rotate_left(32), SharedSeed::from_u64(seed)))
        .is_ok()
}

impl BuildHasher for KeyedState {
    type Hasher = FoldHasher<'static>;

    fn build_hasher(&self) -> FoldHasher<'static> {
        let (seed, shared) = KEY.get_or_init(|| (0, SharedSeed::from_u64(0)));
        FoldHasher::with_seed(*seed, shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many names of a set that collides in a hash without a key share their hash here.
    #[test]
    fn names_that_collide_without_a_key_do_not_here() {
        // Found for the hash that was used before: it adds words that it has multiplied by a constant, so that one word more
        // and the next one less by the constant come to the same.
        const CONSTANT: u64 = 0xf135_7aea_2e62_a9c5;
        let pairs =
            (0..1000_u64).map(|number| (number, 0_u64.wrapping_sub(number.wrapping_mul(CONSTANT))));
        let pairs: Vec<(u64, u64)> = pairs.collect();
        let unkeyed: std::collections::HashSet<u64> = pairs
            .iter()
            .map(|pair| rustc_hash::FxBuildHasher.hash_one(pair))
            .collect();
        assert!(unkeyed.len() < 10, "{} hashes", unkeyed.len());
        let keyed: std::collections::HashSet<u64> =
            pairs.iter().map(|pair| KeyedState.hash_one(pair)).collect();
        assert_eq!(keyed.len(), 1000);
    }

    #[test]
    fn another_key_gives_other_hashes() {
        let of = |seed: u64| {
            let shared = SharedSeed::from_u64(seed);
            let mut hasher = FoldHasher::with_seed(seed, &shared);
            std::hash::Hash::hash("kube-system/coredns", &mut hasher);
            std::hash::Hasher::finish(&hasher)
        };
        assert_ne!(of(1), of(2));
        assert_eq!(of(1), of(1));
    }
}
