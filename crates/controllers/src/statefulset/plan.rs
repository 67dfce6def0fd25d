//! What brings a set towards its pods. Pure.
//!
//! Four stages, in this order: every wanted pod in its place; claims of condemned pods; condemned
//! pods away; pods of old revisions away. An ordered set stops at the first pod that is not
//! available, and does one creation or deletion a sync. A parallel set does not wait.

use std::sync::Arc;

use api::decision::{Explain, Line};
use api::kinds::{Phase, Pod, PodManagement, StatefulSet};
use api::{Gate, Key, MicroTime, ObjectId};

use super::claims::{ClaimOwner, ClaimWork};
use super::identity::{identity_matches, ordinals, pod_name, revision, storage_matches};
use super::reason::Reason;
use super::snapshot::{Snapshot, is_running_and_ready, is_unavailable};

/// How many pods a parallel set creates in a sync: more come in the next one, and a set that asks
/// for billions of pods by mistake costs no memory.
pub(super) const CREATIONS_MAX: usize = 5_000;

#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub ordered: bool,
    pub replicas: Vec<Step>,
    pub condemned_claims: Vec<Step>,
    pub condemned: Vec<Step>,
    pub update: Vec<Step>,
    pub reasons: Vec<Reason>,
}

/// What to do about one pod.
#[derive(Clone, Debug)]
pub enum Step {
    Create {
        ordinal: i32,
        revision: Which,
        claims: ClaimWork,
    },
    /// Makes claims that are missing and sets the owners of the others.
    Claims {
        ordinal: i32,
        pod: Arc<Pod>,
        claims: ClaimWork,
    },
    /// Gives a pod back what makes it a member: labels, volumes, claims.
    Repair {
        ordinal: i32,
        pod: Arc<Pod>,
        identity: bool,
        storage: bool,
        claims: ClaimWork,
    },
    Delete(Arc<Pod>),
}

/// Which of the two revisions a pod is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Current,
    Update,
}

pub fn plan(snapshot: &Snapshot, now: MicroTime) -> Plan {
    let set = &*snapshot.set;
    let mut plan = Plan {
        ordered: set.spec.pod_management_policy == PodManagement::OrderedReady,
        ..Plan::default()
    };
    if set.metadata.is_terminating() {
        plan.reasons.push(Reason::BeingDeleted);
        return plan;
    }
    let blocked = if plan.ordered {
        plan_ordered_replicas(snapshot, now, &mut plan)
    } else {
        plan_parallel_replicas(snapshot, &mut plan);
        false
    };
    if !blocked {
        plan_condemned_claims(snapshot, &mut plan);
        let blocked = plan_condemned(snapshot, now, &mut plan);
        if !blocked {
            plan_update(snapshot, now, &mut plan);
        }
    }
    if plan.reasons.is_empty() {
        plan.reasons.push(Reason::Complete {
            replicas: set.replicas(),
            revision: snapshot.revisions.update.metadata.name.clone(),
        });
        plan.reasons.extend(awaited(snapshot, now));
    }
    plan.reasons.splice(0..0, snapshot.revisions.news.clone());
    plan
}

impl Explain for Plan {
    fn explain(&self) -> Vec<Line> {
        self.reasons.iter().map(Line::from).collect()
    }
}

/// A parallel set does not wait for its pods, but users do.
fn awaited(snapshot: &Snapshot, now: MicroTime) -> Option<Reason> {
    let set = &*snapshot.set;
    let pods = snapshot.replicas.values();
    let unavailable = pods.filter(|pod| is_unavailable(set, pod, now)).count();
    (unavailable > 0).then_some(Reason::Unavailable { unavailable })
}

/// Which revision a pod of this ordinal is to have.
pub(super) fn wanted_revision(set: &StatefulSet, ordinal: i32) -> Which {
    let strategy = &set.spec.update_strategy;
    let index = i64::from(ordinal) - i64::from(set.spec.ordinals.start);
    let kept = if strategy.has_rolling_update {
        // UPSTREAM: the partition counts under OnDelete too, if it is given.
        strategy.partition
    } else if strategy.on_delete {
        return Which::Update;
    } else {
        set.status.current_replicas
    };
    if index < i64::from(kept) {
        Which::Current
    } else {
        Which::Update
    }
}

impl Snapshot {
    pub fn revision_name(&self, which: Which) -> &str {
        match which {
            Which::Current => &self.revisions.current.metadata.name,
            Which::Update => &self.revisions.update.metadata.name,
        }
    }
}

