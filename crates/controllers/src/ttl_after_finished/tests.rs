//! Verdicts first, then the whole against the embedded API server.

use std::time::Duration;

use api::kinds::Job;
use api::{Resource, Time};
use serde_json::{Value, json};
use testkit::World;

use super::{Verdict, check, controller};

fn verdict(ttl: Option<i32>, condition: Value, now: i64) -> Verdict {
    let json = json!({
        "metadata": {"name": "j"}, "spec": {"ttlSecondsAfterFinished": ttl},
        "status": {"conditions": [condition]},
    });
    let job = Job::decode(json.to_string().as_bytes()).unwrap();
    check(&job, Time::from_unix(now).micro())
}

fn ended(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "lastTransitionTime": Time::from_unix(100)})
}

// Upstream: TestTimeLeft.
#[test]
fn time_decides() {
    let later = |seconds| Verdict::Later(Duration::from_secs(seconds));
    let expired = |seconds| Verdict::Expired {
        since: Duration::from_secs(seconds),
    };
    assert_eq!(verdict(Some(10), ended("Complete", "True"), 105), later(5));
    assert_eq!(verdict(Some(10), ended("Failed", "True"), 110), expired(0));
    assert_eq!(
        verdict(Some(0), ended("Complete", "True"), 130),
        expired(30)
    );
    assert_eq!(
        verdict(Some(10), ended("Complete", "True"), 40),
        later(70),
        "a clock that is behind"
    );
    assert_eq!(
        verdict(None, ended("Complete", "True"), 999),
        Verdict::NotOurs
    );
    assert_eq!(
        verdict(Some(1), ended("Complete", "False"), 999),
        Verdict::NotOurs
    );
    assert_eq!(
        verdict(Some(1), ended("Suspended", "True"), 999),
        Verdict::NotOurs
    );
    let timeless = json!({"type": "Complete", "status": "True"});
    assert_eq!(verdict(Some(1), timeless, 999), Verdict::NoTime);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_when_its_time_is_over() {
    let mut world = World::new().await;
    let context = world.context();
    let decisions = context.decisions.clone();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {
            "ttlSecondsAfterFinished": 60,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
        },
    });
    world.create(&Job::TYPE, job).await;
    let now = world.clock.now().time();
    let status = json!({"status": {
        "startTime": now, "completionTime": now,
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
            {"type": "Complete", "status": "True", "lastTransitionTime": now},
        ],
    }});
    world
        .patch_subresource(&Job::TYPE, "j", Some("status"), status)
        .await;
    tokio::time::sleep(Duration::from_secs(55)).await;
    assert_eq!(world.written(), "");
    let told = decisions.get("test-controller", &api::Key::new("default", "j"));
    let due = api::Time::from_unix(now.unix() + 60);
    let expected = format!("is deleted at {due}: ttlSecondsAfterFinished has not passed");
    assert_eq!(
        told.last().map(|last| last.lines[0].to_string()).as_deref(),
        Some(&*expected)
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), "DELETE jobs/j");
    assert_eq!(writes[0].body["propagationPolicy"], "Foreground");
    assert!(writes[0].body["preconditions"]["uid"].is_string());
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}
