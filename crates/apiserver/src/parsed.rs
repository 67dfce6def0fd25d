//! Objects that admission reads for every write, parsed once.
//!
//! Creating a pod asks for its namespace (twice), its service account and all priority classes. These change
//! rarely, so each is parsed once per revision and not once per pod.

use crate::kinds::Kind;
use crate::storage::Stored;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many are kept: the namespaces, accounts and classes that are in use at the same time. All are forgotten when
/// it is full, which costs as much as if they had never been kept.
const KEPT: usize = 256;

/// Larger ones are read for a reason of their own, and would crowd out the rest.
const LARGEST: usize = 8 * 1024;

/// By revision, which no two states of any objects share.
#[derive(Default)]
pub(crate) struct Parsed(Mutex<BTreeMap<u64, Arc<Value>>>);

impl Parsed {
    pub(crate) fn value(&self, kind: &Kind, object: &Stored) -> Arc<Value> {
        let held = || self.0.lock();
        if let Some(value) = held().get(&object.revision) {
            return value.clone();
        }
        let value = Arc::new(object.value(kind));
        if object.body_len() <= LARGEST {
            let mut values = held();
            if values.len() >= KEPT {
                values.clear();
            }
            values.insert(object.revision, value.clone());
        }
        value
    }
}
