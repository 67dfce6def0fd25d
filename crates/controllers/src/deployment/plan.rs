//! What a Deployment does next. Pure.
//!
//! The plan works on a copy of what the caches say and changes it as its steps will change the
//! cluster, so that each step decides on what the steps before it leave behind. Applying needs no
//! decisions any more, and the status can speak of the state after the plan.

use std::sync::Arc;

use api::conditions::{self, Condition, ConditionStatus, ExtraTime};
use api::kinds::{Deployment, DeploymentStatus, ReplicaSet};
use api::{LabelSet, MicroTime, ObjectId};

use super::limits::{history_limit, most_replicas, new_set_size, progress_deadline};
use super::reason::{Reason, Why};
use super::rollback::RollBack;
use super::snapshot::Snapshot;
use super::{annotations, history, new_set, proportions, rollback, rollout, status};

#[derive(Debug)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub reasons: Vec<Reason>,
    pub after: After,
}

/// One write. Steps are carried out in order, up to the first that fails.
#[derive(Debug)]
pub enum Step {
    Create(ReplicaSet),
    Update(Update),
    Delete(Arc<ReplicaSet>),
    RollBack(RollBack),
}

/// What changes in a set that is there: all in one request.
#[derive(Debug)]
pub struct Update {
    pub before: Arc<ReplicaSet>,
    pub after: ReplicaSet,
    /// From and to; more than one when the plan came back to the set.
    pub scaled: Vec<(i32, i32)>,
}

/// The state that the plan leads to, as far as the status speaks of it.
#[derive(Debug)]
pub struct After {
    pub new: Option<ReplicaSet>,
    pub old: Vec<ReplicaSet>,
    /// The status as it was read, with the conditions that the plan itself sets.
    pub status: DeploymentStatus,
    /// The Deployment's annotations, with the revision of its new set.
    pub annotations: LabelSet,
    pub report: Report,
}

/// How the status is to be computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Report {
    /// Counts and availability.
    Counts,
    /// The same, and whether there is progress.
    Progress,
    /// As the plan left it.
    AsIs,
}

pub fn plan(snapshot: &Snapshot, now: MicroTime) -> Plan {
    let deployment = &*snapshot.deployment;
    let mut work = Work::new(snapshot, now);
    if deployment.metadata.is_terminating() {
        work.reasons.push(Reason::BeingDeleted);
        // UPSTREAM: the annotations of the new set are kept in step even now.
        work.keep_new_set_in_step();
        return work.done(Report::Counts);
    }
    work.note_pause();
    if deployment.spec.paused {
        work.reasons.push(Reason::Paused);
        work.keep_new_set_in_step();
        proportions::plan(&mut work);
        if deployment.rollback_to().is_none() {
            history::plan(&mut work);
        }
        return work.done(Report::Counts);
    }
    if let Some(to) = deployment.rollback_to() {
        work.ensure_new_set();
        rollback::plan(&mut work, to);
        return work.done(Report::AsIs);
    }
    work.keep_new_set_in_step();
    // With `Recreate` there is nothing to share out: old pods go first, then the new set is resized.
    let shared = !deployment.spec.strategy.recreate || work.active().len() < 2;
    if shared && work.is_resized() {
        proportions::plan(&mut work);
        return work.done(Report::Counts);
    }
    if deployment.spec.strategy.recreate {
        rollout::recreate(&mut work);
    } else {
        rollout::rolling(&mut work);
    }
    work.done(Report::Progress)
}

/// A plan in the making.
pub(super) struct Work<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) deployment: &'a Deployment,
    pub(super) new: Option<ReplicaSet>,
    /// Oldest first.
    pub(super) old: Vec<ReplicaSet>,
    pub(super) steps: Vec<Step>,
    pub(super) reasons: Vec<Reason>,
    status: DeploymentStatus,
    annotations: LabelSet,
    now: MicroTime,
}

/// One of the sets of the work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Which {
    New,
    Old(usize),
}

