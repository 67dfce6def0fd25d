//! Which pods to create or delete. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::MicroTime;
use api::kinds::{Job, Pod};

use super::assess::{Assessment, all_failures, indexes_of};
use super::backoff::{self, finished_at};
use super::indexes::{Indexes, valid_index};
use super::reason::Reason;
use super::snapshot::Snapshot;

/// Upstream's `MaxPodCreateDeletePerSync`: a job is looked at again after this many.
pub const BURST: usize = 500;

/// Pod events, and our own status writes, are gathered for this long (upstream's `SyncJobBatchPeriod`).
pub const BATCH: Duration = Duration::from_secs(1);

pub struct Plan {
    pub act: Act,
    pub reasons: Vec<Reason>,
}

pub enum Act {
    /// Nothing may be decided in this sync.
    Hold,
    /// All is as it should be.
    Nothing,
    /// The job ends: its active pods go, and are counted before they are gone.
    End(Vec<Arc<Pod>>),
    /// Pods that are too many go uncounted.
    Delete(Vec<Arc<Pod>>),
    /// As many pods, or one for each index.
    Create(Wanted),
    /// A replacement has to wait.
    Wait(Duration),
}

pub enum Wanted {
    Pods(usize),
    Indexes(Vec<u32>),
}

impl Wanted {
    pub fn len(&self) -> usize {
        match self {
            Wanted::Pods(count) => *count,
            Wanted::Indexes(indexes) => indexes.len(),
        }
    }
}

pub fn plan(snapshot: &Snapshot, assessed: &Assessment, now: MicroTime) -> Plan {
    let job = &*snapshot.job;
    let plan = |act, reason| Plan {
        act,
        reasons: vec![reason],
    };
    if let Some(ending) = &assessed.ending {
        let pods = snapshot.active.clone();
        let reason = Reason::Ends {
            how: ending.clone(),
            deleting: pods.len(),
        };
        return plan(Act::End(pods), reason);
    }
    if !snapshot.may_act {
        return plan(Act::Hold, Reason::AwaitingConsistency);
    }
    if job.metadata.is_terminating() {
        return plan(Act::Hold, Reason::BeingDeleted);
    }
    let have = snapshot.active.len();
    if job.spec.suspend {
        let pods = surplus(job, &snapshot.active, have);
        let reason = Reason::Suspended {
            deleting: pods.len(),
        };
        return plan(Act::Delete(pods), reason);
    }
    let want = wanted(job, assessed, have);
    let mut pods = surplus(job, &snapshot.active, have.saturating_sub(want));
    if !pods.is_empty() {
        // UPSTREAM: either deletions or creations in one sync, and deletions come first.
        pods.truncate(BURST);
        let reason = Reason::TooMany {
            have,
            want,
            deleting: pods.len(),
        };
        return plan(Act::Delete(pods), reason);
    }
    let awaited = match job.replaces_failed_pods_only(snapshot.gates) {
        true => snapshot.terminating().count(),
        false => 0,
    };
    let missing = want.saturating_sub(awaited).saturating_sub(have);
    if missing == 0 {
        let reason = Reason::Enough {
            have,
            awaited,
            succeeded: assessed.succeeded,
            completions: job.spec.completions,
        };
        return plan(Act::Nothing, reason);
    }
    create(snapshot, assessed, want, missing, now)
}

/// How many active pods the job should have.
fn wanted(job: &Job, assessed: &Assessment, have: usize) -> usize {
    let parallelism = usize::try_from(job.parallelism()).unwrap_or(0);
    match job.spec.completions {
        // Any success is enough: what runs may finish, and nothing new begins.
        None if assessed.succeeded > 0 => have,
        None => parallelism,
        Some(completions) => {
            let left = completions.saturating_sub(assessed.succeeded);
            usize::try_from(left).unwrap_or(0).min(parallelism)
        }
    }
}

