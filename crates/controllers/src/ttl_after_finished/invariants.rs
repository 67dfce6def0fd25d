//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::MicroTime;
use api::kinds::Job;

use super::{Verdict, check};

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
