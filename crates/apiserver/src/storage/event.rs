//! One change in the log.

use super::Stored;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

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
    pub(crate) line: OnceLock<(Box<str>, Bytes)>,
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
