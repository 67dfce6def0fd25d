//! Label sets (and annotation sets): sorted, interned slices instead of maps.
//!
//! A `BTreeMap<String, String>` costs over 500 bytes for one label. Pods of one ReplicaSet all
//! carry the same labels, so they share one slice.

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::intern::{Istr, Pool};

/// Sorted pairs of key and value, shared between all objects that carry the same ones.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LabelSet(Arc<[(Istr, Istr)]>);

static SETS: Pool<[(Istr, Istr)]> = Pool::new();

impl LabelSet {
    /// Sorts and interns; of two values for one key the later one wins, as in JSON.
    pub fn from_pairs(mut pairs: Vec<(Istr, Istr)>) -> LabelSet {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let mut unique: Vec<(Istr, Istr)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match unique.last_mut() {
                Some(last) if last.0 == pair.0 => last.1 = pair.1,
                _ => unique.push(pair),
            }
        }
        LabelSet(SETS.intern_with(&unique, || Arc::from(unique.as_slice())))
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        // A handful as a rule: most are told apart by their lengths alone, without a look at the text.
        let found = self.0.iter().find(|(held, _)| **held == *key);
        found.map(|(_, value)| value.as_str())
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This set with one more pair (or another value for the key).
    pub fn with(&self, key: &str, value: &str) -> LabelSet {
        let mut pairs = self.0.to_vec();
        pairs.push((Istr::new(key), Istr::new(value)));
        LabelSet::from_pairs(pairs)
    }

    /// This set with only the keys that `keep` accepts.
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> LabelSet {
        LabelSet::from_pairs(
            self.0
                .iter()
                .filter(|(key, _)| keep(key))
                .cloned()
                .collect(),
        )
    }
}

/// Asks once whether labels match for a run of objects that share their set, as the pods of one template do.
pub struct Matcher<F> {
    matches: F,
    last: Option<(LabelSet, bool)>,
}

impl<F: Fn(&LabelSet) -> bool> Matcher<F> {
    pub fn new(matches: F) -> Matcher<F> {
        Matcher {
            matches,
            last: None,
        }
    }

    pub fn of(&mut self, labels: &LabelSet) -> bool {
        if let Some((last, matches)) = &self.last
            && Arc::ptr_eq(&last.0, &labels.0)
        {
            return *matches;
        }
        let matches = (self.matches)(labels);
        self.last = Some((labels.clone(), matches));
        matches
    }
}

impl Default for LabelSet {
    fn default() -> LabelSet {
        LabelSet::from_pairs(Vec::new())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for LabelSet {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> LabelSet {
        LabelSet::from_pairs(
            pairs
                .into_iter()
                .map(|(key, value)| (Istr::new(key), Istr::new(value)))
                .collect(),
        )
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// `a=b,c=d`, as kubectl and upstream's messages print labels.
impl fmt::Display for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for LabelSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for LabelSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LabelSet, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = LabelSet;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object whose values are strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LabelSet, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some(pair) = map.next_entry::<Istr, Istr>()? {
                    pairs.push(pair);
                }
                Ok(LabelSet::from_pairs(pairs))
            }
            fn visit_unit<E>(self) -> Result<LabelSet, E> {
                Ok(LabelSet::default())
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_sorts_and_shares() {
        let one: LabelSet = serde_json::from_str(r#"{"b":"2","a":"1"}"#).unwrap();
        let two: LabelSet = serde_json::from_str(r#"{"a":"1","b":"2"}"#).unwrap();
        assert!(Arc::ptr_eq(&one.0, &two.0));
        assert_eq!(one.to_string(), "a=1,b=2");
        assert_eq!(one.get("b"), Some("2"));
        assert_eq!(one.get("c"), None);
        assert_eq!(serde_json::to_string(&one).unwrap(), r#"{"a":"1","b":"2"}"#);
    }

    #[test]
    fn a_run_of_equals_is_asked_about_once() {
        let asked = std::cell::Cell::new(0);
        let mut is_web = Matcher::new(|labels: &LabelSet| {
            asked.set(asked.get() + 1);
            labels.get("app") == Some("web")
        });
        let [web, db] = ["web", "db"].map(|app| [("app", app)].into_iter().collect::<LabelSet>());
        let matched: Vec<bool> = [&web, &web, &db, &db, &web]
            .map(|set| is_web.of(set))
            .to_vec();
        assert_eq!(matched, [true, true, false, false, true]);
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn null_is_empty_and_wrong_types_are_errors() {
        assert!(serde_json::from_str::<LabelSet>("null").unwrap().is_empty());
        assert!(serde_json::from_str::<LabelSet>(r#"{"a":1}"#).is_err());
        assert!(serde_json::from_str::<LabelSet>(r#"["a"]"#).is_err());
    }

    #[test]
    fn with_replaces() {
        let set: LabelSet = [("app", "web")].into_iter().collect();
        assert_eq!(set.with("app", "db").to_string(), "app=db");
        assert_eq!(set.with("tier", "x").to_string(), "app=web,tier=x");
        assert_eq!(set.filtered(|key| key != "app").to_string(), "");
    }
}
