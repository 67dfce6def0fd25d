//! The status that a job should have, before and after the tracking finalizer is removed from its pods. Pure.

use std::sync::Arc;

use api::MicroTime;
use api::conditions::{Condition, ConditionStatus, ExtraTime};
use api::kinds::JobStatus;
use api::{Gate, Gates, Istr};

use super::Outcome;
use super::assess::Assessment;
use super::plan::{Act, Plan};
use super::snapshot::Snapshot;

pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
pub const FAILURE_TARGET: &str = "FailureTarget";
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) const SUSPENDED: &str = "Suspended";

/// What a sync came to, before pods are counted.
pub struct Concluded {
    pub status: JobStatus,
    /// Something in the status changed that is worth a write.
    pub changed: bool,
    /// The condition that says how the job ends, if it may end now.
    pub ending: Option<Condition>,
    /// The job was suspended or resumed: reason and message of the event.
    pub news: Option<(&'static str, &'static str)>,
    /// Pods that are being deleted, if the job's end waits for them.
    pub awaited: i32,
}

pub fn conclude(
    snapshot: &Snapshot,
    assessed: &Assessment,
    plan: &Plan,
    outcome: &Outcome,
    now: MicroTime,
) -> Concluded {
    let job = &*snapshot.job;
    let held = &job.status;
    let mut status = held.clone();
    status.start_time = assessed.start_time;
    status.uncounted_terminated_pods.get_or_insert_default();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let have = count(snapshot.active.len());
    let ready = count(snapshot.active.iter().filter(|pod| pod.is_ready()).count());
    status.active = have + outcome.created - outcome.deleted;
    status.ready = Some(ready - outcome.deleted_ready);
    let terminating = count(snapshot.terminating().count()) + outcome.deleted;
    let is_told = snapshot.gates.enabled(Gate::JobPodReplacementPolicy);
    status.terminating = is_told.then_some(terminating);
    let mut news = None;
    let ending = if let Some(ending) = &assessed.ending {
        // Pods that could not be deleted, or are not in the cache yet, may still have a finalizer.
        let all_gone = outcome.deleted == have && snapshot.may_act;
        all_gone.then(|| ending.clone())
    } else if is_complete(job.spec.completions, assessed.succeeded, status.active) {
        let message = "Reached expected number of succeeded pods";
        let type_ = interim(snapshot.gates, SUCCESS_CRITERIA_MET, COMPLETE);
        Some(condition(type_, "CompletionsReached", message, now))
    } else {
        if !matches!(plan.act, Act::Hold) {
            news = set_suspended(snapshot, &mut status, now);
        }
        None
    };
    let awaited = match waits_for_terminating(snapshot.gates) {
        true => terminating,
        false => 0,
    };
    let counts = |status: &JobStatus| (status.active, status.ready, status.terminating);
    Concluded {
        changed: news.is_some() || counts(&status) != counts(held),
        status,
        ending,
        news,
        awaited,
    }
}

fn is_complete(completions: Option<i32>, succeeded: i32, active: i32) -> bool {
    // Without a number any success is enough.
    succeeded >= completions.unwrap_or(1) && active == 0
}

fn set_suspended(
    snapshot: &Snapshot,
    status: &mut JobStatus,
    now: MicroTime,
) -> Option<(&'static str, &'static str)> {
    if snapshot.job.spec.suspend {
        let (reason, message) = ("JobSuspended", "Job suspended");
        let suspended = condition(SUSPENDED, reason, message, now);
        if !ensure(&mut status.conditions, suspended) {
            return None;
        }
        if snapshot
            .gates
            .enabled(Gate::MutableSchedulingDirectivesForSuspendedJobs)
        {
            status.start_time = None;
        }
        return Some(("Suspended", message));
    }
    let (reason, message) = ("JobResumed", "Job resumed");
    let resumed = Condition {
        status: ConditionStatus::False,
        ..condition(SUSPENDED, reason, message, now)
    };
    if !ensure(&mut status.conditions, resumed) {
        return None;
    }
    // The deadline is about the time that a job is active without a break.
    status.start_time = Some(now.time());
    Some(("Resumed", message))
}

