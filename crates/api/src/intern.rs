//! Interning: what repeats in a cluster is kept once.
//!
//! Namespaces, node names, owner names, label sets and pod bodies repeat thousands of times. A
//! [`Pool`] hands out one shared allocation per distinct value and forgets values that nobody
//! holds any more.

use parking_lot::Mutex;
use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::collections::KeyedState;
use hashbrown::HashTable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An interned string: sixteen bytes, cheap to clone, compared by text.
#[derive(Clone, Eq, PartialOrd, Ord)]
pub struct Istr(Arc<str>);

static STRINGS: Pool<str> = Pool::new();

impl Istr {
    pub fn new(text: &str) -> Istr {
        Istr(STRINGS.intern_with(text, || Arc::from(text)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared allocation itself, for keys that outlive the object they name.
    pub fn to_arc(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl Default for Istr {
    fn default() -> Istr {
        Istr::new("")
    }
}

impl PartialEq for Istr {
    fn eq(&self, other: &Istr) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl PartialEq<str> for Istr {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Istr {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Hash for Istr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for Istr {
    fn borrow(&self) -> &str {
        self
    }
}

impl Deref for Istr {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Istr {
    fn as_ref(&self) -> &str {
        self
    }
}

impl From<&str> for Istr {
    fn from(text: &str) -> Istr {
        Istr::new(text)
    }
}

impl From<String> for Istr {
    fn from(text: String) -> Istr {
        Istr::new(&text)
    }
}

impl fmt::Debug for Istr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Istr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for Istr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Istr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Istr, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Istr;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<Istr, E> {
                Ok(Istr::new(text))
            }
            fn visit_unit<E>(self) -> Result<Istr, E> {
                Ok(Istr::default())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A set of shared values. Values that only the pool still holds are dropped when it has doubled.
pub struct Pool<T: ?Sized> {
    shelves: [Mutex<Shelf<T>>; SHELVES],
}

/// Sixteen locks keep decoders on several threads from waiting for each other.
const SHELVES: usize = 16;

/// A shelf is swept for the first time when it holds this many values.
const FIRST_SWEEP: usize = 256;

struct Shelf<T: ?Sized> {
    values: HashTable<Arc<T>>,
    sweep_at: usize,
}

impl<T: ?Sized + Hash + Eq> Pool<T> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Pool<T> {
        Pool {
            shelves: [const {
                Mutex::new(Shelf {
                    values: HashTable::new(),
                    sweep_at: FIRST_SWEEP,
                })
            }; SHELVES],
        }
    }

    /// The shared copy of `value`, made by `make` when there is none yet.
    pub fn intern_with(&self, value: &T, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let hash = KeyedState.hash_one(value);
        let mut shelf = self.shelves[(hash >> 60) as usize % SHELVES].lock();
        if let Some(found) = shelf.values.find(hash, |held| **held == *value) {
            return found.clone();
        }
        if shelf.values.len() >= shelf.sweep_at {
            shelf.values.retain(|held| Arc::strong_count(held) > 1);
            shelf.sweep_at = FIRST_SWEEP.max(shelf.values.len() * 2);
        }
        let made = make();
        shelf
            .values
            .insert_unique(hash, made.clone(), |held| KeyedState.hash_one(&**held));
        made
    }

    /// How many distinct values are held, including ones that nobody uses any more.
    pub fn len(&self) -> usize {
        self.shelves
            .iter()
            .map(|shelf| shelf.lock().values.len())
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Hash + Eq> Pool<T> {
    pub fn intern(&self, value: T) -> Arc<T> {
        let hash = KeyedState.hash_one(&value);
        let shelf = &self.shelves[(hash >> 60) as usize % SHELVES];
        {
            let shelf = shelf.lock();
            if let Some(found) = shelf.values.find(hash, |held| **held == value) {
                return found.clone();
            }
        }
        let made = Arc::new(value);
        self.intern_with(&made, || made.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_allocation() {
        let a = Istr::new("kube-system");
        let b = Istr::from(String::from("kube-system"));
        assert!(Arc::ptr_eq(&a.0, &b.0));
        assert_ne!(a, Istr::new("default"));
    }

    #[test]
    fn values_that_nobody_holds_are_swept() {
        let pool: Pool<str> = Pool::new();
        for number in 0..100_000 {
            let text = format!("value-{number}");
            pool.intern_with(&text, || Arc::from(text.as_str()));
        }
        assert!(
            pool.len() <= FIRST_SWEEP * SHELVES,
            "{} values kept",
            pool.len()
        );
    }

    #[test]
    fn values_in_use_survive_a_sweep() {
        let pool: Pool<u32> = Pool::new();
        let held: Vec<_> = (0..10_000).map(|number| pool.intern(number)).collect();
        for number in 0..10_000 {
            assert!(Arc::ptr_eq(&held[number as usize], &pool.intern(number)));
        }
    }
}
