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
