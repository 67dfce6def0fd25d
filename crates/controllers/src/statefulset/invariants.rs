//! What must hold: always ([`safe`], [`born_well`]), always but for what others do ([`in_order`],
//! [`one_at_a_time`]), and once nothing changes any more ([`converged`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::kinds::{
    ClaimRetentionPolicy, ControllerRevision, PersistentVolumeClaim, Phase, Pod, PodManagement,
    StatefulSet,
};
use api::{MicroTime, OwnerRef};

use super::identity::{claim_name, claim_templates, ordinal, ordinals, revision};
use crate::oracle::{count, is_available, says};

/// Nothing is left to do: a pod at each ordinal and nowhere else, each of the right revision, and a
/// status that says so. `revisions` are those that the set controls.
pub fn converged(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    revisions: &[Arc<ControllerRevision>],
    now: MicroTime,
) -> Result<(), String> {
    let meta = &set.metadata;
    if meta.is_terminating() {
        return Ok(());
    }
    let key = meta.key();
    let held: BTreeSet<i32> = owned(set, pods)
        .filter(|pod| pod.is_active())
        .filter_map(|pod| ordinal(set, pod))
        .collect();
    if !ordinals(set).eq(held.iter().copied()) {
        let wanted = ordinals(set);
        return Err(format!("{key} has pods {held:?} and wants {wanted:?}"));
    }
    check_revisions(set, pods)?;
    reported(set, pods, revisions, now)?;
    history_bounded(set, pods, revisions)
}

/// The status says what the pods say: how many there are, ready, available, and of which revision, and which revisions
/// these are. Holds also while something keeps the set from having all its pods.
pub fn reported(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    revisions: &[Arc<ControllerRevision>],
    now: MicroTime,
) -> Result<(), String> {
    let (meta, status) = (&set.metadata, &set.status);
    if meta.is_terminating() {
        return Ok(());
    }
    let key = meta.key();
    let is_ready = |pod: &&Arc<Pod>| pod.status.phase == Phase::Running && pod.is_ready();
    let all = count(owned(set, pods));
    let ready = count(owned(set, pods).filter(is_ready));
    says(&key, "replicas", status.replicas, all)?;
    says(&key, "readyReplicas", status.ready_replicas, ready)?;
    let is_due = |pod: &&Arc<Pod>| is_available(pod, set.spec.min_ready_seconds, now);
    let available = count(owned(set, pods).filter(is_ready).filter(is_due));
    says(
        &key,
        "availableReplicas",
        status.available_replicas,
        available,
    )?;
    let generation = status.observed_generation;
    says(&key, "observedGeneration", generation, meta.generation)?;
    let newest = revisions.iter().max_by_key(|held| held.revision);
    let template = newest.and_then(|newest| newest.data.template());
    if !template.is_some_and(|it| it.same_meaning(&set.spec.template)) {
        return Err(format!("{key} has no revision of its template"));
    }
    let update = newest.map_or("", |newest| &*newest.metadata.name);
    says(&key, "updateRevision", &*status.update_revision, update)?;
    let of = |revision_name: &str| {
        let held = owned(set, pods).filter(|pod| !pod.metadata.is_terminating());
        count(held.filter(|pod| revision(pod) == revision_name))
    };
    says(&key, "updatedReplicas", status.updated_replicas, of(update))?;
    let wanted = set.replicas();
    let is_done = (of(update), ready, all) == (wanted, wanted, wanted);
    let current = &*status.current_revision;
    if is_done && !set.spec.update_strategy.on_delete {
        says(&key, "currentRevision", current, update)?;
    } else if !revisions.iter().any(|held| *held.metadata.name == *current) {
        return Err(format!("{key}: current revision {current} does not exist"));
    }
    says(
        &key,
        "currentReplicas",
        status.current_replicas,
        of(current),
    )
}

/// No more pods are said to be available than have been ready for `minReadySeconds`. Holds as long as the controller
/// sees them as they are.
pub fn counts_in_time(set: &StatefulSet, pods: &[Arc<Pod>], now: MicroTime) -> Result<(), String> {
    let is_due = |pod: &&Arc<Pod>| is_available(pod, set.spec.min_ready_seconds, now);
    let (said, most) = (
        set.status.available_replicas,
        count(owned(set, pods).filter(is_due)),
    );
    match said > most {
        true => Err(format!(
            "{}: status says {said} available pods, {most} have been ready for long enough",
            set.metadata.key()
        )),
        false => Ok(()),
    }
}

