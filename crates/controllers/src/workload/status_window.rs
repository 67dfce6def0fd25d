//! How often a status that only counts is written.
//!
//! While pods come and go by the thousand, each change would be a write that the next one makes
//! void. Counts wait for their turn; what says more than a count is written at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::collections::HashMap;
use api::{Key, MicroTime};

/// Remembers when the status of each object was last written.
#[derive(Default)]
pub struct StatusWindow(Mutex<HashMap<Key, MicroTime>>);

impl StatusWindow {
    /// While pods come and go, counts in the status are written at most this often.
    pub const LENGTH: Duration = Duration::from_millis(100);

    /// How long counts have to wait; nothing if they may be written now.
    pub fn until_open(&self, key: &Key, now: MicroTime) -> Option<Duration> {
        let last = *self.lock().get(key)?;
        let wait = StatusWindow::LENGTH.saturating_sub(now.since(last));
        (!wait.is_zero()).then_some(wait)
    }

    pub fn written(&self, key: &Key, now: MicroTime) {
        self.lock().insert(key.clone(), now);
    }

    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, MicroTime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
