//! The oracle of Jobs: what its checks have to remember, and when each is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{Job, Phase, Pod};
use api::{Key, Meta, MicroTime, Resource, Uid};

use super::DESCRIPTOR;
use super::invariants::{
    Ends, Seen, awaits_successor, born_well, came_to_an_end, converged, counted_once,
    finalizer_removed, goes_forward, is_held, reported, safe,
};
use crate::oracle::{
    Actor, Change, Generations, Oracle, REACTION, Sight, Verdict, World, adopted,
    deletes_only_its_own, owner_of, released,
};

/// The label of a job that ends the same way whatever happens on the way: its end must be the same with and without
/// faults. How others end may depend on when their pods were deleted, on deadlines and on luck.
pub const CERTAIN: &str = "certain";

const BORN_WELL: &str = "a Job that is suspended makes no pods, and one pod an index";
const COUNTED: &str = "pods of a Job are counted before their finalizer is removed";

/// UPSTREAM: pods that end are looked at once a second; twice that is late.
const SYNC_BATCH: Duration = Duration::from_secs(2);

/// Conditions that say that a job is over, or about to be.
const ENDINGS: [&str; 4] = ["SuccessCriteriaMet", "FailureTarget", "Complete", "Failed"];

#[derive(Default)]
pub struct JobOracle {
    /// How many pods each generation has wanted at once.
    parallelism: Generations,
    /// Pods of each job that were seen to succeed, and when.
    successes: BTreeMap<Uid, BTreeMap<Uid, MicroTime>>,
    /// How often a job adopted a pod that had succeeded before.
    adopted_successes: BTreeMap<Uid, usize>,
    suspended_since: BTreeMap<Uid, MicroTime>,
    /// How the pods of each job ended.
    ends: BTreeMap<Uid, Ends>,
    /// Jobs of which somebody else said that they are over: what their status says is nobody's business here.
    finished_by_others: BTreeSet<Uid>,
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
        self.note_ends(world, change);
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
        self.in_time(world)?;
        self.even_if_paused(world)?;
        let jobs = world.store::<Job>().list();
        jobs.iter().try_for_each(|job| came_to_an_end(job))
    }

    fn in_time(&self, world: &World) -> Verdict {
        // UPSTREAM: a job that is over looks at nothing any more.
        adopted(world, |job: &Job, pod: &Pod| {
            is_at_work(world, job) && selects(job, pod)
        })
    }

    fn even_if_paused(&self, world: &World) -> Verdict {
        for job in world.store::<Job>().list() {
            let pods = world.owned_by(&job.metadata.uid);
            converged(&job, &pods)?;
            let is_alive = world.is_namespace_alive(&job.metadata.namespace);
            if is_alive && !self.finished_by_others.contains(&job.metadata.uid) {
                self.check_reported(world, &job, &pods)?;
            }
        }
        released(world, |job: &Job, pod: &Pod| {
            !is_at_work(world, job) || selects(job, pod)
        })
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
            // Which of an owner's jobs are left is a matter of time, and faults take some.
            if job.metadata.controller().is_some() {
                continue;
            }
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
    fn note_ends(&mut self, world: &World, change: &Change) {
        if let Some(job) = change.after::<Job>() {
            let uid = &job.metadata.uid;
            let was_over = change
                .before::<Job>()
                .is_some_and(|job| job.finished().is_some());
            if change.by == Some(Actor::User) && job.finished().is_some() && !was_over {
                self.finished_by_others.insert(uid.clone());
            }
            let is_told = |type_| api::conditions::is_true(&job.status.conditions, type_);
            if ENDINGS.iter().any(|type_| is_told(type_)) {
                let ends = self.ends.entry(uid.clone()).or_default();
                ends.ending_at.get_or_insert(world.now());
            }
        }
        let (before, after) = (change.before::<Pod>(), change.after::<Pod>());
        let owner = |pod: &Pod| pod.metadata.controller().map(|owner| owner.uid.clone());
        let was = before.as_deref().and_then(owner);
        let is = after.as_deref().and_then(owner);
        if before.is_some() && after.is_some() && was != is {
            for uid in [&was, &is].into_iter().flatten() {
                self.ends.entry(uid.clone()).or_default().is_unsure = true;
            }
        }
        let Some(pod) = after.as_ref().or(before.as_ref()) else {
            return;
        };
        let Some(job) = owner_of::<Job>(world, &pod.metadata) else {
            return;
        };
        let ends = self.ends.entry(job.metadata.uid.clone()).or_default();
        let (now, window) = (world.now(), window(world));
        match &after {
            Some(pod) => ends.note(&job, pod, now, window),
            None => ends.note_deletion(&pod.metadata.uid, now, window),
        }
    }

    fn check_reported(&self, world: &World, job: &Job, pods: &[Arc<Pod>]) -> Verdict {
        let known = self.ends.get(&job.metadata.uid);
        let mut ends = known.cloned().unwrap_or_default();
        // What the server has lost may have been counted, and the other way round.
        ends.is_unsure |= world.run.lost_changes_at.is_some();
        let seen = Seen {
            pods,
            ends: &ends,
            window: window(world),
            gates: world.run.gates,
            now: world.now(),
        };
        reported(job, &seen)
    }

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

/// How long the controller may overlook that a pod has ended.
fn window(world: &World) -> Duration {
    world.reaction() + SYNC_BATCH + world.delay()
}

/// Does the job still look at its pods?
fn is_at_work(world: &World, job: &Job) -> bool {
    job.finished().is_none() && job.external_manager(world.run.gates).is_none()
}

fn selects(job: &Job, pod: &Pod) -> bool {
    let selector = job.spec.selector.as_ref();
    selector.is_some_and(|selector| selector.matches(&pod.metadata.labels))
}

/// Is it so long ago that the controller knows?
fn is_older(at: Option<&MicroTime>, now: MicroTime) -> bool {
    at.is_some_and(|at| now.since(*at) > REACTION)
}
