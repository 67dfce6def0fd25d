//! What must hold: always ([`safe`], [`born_well`], [`goes_forward`], [`counted_once`], [`finalizer_removed`]), and once
//! nothing changes any more ([`converged`], [`reported()`], [`came_to_an_end`]).

mod ended;
mod reported;

use std::sync::Arc;

use api::Gates;
use api::kinds::{Job, Phase, Pod};

use super::assess::all_failures;
use super::backoff::finished_at;
use super::indexes::{Indexes, valid_index};
use super::snapshot::is_tracked;
use super::status::COMPLETE;
pub use ended::Ends;
pub use reported::{Seen, reported};

/// Nothing is left to do: the status says what the pods say, and no pod that ended is held in vain. How many
/// pods there should be is not asked: a job may wait to replace those that failed.
pub fn converged(job: &Job, pods: &[Arc<Pod>]) -> Result<(), String> {
    let key = job.metadata.key();
    if job.metadata.is_terminating() || job.external_manager(Gates::default()).is_some() {
        return Ok(());
    }
    let own = || own(job, pods);
    let over = job.finished().is_some();
    let active = own().filter(|pod| pod.is_active()).count();
    if usize::try_from(job.status.active) != Ok(active) {
        let said = job.status.active;
        return Err(format!(
            "{key}: status says {said} active pods, there are {active}"
        ));
    }
    if active > 0 && (over || job.spec.suspend) {
        return Err(format!(
            "{key} is over or suspended and has {active} active pods"
        ));
    }
    let in_vain = |pod: &Pod| over || pod.is_finished() && !awaits_successor(job, pods, pod);
    let held = own().find(|pod| is_tracked(pod) && in_vain(pod));
    if let Some(held) = held {
        return Err(format!("{key} still holds {}", held.metadata.name));
    }
    let uncounted = job.status.uncounted_terminated_pods.as_ref();
    let uncounted = uncounted.map_or(0, |held| held.succeeded.len() + held.failed.len());
    if uncounted > 0 {
        return Err(format!("{key} has not counted {uncounted} pods"));
    }
    Ok(())
}

/// The last failed pod of an index that may be tried again is held until its replacement is there, and knows how often
/// the index has failed.
pub fn awaits_successor(job: &Job, pods: &[Arc<Pod>], pod: &Pod) -> bool {
    let limited = job.spec.backoff_limit_per_index.is_some() && job.finished().is_none();
    let index = valid_index(job, pod).filter(|_| limited && pod.status.phase == Phase::Failed);
    let Some(index) = index else {
        return false;
    };
    let holds = |text: &str| Indexes::parse(text, job.index_count()).contains(index);
    let failed = job.status.failed_indexes.as_deref();
    let has_ended = holds(&job.status.completed_indexes) || failed.is_some_and(holds);
    let (failures, at) = (all_failures(pod), finished_at(pod));
    let follows = |other: &Pod| {
        let (others_failures, others_at) = (all_failures(other), finished_at(other));
        let is_later = (others_failures, others_at) != (failures, at);
        let is_last = is_later && others_failures >= failures && others_at >= at;
        other.is_active() || is_tracked(other) && is_last
    };
    let mut others = own(job, pods).filter(|other| valid_index(job, other) == Some(index));
    !has_ended && !others.any(|other| follows(other))
}

/// A job that may run does not wait forever: it is over, or has nothing to do.
pub fn came_to_an_end(job: &Job) -> Result<(), String> {
    let key = job.metadata.key();
    let idle = job.spec.suspend || job.parallelism() == 0;
    let Some(end) = job.finished() else {
        return match idle
            || job.metadata.is_terminating()
            || job.external_manager(Gates::default()).is_some()
        {
            true => Ok(()),
            false => Err(format!("{key} does not come to an end")),
        };
    };
    // A policy may call less a success, and what others write into the status is their own affair.
    let reached = job.spec.success_policy.is_some()
        || job
            .spec
            .completions
            .is_none_or(|all| job.status.succeeded >= all);
    match *end.type_ == *COMPLETE && end.reason == "CompletionsReached" && !reached {
        true => Err(format!(
            "{key} is complete with {} successes",
            job.status.succeeded
        )),
        false => Ok(()),
    }
}

