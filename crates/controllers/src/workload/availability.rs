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

/// How long from `now` until the status has to be computed again, if it was computed at `computed_at`:
/// writing it takes time, and the pods do not wait for that.
pub fn next_check<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    computed_at: MicroTime,
    now: MicroTime,
) -> Option<Duration> {
    let wait = next_availability(pods, min_ready_seconds, computed_at)?;
    Some(wait.saturating_sub(now.since(computed_at)))
}

/// How long until the next ready pod becomes available, or may have: where `unsure`, a pod is ready and not available.
pub fn wait<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    unsure: bool,
    computed_at: MicroTime,
    now: MicroTime,
) -> Option<Duration> {
    if min_ready_seconds <= 0 {
        return None;
    }
    let next = next_check(pods, min_ready_seconds, computed_at, now);
    let latest = Duration::from_secs(min_ready_seconds.unsigned_abs().into());
    next.or(unsure.then_some(latest))
}

/// The enqueue-up that an update of a pod asks for: it just became ready, and time has to pass.
pub fn after_becoming_ready(min_ready_seconds: i32, old: &Pod, new: &Pod) -> Option<Duration> {
    let wait = u64::try_from(min_ready_seconds)
        .ok()
        .filter(|wait| *wait > 0)?;
    (!old.is_ready() && new.is_ready()).then(|| Duration::from_secs(wait))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Resource, Time};

    /// Seconds since each pod became ready; `None` for one that is not.
    fn pods(ready: &[Option<i64>]) -> Vec<Pod> {
        let pod = |ready: &Option<i64>| {
            let condition = serde_json::json!({
                "type": "Ready",
                "status": if ready.is_some() { "True" } else { "False" },
                "lastTransitionTime": Time::from_unix(100 - ready.unwrap_or(0)),
            });
            let pod = serde_json::json!({"status": {"conditions": [condition]}});
            Pod::decode(pod.to_string().as_bytes()).unwrap()
        };
        ready.iter().map(pod).collect()
    }

    // Upstream: TestFindMinNextPodAvailabilitySimpleCheck, TestFindMinNextPodAvailability.
    #[test]
    fn the_next_sync_is_when_the_first_ready_pod_becomes_available() {
        let mixed = [None, Some(2), Some(0), Some(4), None];
        let check = |ready: &[Option<i64>], min_ready, delay, expected: Option<u64>| {
            let at = |seconds: i64| Time::from_unix(100 + seconds).micro();
            let found = next_check(&pods(ready), min_ready, at(0), at(delay));
            let expected = expected.map(Duration::from_secs);
            assert_eq!(found, expected, "{ready:?} {min_ready} {delay}");
        };
        check(&[], 0, 0, None);
        check(&[None, None], 0, 0, None);
        check(&[Some(0), Some(0)], 0, 0, None);
        check(&mixed, 10, 0, Some(6));
        check(&[None, Some(15), Some(11), Some(10), None], 10, 0, None);
        // The status took its time.
        check(&mixed, 10, 2, Some(4));
        check(&mixed, 10, 7, Some(0));
    }
}
