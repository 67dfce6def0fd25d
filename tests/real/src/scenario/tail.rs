//! The audit log as scenarios read it: shared by all that run on one cluster, sorted by namespace.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::witness::{Scenarios, Witness};
use crate::audit::{Entry, Reader};

pub(crate) struct Tail {
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reader: Reader,
    scenarios: Scenarios,
    writes: BTreeMap<String, Vec<Entry>>,
    last_write: BTreeMap<String, Instant>,
}

impl Tail {
    pub(crate) fn new(log: PathBuf) -> Tail {
        Tail {
            log,
            state: Mutex::default(),
        }
    }

    fn refreshed<T>(&self, read: impl FnOnce(&State) -> T) -> Result<T> {
        let mut state = self.state.lock();
        let now = Instant::now();
        for entry in state.reader.read_new(&self.log)? {
            if !entry.is_write() || !entry.is_manager() {
                continue;
            }
            if let Some(namespace) = state.scenarios.of(&entry) {
                state.last_write.insert(namespace.clone(), now);
                state.writes.entry(namespace).or_default().push(entry);
            }
        }
        Ok(read(&state))
    }
}

impl Witness for Tail {
    fn attend(&self, namespace: &str) {
        let mut state = self.state.lock();
        state.scenarios.insert(namespace);
    }

    fn last_write(&self, namespace: &str) -> Result<Option<Instant>> {
        self.refreshed(|state| state.last_write.get(namespace).copied())
    }

    fn writes(&self, namespace: &str) -> Result<Vec<Entry>> {
        self.refreshed(|state| state.writes.get(namespace).cloned().unwrap_or_default())
    }
}
