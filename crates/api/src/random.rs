//! Seeded randomness: the only source of it in the project.

use parking_lot::Mutex;
use std::sync::Arc;

/// A shared random source. Clones draw from the same sequence; [`Rng::fork`] starts another one.
#[derive(Clone)]
pub struct Rng(Arc<Mutex<u64>>);

impl Rng {
    pub fn from_seed(seed: u64) -> Rng {
        Rng(Arc::new(Mutex::new(seed)))
    }

    /// SplitMix64: tiny, well distributed, and each state is a valid seed.
    pub fn next_u64(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn next_u128(&self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number in [0, 1).
    pub fn unit(&self) -> f64 {
        // 53 bits is what a double holds exactly.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True once in `one_in` draws.
    pub fn chance(&self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// An independent sequence that depends on this one's state.
    pub fn fork(&self) -> Rng {
        Rng::from_seed(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let (a, b) = (Rng::from_seed(7), Rng::from_seed(7));
        for _ in 0..100 {
            assert_eq!(a.next_u64(), b.next_u64());
        }
        assert_ne!(Rng::from_seed(8).next_u64(), Rng::from_seed(7).next_u64());
    }

    #[test]
    fn stays_in_bounds() {
        let rng = Rng::from_seed(1);
        for _ in 0..1000 {
            assert!(rng.below(10) < 10);
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert_eq!(rng.below(0), 0);
    }
}
