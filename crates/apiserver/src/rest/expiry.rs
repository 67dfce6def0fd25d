//! Events do not last: each is deleted an hour (`--event-ttl`) after its last write, as etcd's leases do upstream.
//!
//! There is no timer. Every write of an event removes those whose time has come, which bounds how many there
//! are by how many an hour brings.

use crate::kinds;
use crate::server::Shared;
use crate::storage::Transaction;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many go at once: more than one write adds, so that a backlog shrinks.
const REMOVED_AT_ONCE: usize = 8;

/// Keys of events in the order of their last write: (when it ends, key, revision of that write).
#[derive(Default)]
pub(crate) struct Expiry {
    queue: Mutex<VecDeque<(i64, Arc<str>, u64)>>,
}

impl Expiry {
    /// Notes a written event and removes expired ones.
    pub(crate) fn written(
        &self,
        shared: &Shared,
        transaction: &mut Transaction<'_>,
        key: &Arc<str>,
        revision: u64,
    ) {
        let now = shared.now_seconds();
        let mut queue = self.queue.lock();
        queue.push_back((
            now + shared.settings.event_lifetime_seconds,
            key.clone(),
            revision,
        ));
        let Some(kind) = kinds::find("", "Event") else {
            return;
        };
        for _ in 0..REMOVED_AT_ONCE {
            match queue.front() {
                Some((ends, _, _)) if *ends <= now => {}
                _ => return,
            }
            let Some((_, key, revision)) = queue.pop_front() else {
                return;
            };
            // A later write has an entry of its own.
            if transaction
                .get(kind, &key)
                .is_some_and(|event| event.revision == revision)
            {
                transaction.remove(kind, &key);
            }
        }
    }

    /// Takes over the events that a data directory holds: their hour starts anew.
    pub(crate) fn adopt(&self, shared: &Shared) {
        let Some(kind) = kinds::find("", "Event") else {
            return;
        };
        let ends = shared.now_seconds() + shared.settings.event_lifetime_seconds;
        let mut queue = self.queue.lock();
        queue.extend(
            shared
                .store
                .list_newest(kind, "")
                .iter()
                .map(|event| (ends, event.key.clone(), event.revision)),
        );
    }
}
