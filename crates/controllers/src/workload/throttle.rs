//! How often a status that only counts is written.
//!
//! While pods come and go by the thousand, each change would be a write that the next one makes
//! void. Counts that rise wait for more of them; what says more than a count, and a count that falls, is written at
//! once: a reader of the status must not take what is broken for complete.

use parking_lot::{Mutex, MutexGuard};
use std::time::Duration;

use api::collections::HashMap;
use api::{Key, MicroTime};

use super::StatusChange;

/// Remembers when the status of each object was last written.
#[derive(Default)]
pub struct StatusThrottle(Mutex<HashMap<Key, MicroTime>>);

impl StatusThrottle {
    /// While pods come and go, counts in the status are written at most this often.
    pub const LENGTH: Duration = Duration::from_millis(100);

    /// From this many pods on, looking at each of them for every single change of one would be most of the work.
    pub const LARGE: i32 = 200;

    /// How long a set that has and wants so many pods need not be looked at: it is large, its counts have just been
    /// written and wait their turn to be written again. Whether somebody asks for something else is the caller's to
    /// know.
    pub fn rest(&self, key: &Key, pods: [i32; 2], now: MicroTime) -> Option<Duration> {
        let is_large = pods.iter().all(|count| *count >= StatusThrottle::LARGE);
        is_large.then(|| self.until_open(key, now)).flatten()
    }

    /// How long a status that differs in this way has to wait; nothing if it may be written now.
    pub fn wait(&self, key: &Key, change: StatusChange, now: MicroTime) -> Option<Duration> {
        match change {
            StatusChange::None | StatusChange::Now => None,
            StatusChange::Moving => Some(StatusThrottle::LENGTH),
            StatusChange::Counts => self.until_open(key, now),
        }
    }

    /// How long counts have to wait; nothing if they may be written now.
    fn until_open(&self, key: &Key, now: MicroTime) -> Option<Duration> {
        let last = *self.lock().get(key)?;
        let wait = StatusThrottle::LENGTH.saturating_sub(now.since(last));
        (!wait.is_zero()).then_some(wait)
    }

    pub fn written(&self, key: &Key, now: MicroTime) {
        self.lock().insert(key.clone(), now);
    }

    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, MicroTime>> {
        self.0.lock()
    }
}
