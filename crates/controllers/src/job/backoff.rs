//! How long a job waits before it replaces a failed pod: 10 s, doubled with each failure since the last
//! success, 10 minutes at most.

use std::time::Duration;

use api::kinds::Pod;
use api::{MicroTime, Time};

/// Upstream's `DefaultJobPodFailureBackOff` and `MaxJobPodFailureBackOff`.
const FIRST: Duration = Duration::from_secs(10);
const MAX: Duration = Duration::from_secs(10 * 60);

/// What a job remembers of its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    pub failures_since_success: u32,
    pub last_failure: Option<Time>,
}

impl Backoff {
    /// With the pods that finished since.
    #[must_use]
    pub fn after(self, succeeded: &[&Pod], failed: &[&Pod]) -> Backoff {
        let last_success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let known = match last_success {
            Some(_) => Backoff::default(),
            None => self,
        };
        let later: Vec<Time> = failed
            .iter()
            .map(|pod| finished_at(pod))
            .filter(|at| last_success.is_none_or(|success| *at > success))
            .collect();
        let failures = u32::try_from(later.len()).unwrap_or(u32::MAX);
        Backoff {
            failures_since_success: known.failures_since_success.saturating_add(failures),
            last_failure: later.into_iter().max().or(known.last_failure),
        }
    }

    /// How long a replacement has to wait yet.
    pub fn wait(&self, now: MicroTime) -> Duration {
        match self.last_failure {
            Some(last) => wait(self.failures_since_success, last, now),
            None => Duration::ZERO,
        }
    }
}

/// How long after `failures`, the last of them at `last`.
pub fn wait(failures: u32, last: Time, now: MicroTime) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return Duration::ZERO;
    };
    // 2^6 times the first delay is past the maximum already.
    let delay = MAX.min(FIRST * (1 << doublings.min(6)));
    // A failure of the future, by another clock, waits longer.
    last.micro().plus(delay).since(now)
}

/// When a pod ended, as well as can be told: its containers know, else the Ready condition that went,
/// else the deletion.
pub fn finished_at(pod: &Pod) -> Time {
    let containers = pod.ended().and_then(|ended| ended.at);
    let status = &pod.status;
    let unready = status.ready_changed_at.filter(|_| !status.ready);
    let deleted = || {
        let meta = &pod.metadata;
        let grace = meta.deletion_grace_period_seconds.unwrap_or(0);
        let at = meta.deleted_at?.unix().saturating_sub(grace);
        Some(Time::from_unix(at))
    };
    containers
        .or(unready)
        .or_else(deleted)
        .unwrap_or(pod.metadata.created_at)
}