impl<'a> Work<'a> {
    fn new(snapshot: &'a Snapshot, now: MicroTime) -> Work<'a> {
        let deployment = &*snapshot.deployment;
        let mut old: Vec<ReplicaSet> = snapshot.sets.iter().map(|set| (**set).clone()).collect();
        let new = new_set::find(deployment, &old).map(|at| old.remove(at));
        Work {
            snapshot,
            deployment,
            new,
            old,
            steps: Vec::new(),
            reasons: Vec::new(),
            status: deployment.status.clone(),
            annotations: deployment.metadata.annotations.clone(),
            now,
        }
    }

    fn done(mut self, report: Report) -> Plan {
        if self.steps.is_empty() && self.reasons.is_empty() {
            self.reasons.push(self.rest());
            let old = self.old.iter().filter(|set| !set.metadata.is_terminating());
            if let (sets @ 1.., Some(limit)) = (old.count(), history_limit(self.deployment)) {
                self.reasons.push(Reason::KeptForHistory { sets, limit });
            }
        }
        Plan {
            steps: self.steps,
            reasons: self.reasons,
            after: After {
                new: self.new,
                old: self.old,
                status: self.status,
                annotations: self.annotations,
                report,
            },
        }
    }

    /// Why there is nothing to do.
    fn rest(&self) -> Reason {
        let wanted = self.deployment.replicas();
        let updated = self.new.as_ref().map_or(0, |set| set.status.replicas);
        let available = self.sets().map(|set| set.status.available_replicas).sum();
        let all: i32 = self.sets().map(|set| set.status.replicas).sum();
        if (updated, available, all) == (wanted, wanted, wanted) {
            return Reason::Complete { replicas: wanted };
        }
        Reason::PodsPending {
            updated,
            available,
            wanted,
        }
    }

    /// Old sets, then the new one.
    pub(super) fn sets(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    pub(super) fn set(&self, which: Which) -> Option<&ReplicaSet> {
        match which {
            Which::New => self.new.as_ref(),
            Which::Old(at) => self.old.get(at),
        }
    }

    /// Sets that want pods, old ones first.
    pub(super) fn active(&self) -> Vec<Which> {
        let old = (0..self.old.len()).map(Which::Old);
        old.chain([Which::New])
            .filter(|which| self.set(*which).is_some_and(|set| set.replicas() > 0))
            .collect()
    }

    pub(super) fn total_replicas(&self) -> i32 {
        self.sets().map(ReplicaSet::replicas).sum()
    }

    /// A pause, and its end, are noted in the condition, so that the time in between does not
    /// count as lack of progress.
    fn note_pause(&mut self) {
        if progress_deadline(self.deployment).is_none() {
            return;
        }
        let reason = conditions::find(&self.status.conditions, status::PROGRESSING)
            .map(|held| held.reason.clone())
            .unwrap_or_default();
        if reason == status::TIMED_OUT {
            // What was reported as stuck stays so.
            return;
        }
        let noted = reason == status::PAUSED;
        let (reason, message) = match (self.deployment.spec.paused, noted) {
            (true, false) => (status::PAUSED, "Deployment is paused"),
            (false, true) => (status::RESUMED, "Deployment is resumed"),
            _ => return,
        };
        self.progressing(ConditionStatus::Unknown, reason, message.into());
    }

    fn progressing(&mut self, status: ConditionStatus, reason: &str, message: String) {
        let now = self.now.time();
        let condition = Condition::new(status::PROGRESSING, status, reason, message, now)
            .updated_at(ExtraTime::Update, now);
        conditions::replace_keeping_transition(&mut self.status.conditions, condition);
    }

    /// The set of the current template, if there is one, shows what the Deployment says, and the
    /// Deployment shows its revision.
    pub(super) fn keep_new_set_in_step(&mut self) {
        let Some(new) = &mut self.new else {
            return;
        };
        let revision = annotations::max_revision(&self.old) + 1;
        let wanted = annotations::of_new_set(self.deployment, &new.metadata.annotations, revision);
        let min_ready_seconds = self.deployment.spec.min_ready_seconds;
        if wanted != new.metadata.annotations || new.spec.min_ready_seconds != min_ready_seconds {
            new.metadata.annotations = wanted;
            new.spec.min_ready_seconds = min_ready_seconds;
            let set = ObjectId::of(&*new);
            self.reasons.push(Reason::Annotates { set });
            self.update(Which::New, None);
        }
        let Some(new) = &self.new else { return };
        let name = new.metadata.name.clone();
        self.show_revision();
        let known = conditions::find(&self.status.conditions, status::PROGRESSING).is_some();
        if progress_deadline(self.deployment).is_some() && !known {
            let message = format!("Found new replica set \"{name}\"");
            self.progressing(ConditionStatus::True, status::FOUND_NEW_SET, message);
        }
    }

    fn show_revision(&mut self) {
        let revision = self
            .new
            .as_ref()
            .and_then(|set| set.metadata.annotation(annotations::REVISION));
        if let Some(revision) = revision
            && self.annotations.get(annotations::REVISION) != Some(revision)
        {
            self.annotations = self.annotations.with(annotations::REVISION, revision);
        }
    }

    /// There is a set of the current template after this.
    pub(super) fn ensure_new_set(&mut self) {
        if self.new.is_some() {
            self.keep_new_set_in_step();
            return;
        }
        let deployment = self.deployment;
        let replicas = new_set_size(deployment, 0, self.total_replicas());
        let revision = annotations::max_revision(&self.old) + 1;
        let set = new_set::build(deployment, self.status.collision_count, revision, replicas);
        self.reasons.push(Reason::Creates {
            set: ObjectId::of(&set),
            replicas,
            wanted: deployment.replicas(),
            most: most_replicas(deployment),
        });
        self.steps.push(Step::Create(set.clone()));
        let name = set.metadata.name.clone();
        self.new = Some(set);
        self.show_revision();
        if progress_deadline(deployment).is_some() {
            let message = format!("Created new replica set \"{name}\"");
            self.progressing(ConditionStatus::True, status::NEW_SET, message);
        }
    }

    /// Was `spec.replicas` changed since the sets were last scaled?
    fn is_resized(&self) -> bool {
        let wanted = self.deployment.replicas();
        self.sets()
            .filter(|set| set.replicas() > 0)
            .filter_map(|set| annotations::count(set, annotations::DESIRED_REPLICAS))
            .any(|desired| desired != wanted)
    }

    /// Gives a set another size, and notes the Deployment's sizes in its annotations. True if the
    /// size changed.
    pub(super) fn scale(&mut self, which: Which, to: i32, why: Why) -> bool {
        let Some(set) = self.set(which) else {
            return false;
        };
        let from = set.replicas();
        if from == to {
            return false;
        }
        let set = ObjectId::of(set);
        self.reasons.push(Reason::Scales { set, from, to, why });
        self.resize(which, to);
        self.update(which, Some((from, to)));
        true
    }

    /// As [`Work::scale`], and notes the sizes also when the set's own stays.
    pub(super) fn scale_or_note(&mut self, which: Which, to: i32, why: Why) {
        if self.scale(which, to, why) {
            return;
        }
        let Some(held) = self.set(which).map(|set| set.metadata.annotations.clone()) else {
            return;
        };
        self.resize(which, to);
        if self
            .set(which)
            .is_some_and(|set| set.metadata.annotations != held)
        {
            self.update(which, None);
        }
    }

    fn resize(&mut self, which: Which, to: i32) {
        let (desired, most) = (self.deployment.replicas(), most_replicas(self.deployment));
        if let Some(set) = self.set_mut(which) {
            set.spec.replicas = Some(to);
            set.metadata.annotations =
                annotations::with_sizes(&set.metadata.annotations, desired, most);
        }
    }

    fn set_mut(&mut self, which: Which) -> Option<&mut ReplicaSet> {
        match which {
            Which::New => self.new.as_mut(),
            Which::Old(at) => self.old.get_mut(at),
        }
    }

    /// Has the set written as it is now; together with what the plan changed in it before.
    fn update(&mut self, which: Which, scaled: Option<(i32, i32)>) {
        let Some(after) = self.set(which).cloned() else {
            return;
        };
        for step in &mut self.steps {
            match step {
                Step::Create(set) if set.metadata.name == after.metadata.name => {
                    *set = after;
                    return;
                }
                Step::Update(held) if held.before.metadata.name == after.metadata.name => {
                    held.after = after;
                    held.scaled.extend(scaled);
                    return;
                }
                _ => {}
            }
        }
        if let Some(before) = self.read(&after) {
            self.steps.push(Step::Update(Update {
                before,
                after,
                scaled: scaled.into_iter().collect(),
            }));
        }
    }

    /// The set as it was read.
    pub(super) fn read(&self, set: &ReplicaSet) -> Option<Arc<ReplicaSet>> {
        self.snapshot
            .sets
            .iter()
            .find(|read| read.metadata.name == set.metadata.name)
            .cloned()
    }
}