/// A pod is made only for a job that is not over, and for an index that nobody works on.
pub fn born_well(job: &Job, pods: &[Arc<Pod>], pod: &Pod) -> Result<(), String> {
    let (key, name) = (job.metadata.key(), &pod.metadata.name);
    if let Some(end) = job.finished() {
        return Err(format!("{key} is {} and makes {name}", end.type_));
    }
    // Once it has said so it cannot have overlooked it.
    let suspended = api::conditions::find(&job.status.conditions, "Suspended");
    if job.spec.suspend && suspended.is_some_and(|condition| condition.is_true()) {
        return Err(format!("{key} is suspended and makes {name}"));
    }
    let Some(index) = valid_index(job, pod).filter(|_| job.is_indexed()) else {
        return Ok(());
    };
    let twin = own(job, pods).find(|other| {
        other.metadata.uid != pod.metadata.uid
            && other.is_active()
            && valid_index(job, other) == Some(index)
    });
    match twin {
        Some(twin) => {
            let twin = &twin.metadata.name;
            Err(format!("{key} has {twin} and {name} for index {index}"))
        }
        None => Ok(()),
    }
}

/// What is counted stays counted, and what is over stays over. `before` and `after` are the same job. Indexes
/// beyond the end of a job that was made shorter count no more.
pub fn goes_forward(before: &Job, after: &Job) -> Result<(), String> {
    let key = after.metadata.key();
    let shortened = before.spec.completions != after.spec.completions
        || after.is_indexed() && after.spec.completions < Some(before.status.succeeded);
    let counts = [
        (
            "succeeded",
            before.status.succeeded,
            after.status.succeeded,
            shortened,
        ),
        ("failed", before.status.failed, after.status.failed, false),
    ];
    for (what, was, is, excused) in counts {
        if is < was && !excused {
            return Err(format!("{key}: {what} went from {was} back to {is}"));
        }
    }
    let end = |job: &Job| job.finished().map(|end| end.type_.clone());
    match end(before) {
        Some(was) if end(after).as_ref() != Some(&was) => {
            Err(format!("{key} was {was} and is no longer"))
        }
        _ => Ok(()),
    }
}

/// A success is written down before the finalizer is removed from the pod that has it: after a crash in between it can still be counted.
/// Of an indexed job the index is enough.
pub fn finalizer_removed(job: &Job, pod: &Pod) -> Result<(), String> {
    let is_success = pod.status.phase == Phase::Succeeded;
    let over = job.metadata.is_terminating() || job.finished().is_some();
    if !is_success || over || job.is_indexed() || job.spec.suspend {
        return Ok(());
    }
    let uncounted = job.status.uncounted_terminated_pods.as_ref();
    let written = uncounted.is_some_and(|held| {
        let uid = &pod.metadata.uid;
        held.succeeded.contains(uid) || held.failed.contains(uid)
    });
    match written {
        true => Ok(()),
        false => {
            let (key, name) = (job.metadata.key(), &pod.metadata.name);
            Err(format!(
                "{key} removes the finalizer from {name} before it has noted that it succeeded"
            ))
        }
    }
}

/// Does the pod wait to be counted?
pub fn is_held(pod: &Pod) -> bool {
    is_tracked(pod)
}

/// Never more active pods than it ever wanted at once: expectations keep a stale view from adding any.
pub fn safe(job: &Job, pods: &[Arc<Pod>], most_parallelism: i32) -> Result<(), String> {
    let active = own(job, pods).filter(|pod| pod.is_active()).count();
    let most = usize::try_from(most_parallelism.max(job.parallelism())).unwrap_or(0);
    if active > most {
        let key = job.metadata.key();
        return Err(format!(
            "{key} has {active} active pods and never wanted more than {most}"
        ));
    }
    Ok(())
}

