//! What a container asks for and may use, as it is written: to be compared and passed on, not to be computed with.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::intern::Pool;
use api::meta::or_default;
use api::{Istr, Quantity};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Amounts by the names of resources, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Listed(Box<[(Istr, Istr)]>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct Resources {
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Listed::is_empty"
    )]
    pub limits: Listed,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Listed::is_empty"
    )]
    pub requests: Listed,
}

static POOL: Pool<Resources> = Pool::new();

impl Resources {
    /// Pods of one template share them.
    pub fn shared(self) -> Arc<Resources> {
        POOL.intern(self)
    }

    pub fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.requests.is_empty()
    }

    /// What is allocated of it: nobody is given a limit.
    pub fn requests_alone(&self) -> Arc<Resources> {
        Resources {
            requests: self.requests.clone(),
            ..Resources::default()
        }
        .shared()
    }

    /// Does this resource differ between the two?
    pub fn differ_in(&self, other: &Resources, name: &str) -> bool {
        self.limits.get(name) != other.limits.get(name)
            || self.requests.get(name) != other.requests.get(name)
    }
}

impl Listed {
    pub(super) fn new(amounts: &BTreeMap<Istr, Quantity>) -> Listed {
        let entries = amounts.iter();
        Listed(
            entries
                .map(|(name, amount)| (name.clone(), Istr::from(amount.to_string())))
                .collect(),
        )
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<&Istr> {
        let found = self.0.iter().find(|(held, _)| *held == *name);
        found.map(|(_, amount)| amount)
    }
}

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Listed, D::Error> {
        BTreeMap::deserialize(deserializer).map(|amounts| Listed::new(&amounts))
    }
}

impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, amount)| (name, amount)))
    }
}