fn create(
    snapshot: &Snapshot,
    assessed: &Assessment,
    want: usize,
    missing: usize,
    now: MicroTime,
) -> Plan {
    let job = &*snapshot.job;
    let have = snapshot.active.len();
    let per_index = job.is_indexed() && job.spec.backoff_limit_per_index.is_some();
    let wait = assessed.backoff.wait(now);
    if !per_index && !wait.is_zero() {
        let failures = assessed.backoff.failures_since_success;
        return wait_for(wait, failures, now);
    }
    let missing = missing.min(BURST);
    let Some(state) = &assessed.indexes else {
        return creating(Wanted::Pods(missing), have, want);
    };
    let pending = pending_indexes(snapshot, assessed, missing);
    if !per_index {
        return creating(Wanted::Indexes(pending), have, want);
    }
    // Each index waits for itself.
    let wait_of = |index: &u32| match state.delayed.get(index) {
        Some(last) => {
            let failures = u32::try_from(all_failures(last)).unwrap_or(0) + 1;
            (backoff::wait(failures, finished_at(last), now), failures)
        }
        None => (Duration::ZERO, 0),
    };
    if let Some((wait, failures)) = pending.iter().map(wait_of).min()
        && !wait.is_zero()
    {
        return wait_for(wait, failures, now);
    }
    let ready = pending
        .into_iter()
        .filter(|index| wait_of(index).0.is_zero());
    creating(Wanted::Indexes(ready.collect()), have, want)
}

fn creating(wanted: Wanted, have: usize, want: usize) -> Plan {
    let reason = Reason::TooFew {
        have,
        want,
        creating: wanted.len(),
    };
    Plan {
        act: match wanted.len() {
            // Every index that is left has a pod, or has failed for good.
            0 => Act::Nothing,
            _ => Act::Create(wanted),
        },
        reasons: vec![reason],
    }
}

fn wait_for(wait: Duration, failures: u32, now: MicroTime) -> Plan {
    // UPSTREAM: no sooner than a batch of events.
    let wait = wait.max(BATCH);
    let until = now.plus(wait).time();
    Plan {
        act: Act::Wait(wait),
        reasons: vec![Reason::BacksOff { failures, until }],
    }
}

/// The lowest indexes that nobody works on, that did not succeed and did not fail for good.
fn pending_indexes(snapshot: &Snapshot, assessed: &Assessment, wanted: usize) -> Vec<u32> {
    let job = &*snapshot.job;
    let Some(state) = &assessed.indexes else {
        return Vec::new();
    };
    let mut taken = indexes_of(job, &snapshot.active);
    if job.replaces_failed_pods_only(snapshot.gates) {
        taken.extend(indexes_of(job, snapshot.terminating()));
    }
    let mut taken = state.succeeded.merge(&Indexes::of(taken));
    if let Some(failed) = &state.failed {
        taken = taken.merge(failed);
    }
    taken.first_missing(wanted, job.index_count())
}

/// Pods that have to go: those whose index is none of the job's or taken twice, and so many others that
/// at least `least` go.
fn surplus(job: &Job, active: &[Arc<Pod>], least: usize) -> Vec<Arc<Pod>> {
    if least == 0 && !job.is_indexed() {
        return Vec::new();
    }
    let mut sorted: Vec<&Arc<Pod>> = active.iter().collect();
    sorted.sort_by_key(|pod| deletion_rank(pod));
    let (mut leaving, mut staying) = (Vec::new(), Vec::new());
    let mut taken: BTreeSet<u32> = BTreeSet::new();
    // From the best to the worst: the best pod of each index stays.
    for pod in sorted.into_iter().rev() {
        let stays = !job.is_indexed() || valid_index(job, pod).is_some_and(|it| taken.insert(it));
        match stays {
            true => staying.push(pod),
            false => leaving.push(pod),
        }
    }
    let more = least.saturating_sub(leaving.len());
    let worst = staying.into_iter().rev().take(more);
    leaving.into_iter().rev().chain(worst).cloned().collect()
}

/// Lower goes first: not bound, in an early phase, not ready, ready for a short time, often restarted,
/// new.
fn deletion_rank(pod: &Pod) -> impl Ord + use<> {
    let status = &pod.status;
    let ready_since = match status.ready {
        true => status.ready_changed_at,
        false => None,
    };
    (
        !pod.node_name.is_empty(),
        status.phase.progress(),
        status.ready,
        // Without a time comes first, then the latest.
        (ready_since.is_some(), Reverse(ready_since)),
        Reverse((status.restarts, status.sidecar_restarts)),
        Reverse(pod.metadata.created_at),
    )
}