/// The pods that finished are counted and nothing holds the job any more: says so in its status. False
/// if it has to wait.
pub fn finish(status: &mut JobStatus, awaited: i32, end: &Condition, now: MicroTime) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let waits = uncounted.is_some_and(|held| !held.succeeded.is_empty() || !held.failed.is_empty())
        || awaited > 0;
    if waits {
        return false;
    }
    let at = Some(now.time());
    let end = Condition {
        last_update_time: at,
        last_transition_time: at,
        ..end.clone()
    };
    if end.type_ == COMPLETE {
        status.completion_time = end.last_transition_time;
    }
    ensure(&mut status.conditions, end);
    true
}

/// A failure that no policy of the job asked for.
pub fn failure(gates: Gates, reason: &str, message: &str, now: MicroTime) -> Condition {
    let type_ = interim(gates, FAILURE_TARGET, FAILED);
    condition(type_, reason, message, now)
}

/// Where a job need not wait for its last pod, its end is not announced either.
fn interim<'a>(gates: Gates, announced: &'a str, last: &'a str) -> &'a str {
    match waits_for_terminating(gates) {
        true => announced,
        false => last,
    }
}

/// Does a job end only when the last of its pods is gone?
fn waits_for_terminating(gates: Gates) -> bool {
    gates.enabled(Gate::JobManagedBy) || gates.enabled(Gate::JobPodReplacementPolicy)
}

/// A condition that is true from now on.
pub fn condition(
    type_: &str,
    reason: &str,
    message: impl Into<Arc<str>>,
    now: MicroTime,
) -> Condition {
    let now = now.time();
    Condition::new(type_, ConditionStatus::True, reason, message, now)
        .updated_at(ExtraTime::Probe, now)
}

/// The last condition of a job that ends so.
pub fn final_condition(ending: &Condition, now: MicroTime) -> Condition {
    let type_ = match &*ending.type_ {
        SUCCESS_CRITERIA_MET | COMPLETE => COMPLETE,
        _ => FAILED,
    };
    Condition {
        type_: Istr::new(type_),
        ..condition(type_, &ending.reason, ending.message.clone(), now)
    }
}

/// Sets a condition in its place, with its own times. One that would come as false, does not come at
/// all. True if anything changed.
fn ensure(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    let Some(held) = conditions.iter_mut().find(|held| held.type_ == new.type_) else {
        let comes = !new.is_false();
        if comes {
            conditions.push(new);
        }
        return comes;
    };
    let said = |condition: &Condition| {
        (
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        )
    };
    let changed = said(held) != said(&new);
    if changed {
        *held = new;
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::super::tests::pure::now;
    use super::*;

    // Upstream: TestEnsureJobConditions.
    #[test]
    fn a_condition_changes_in_its_place_and_never_comes_as_false() {
        let given = |type_: &str, status: ConditionStatus, message: &str| Condition {
            status,
            ..condition(type_, "r", message, now())
        };
        let check = |held: &[Condition], new: Condition, changes: bool, expected: &[&str]| {
            let mut conditions = held.to_vec();
            assert_eq!(ensure(&mut conditions, new), changes);
            let told: Vec<String> = conditions
                .iter()
                .map(|one| format!("{}={} {}", one.type_, one.status, one.message))
                .collect();
            assert_eq!(told, expected);
        };
        use ConditionStatus::{False, True};
        let two = [given("Other", True, "m"), given(SUSPENDED, True, "m")];
        check(
            &[],
            given(SUSPENDED, True, "m"),
            true,
            &["Suspended=True m"],
        );
        check(&[], given(SUSPENDED, False, "m"), false, &[]);
        let same = ["Other=True m", "Suspended=True m"];
        check(&two, given(SUSPENDED, True, "m"), false, &same);
        let resumed = ["Other=True m", "Suspended=False m"];
        check(&two, given(SUSPENDED, False, "m"), true, &resumed);
        let reworded = ["Other=True m", "Suspended=True n"];
        check(&two, given(SUSPENDED, True, "n"), true, &reworded);
    }
}
