//! The audit log as scenarios read it: shared by all that run on one cluster, sorted by namespace.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;

use super::witness::{Stories, Witness};
use crate::audit::{Entry, Reader};

pub(crate) struct Tail {
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reader: Reader,
    stories: Stories,
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
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for entry in state.reader.read_new(&self.log)? {
            if !entry.is_write() || !entry.is_manager() {
                continue;
            }
            if let Some(namespace) = state.stories.of(&entry) {
                state.last_write.insert(namespace.clone(), now);
                state.writes.entry(namespace).or_default().push(entry);
            }
        }
        Ok(read(&state))
    }
}

impl Witness for Tail {
    fn attend(&self, namespace: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stories.insert(namespace);
    }

    fn last_write(&self, namespace: &str) -> Result<Option<Instant>> {
        self.refreshed(|state| state.last_write.get(namespace).copied())
    }

    fn writes(&self, namespace: &str) -> Result<Vec<Entry>> {
        self.refreshed(|state| state.writes.get(namespace).cloned().unwrap_or_default())
    }
}
