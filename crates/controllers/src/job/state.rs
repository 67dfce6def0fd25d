//! What the controller remembers of a job between two syncs.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use api::collections::HashMap;
use api::kinds::Job;
use api::{Key, Resource, Uid};
use runtime::Expectations;
use runtime::expectations::EXPIRY;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::snapshot::Remembered;
use crate::workload::Consistency;

pub struct JobStates {
    pub expectations: Arc<Expectations>,
    pub consistency: Arc<Consistency>,
    jobs: Mutex<HashMap<Key, JobState>>,
}

/// All of it is lost in a restart, and found again in the status and in the pods.
#[derive(Default)]
struct JobState {
    /// Pods whose finalizer we removed, until the cache shows it.
    leaving: HashMap<Uid, Awaited>,
    backoff: Backoff,
    /// The namespace is being deleted: no pod can be made in it any more.
    namespace_ends: bool,
    /// The job that was marked as finished: its key may name another one by now.
    finished: Option<(Uid, Awaited)>,
}

/// A write that the cache will show, unless the API server lost it: then the cache gets past its revision without it.
/// Upstream waits for ever, and a job stays half finished until somebody starts the controller manager anew.
#[derive(Clone, Copy)]
struct Awaited {
    revision: u64,
    since: Instant,
}

impl Awaited {
    fn at(revision: u64) -> Awaited {
        let since = Instant::now();
        Awaited { revision, since }
    }

    /// A server that was restored from a backup may count on from far below.
    fn lasts(&self, cached: u64) -> bool {
        self.revision > cached && self.since.elapsed() <= EXPIRY
    }
}

impl JobStates {
    pub fn new(expectations: Arc<Expectations>, consistency: Arc<Consistency>) -> JobStates {
        JobStates {
            expectations,
            consistency,
            jobs: Mutex::default(),
        }
    }

    /// `cached` is the revision that the cache of pods has come to.
    pub fn of(&self, key: &Key, cached: u64, may_act: bool) -> Remembered {
        let mut jobs = self.lock();
        let held = jobs.get_mut(key).map(|held| {
            held.leaving.retain(|_, awaited| awaited.lasts(cached));
            &*held
        });
        let leaving = |held: &JobState| held.leaving.keys().cloned().collect();
        Remembered {
            may_act,
            leaving: held.map(leaving).unwrap_or_default(),
            backoff: held.map(|held| held.backoff).unwrap_or_default(),
            namespace_ends: held.is_some_and(|held| held.namespace_ends),
        }
    }

    /// A pod was refused because its namespace is being deleted. True if that is news.
    pub fn set_namespace_ends(&self, key: &Key) -> bool {
        let mut jobs = self.lock();
        let held = jobs.entry(key.clone()).or_default();
        !std::mem::replace(&mut held.namespace_ends, true)
    }

    /// These finalizers will be seen to go.
    pub fn expect_released(&self, key: &Key, pods: impl IntoIterator<Item = Uid>) {
        // In whatever revision the answer will name.
        let pods = pods.into_iter().map(|pod| (pod, Awaited::at(u64::MAX)));
        let mut jobs = self.lock();
        jobs.entry(key.clone()).or_default().leaving.extend(pods);
    }

    /// A finalizer went in this revision.
    pub fn released_at(&self, key: &Key, pod: &Uid, revision: u64) {
        let mut jobs = self.lock();
        let held = jobs.get_mut(key);
        // It may have been seen before we were told.
        if let Some(awaited) = held.and_then(|held| held.leaving.get_mut(pod)) {
            awaited.revision = revision;
        }
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
    pub fn set_finished(&self, job: &Job, revision: u64) {
        let finished = (job.metadata.uid.clone(), Awaited::at(revision));
        self.lock().entry(job.key()).or_default().finished = Some(finished);
    }

    /// `cached` is the revision that the cache of jobs has come to.
    pub fn is_finished(&self, job: &Job, cached: u64) -> bool {
        let jobs = self.lock();
        let held = jobs.get(&job.key()).and_then(|held| held.finished.as_ref());
        held.is_some_and(|(uid, awaited)| *uid == job.metadata.uid && awaited.lasts(cached))
    }

    pub fn forget(&self, key: &Key) {
        self.expectations.forget(key);
        self.consistency.forget(key);
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, JobState>> {
        self.jobs.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_the_server_lost_is_not_waited_for() {
        let (states, mut job) = (
            JobStates::new(Arc::default(), Arc::new(Consistency::always())),
            Job::default(),
        );
        job.metadata.uid = "j".into();
        let (key, pods) = (job.key(), ["a", "b"].map(Uid::from));
        states.expect_released(&key, pods.clone());
        let leaving = |cached| {
            let leaving = states.of(&key, cached, true).leaving;
            let mut leaving: Vec<String> = leaving.iter().map(ToString::to_string).collect();
            leaving.sort();
            leaving.join(" ")
        };
        assert_eq!(leaving(9), "a b", "not answered yet");
        states.released_at(&key, &pods[0], 10);
        assert_eq!(leaving(9), "a b", "the cache is behind");
        assert_eq!(leaving(10), "b");
        states.set_finished(&job, 12);
        assert!(states.is_finished(&job, 11));
        assert!(!states.is_finished(&job, 12), "the cache would show it");
        tokio::time::sleep(EXPIRY).await;
        assert!(states.is_finished(&job, 3));
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(!states.is_finished(&job, 3), "restored from a backup");
        assert_eq!(leaving(3), "");
    }
}
