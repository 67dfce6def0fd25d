//! Where to create pods and which to delete. Pure.
//!
//! Two steps, never in the same sync: first every node gets what it should have ([`plan`] itself),
//! and only when there is nothing to do about that, old pods make room for new ones
//! (`update`).

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{DaemonSet, Node, Phase, Pod};
use api::{MicroTime, ObjectId};

use super::eligibility::Verdict;
use super::pods::{REVISION_HASH, by_seniority};
use super::reason::{Note, WhyCreate, WhyDelete};
use super::snapshot::Snapshot;
use super::update;
use crate::workload::availability::next_availability;

#[derive(Debug, Default)]
pub struct Plan {
    pub create: Vec<Creation>,
    pub delete: Vec<Deletion>,
    /// What else an operator would want to know.
    pub notes: Vec<Note>,
    /// When a failed pod may be replaced.
    pub wait: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Creation {
    pub node: Arc<str>,
    pub why: WhyCreate,
}

#[derive(Clone, Debug)]
pub struct Deletion {
    pub pod: Arc<Pod>,
    pub node: Arc<str>,
    pub why: WhyDelete,
}

/// What brings the set closer to one good pod per node, at most `burst` creations and as many
/// deletions. `backoff` says how long a failed pod on a node has to stay.
pub fn plan(
    snapshot: &Snapshot,
    burst: usize,
    now: MicroTime,
    backoff: impl Fn(&str) -> Option<Duration>,
) -> Plan {
    if !snapshot.may_act {
        return Plan::awaiting_consistency();
    }
    let mut plan = place(snapshot, now, &backoff);
    if plan.is_idle() {
        let updated = update::plan(snapshot, now);
        plan.create = updated.create;
        plan.delete = updated.delete;
        plan.notes.extend(updated.notes);
    }
    if plan.is_idle() && plan.notes.is_empty() {
        let nodes = snapshot.desired();
        plan.notes.push(Note::Enough { nodes });
    }
    if plan.is_idle() {
        plan.notes.extend(awaited(snapshot, now));
    }
    plan.create.truncate(burst);
    plan.delete.truncate(burst);
    plan
}

/// Pods that are there and not available: what rollouts and operators wait for.
fn awaited(snapshot: &Snapshot, now: MicroTime) -> Option<Note> {
    let seconds = snapshot.set.spec.min_ready_seconds;
    let pods = || {
        let pods = snapshot.all_pods().map(|pod| &**pod);
        pods.filter(|pod| !pod.metadata.is_terminating())
    };
    let unavailable = pods().filter(|pod| !pod.is_available(seconds, now)).count();
    (unavailable > 0).then(|| Note::Unavailable {
        unavailable,
        next_at: next_availability(pods(), seconds, now).map(|wait| now.plus(wait).time()),
    })
}

fn place(snapshot: &Snapshot, now: MicroTime, backoff: &impl Fn(&str) -> Option<Duration>) -> Plan {
    let mut plan = Plan::default();
    for (name, (node, verdict)) in &snapshot.nodes {
        let pods = snapshot.on(name);
        let mut place = OnNode {
            snapshot,
            node,
            verdict: *verdict,
            plan: &mut plan,
        };
        match verdict {
            Verdict::Runs if pods.is_empty() => place.create(WhyCreate::Missing),
            fits if fits.may_stay() => place.keep_one(pods, now, backoff(name)),
            _ if pods.is_empty() => place.note_unfit(),
            _ => place.leave(pods),
        }
    }
    for (node, pods) in &snapshot.pods {
        if snapshot.nodes.contains_key(node) {
            continue;
        }
        // Nobody will ever bind them, and so nobody else cleans them up.
        let unbound = pods
            .iter()
            .filter(|pod| pod.node_name.is_empty() && !pod.metadata.is_terminating());
        plan.delete.extend(unbound.map(|pod| Deletion {
            pod: pod.clone(),
            node: node.clone(),
            why: WhyDelete::NodeGone,
        }));
    }
    plan
}

/// The plan for one node.
struct OnNode<'a> {
    snapshot: &'a Snapshot,
    node: &'a Node,
    verdict: Verdict,
    plan: &'a mut Plan,
}

