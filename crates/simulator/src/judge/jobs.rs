//! What jobs must do, and must not do.

use api::OwnerRef;
use api::kinds::{Phase, Pod};
use controllers::job;

use super::mirror::Object;
use super::{Inner, Mirror};

type Verdict = Result<(), String>;

impl Inner {
    /// A job's success is its pod's: it can be counted only once it has been seen.
    pub(super) fn remember_success(&mut self, before: Option<&Object>, after: Option<&Object>) {
        let Some(Object::Pod(pod)) = after else {
            return;
        };
        let owner = pod.metadata.controller();
        let job = owner.filter(|owner| owner.kind == "Job" && pod.status.phase == Phase::Succeeded);
        if let Some(job) = job {
            let (uid, now) = (&pod.metadata.uid, self.clock.now());
            self.past.note_success(&job.uid, uid, now);
            // UPSTREAM: a pod that somebody took from its job when it had ended is adopted, held and counted again.
            let adopted = matches!(before, Some(Object::Pod(before)) if before.metadata.controller().is_none());
            if adopted {
                self.past.note_success_again(&job.uid);
            }
        }
    }

    /// The counts of jobs, and the pods that they let go.
    pub(super) fn check_job(
        &self,
        controller: &str,
        before: Option<&Object>,
        after: Option<&Object>,
    ) -> Verdict {
        if controller != job::DESCRIPTOR.name {
            return Ok(());
        }
        match (before, after) {
            (Some(Object::Job(before)), Some(Object::Job(after))) => {
                job::goes_forward(before, after)?;
                job::counted_once(after, self.past.successes(&after.metadata.uid))
            }
            (Some(Object::Pod(before)), after) => {
                let held = |object: Option<&Object>| matches!(object, Some(Object::Pod(pod)) if job::is_held(pod));
                match job::is_held(before) && !held(after) {
                    true => self.check_released(before),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn check_released(&self, pod: &Pod) -> Verdict {
        let meta = &pod.metadata;
        let Some(owner) = meta.controller() else {
            return Ok(());
        };
        let found = self.mirror.jobs.find(&meta.namespace, &owner.name);
        let Some(held) = found.filter(|job| job.metadata.uid == owner.uid) else {
            return Ok(());
        };
        // One that ended a moment ago may still count as too many.
        let now = self.clock.now();
        let known = !self.views_may_lag && self.past.is_old_success(&owner.uid, &meta.uid, now);
        match known {
            true => job::finalizer_removed(&held, pod),
            false => Ok(()),
        }
    }

    /// A pod was made for a job. `slack` are pods that it may have made without being told.
    pub(super) fn check_job_pod(&self, pod: &Pod, owner: &OwnerRef, slack: i32) -> Verdict {
        let found = self.mirror.jobs.find(&pod.metadata.namespace, &owner.name);
        let Some(held) = found.filter(|job| job.metadata.uid == owner.uid) else {
            return Ok(());
        };
        let pods = self.mirror.pods_of(&owner.uid);
        job::safe(&held, &pods, self.most(&owner.uid, 0) + slack)?;
        match self.views_may_lag || slack > 0 {
            true => Ok(()),
            false if self.past.is_suspended(&owner.uid, self.clock.now()) => Err(format!(
                "{} is suspended and makes {}",
                held.metadata.key(),
                pod.metadata.name
            )),
            false => job::born_well(&held, &pods, pod),
        }
    }
}

impl Mirror {
    pub(super) fn jobs_converged(&self) -> Verdict {
        for held in self.jobs.list() {
            job::converged(&held, &self.pods_of(&held.metadata.uid))?;
            job::came_to_an_end(&held)?;
        }
        Ok(())
    }
}