/// One after the other, up to the first that others have to wait for; says whether there is one.
fn plan_ordered_replicas(snapshot: &Snapshot, now: MicroTime, plan: &mut Plan) -> bool {
    let set = &*snapshot.set;
    for ordinal in ordinals(set) {
        let Some(pod) = snapshot.replicas.get(&ordinal) else {
            plan_creation(snapshot, ordinal, plan);
            return true;
        };
        if pod.is_finished() {
            plan_replacement(pod, plan);
            return true;
        }
        if pod.status.phase == Phase::Pending {
            plan_pending_claims(snapshot, ordinal, pod, plan);
        }
        if let Some(reason) = waits_for(snapshot, ordinal, pod, now) {
            if matches!(reason, Reason::ReplacesStuck { .. }) {
                plan.replicas.push(Step::Delete(pod.clone()));
            }
            plan.reasons.push(reason);
            return true;
        }
        plan_repair(snapshot, ordinal, pod, plan);
    }
    false
}

/// Why pods after this one have to wait.
fn waits_for(snapshot: &Snapshot, ordinal: i32, pod: &Arc<Pod>, now: MicroTime) -> Option<Reason> {
    let set = &*snapshot.set;
    let name = ObjectId::of(&**pod);
    if pod.metadata.is_terminating() {
        return Some(Reason::AwaitsTermination { pod: name });
    }
    if !is_running_and_ready(pod) {
        let wanted = snapshot.revision_name(wanted_revision(set, ordinal));
        let held = revision(pod);
        let superseded = !set.spec.update_strategy.on_delete && held != wanted;
        // A pod that the update is yet to reach may be unready for a moment: it keeps its turn,
        // unless nothing of the set is ready, so that there is nothing to wait for.
        let stuck = superseded
            && (held != &*snapshot.revisions.current.metadata.name
                || !snapshot.replicas.values().any(|pod| pod.is_ready()));
        let (revision, wanted) = (held.into(), wanted.into());
        return Some(if stuck && snapshot.recover_stuck_rollouts {
            Reason::ReplacesStuck {
                pod: name,
                revision,
                wanted,
            }
        } else if stuck {
            Reason::AwaitsSuperseded {
                pod: name,
                revision,
                wanted,
            }
        } else {
            Reason::AwaitsReady { pod: name }
        });
    }
    let wait = pod
        .until_available(set.spec.min_ready_seconds, now)
        .unwrap_or_default();
    (!wait.is_zero()).then(|| Reason::AwaitsAvailable {
        pod: name,
        at: now.plus(wait).time(),
    })
}

fn plan_parallel_replicas(snapshot: &Snapshot, plan: &mut Plan) {
    for (&ordinal, pod) in &snapshot.replicas {
        if pod.is_finished() {
            plan_replacement(pod, plan);
        } else if pod.status.phase == Phase::Pending
            && identity_matches(pod)
            && storage_matches(&snapshot.set, pod, ordinal)
        {
            plan_pending_claims(snapshot, ordinal, pod, plan);
        } else {
            plan_repair(snapshot, ordinal, pod, plan);
        }
    }
    // Last, so that creations that a quota refuses do not hold up anything else.
    for ordinal in snapshot.missing().take(CREATIONS_MAX) {
        plan_creation(snapshot, ordinal, plan);
    }
}

fn plan_creation(snapshot: &Snapshot, ordinal: i32, plan: &mut Plan) {
    let set = &*snapshot.set;
    let holder = snapshot.claim_owner(ordinal);
    let pod = ObjectId::named::<Pod>(&Key {
        namespace: set.metadata.namespace.clone(),
        name: pod_name(set, ordinal).as_str().into(),
    });
    if let Some(claim) = holder.stale_claim(&snapshot.claims) {
        let claim = claim.into();
        plan.explain(Reason::AwaitsStaleClaim { pod, claim });
        return;
    }
    let which = wanted_revision(set, ordinal);
    let revision = snapshot.revision_name(which).into();
    plan.explain(Reason::Creates { pod, revision });
    plan.replicas.push(Step::Create {
        ordinal,
        revision: which,
        claims: holder.work(&snapshot.claims),
    });
}

/// A pod that has ended, well or not, is deleted; the next one comes when it is gone.
fn plan_replacement(pod: &Arc<Pod>, plan: &mut Plan) {
    let name = ObjectId::of(&**pod);
    if pod.metadata.is_terminating() {
        plan.explain(Reason::AwaitsTermination { pod: name });
        return;
    }
    plan.explain(Reason::ReplacesFinished {
        pod: name,
        phase: pod.status.phase,
    });
    plan.replicas.push(Step::Delete(pod.clone()));
}

