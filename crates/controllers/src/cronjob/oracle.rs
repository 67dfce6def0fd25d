//! What the simulator holds the controller to: [`safe`] for every job that it creates, [`converged`] at rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Uid;
use api::kinds::{CronJob, Job};

use super::DESCRIPTOR;
use super::invariants::{converged, not_twice, safe};
use crate::oracle::{
    Change, Oracle, Sight, Verdict, World, deletes_only_its_own, no_business, owner_of,
};

const ON_SCHEDULE: &str = "a CronJob runs when it is due, and as its policy says";

#[derive(Default)]
pub struct CronJobOracle {
    /// Of each CronJob: the jobs that were ever created for it.
    created: BTreeMap<Uid, Vec<Arc<Job>>>,
}

impl Oracle for CronJobOracle {
    fn observe(&mut self, _world: &World, change: &Change) {
        if let Some(job) = change
            .created::<Job>()
            .filter(|_| change.is_by(DESCRIPTOR.name))
            && let Some(owner) = job.metadata.controller()
        {
            self.created.entry(owner.uid.clone()).or_default().push(job);
        }
    }

    fn forget_lost(&mut self) {
        // Who was created and lost is created again.
        self.created.clear();
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        if let Some(job) = change.created::<Job>() {
            return self.check_created(world, &job);
        }
        match change.updated::<CronJob>().is_some() || change.before::<Job>().is_some() {
            true => deletes_only_its_own(DESCRIPTOR.name, "CronJob", change),
            false => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for cron_job in world.store::<CronJob>().list() {
            let jobs = jobs_of(world, &cron_job);
            let jobs: Vec<&Job> = jobs.iter().map(|job| &**job).collect();
            converged(&cron_job, &jobs, world.now())?;
        }
        Ok(())
    }
}

impl CronJobOracle {
    fn check_created(&self, world: &World, job: &Job) -> Verdict {
        let Some(cron_job) = owner_of::<CronJob>(world, &job.metadata) else {
            // It is gone by now, and the collector deals with the rest.
            return Ok(());
        };
        let before = self.created.get(&cron_job.metadata.uid);
        let before = before.into_iter().flatten().map(|held| &**held);
        let before: Vec<&Job> = before
            .filter(|held| held.metadata.uid != job.metadata.uid)
            .collect();
        not_twice(&before, job)?;
        // What a user has just changed need not have been seen.
        let is_excused = world.may_lag::<CronJob>()
            || world.may_lag::<Job>()
            || !world.was_seen(&cron_job.metadata, world.now().time());
        let jobs = jobs_of(world, &cron_job);
        let is_running = |held: &&Job| {
            let is_other = held.metadata.uid != job.metadata.uid;
            is_other && held.finished().is_none() && !held.metadata.is_terminating()
        };
        let running: Vec<&Job> = jobs.iter().map(|held| &**held).filter(is_running).collect();
        world.check(ON_SCHEDULE, Sight::unless(is_excused), || {
            safe(&cron_job, &before, &running, job, world.latest_now())
        })
    }
}

fn jobs_of(world: &World, cron_job: &CronJob) -> Vec<Arc<Job>> {
    let uid = &cron_job.metadata.uid;
    let mut jobs = world
        .store::<Job>()
        .in_namespace(&cron_job.metadata.namespace);
    jobs.retain(|job| job.metadata.is_controlled_by(uid));
    jobs
}
