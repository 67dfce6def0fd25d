//! Pods that were announced to go and did not. Upstream: TestStalePodDisruption, row by row.

use std::time::Duration;

use api::kinds::Pod;
use api::{Resource, Time};
use serde_json::{Value, json};

use super::super::stale_after;
use super::{pod, running};

const NOW: i64 = 1_000_000;

/// How many seconds until the condition is stale.
fn check(metadata: Value, phase: &str, condition: Value) -> Option<u64> {
    let pod = json!({"metadata": metadata, "status": {"phase": phase, "conditions": [condition]}});
    let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
    stale_after(&pod, Time::from_unix(NOW).micro()).map(|wait| wait.as_secs())
}

#[test]
fn only_what_is_still_announced_gets_stale() {
    let since = |seconds: i64| json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": Time::from_unix(NOW - seconds)});
    let plain = json!({"name": "a"});
    assert_eq!(check(plain.clone(), "Running", since(121)), Some(0));
    assert_eq!(check(plain.clone(), "Running", since(119)), Some(1));
    assert_eq!(check(plain.clone(), "Succeeded", since(121)), None);
    let deleting = json!({"name": "a", "deletionTimestamp": "2024-01-01T00:00:00Z"});
    assert_eq!(check(deleting, "Running", since(121)), None);
    let cleared = json!({"type": "DisruptionTarget", "status": "False"});
    assert_eq!(check(plain.clone(), "Running", cleared), None);
    let other = json!({"type": "Ready", "status": "True"});
    assert_eq!(check(plain.clone(), "Running", other), None);
    let mut kubelets = since(121);
    kubelets["reason"] = json!("TerminationByKubelet");
    assert_eq!(check(plain.clone(), "Running", kubelets), None);
    let timeless = json!({"type": "DisruptionTarget", "status": "True"});
    assert_eq!(check(plain.clone(), "Running", timeless), Some(0));
    assert_eq!(
        check(plain, "Running", since(-1_000_000_000)),
        Some(1_000_000_120)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_condition_is_taken_back_once() {
    let world = running().await;
    pod(&world, "a", None).await;
    let announced = json!({"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m", "lastTransitionTime": world.clock.now().time()},
    ]});
    world.pod_status("a", announced).await;
    tokio::time::sleep(Duration::from_secs(118)).await;
    assert_eq!(world.written(), "");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    let held = world.get(&Pod::TYPE, "a").await.unwrap();
    let condition = &held["status"]["conditions"][1];
    assert_eq!(
        writes[0].body["status"],
        json!({"conditions": [{
            "type": "DisruptionTarget", "status": "False", "reason": null, "message": null, "lastProbeTime": null,
            "lastTransitionTime": condition["lastTransitionTime"], "observedGeneration": held["metadata"]["generation"],
        }]})
    );
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &Value::Null)
    );
    world.wait_until_idle().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.written(), "");
}
