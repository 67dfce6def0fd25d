//! What must hold: always ([`safe`], [`counted_once`]), and once nothing changes any more ([`converged`]).

use std::sync::Arc;

use api::kinds::{Job, Pod};

use super::snapshot::is_tracked;

/// Nothing is left to do: the status says what the pods say, and no pod that ended is held in vain. How many
/// pods there should be is not asked: a job may wait to replace those that failed.
pub fn converged(job: &Job, pods: &[Arc<Pod>]) -> Result<(), String> {
    let key = job.metadata.key();
    if job.metadata.is_terminating() || job.external_manager().is_some() {
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
    // The last failed pod of an index waits for its replacement.
    let delays = !over && job.spec.backoff_limit_per_index.is_some();
    let held = own().find(|pod| is_tracked(pod) && (over || pod.is_finished() && !delays));
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
    use super::super::tests::round::{pod, snapshot};
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
        assert_eq!(told("backoffLimitPerIndex=1 | b:failed"), "");
        assert_eq!(told("uncounted=a"), "default/j has not counted 1 pods");
        assert_eq!(told("deleting active=5"), "");
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
}
