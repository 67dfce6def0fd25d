//! What requests are answered, and when they go.

use std::sync::Arc;
use std::time::Duration;

use api::kinds::{
    ResourceClaim, ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec, ResourceSlice,
};
use api::{MicroTime, Resource, Time};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use testkit::World;

use super::controller;
use super::plan::{is_expired, plan};

/// `driver/pool@generation:devices/expected[node]`, such as `d/p@1:2/1n`.
fn slice(text: &str) -> Value {
    let (pool, rest) = text.split_once('@').unwrap();
    let (driver, pool) = pool.split_once('/').unwrap();
    let (generation, rest) = rest.split_once(':').unwrap();
    let (devices, rest) = rest.split_once('/').unwrap();
    let (expected, node) = rest.split_at(1);
    let devices: Vec<Value> = (0..devices.parse::<usize>().unwrap())
        .map(|at| json!({"name": format!("d{at}")}))
        .collect();
    let mut spec = json!({
        "driver": driver, "devices": devices,
        "pool": {
            "name": pool, "generation": generation.parse::<i64>().unwrap(),
            "resourceSliceCount": expected.parse::<i64>().unwrap(),
        },
    });
    match node {
        "" => spec["allNodes"] = true.into(),
        node => spec["nodeName"] = node.into(),
    }
    let name: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn decode<K: Resource>(object: &Value) -> Arc<K> {
    Arc::new(K::decode(object.to_string().as_bytes()).unwrap())
}

fn spec(pool: Option<&str>, limit: Option<i32>) -> ResourcePoolStatusRequestSpec {
    ResourcePoolStatusRequestSpec {
        driver: "d".into(),
        pool_name: pool.map(Into::into),
        limit,
    }
}

fn check(asked: &ResourcePoolStatusRequestSpec, slices: &str, claims: &[&str], expected: Expect) {
    let slices: Vec<Arc<ResourceSlice>> = slices
        .split_whitespace()
        .map(|text| decode(&slice(text)))
        .collect();
    let claims: Vec<Arc<ResourceClaim>> = claims
        .iter()
        .map(|pools| {
            let results: Vec<Value> = pools
                .split_whitespace()
                .map(|pool| json!({"driver": "d", "pool": pool, "device": "x"}))
                .collect();
            decode(&json!({
                "metadata": {"name": "c"},
                "status": {"allocation": {"devices": {"results": results}}},
            }))
        })
        .collect();
    let answer = plan(asked, &slices, &claims);
    let status = answer.status(Time::from_unix(1_767_225_600));
    let pools = status["pools"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = pools
        .map(|pool| {
            let number = |name: &str| pool[name].as_i64().unwrap_or(-1);
            match pool["validationError"].as_str() {
                Some(error) => format!("{} {error}", pool["poolName"].as_str().unwrap()),
                None => format!(
                    "{}@{} on {}: {} slices, {} = {} + {}",
                    pool["poolName"].as_str().unwrap(),
                    number("generation"),
                    pool["nodeName"].as_str().unwrap_or("-"),
                    number("resourceSliceCount"),
                    number("totalDevices"),
                    number("allocatedDevices"),
                    number("availableDevices"),
                ),
            }
        })
        .collect();
    lines.push(format!("{} in all", status["poolCount"]));
    expected.assert_eq(&lines.join("\n"));
}

// Upstream: TestCalculatePoolStatus.
#[test]
fn pools_are_counted_in_their_latest_generation() {
    let all = spec(None, None);
    check(&all, "", &[], expect!["0 in all"]);
    check(&all, "other/p@1:2/1", &[], expect!["0 in all"]);
    check(
        &all,
        "d/q@1:1/1 d/p@1:2/2n d/p@1:3/2n",
        &["p p", "q"],
        expect![[r#"
            p@1 on n: 2 slices, 5 = 2 + 3
            q@1 on -: 1 slices, 1 = 1 + 0
            2 in all"#]],
    );
    // Older generations are on their way out; nodes that differ are none.
    check(
        &all,
        "d/p@1:9/2n d/p@2:1/2n d/p@2:1/2m",
        &["p p p"],
        expect![[r#"
            p@2 on -: 2 slices, 2 = 3 + 0
            1 in all"#]],
    );
    check(
        &spec(Some("p"), None),
        "d/q@1:1/1 d/p@1:2/1",
        &[],
        expect![[r#"
            p@1 on -: 1 slices, 2 = 0 + 2
            1 in all"#]],
    );
    check(
        &spec(None, Some(1)),
        "d/q@1:1/1 d/p@1:2/1",
        &[],
        expect![[r#"
            p@1 on -: 1 slices, 2 = 0 + 2
            2 in all"#]],
    );
    check(
        &all,
        "d/p@3:2/2",
        &[],
        expect![[r#"
            p pool d/p is incomplete: observed 1/2 slices at generation 3
            1 in all"#]],
    );
}

fn request(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": name}, "spec": {"driver": "d.example.com"},
    })
}

fn published(number: i64, expected: i64) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("s{number}")},
        "spec": {
            "driver": "d.example.com", "allNodes": true, "devices": [{"name": "d"}],
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": expected},
        },
    })
}

async fn running() -> (World, runtime::Metrics) {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    (world, context.metrics)
}

// Upstream: TestSyncRequest, TestSkipProcessedRequest, TestRequestsProcessed, TestRequestProcessingDuration.
#[tokio::test(start_paused = true)]
async fn a_request_is_answered_once() {
    let (world, metrics) = running().await;
    world.create(&ResourceSlice::TYPE, published(0, 1)).await;
    world
        .create(&ResourcePoolStatusRequest::TYPE, request("r"))
        .await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].to_string(),
        "PATCH resourcepoolstatusrequests/r/status"
    );
    let status = &writes[0].body["status"];
    assert_eq!(
        status["pools"],
        json!([{
            "driver": "d.example.com", "poolName": "p", "generation": 1, "resourceSliceCount": 1, "totalDevices": 1,
            "allocatedDevices": 0, "availableDevices": 1, "unavailableDevices": 0,
        }])
    );
    assert_eq!(
        status["conditions"][0]["message"],
        "Calculated status for 1 pools"
    );
    world.create(&ResourceSlice::TYPE, published(1, 1)).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    let text = metrics.render();
    let counted = r#"resourcepoolstatusrequest_controller_requests_processed_total{driver_name="d.example.com"} 1"#;
    assert!(text.contains(counted), "{text}");
}

// Upstream: TestSyncRequestRequeuesIncompletePool.
#[tokio::test(start_paused = true)]
async fn a_pool_that_is_incomplete_is_waited_for() {
    let (world, _) = running().await;
    world.create(&ResourceSlice::TYPE, published(0, 2)).await;
    world
        .create(&ResourcePoolStatusRequest::TYPE, request("r"))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.written(), "");
    world.create(&ResourceSlice::TYPE, published(1, 2)).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PATCH resourcepoolstatusrequests/r/status");
}

// Upstream: TestRequestProcessingErrors.
#[tokio::test(start_paused = true)]
async fn a_refused_answer_is_counted_and_tried_again() {
    let (world, metrics) = running().await;
    world.refuse("PATCH", "resourcepoolstatusrequests/r/status", 500, 1);
    world
        .create(&ResourcePoolStatusRequest::TYPE, request("r"))
        .await;
    world.wait_until_idle().await;
    let held = world
        .get(&ResourcePoolStatusRequest::TYPE, "r")
        .await
        .unwrap();
    assert_eq!(held["status"]["poolCount"], 0);
    let text = metrics.render();
    let counted = r#"request_processing_errors_total{driver_name="d.example.com"} 1"#;
    assert!(text.contains(counted), "{text}");
}

// Upstream: TestCleanupExpiredRequests.
#[tokio::test(start_paused = true)]
async fn requests_that_are_too_old_are_deleted() {
    let (world, _) = running().await;
    world
        .create(&ResourcePoolStatusRequest::TYPE, request("answered"))
        .await;
    world.wait_until_idle().await;
    world.create(&ResourceSlice::TYPE, published(0, 2)).await;
    world
        .create(&ResourcePoolStatusRequest::TYPE, request("pending"))
        .await;
    tokio::time::sleep(Duration::from_secs(3500)).await;
    assert_eq!(world.list(&ResourcePoolStatusRequest::TYPE).await.len(), 2);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert_eq!(world.list(&ResourcePoolStatusRequest::TYPE).await.len(), 1);
    tokio::time::sleep(Duration::from_secs(22 * 3600)).await;
    assert_eq!(world.list(&ResourcePoolStatusRequest::TYPE).await.len(), 1);
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(world.list(&ResourcePoolStatusRequest::TYPE).await.len(), 0);
}

// Upstream: TestShouldDeleteRequest, TestIsOlderThan.
#[test]
fn a_request_is_too_old_an_hour_after_its_answer_or_after_a_day() {
    let expired = |status: Value, hours: u64| {
        let mut object = request("r");
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["status"] = status;
        let request = decode::<ResourcePoolStatusRequest>(&object);
        let created = MicroTime::parse("2026-01-01T00:00:00Z").unwrap();
        is_expired(
            &request,
            created.plus(Duration::from_secs(hours * 3600 + 1)),
        )
    };
    let done = |kind: &str| {
        json!({"conditions": [{
            "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T05:00:00Z", "reason": "r", "message": "",
        }]})
    };
    assert!(!expired(Value::Null, 23) && expired(Value::Null, 24));
    for kind in ["Complete", "Failed"] {
        assert!(!expired(done(kind), 5) && expired(done(kind), 6), "{kind}");
    }
    assert!(!expired(json!({}), 0) && expired(json!({}), 1));
}