impl OnNode<'_> {
    fn create(&mut self, why: WhyCreate) {
        let node = self.node.metadata.name.clone();
        self.plan.create.push(Creation { node, why });
    }

    fn delete(&mut self, pod: &Arc<Pod>, why: WhyDelete) {
        self.plan.delete.push(Deletion {
            pod: pod.clone(),
            node: self.node.metadata.name.clone(),
            why,
        });
    }

    fn note_unfit(&mut self) {
        // Half of the notes are left for pods that fail.
        if self.plan.notes.len() < NOTES_MAX / 2 {
            self.note(Note::Unfit {
                node: self.node.metadata.name.clone(),
                why: self.verdict.explain(self.node),
            });
        }
    }

    fn note(&mut self, note: Note) {
        if self.plan.notes.len() < NOTES_MAX {
            self.plan.notes.push(note);
        }
    }

    /// The node is not for this set any more.
    fn leave(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
            let why = WhyDelete::Unfit(self.verdict.explain(self.node));
            self.delete(pod, why);
        }
    }

    /// The node may have a pod: finished ones go, and all but one of the others.
    fn keep_one(&mut self, pods: &[Arc<Pod>], now: MicroTime, backoff: Option<Duration>) {
        let mut running = self.delete_finished(pods, now, backoff);
        running.sort_by(by_seniority);
        if !allows_surge(&self.snapshot.set) {
            if let Some((kept, surplus)) = running.split_first() {
                for pod in surplus {
                    self.delete(pod, WhyDelete::Surplus { kept: name(kept) });
                }
            }
            return;
        }
        match running.as_slice() {
            // UPSTREAM: whatever is left of failed pods there, and however often they failed.
            [] if self.verdict.should_run() => self.create(WhyCreate::Missing),
            [] | [_] => {}
            several => self.keep_pair(several, now),
        }
    }

    /// Deletes what has failed or succeeded; gives what runs.
    fn delete_finished(
        &mut self,
        pods: &[Arc<Pod>],
        now: MicroTime,
        mut backoff: Option<Duration>,
    ) -> Vec<Arc<Pod>> {
        let mut running = Vec::with_capacity(pods.len());
        for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
            match (pod.status.phase, backoff) {
                (Phase::Failed, Some(wait)) => {
                    self.plan.wait = self.plan.wait.into_iter().chain([wait]).min();
                    self.note(Note::AwaitsBackoff {
                        pod: ObjectId::of(&**pod),
                        node: self.node.metadata.name.clone(),
                        at: now.plus(wait).time(),
                    });
                }
                (Phase::Failed, None) => {
                    self.delete(pod, WhyDelete::Failed);
                    // The next one on this node has to wait at least as long as the shortest wait.
                    backoff = Some(Duration::from_secs(1));
                }
                (Phase::Succeeded, _) => self.delete(pod, WhyDelete::Succeeded),
                _ => running.push(pod.clone()),
            }
        }
        running
    }

    /// While surging, a ready old pod may stay beside a new one that is not available yet.
    fn keep_pair(&mut self, running: &[Arc<Pod>], now: MicroTime) {
        let (mut new, mut old): (Option<&Arc<Pod>>, Option<&Arc<Pod>>) = (None, None);
        for pod in running {
            // UPSTREAM: the hash alone counts here, not the template generation.
            let is_new = pod.metadata.labels.get(REVISION_HASH) == Some(&*self.snapshot.hash);
            let senior = if is_new { &mut new } else { &mut old };
            match senior {
                Some(kept) => {
                    let kept = name(kept);
                    self.delete(pod, WhyDelete::Surplus { kept });
                }
                None => *senior = Some(pod),
            }
        }
        let (Some(new), Some(old)) = (new, old) else {
            return;
        };
        let min_ready_seconds = self.snapshot.set.spec.min_ready_seconds;
        if !old.is_ready() || new.is_available(min_ready_seconds, now) {
            self.delete(old, WhyDelete::Superseded { by: name(new) });
        }
    }
}

impl Plan {
    /// Nothing, because the caches have not shown the effect of the last plan yet.
    fn awaiting_consistency() -> Plan {
        Plan::only(Note::AwaitingConsistency)
    }

    pub fn being_deleted() -> Plan {
        Plan::only(Note::BeingDeleted)
    }

    fn only(note: Note) -> Plan {
        Plan {
            notes: vec![note],
            ..Plan::default()
        }
    }

    /// Neither creates nor deletes.
    pub fn is_idle(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// How many nodes, creations and deletions a plan explains one by one: more of the same is no news.
pub(super) const NOTES_MAX: usize = 10;

/// May a node have two pods for a while?
pub fn allows_surge(set: &DaemonSet) -> bool {
    update::max_surge(set, 1) > 0
}

pub(super) fn name(pod: &Pod) -> Arc<str> {
    pod.metadata.name.clone()
}
