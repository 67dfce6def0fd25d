//! One change in the log.

use super::Stored;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) change: Change,
    /// The new state; for a deletion the last state, carrying the revision of the deletion.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
    /// The event as most watchers get it (JSON, the kind's own version), printed once for all of them.
    line: Mutex<Option<(Box<str>, Bytes)>>,
}

impl Event {
    pub(crate) fn new(
        revision: u64,
        change: Change,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) -> Event {
        Event {
            revision,
            change,
            object,
            previous,
            line: Mutex::new(None),
        }
    }

    /// What it keeps in memory, at most: the state before is that of an earlier change.
    pub(super) fn bytes(&self) -> usize {
        self.object.body_len()
    }

    /// The line in the given version, printed if nobody did so lately.
    pub(crate) fn line(&self, version: &str, print: impl FnOnce() -> Bytes) -> Bytes {
        let mut held = super::lock(&self.line);
        match &*held {
            Some((printed, line)) if **printed == *version => line.clone(),
            Some(_) => print(),
            None => {
                let line = print();
                *held = Some((version.into(), line.clone()));
                line
            }
        }
    }

    /// It is kept, but no longer at hand: whoever still needs the line prints it again.
    pub(super) fn pack(&self) {
        *super::lock(&self.line) = None;
        self.object.pack();
    }
}

impl Change {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}
