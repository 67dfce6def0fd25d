//! Hash maps with a fixed hasher: the same inserts give the same iteration order in every run.
//!
//! The simulator replays a seed byte for byte, so no order that can be seen may depend on a random
//! hash key. Keys here are names and uids that the API server already accepted and bounded.

pub type HashMap<K, V> = std::collections::HashMap<K, V, rustc_hash::FxBuildHasher>;
pub type HashSet<K> = std::collections::HashSet<K, rustc_hash::FxBuildHasher>;