/// From the partition on every pod is of the update revision. Below it a pod may already be.
fn check_revisions(set: &StatefulSet, pods: &[Arc<Pod>]) -> Result<(), String> {
    let (strategy, status) = (&set.spec.update_strategy, &set.status);
    let first = set.spec.ordinals.start.saturating_add(strategy.partition);
    for pod in owned(set, pods).filter(|_| !strategy.on_delete) {
        let Some(place) = ordinal(set, pod) else {
            continue;
        };
        let held = revision(pod);
        let may_be_old = place < first && status.current_revision == held;
        if status.update_revision != held && !may_be_old {
            let name = &pod.metadata.name;
            return Err(format!("{name} is still of revision {held}"));
        }
    }
    Ok(())
}

fn history_bounded(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    revisions: &[Arc<ControllerRevision>],
) -> Result<(), String> {
    let Ok(limit) = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)) else {
        return Ok(());
    };
    let unused = revisions
        .iter()
        .map(|held| &*held.metadata.name)
        .filter(|name| {
            set.status.current_revision != **name
                && set.status.update_revision != **name
                && !owned(set, pods).any(|pod| revision(pod) == *name)
        })
        .count();
    if unused > limit {
        let key = set.metadata.key();
        return Err(format!(
            "{key} keeps {unused} revisions that nobody uses; its limit is {limit}"
        ));
    }
    Ok(())
}

/// Never two pods of one ordinal. The API server sees to equal names; this sees to the rest.
pub fn safe(set: &StatefulSet, pods: &[Arc<Pod>]) -> Result<(), String> {
    let mut held = BTreeSet::new();
    for pod in owned(set, pods) {
        if let Some(place) = ordinal(set, pod)
            && !held.insert(place)
        {
            let key = set.metadata.key();
            return Err(format!("{key} has two pods with ordinal {place}"));
        }
    }
    Ok(())
}

/// An ordered set that scales up from nothing has no gap: with a pod, all pods before it exist.
/// Holds as long as nobody else deletes pods and no update is under way.
pub fn in_order(set: &StatefulSet, pods: &[Arc<Pod>]) -> Result<(), String> {
    if set.spec.pod_management_policy == PodManagement::Parallel {
        return Ok(());
    }
    let held: BTreeSet<i32> = owned(set, pods)
        .filter_map(|pod| ordinal(set, pod))
        .collect();
    let Some(last) = held.last() else {
        return Ok(());
    };
    match ordinals(set).find(|place| place < last && !held.contains(place)) {
        Some(gap) => Err(format!(
            "{} has a pod with ordinal {last} and none with {gap}",
            set.metadata.key()
        )),
        None => Ok(()),
    }
}

/// A pod of an ordered set is made when all before it are ready: `made` was just created.
/// Holds as long as nobody else touches the pods.
pub fn after_ready(set: &StatefulSet, pods: &[Arc<Pod>], made: &Pod) -> Result<(), String> {
    if set.spec.pod_management_policy == PodManagement::Parallel {
        return Ok(());
    }
    let place = ordinal(set, made);
    let mut before = owned(set, pods).filter(|pod| ordinal(set, pod) < place);
    match before.find(|pod| !pod.is_ready()) {
        Some(early) => Err(format!(
            "{}: {} was made before {} was ready",
            set.metadata.key(),
            made.metadata.name,
            early.metadata.name
        )),
        None => Ok(()),
    }
}

/// Claims of ordinals that the set no longer wants are gone, if they are to be deleted, and those that are to go with
/// the set belong to somebody.
pub fn claims_converged(
    set: &StatefulSet,
    claims: &[Arc<PersistentVolumeClaim>],
) -> Result<(), String> {
    let policy = &set.spec.persistent_volume_claim_retention_policy;
    if set.metadata.is_terminating() {
        return Ok(());
    }
    let (goes_with_pod, goes_with_set) = (
        policy.when_scaled == ClaimRetentionPolicy::Delete,
        policy.when_deleted == ClaimRetentionPolicy::Delete,
    );
    for template in claim_templates(set) {
        let prefix = format!("{template}-{}-", set.metadata.name);
        for claim in claims {
            let (meta, key) = (&claim.metadata, set.metadata.key());
            let place = meta.name.strip_prefix(&*prefix);
            let Some(place) = place.and_then(|digits| digits.parse::<i32>().ok()) else {
                continue;
            };
            let wanted = ordinals(set).contains(&place);
            if !wanted && goes_with_pod {
                return Err(format!("{key} no longer needs {} and keeps it", meta.name));
            }
            if wanted && goes_with_set && meta.owners.is_empty() {
                return Err(format!(
                    "{key} does not own {}, which is to go with it",
                    meta.name
                ));
            }
        }
    }
    Ok(())
}

