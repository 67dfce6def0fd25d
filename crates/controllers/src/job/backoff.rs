//! How long a job waits before it replaces a failed pod: 10 s, doubled with each failure since the last
//! success, 10 minutes at most.

use std::time::Duration;

use api::kinds::Pod;
use api::{MicroTime, Time};

/// Upstream's `DefaultJobPodFailureBackOff` and `MaxJobPodFailureBackOff`.
const FIRST: Duration = Duration::from_secs(10);
const MAX: Duration = Duration::from_secs(10 * 60);

/// What a job remembers of its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    pub failures_since_success: u32,
    pub last_failure: Option<Time>,
}

impl Backoff {
    /// With the pods that finished since.
    #[must_use]
    pub fn after(self, succeeded: &[&Pod], failed: &[&Pod]) -> Backoff {
        let last_success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let known = match last_success {
            Some(_) => Backoff::default(),
            None => self,
        };
        let later: Vec<Time> = failed
            .iter()
            .map(|pod| finished_at(pod))
            .filter(|at| last_success.is_none_or(|success| *at > success))
            .collect();
        let failures = u32::try_from(later.len()).unwrap_or(u32::MAX);
        Backoff {
            failures_since_success: known.failures_since_success.saturating_add(failures),
            last_failure: later.into_iter().max().or(known.last_failure),
        }
    }

    /// How long a replacement has to wait yet.
    pub fn wait(&self, now: MicroTime) -> Duration {
        match self.last_failure {
            Some(last) => wait(self.failures_since_success, last, now),
            None => Duration::ZERO,
        }
    }
}

/// How long after `failures`, the last of them at `last`.
pub fn wait(failures: u32, last: Time, now: MicroTime) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return Duration::ZERO;
    };
    // 2^6 times the first delay is past the maximum already.
    let delay = MAX.min(FIRST * (1 << doublings.min(6)));
    // A failure of the future, by another clock, waits longer.
    last.micro().plus(delay).since(now)
}

/// When a pod ended, as well as can be told: its containers know, else the Ready condition that went,
/// else the deletion.
pub fn finished_at(pod: &Pod) -> Time {
    let containers = pod.ended().and_then(|ended| ended.at);
    let status = &pod.status;
    let unready = status.ready_changed_at.filter(|_| !status.ready);
    let deleted = || {
        let meta = &pod.metadata;
        let grace = meta.deletion_grace_period_seconds.unwrap_or(0);
        let at = meta.deleted_at?.unix().saturating_sub(grace);
        Some(Time::from_unix(at))
    };
    containers
        .or(unready)
        .or_else(deleted)
        .unwrap_or(pod.metadata.created_at)
}

#[cfg(test)]
mod tests {
    use api::Resource;
    use serde_json::json;

    use super::super::tests::pure::{at, now, pod};
    use super::*;

    // Upstream: TestNewBackoffRecord.
    #[test]
    fn failures_since_the_last_success_count() {
        let pods = |text: &str| text.split_whitespace().map(pod).collect::<Vec<_>>();
        let after = |known: (u32, i64), succeeded: &str, failed: &str| {
            let (succeeded, failed) = (pods(succeeded), pods(failed));
            let known = Backoff {
                failures_since_success: known.0,
                last_failure: (known.0 > 0).then(|| at(known.1)),
            };
            let succeeded: Vec<&Pod> = succeeded.iter().map(|pod| &**pod).collect();
            let failed: Vec<&Pod> = failed.iter().map(|pod| &**pod).collect();
            let after = known.after(&succeeded, &failed);
            let ago = after.last_failure.map(|last| now().since(last).as_secs());
            (after.failures_since_success, ago)
        };
        assert_eq!(after((0, 0), "", ""), (0, None));
        assert_eq!(after((2, 30), "", ""), (2, Some(30)));
        assert_eq!(
            after((0, 0), "", "a:failed,ended=9 b:failed,ended=5"),
            (2, Some(5))
        );
        assert_eq!(after((2, 30), "", "a:failed,ended=9"), (3, Some(9)));
        assert_eq!(after((2, 30), "a:succeeded,ended=9", ""), (0, None));
        let failed = "a:failed,ended=20 b:failed,ended=5 c:failed,ended=9";
        assert_eq!(after((2, 30), "d:succeeded,ended=9", failed), (1, Some(5)));
        assert_eq!(after((0, 0), "d:succeeded,ended=1", failed), (0, None));
    }

    // Upstream: TestGetRemainingBackoffTime.
    #[test]
    fn the_wait_doubles_up_to_ten_minutes() {
        let waits = [0, 1, 2, 3, 6, 7, 8, 4_000_000_000]
            .map(|failures| wait(failures, at(0), now()).as_secs());
        assert_eq!(waits, [0, 10, 20, 40, 320, 600, 600, 600]);
        assert_eq!(wait(2, at(15), now()).as_secs(), 5);
        assert_eq!(wait(2, at(25), now()).as_secs(), 0);
        assert_eq!(wait(1, at(-5), now()).as_secs(), 15, "by another clock");
    }

    // Upstream: TestGetFinishedTime.
    #[test]
    fn the_exit_of_a_pod_is_described_as_far_as_known() {
        let ago = |facts: &str| {
            now()
                .since(finished_at(&pod(&format!("a:failed,{facts}"))))
                .as_secs()
        };
        assert_eq!(ago("exit=1,ended=7"), 3600, "its containers know best");
        assert_eq!(ago("ended=7"), 7);
        assert_eq!(ago("going"), 1);
        assert_eq!(ago(""), 3600, "when it was created");
        assert_eq!(ago("ready"), 3600, "a pod that is ready has not ended");
        assert_eq!(ago("ready,going"), 1);
        // A container that still runs, or does not say when it ended, leaves it to the others.
        let of = |grace: Option<i64>, states: &[&str], unready: bool| {
            let states = states.iter().map(|state| match *state {
                "running" => json!({"name": "c", "state": {"running": {}}}),
                "undated" => json!({"name": "c", "state": {"terminated": {"exitCode": 1}}}),
                seconds => {
                    let at = at(seconds.parse().unwrap());
                    json!({"name": "c", "state": {"terminated": {"exitCode": 0, "finishedAt": at}}})
                }
            });
            let conditions = match unready {
                true => json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(7)}]),
                false => json!([]),
            };
            let pod = json!({
                "metadata": {
                    "name": "a", "creationTimestamp": at(3600),
                    "deletionTimestamp": grace.map(|_| at(40)), "deletionGracePeriodSeconds": grace,
                },
                "spec": {"restartPolicy": "Never"},
                "status": {"phase": "Failed", "containerStatuses": states.collect::<Vec<_>>(), "conditions": conditions},
            });
            let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
            now().since(finished_at(&pod)).as_secs()
        };
        assert_eq!(of(None, &["21", "20", "22"], true), 20, "the last of them");
        assert_eq!(of(Some(0), &["21", "running", "22"], false), 40);
        assert_eq!(of(Some(0), &["running"], false), 40);
        assert_eq!(
            of(Some(30), &["running"], false),
            70,
            "when it was asked to"
        );
        assert_eq!(of(Some(0), &["undated"], true), 7);
        assert_eq!(of(Some(0), &["undated"], false), 40);
        assert_eq!(of(None, &["undated"], false), 3600);
    }
}