fn plan_pending_claims(snapshot: &Snapshot, ordinal: i32, pod: &Arc<Pod>, plan: &mut Plan) {
    let claims = snapshot.claim_owner(ordinal).work(&snapshot.claims);
    if !claims.is_empty() {
        plan.explain(Reason::SetsClaims {
            pod: ObjectId::of(&**pod),
        });
        plan.replicas.push(Step::Claims {
            ordinal,
            pod: pod.clone(),
            claims,
        });
    }
}

fn plan_repair(snapshot: &Snapshot, ordinal: i32, pod: &Arc<Pod>, plan: &mut Plan) {
    let set = &*snapshot.set;
    let (identity, storage) = (!identity_matches(pod), !storage_matches(set, pod, ordinal));
    let mut claims = snapshot.claim_owner(ordinal).work(&snapshot.claims);
    if !storage && pod.status.phase != Phase::Pending {
        // The pod runs: claims that are missing or on their way out do it no harm.
        claims.missing.clear();
        claims.leaving.clear();
    }
    let claims_differ = !claims.update_owners.is_empty();
    if identity || storage || claims_differ {
        plan.explain(Reason::Repairs {
            pod: ObjectId::of(&**pod),
            identity,
            storage,
            claims: claims_differ,
        });
        plan.replicas.push(Step::Repair {
            ordinal,
            pod: pod.clone(),
            identity,
            storage,
            claims,
        });
    }
}

fn plan_condemned_claims(snapshot: &Snapshot, plan: &mut Plan) {
    for (ordinal, pod) in &snapshot.condemned {
        let claims = ClaimOwner::of(&snapshot.set, pod, *ordinal).work(&snapshot.claims);
        if claims.update_owners.is_empty() {
            continue;
        }
        plan.explain(Reason::SetsClaims {
            pod: ObjectId::of(&**pod),
        });
        plan.condemned_claims.push(Step::Claims {
            ordinal: *ordinal,
            pod: pod.clone(),
            claims: ClaimWork {
                missing: Vec::new(),
                leaving: Vec::new(),
                ..claims
            },
        });
    }
}

/// Highest ordinal first; an ordered set waits until it is gone, and while a lower one is unhealthy.
fn plan_condemned(snapshot: &Snapshot, now: MicroTime, plan: &mut Plan) -> bool {
    let set = &*snapshot.set;
    let lowest_unhealthy = snapshot
        .condemned
        .iter()
        .rev()
        .find(|(_, pod)| is_unavailable(set, pod, now))
        .map(|(ordinal, _)| *ordinal);
    for (ordinal, pod) in &snapshot.condemned {
        let name = ObjectId::of(&**pod);
        let terminating = pod.metadata.is_terminating();
        if plan.ordered {
            let healthy = is_running_and_ready(pod) && !is_unavailable(set, pod, now);
            if terminating {
                plan.reasons.push(Reason::AwaitsTermination { pod: name });
                return true;
            }
            // Upstream also waits where there is nobody to wait for: a pod that was marked as failed with its node may
            // still say that it is ready, so that it is neither healthy nor unavailable.
            let awaited = lowest_unhealthy.filter(|lowest| lowest != ordinal);
            if !healthy && let Some(unhealthy) = awaited {
                plan.reasons.push(Reason::ScaleDownAwaits {
                    pod: name,
                    unhealthy: pod_name(set, unhealthy).as_str().into(),
                });
                return true;
            }
        }
        if !terminating {
            plan.explain(Reason::ScalesDown {
                pod: name,
                replicas: set.replicas(),
            });
            plan.condemned.push(Step::Delete(pod.clone()));
            if plan.ordered {
                return true;
            }
        }
    }
    false
}

fn plan_update(snapshot: &Snapshot, now: MicroTime, plan: &mut Plan) {
    let set = &*snapshot.set;
    if set.spec.update_strategy.on_delete {
        let outdated = snapshot
            .replicas
            .values()
            .filter(|pod| is_outdated(snapshot, pod))
            .count();
        if outdated > 0 {
            plan.reasons.push(Reason::OnDelete { outdated });
        }
        return;
    }
    if snapshot.gates.enabled(Gate::MaxUnavailableStatefulSet) {
        plan_update_by_budget(snapshot, now, plan);
    } else {
        plan_update_one(snapshot, now, plan);
    }
    explain_partition(snapshot, plan);
}

