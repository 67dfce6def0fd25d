//! The audit log as scenarios read it: shared by all that run on one cluster, sorted by namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::audit::{Entry, Reader};

/// A manager that has written nothing for this long has nothing more to do: the slowest reaction in
/// the workload controllers is a retry after a conflict, well below a second.
const QUIET: Duration = Duration::from_millis(900);
/// A manager that still writes after this long fights with something.
const QUIET_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Tail {
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reader: Reader,
    /// The namespaces of scenarios. Whatever begins with one and a dash belongs to it.
    known: BTreeSet<String>,
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

    /// Counts what is written in this namespace, and to objects that carry it in front of their names.
    pub(crate) fn watch(&self, namespace: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.known.insert(namespace.to_owned());
    }

    /// Waits until the manager has written nothing in a namespace for a while.
    pub(crate) fn settle(&self, namespace: &str, quiet: Option<Duration>) -> Result<()> {
        let quiet = quiet.unwrap_or(QUIET);
        let started = Instant::now();
        loop {
            let last = self.refreshed(|state| state.last_write.get(namespace).copied())?;
            let quiet_since = last.map_or(started, |last| last.max(started));
            if quiet_since.elapsed() >= quiet {
                return Ok(());
            }
            if started.elapsed() > QUIET_DEADLINE {
                bail!(
                    "the manager still writes in {namespace} after {} s",
                    QUIET_DEADLINE.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// All writes of the manager in a namespace, in the order in which they were answered.
    pub(crate) fn writes(&self, namespace: &str) -> Result<Vec<Entry>> {
        self.refreshed(|state| state.writes.get(namespace).cloned().unwrap_or_default())
    }

    fn refreshed<T>(&self, read: impl FnOnce(&State) -> T) -> Result<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for entry in state.reader.read_new(&self.log)? {
            if !entry.is_write() || !entry.is_manager() {
                continue;
            }
            if let Some(namespace) = state.scenario_of(&entry) {
                state.last_write.insert(namespace.clone(), now);
                state.writes.entry(namespace).or_default().push(entry);
            }
        }
        Ok(read(&state))
    }
}

impl State {
    /// The namespace of the scenario that a write belongs to.
    fn scenario_of(&self, entry: &Entry) -> Option<String> {
        let name = entry.object_ref.as_ref().map(|object| object.name.as_str());
        let place = match (entry.namespace(), name) {
            ("", Some(name)) => name,
            (namespace, _) => namespace,
        };
        let belongs = |known: &&String| {
            let rest = place.strip_prefix(known.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.known.iter().find(belongs).cloned()
    }
}