/// A claim goes with its pod, if that is told so: `owner` has just become its controller. UPSTREAM: it does
/// not matter whether the pod is already on its way out, because then the claim is to go as well.
/// Holds as long as the controller has seen the set as it is.
pub fn claim_bound(
    set: &StatefulSet,
    claim: &PersistentVolumeClaim,
    owner: &OwnerRef,
) -> Result<(), String> {
    let name = &claim.metadata.name;
    let place = claim_templates(set).find_map(|template| {
        let rest = name.strip_prefix(&*format!("{template}-{}-", set.metadata.name))?;
        rest.parse::<i32>().ok()
    });
    let Some(place) = place else {
        return Ok(());
    };
    let policy = &set.spec.persistent_volume_claim_retention_policy;
    let wanted = ordinals(set).contains(&place);
    let rightly = match owner.kind.as_str() {
        "Pod" => {
            let is_its_pod = *owner.name == format!("{}-{place}", set.metadata.name);
            is_its_pod && !wanted && policy.when_scaled == ClaimRetentionPolicy::Delete
        }
        _ => policy.when_deleted == ClaimRetentionPolicy::Delete,
    };
    match rightly {
        true => Ok(()),
        false => Err(format!(
            "{}: {name} is to go with {} {}, which nobody asked for",
            set.metadata.key(),
            owner.kind,
            owner.name
        )),
    }
}

/// A pod is born with its own name, ordinal, revision and claims.
pub fn born_well(set: &StatefulSet, pod: &Pod) -> Result<(), String> {
    let name = &pod.metadata.name;
    let Some(place) = ordinal(set, pod) else {
        return Err(format!(
            "{name} is no name for a pod of {}",
            set.metadata.key()
        ));
    };
    let labels = &pod.metadata.labels;
    if labels.get("statefulset.kubernetes.io/pod-name") != Some(name) || revision(pod).is_empty() {
        return Err(format!("{name} does not carry its name and revision"));
    }
    for template in claim_templates(set) {
        let claim = claim_name(set, &template, place);
        if !pod
            .volumes()
            .iter()
            .any(|volume| volume.claim_name == *claim)
        {
            return Err(format!("{name} does not use its claim {claim}"));
        }
    }
    Ok(())
}

/// A rolling update of an ordered set takes one pod, and only when all others are there: `taken` was
/// deleted by the controller, `pods` are those after that.
///
/// Holds while nobody else touches the pods and `maxUnavailable` is not in use.
pub fn one_at_a_time(set: &StatefulSet, pods: &[Arc<Pod>], taken: &Pod) -> Result<(), String> {
    let policy = set.spec.pod_management_policy;
    let first = set
        .spec
        .ordinals
        .start
        .saturating_add(set.spec.update_strategy.partition);
    let kept =
        ordinal(set, taken).is_some_and(|place| place < first && ordinals(set).contains(&place));
    if kept && !taken.is_finished() {
        return Err(format!(
            "{} is below the partition and was taken",
            taken.metadata.name
        ));
    }
    let condemned = ordinal(set, taken).is_none_or(|place| !ordinals(set).contains(&place));
    let parallel = policy == PodManagement::Parallel;
    if parallel && condemned || set.spec.update_strategy.max_unavailable.is_some() {
        return Ok(());
    }
    // UPSTREAM: a set that is not ordered does not wait for pods beyond its end.
    let is_waited_for = |pod: &Pod| {
        let place = ordinal(set, pod);
        !parallel || place.is_some_and(|place| ordinals(set).contains(&place))
    };
    let mut others = owned(set, pods).filter(|pod| pod.metadata.uid != taken.metadata.uid);
    match others.find(|pod| pod.metadata.is_terminating() && is_waited_for(pod)) {
        Some(other) => Err(format!(
            "{}: {} was taken while {} was still going",
            set.metadata.key(),
            taken.metadata.name,
            other.metadata.name
        )),
        None => Ok(()),
    }
}

fn owned<'a>(set: &StatefulSet, pods: &'a [Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
    let uid = set.metadata.uid.clone();
    pods.iter()
        .filter(move |pod| pod.metadata.is_controlled_by(&uid))
}
