//! A bounded map that forgets what was used longest ago.

use std::collections::BTreeMap;
use std::hash::Hash;

use crate::collections::HashMap;

/// Keeps at most `capacity` entries. Uses are numbered, so that the oldest is found without
/// pointers between entries; a touch costs a walk of a small tree.
pub struct Lru<K, V> {
    capacity: usize,
    used: u64,
    entries: HashMap<K, Entry<V>>,
    by_use: BTreeMap<u64, K>,
}

struct Entry<V> {
    used: u64,
    value: V,
}

impl<K: Hash + Eq + Clone, V> Lru<K, V> {
    pub fn new(capacity: usize) -> Lru<K, V> {
        Lru {
            capacity,
            used: 0,
            entries: HashMap::default(),
            by_use: BTreeMap::new(),
        }
    }

    /// The value under `key`, made if there is none; it is now the one used last.
    pub fn get_or_insert(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(&key) && self.entries.len() >= self.capacity {
            self.pop_oldest();
        }
        self.used += 1;
        let now = self.used;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry {
            used: now,
            value: make(),
        });
        self.by_use.remove(&entry.used);
        self.by_use.insert(now, key);
        entry.used = now;
        &mut entry.value
    }

    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        let (_, key) = self.by_use.pop_first()?;
        let entry = self.entries.remove(&key)?;
        Some((key, entry.value))
    }

    /// The value under `key`, which is now the one used last.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        let key = self.by_use.remove(&entry.used)?;
        self.used += 1;
        entry.used = self.used;
        self.by_use.insert(self.used, key);
        Some(&mut entry.value)
    }

    /// Looks without touching.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Changes without touching.
    pub fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// In no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.entries.iter();
        entries.map(|(key, entry)| (key, &entry.value))
    }

    /// From the one used longest ago to the one used last.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.by_use.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_was_used_longest_ago() {
        let mut lru = Lru::new(3);
        for key in ["a", "b", "c", "a", "d"] {
            *lru.get_or_insert(key, || 0) += 1;
        }
        assert_eq!(lru.keys().copied().collect::<String>(), "cad");
        assert_eq!(lru.peek(&"a"), Some(&2));
        assert_eq!(lru.peek(&"b"), None);
        assert_eq!(lru.len(), 3);
        assert_eq!(lru.get(&"c"), Some(&mut 1));
        assert_eq!(lru.get(&"b"), None);
        assert_eq!(lru.pop_oldest(), Some(("a", 2)));
    }
}
