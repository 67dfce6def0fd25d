//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::MicroTime;
use api::kinds::Job;

use super::{DESCRIPTOR, Verdict, check};
use crate::oracle::{self, Change, Oracle, World, no_business};

#[derive(Default)]
pub struct TtlAfterFinishedOracle;

impl Oracle for TtlAfterFinishedOracle {
    fn after_write(&self, world: &World, change: &Change) -> oracle::Verdict {
        match change.before::<Job>() {
            // In the foreground: it stays until its dependents are gone. Times to live are counted by the clock of
            // whoever counts.
            Some(job) => safe(&job, world.latest_now()),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> oracle::Verdict {
        let (jobs, now) = (world.store::<Job>().list(), world.now());
        jobs.iter().try_for_each(|job| converged(job, now))
    }
}

/// No job is there whose time is over.
pub fn converged(job: &Job, now: MicroTime) -> Result<(), String> {
    match check(job, now) {
        Verdict::Expired { since } => Err(format!(
            "job {} should have been deleted {since:?} ago",
            job.metadata.key()
        )),
        _ => Ok(()),
    }
}

/// No job goes before its time: `deleted` is what the controller deleted.
pub fn safe(deleted: &Job, now: MicroTime) -> Result<(), String> {
    match check(deleted, now) {
        Verdict::Expired { .. } => Ok(()),
        verdict => Err(format!(
            "job {} was deleted: {verdict:?}",
            deleted.metadata.key()
        )),
    }
}