/// Ordinals that an update may touch, highest first.
fn updatable(set: &StatefulSet) -> impl Iterator<Item = i32> {
    let partition = set.spec.update_strategy.partition;
    let first = i64::from(set.spec.ordinals.start) + i64::from(partition);
    ordinals(set)
        .rev()
        .take_while(move |ordinal| i64::from(*ordinal) >= first)
}

fn is_outdated(snapshot: &Snapshot, pod: &Pod) -> bool {
    revision(pod) != snapshot.revision_name(Which::Update)
}

/// The highest pod of an old revision, once all above it are available.
fn plan_update_one(snapshot: &Snapshot, now: MicroTime, plan: &mut Plan) {
    let set = &*snapshot.set;
    for ordinal in updatable(set) {
        let Some(pod) = snapshot.replicas.get(&ordinal) else {
            // It is only being created in this sync.
            return;
        };
        let going = pod.metadata.is_terminating() || plan.deletes(pod);
        if !going && is_outdated(snapshot, pod) {
            plan_outdated(snapshot, pod, plan);
            return;
        }
        if going || is_unavailable(set, pod, now) {
            // With nothing left to update, nothing waits for it but its users.
            if updatable(set)
                .filter_map(|ordinal| snapshot.replicas.get(&ordinal))
                .any(|pod| is_outdated(snapshot, pod))
            {
                plan.explain(Reason::UpdateAwaits {
                    pod: ObjectId::of(&**pod),
                });
            }
            return;
        }
    }
}

/// As many pods of old revisions as may be unavailable, highest first.
fn plan_update_by_budget(snapshot: &Snapshot, now: MicroTime, plan: &mut Plan) {
    let set = &*snapshot.set;
    let most = max_unavailable(set);
    let unavailable = snapshot.missing_count()
        + snapshot
            .replicas
            .values()
            .filter(|pod| is_unavailable(set, pod, now))
            .count();
    let mut outdated = updatable(set)
        .filter_map(|ordinal| snapshot.replicas.get(&ordinal))
        .filter(|pod| is_outdated(snapshot, pod) && !pod.metadata.is_terminating())
        .filter(|pod| !plan.deletes(pod))
        .peekable();
    if unavailable >= most {
        if outdated.peek().is_some() {
            plan.explain(Reason::UpdateAwaitsBudget { unavailable, most });
        }
        return;
    }
    let chosen: Vec<Arc<Pod>> = outdated.take(most - unavailable).cloned().collect();
    for pod in &chosen {
        plan_outdated(snapshot, pod, plan);
    }
}

fn plan_outdated(snapshot: &Snapshot, pod: &Arc<Pod>, plan: &mut Plan) {
    plan.explain(Reason::Updates {
        pod: ObjectId::of(&**pod),
        from: revision(pod).into(),
        to: snapshot.revision_name(Which::Update).into(),
    });
    plan.update.push(Step::Delete(pod.clone()));
}

/// How many pods an update may make unavailable: at least one, or nothing would move.
pub(super) fn max_unavailable(set: &StatefulSet) -> usize {
    let one = api::IntOrString::Int(1);
    let wanted = set.spec.update_strategy.max_unavailable.as_ref();
    // The API server has checked the value; what it would not accept counts as one.
    let scaled = wanted.unwrap_or(&one).scaled(set.replicas(), false);
    usize::try_from(scaled.unwrap_or(1)).unwrap_or(1).max(1)
}

fn explain_partition(snapshot: &Snapshot, plan: &mut Plan) {
    let set = &*snapshot.set;
    let partition = set.spec.update_strategy.partition;
    let first = set.spec.ordinals.start.saturating_add(partition);
    let kept = snapshot
        .replicas
        .range(..first)
        .filter(|(_, pod)| is_outdated(snapshot, pod))
        .count();
    if partition > 0 && kept > 0 {
        plan.reasons.push(Reason::Partition { kept, first });
    }
}

/// How many pods a plan explains one by one.
const REASONS_MAX: usize = 10;

impl Plan {
    fn explain(&mut self, reason: Reason) {
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(reason);
        }
    }

    fn deletes(&self, pod: &Arc<Pod>) -> bool {
        let deleted = |step: &Step| matches!(step, Step::Delete(held) if Arc::ptr_eq(held, pod));
        self.replicas.iter().any(deleted)
    }
}