/// No success is counted twice: `succeeded` pods of the job have ever succeeded.
pub fn counted_once(job: &Job, succeeded: usize) -> Result<(), String> {
    let uncounted = job.status.uncounted_terminated_pods.as_ref();
    let counted = usize::try_from(job.status.succeeded).unwrap_or(0)
        + uncounted.map_or(0, |held| held.succeeded.len());
    if counted > succeeded {
        let key = job.metadata.key();
        return Err(format!("{key} counts {counted} successes of {succeeded}"));
    }
    Ok(())
}

fn own<'a>(job: &Job, pods: &'a [Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
    let uid = job.metadata.uid.clone();
    pods.iter()
        .filter(move |pod| pod.metadata.is_controlled_by(&uid))
}

#[cfg(test)]
mod tests {
    use super::super::tests::pure::{pod, snapshot};
    use super::*;

    /// The job of these words, and pods that it controls.
    fn given(text: &str) -> (Arc<Job>, Vec<Arc<Pod>>) {
        let (words, pods) = text.split_once('|').unwrap_or((text, ""));
        let job = snapshot(words).job;
        let owner = api::OwnerRef {
            uid: job.metadata.uid.clone(),
            controller: Some(true),
            ..api::OwnerRef::default()
        };
        let owners = api::meta::intern_owners(vec![owner]);
        let owned = |text: &str| {
            let mut pod = pod(text);
            Arc::make_mut(&mut pod).metadata.owners = owners.clone();
            pod
        };
        let pods = pods.split_whitespace().map(owned).collect();
        (job, pods)
    }

    #[test]
    fn a_job_at_rest_says_what_its_pods_say() {
        let told = |text: &str| {
            let (job, pods) = given(text);
            converged(&job, &pods).err().unwrap_or_default()
        };
        assert_eq!(told("active=1 | a:running b:succeeded,free"), "");
        assert_eq!(told("condition=Complete | a:succeeded,free"), "");
        let lies = "default/j: status says 2 active pods, there are 1";
        assert_eq!(told("active=2 | a:running"), lies);
        let runs = "default/j is over or suspended and has 1 active pods";
        assert_eq!(told("condition=Failed active=1 | a:running"), runs);
        assert_eq!(told("suspend active=1 | a:running"), runs);
        assert_eq!(told("| b:succeeded"), "default/j still holds b");
        let going = "condition=Failed | b:running,going";
        assert_eq!(told(going), "default/j still holds b");
        assert_eq!(told("uncounted=a"), "default/j has not counted 1 pods");
        assert_eq!(told("deleting active=5"), "");
    }

    #[test]
    fn the_last_failed_pod_of_an_index_waits_for_its_successor() {
        let told = |words: &str, pods: &str| {
            let limit = "indexed completions=2 backoffLimitPerIndex=1";
            let (job, pods) = given(&format!("{limit} {words} | {pods}"));
            converged(&job, &pods).err().unwrap_or_default()
        };
        let held = "default/j still holds b";
        assert_eq!(told("", "b:failed,ix=0"), "");
        assert_eq!(told("parallelism=0", "b:failed,going,ix=0"), "");
        assert_eq!(told("active=1", "a:running,ix=1 b:failed,ix=0"), "");
        assert_eq!(told("active=1", "a:running,ix=0 b:failed,ix=0"), held);
        assert_eq!(told("", "b:failed,ix=0 c:failed,ix=0,failures=1"), held);
        assert_eq!(told("completed=0", "b:failed,ix=0"), held);
        assert_eq!(told("failedIndexes=0", "b:failed,ix=0"), held);
        assert_eq!(told("", "b:succeeded,ix=0"), held);
        assert_eq!(told("", "b:failed"), held, "it has no index");
        assert_eq!(told("condition=Failed", "b:failed,ix=0"), held);
    }

