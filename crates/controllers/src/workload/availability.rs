//! When the next pod becomes available if nothing else happens.

use std::time::Duration;

use api::MicroTime;
use api::kinds::Pod;

/// The shortest wait until one of the ready pods has been ready for `min_ready_seconds`.
pub fn next_availability<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: MicroTime,
) -> Option<Duration> {
    pods.into_iter()
        .filter_map(|pod| pod.until_available(min_ready_seconds, now))
        .filter(|wait| !wait.is_zero())
        .min()
}

/// The wake-up that an update of a pod asks for: it just became ready, and time has to pass.
pub fn after_becoming_ready(min_ready_seconds: i32, old: &Pod, new: &Pod) -> Option<Duration> {
    let wait = u64::try_from(min_ready_seconds)
        .ok()
        .filter(|wait| *wait > 0)?;
    (!old.is_ready() && new.is_ready()).then(|| Duration::from_secs(wait))
}
