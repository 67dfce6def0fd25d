//! Events are counted, not repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::time::Duration;

use apiserver::Changed;
use controllers::oracle::Verdict;
use rustc_hash::FxHasher;

#[derive(Default)]
pub(super) struct Events {
    /// How often each was created, by what it says about what.
    created: BTreeMap<u64, u32>,
    /// Those that are there, by namespace and name.
    held: BTreeSet<(String, String)>,
    /// How often processes that write events began, or began to lead.
    pub(super) writers: u32,
}

impl Events {
    pub(super) fn note(&mut self, changed: &Changed) {
        let name = (changed.namespace.clone(), changed.name.clone());
        if changed.is_deleted {
            self.held.remove(&name);
        } else if self.held.insert(name) {
            let event: serde_json::Value =
                serde_json::from_slice(&changed.body).unwrap_or_default();
            let mut hash = FxHasher::default();
            let object = &event["involvedObject"];
            for field in [
                &object["uid"],
                &object["fieldPath"],
                &event["reason"],
                &event["message"],
                &event["source"]["component"],
            ] {
                hash.write(field.as_str().unwrap_or_default().as_bytes());
            }
            *self.created.entry(hash.finish()).or_default() += 1;
        }
    }

    /// The server has lost changes: what it has now is read again.
    pub(super) fn forget_lost(&mut self) {
        self.created.clear();
        self.held.clear();
    }

    /// The same event is created once by each life of its writer, and counted after that. What was deleted with its
    /// namespace, or lost, is created again, and so is one that the server has forgotten after an hour.
    pub(super) fn check(&self, lasted: Duration) -> Verdict {
        let most = self.created.values().max().copied().unwrap_or(0);
        let hours = u32::try_from(lasted.as_secs() / 3600).unwrap_or(u32::MAX);
        match most > (self.writers + 1).saturating_add(hours) {
            true => Err(format!(
                "one event was made {most} times instead of being counted"
            )),
            false => Ok(()),
        }
    }
}