    #[test]
    fn a_job_never_runs_or_counts_too_many() {
        let (job, pods) = given("parallelism=1 succeeded=2 uncounted=x | a:running b:running");
        assert!(safe(&job, &pods, 2).is_ok());
        let error = safe(&job, &pods, 1).unwrap_err();
        assert_eq!(
            error,
            "default/j has 2 active pods and never wanted more than 1"
        );
        assert!(counted_once(&job, 3).is_ok());
        let error = counted_once(&job, 2).unwrap_err();
        assert_eq!(error, "default/j counts 3 successes of 2");
    }

    #[test]
    fn a_job_comes_to_an_end_unless_it_may_not_run() {
        let told = |text: &str| came_to_an_end(&given(text).0).err().unwrap_or_default();
        assert_eq!(told("active=1"), "default/j does not come to an end");
        assert_eq!(told("suspend"), "");
        assert_eq!(told("parallelism=0"), "");
        assert_eq!(told("deleting"), "");
        assert_eq!(told("condition=Failed completions=2"), "");
        let mut job = (*given("condition=Complete completions=2 succeeded=1").0).clone();
        assert_eq!(came_to_an_end(&job), Ok(()), "somebody else said so");
        job.status.conditions[0].reason = "CompletionsReached".into();
        let error = came_to_an_end(&job).unwrap_err();
        assert_eq!(error, "default/j is complete with 1 successes");
    }

    #[test]
    fn a_pod_is_born_to_a_job_that_needs_it() {
        let told = |text: &str| {
            let (job, pods) = given(text);
            let born = pods.last().expect("the last one is new").clone();
            born_well(&job, &pods, &born).err().unwrap_or_default()
        };
        assert_eq!(told("| a:running b:pending"), "");
        let over = "default/j is Complete and makes b";
        assert_eq!(told("condition=Complete | b:pending"), over);
        let suspended = "default/j is suspended and makes b";
        assert_eq!(told("suspend condition=Suspended | b:pending"), suspended);
        assert_eq!(told("condition=Suspended | b:pending"), "", "resumed");
        let indexed = |pods: &str| told(&format!("indexed completions=3 | {pods}"));
        assert_eq!(indexed("a:running,ix=0 b:pending,ix=1"), "");
        assert_eq!(indexed("a:failed,ix=1 b:pending,ix=1"), "");
        assert_eq!(indexed("a:running,going,ix=1 b:pending,ix=1"), "");
        let twice = "default/j has a and b for index 1";
        assert_eq!(indexed("a:running,ix=1 b:pending,ix=1"), twice);
    }

    #[test]
    fn what_is_counted_stays_counted() {
        let told = |before: &str, after: &str| {
            let (before, after) = (given(before).0, given(after).0);
            goes_forward(&before, &after).err().unwrap_or_default()
        };
        assert_eq!(told("succeeded=1 failed=1", "succeeded=2 failed=1"), "");
        let lost = "default/j: succeeded went from 2 back to 1";
        assert_eq!(told("succeeded=2", "succeeded=1"), lost);
        let lost = "default/j: failed went from 1 back to 0";
        assert_eq!(told("failed=1", "failed=0"), lost);
        let shorter = "indexed completions=1 succeeded=1";
        assert_eq!(told("indexed completions=3 succeeded=2", shorter), "");
        let risen = "default/j was Failed and is no longer";
        assert_eq!(told("condition=Failed", "condition=Complete"), risen);
        assert_eq!(told("condition=FailureTarget", "condition=Failed"), "");
    }

    #[test]
    fn no_success_is_finalizer_removed_uncounted() {
        let told = |text: &str| {
            let (job, pods) = given(text);
            finalizer_removed(&job, &pods[0]).err().unwrap_or_default()
        };
        assert_eq!(told("uncounted=a | a:succeeded"), "");
        assert_eq!(told("| a:failed"), "");
        assert_eq!(told("condition=Complete | a:succeeded"), "");
        assert_eq!(told("indexed completions=1 | a:succeeded,ix=0"), "");
        let early = "default/j removes the finalizer from a before it has noted that it succeeded";
        assert_eq!(told("| a:succeeded"), early);
    }
}
