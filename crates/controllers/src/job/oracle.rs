//! The oracle of Jobs: what its checks have to remember, and when each is asked.

use std::collections::BTreeMap;

use api::kinds::{Job, Phase, Pod};
use api::{Key, Meta, MicroTime, Resource, Uid};

use super::DESCRIPTOR;
use super::invariants::{
    awaits_successor, born_well, came_to_an_end, converged, counted_once, finalizer_removed,
    goes_forward, is_held, safe,
};
use crate::oracle::{
    Change, Generations, Oracle, REACTION, Sight, Verdict, World, deletes_only_its_own, owner_of,
};

/// The label of a job that ends the same way whatever happens on the way: its end must be the same with and without
/// faults. How others end may depend on when their pods were deleted, on deadlines and on luck.
pub const CERTAIN: &str = "certain";

const BORN_WELL: &str = "a Job that is suspended makes no pods, and one pod an index";
const COUNTED: &str = "pods of a Job are counted before their finalizer is removed";

#[derive(Default)]
pub struct JobOracle {
    /// How many pods each generation has wanted at once.
    parallelism: Generations,
    /// Pods of each job that were seen to succeed, and when.
    successes: BTreeMap<Uid, BTreeMap<Uid, MicroTime>>,
    /// How often a job adopted a pod that had succeeded before.
    adopted_successes: BTreeMap<Uid, usize>,
    suspended_since: BTreeMap<Uid, MicroTime>,
}

impl Oracle for JobOracle {
    fn observe(&mut self, world: &World, change: &Change) {
        if let Some(job) = change.after::<Job>() {
            let (meta, wanted) = (&job.metadata, job.parallelism());
            self.parallelism.note(meta, wanted, wanted);
            if job.spec.suspend {
                let since = self.suspended_since.entry(meta.uid.clone());
                since.or_insert_with(|| world.now());
            } else {
                self.suspended_since.remove(&meta.uid);
            }
        }
        if let Some(pod) = change.after::<Pod>() {
            let before = change.before::<Pod>();
            let adopted = before.is_some_and(|before| before.metadata.controller().is_none());
            self.note_success(&pod, adopted, world.now());
        }
    }

    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        deletes_only_its_own(DESCRIPTOR.name, &Job::TYPE.kind, change)?;
        if let Some((before, after)) = change.updated::<Job>() {
            goes_forward(&before, &after)?;
            return counted_once(&after, self.successes_of(&after.metadata.uid));
        }
        if let Some(pod) = change.created::<Pod>() {
            return self.check_created(world, &pod);
        }
        let after = change.after::<Pod>();
        match change.before::<Pod>() {
            Some(before) if is_held(&before) && !after.is_some_and(|pod| is_held(&pod)) => {
                self.check_released(world, &before)
            }
            _ => Ok(()),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        self.settled(world)?;
        let jobs = world.store::<Job>().list();
        jobs.iter().try_for_each(|job| came_to_an_end(job))
    }

    fn settled(&self, world: &World) -> Verdict {
        for job in world.store::<Job>().list() {
            converged(&job, &world.owned_by(&job.metadata.uid))?;
        }
        Ok(())
    }

    fn exists(&self, world: &World, key: &Key) -> Option<bool> {
        Some(world.store::<Job>().get(key).is_some())
    }

    /// UPSTREAM: the last pod of an index that failed, and may be tried again, is held until there is another one: it knows
    /// how often the index has failed. A job that may run no pods holds it as long.
    fn may_stay(&self, world: &World, plural: &str, meta: &Meta) -> bool {
        let pod = world.store::<Pod>().get(&meta.key());
        let Some(pod) = pod.filter(|_| plural == "pods") else {
            return false;
        };
        let owner = meta.controller().filter(|owner| owner.kind == "Job");
        let jobs = world.store::<Job>();
        let found = owner.and_then(|owner| jobs.find(&meta.namespace, &owner.name));
        found.is_some_and(|job| awaits_successor(&job, &world.owned_by(&job.metadata.uid), &pod))
    }

    fn end_state(&self, world: &World) -> Vec<String> {
        let mut lines = Vec::new();
        for job in world.store::<Job>().list() {
            let end = job.finished().map_or("waits", |end| &*end.type_);
            // One that was stopped ends if it had come far enough by then.
            let stopped = job.spec.suspend || job.spec.parallelism == Some(0);
            // If it had, and has a time to live, it is gone.
            if stopped && job.spec.ttl_seconds_after_finished.is_some() {
                continue;
            }
            let certain = job.metadata.labels.contains_key(CERTAIN) && !stopped;
            let end = if certain { end } else { "any" };
            lines.push(format!("job {}: {end}", job.metadata.key()));
        }
        lines
    }
}

impl JobOracle {
    /// A job's success is its pod's: it can be counted only once it has been seen.
    fn note_success(&mut self, pod: &Pod, adopted: bool, at: MicroTime) {
        let job = pod.metadata.controller().filter(|it| it.kind == "Job");
        let Some(job) = job.filter(|_| pod.status.phase == Phase::Succeeded) else {
            return;
        };
        let seen = self.successes.entry(job.uid.clone()).or_default();
        seen.entry(pod.metadata.uid.clone()).or_insert(at);
        if adopted {
            // UPSTREAM: a pod that somebody took from its job when it had ended is adopted, held and counted again.
            *self.adopted_successes.entry(job.uid.clone()).or_default() += 1;
        }
    }

    /// How often a pod has succeeded and come to the job.
    fn successes_of(&self, job: &Uid) -> usize {
        let again = self.adopted_successes.get(job).copied().unwrap_or(0);
        self.successes.get(job).map_or(0, BTreeMap::len) + again
    }

    /// A pod was created for a job.
    fn check_created(&self, world: &World, pod: &Pod) -> Verdict {
        let Some(job) = owner_of::<Job>(world, &pod.metadata) else {
            return Ok(());
        };
        let (uid, pods) = (&job.metadata.uid, world.owned_by::<Pod>(&job.metadata.uid));
        let slack = world.unacknowledged(uid);
        safe(&job, &pods, self.parallelism.most_since(uid, 0) + slack)?;
        let sight = Sight::unless(slack > 0).max(world.sight(&pods));
        let sight = sight.max(world.sight(std::slice::from_ref(&job)));
        world.check(BORN_WELL, sight, || {
            match is_older(self.suspended_since.get(uid), world.now()) {
                true => Err(format!(
                    "{} is suspended and makes {}",
                    job.metadata.key(),
                    pod.metadata.name
                )),
                false => born_well(&job, &pods, pod),
            }
        })
    }

    /// The tracking finalizer was removed from a pod.
    fn check_released(&self, world: &World, pod: &Pod) -> Verdict {
        let meta = &pod.metadata;
        let Some(job) = owner_of::<Job>(world, meta) else {
            return Ok(());
        };
        // One that ended a moment ago may still count as too many.
        let seen = self.successes.get(&job.metadata.uid);
        let seen = seen.and_then(|seen| seen.get(&meta.uid));
        let may_lag = world.may_lag::<Job>() || world.may_lag::<Pod>();
        let sight = Sight::unless(may_lag || !is_older(seen, world.now()));
        world.check(COUNTED, sight, || finalizer_removed(&job, pod))
    }
}

/// Is it so long ago that the controller knows?
fn is_older(at: Option<&MicroTime>, now: MicroTime) -> bool {
    at.is_some_and(|at| now.since(*at) > REACTION)
}
