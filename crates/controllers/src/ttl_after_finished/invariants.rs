//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::conditions::ConditionStatus;
use api::kinds::Job;
use api::{Condition, MicroTime};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct TtlAfterFinishedOracle;

impl Oracle for TtlAfterFinishedOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        match change.before::<Job>() {
            // In the foreground: it stays until its dependents are gone. Times to live are counted by the clock of
            // whoever counts.
            Some(job) => safe(&job, world.latest_now()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let (jobs, now) = (world.store::<Job>().list(), world.now());
        jobs.iter().try_for_each(|job| converged(job, now))
    }
}

/// No job is there whose time is over.
pub fn converged(job: &Job, now: MicroTime) -> Result<(), String> {
    match seconds_left(job, now).filter(|_| !job.metadata.is_terminating()) {
        Some(left) if left <= 0 => Err(format!(
            "job {} should have been deleted {} s ago",
            job.metadata.key(),
            -left
        )),
        _ => Ok(()),
    }
}

/// No job goes before its time: `deleted` is what the controller deleted.
pub fn safe(deleted: &Job, now: MicroTime) -> Result<(), String> {
    match seconds_left(deleted, now) {
        Some(left) if left <= 0 => Ok(()),
        left => Err(format!(
            "job {} was deleted, and its time to live has {left:?} s left",
            deleted.metadata.key()
        )),
    }
}

/// How long it may stay; none for a job that is not over, or has no time to live. Reckoned apart from what the controller
/// goes by.
fn seconds_left(job: &Job, now: MicroTime) -> Option<i64> {
    let is_over = |condition: &&Condition| {
        let end = ["Complete", "Failed"].contains(&&*condition.type_);
        end && condition.status == ConditionStatus::True
    };
    let over = job.status.conditions.iter().find(is_over)?;
    let over_at = over.last_transition_time?.unix();
    let ttl = i64::from(job.spec.ttl_seconds_after_finished?);
    Some(over_at + ttl - now.time().unix())
}
