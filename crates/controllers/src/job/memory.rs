//! What the controller remembers of a job between two rounds.

use std::sync::{Mutex, MutexGuard, PoisonError};

use api::collections::{HashMap, HashSet};
use api::kinds::Job;
use api::{Key, Resource, Uid};
use runtime::Expectations;

use super::backoff::Backoff;
use super::snapshot::Remembered;
use crate::workload::OwnWrites;

pub struct Memory {
    pub expectations: Expectations,
    pub own_writes: OwnWrites,
    jobs: Mutex<HashMap<Key, Remains>>,
}

/// All of it is lost in a restart, and found again in the status and in the pods.
#[derive(Default)]
struct Remains {
    /// Pods whose finalizer we removed, until the cache shows it.
    leaving: HashSet<Uid>,
    backoff: Backoff,
    /// The job that was marked as finished: its key may name another one by now.
    finished: Option<Uid>,
}

impl Memory {
    pub fn new(own_writes: OwnWrites) -> Memory {
        Memory {
            expectations: Expectations::default(),
            own_writes,
            jobs: Mutex::default(),
        }
    }

    pub fn of(&self, key: &Key) -> Remembered {
        let jobs = self.lock();
        let held = jobs.get(key);
        Remembered {
            may_act: self.expectations.satisfied(key),
            leaving: held.map(|held| held.leaving.clone()).unwrap_or_default(),
            backoff: held.map(|held| held.backoff).unwrap_or_default(),
        }
    }

    /// These finalizers will be seen to go.
    pub fn expect_released(&self, key: &Key, pods: impl IntoIterator<Item = Uid>) {
        let mut jobs = self.lock();
        jobs.entry(key.clone()).or_default().leaving.extend(pods);
    }

    /// A finalizer was seen to go, or did not go.
    pub fn released(&self, key: &Key, pod: &Uid) {
        if let Some(held) = self.lock().get_mut(key) {
            held.leaving.remove(pod);
        }
    }

    pub fn set_backoff(&self, key: &Key, backoff: Backoff) {
        let mut jobs = self.lock();
        if backoff != Backoff::default() || jobs.contains_key(key) {
            jobs.entry(key.clone()).or_default().backoff = backoff;
        }
    }

    /// The status says that the job is over, and the cache does not know that yet.
    pub fn set_finished(&self, job: &Job) {
        let uid = job.metadata.uid.clone();
        self.lock().entry(job.key()).or_default().finished = Some(uid);
    }

    pub fn is_finished(&self, job: &Job) -> bool {
        let jobs = self.lock();
        let held = jobs.get(&job.key()).and_then(|held| held.finished.as_ref());
        held == Some(&job.metadata.uid)
    }

    pub fn forget(&self, key: &Key) {
        self.expectations.forget(key);
        self.own_writes.forget(key);
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Remains>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
