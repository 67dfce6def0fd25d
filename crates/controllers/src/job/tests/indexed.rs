//! Jobs whose pods have an index each.

use std::time::Duration;

use api::Resource;
use api::kinds::{Job, Pod};
use expect_test::expect;
use serde_json::{Value, json};

use super::scenario::{Scenario, job};

fn indexed(completions: i32, parallelism: i32) -> Value {
    json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism})
}

fn with(mut spec: Value, more: Value) -> Value {
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

/// `index: failures` of the pods that are not held in vain.
async fn indexes(scenario: &Scenario) -> String {
    let pods = scenario.world.list(&Pod::TYPE).await;
    let mut told: Vec<String> = pods
        .iter()
        .map(|pod| {
            let noted = |key: &str| {
                let key = format!("batch.kubernetes.io/job-{key}");
                pod["metadata"]["annotations"][&key]
                    .as_str()
                    .unwrap_or("-")
                    .to_owned()
            };
            let phase = pod["status"]["phase"].as_str().unwrap();
            format!(
                "{}:{phase}:{}",
                noted("completion-index"),
                noted("index-failure-count")
            )
        })
        .collect();
    told.sort();
    told.join(" ")
}

// Upstream: TestAddCompletionIndexEnvVariable, TestIndexedJob (integration).
#[tokio::test(start_paused = true)]
async fn a_pod_knows_its_index() {
    let scenario = Scenario::begin().await;
    let mut made = job(indexed(2, 1));
    made["metadata"]["name"] = json!("a-name-that-is-so-long-that-generated-names-have-no-room");
    scenario.world.create(&Job::TYPE, made).await;
    scenario.world.wait_until_idle().await;
    let writes = scenario.world.writes();
    let body = &writes[0].body;
    let meta = &body["metadata"];
    assert_eq!(
        meta["generateName"],
        "a-name-that-is-so-long-that-generated-names-have-no-roo-0-"
    );
    let key = "batch.kubernetes.io/job-completion-index";
    assert_eq!(meta["annotations"], json!({key: "0"}));
    assert_eq!(meta["labels"][key], "0");
    let spec = &body["spec"];
    assert_eq!(
        spec["hostname"],
        "a-name-that-is-so-long-that-generated-names-have-no-room-0"
    );
    let path = format!("metadata.labels['{key}']");
    let variable =
        json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    assert_eq!(spec["containers"][0]["env"], json!([variable]));
    assert_eq!(spec["initContainers"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn every_index_succeeds_once() {
    let mut scenario = Scenario::begin().await;
    let told = scenario.create(indexed(4, 2)).await;
    expect![[r#"
        POST pods
        POST pods
        PUT jobs/j/status active=2 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    scenario.exit(2, 0).await;
    expect![[r#"
        POST pods
        PUT jobs/j/status active=2 completedIndexes=1 ready=0 start=00:00 succeeded=1 terminating=0
        PATCH pods/p2 lets go"#]]
    .assert_eq(&scenario.tell().await);
    scenario.exit(1, 0).await;
    scenario.exit(3, 0).await;
    expect![[r#"
        POST pods
        PUT jobs/j/status active=1 completedIndexes=0-2 ready=0 start=00:00 succeeded=3 terminating=0
        PATCH pods/p1 lets go
        PATCH pods/p3 lets go"#]].assert_eq(&scenario.tell().await);
    expect!["0:Succeeded:- 1:Succeeded:- 2:Succeeded:- 3:Pending:-"]
        .assert_eq(&indexes(&scenario).await);
    scenario.exit(4, 0).await;
    expect![[r#"
        PUT jobs/j/status SuccessCriteriaMet(CompletionsReached) completedIndexes=0-3 ready=0 start=00:00 succeeded=4 terminating=0
        PATCH pods/p4 lets go
        PUT jobs/j/status Complete(CompletionsReached) SuccessCriteriaMet(CompletionsReached) completedIndexes=0-3 completion=00:31 ready=0 start=00:00 succeeded=4 terminating=0"#]].assert_eq(&scenario.tell().await);
}

// Upstream: TestElasticIndexedJob (integration).
#[tokio::test(start_paused = true)]
async fn an_indexed_job_grows_and_shrinks() {
    let mut scenario = Scenario::begin().await;
    scenario.create(indexed(3, 3)).await;
    scenario.exit(3, 0).await;
    scenario.tell().await;
    let told = scenario
        .change(json!({"completions": 1, "parallelism": 1}))
        .await;
    expect![[r#"
        PATCH pods/p2 lets go
        DELETE pods/p2
        PUT jobs/j/status active=1 ready=0 start=00:00 terminating=1
        PUT jobs/j/status active=1 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    let told = scenario
        .change(json!({"completions": 4, "parallelism": 4}))
        .await;
    expect![[r#"
        POST pods
        POST pods
        POST pods
        PUT jobs/j/status active=4 ready=0 start=00:00 terminating=0"#]]
    .assert_eq(&told);
    expect!["0:Pending:- 1:Pending:- 2:Pending:- 2:Succeeded:- 3:Pending:-"]
        .assert_eq(&indexes(&scenario).await);
}

// Upstream: TestBackoffLimitPerIndex (integration), TestSyncJobWithJobBackoffLimitPerIndex.
#[tokio::test(start_paused = true)]
async fn each_index_has_a_limit_of_its_own() {
    let mut scenario = Scenario::begin().await;
    scenario
        .create(with(indexed(2, 2), json!({"backoffLimitPerIndex": 1})))
        .await;
    scenario.exit(1, 1).await;
    expect!["PUT jobs/j/status active=1 failedIndexes= ready=0 start=00:00 terminating=0"]
        .assert_eq(&scenario.tell().await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    expect![[r#"
        POST pods
        PUT jobs/j/status active=2 failedIndexes= ready=0 start=00:00 terminating=0
        PUT jobs/j/status active=2 failedIndexes= ready=0 start=00:00 terminating=0 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status active=2 failed=1 failedIndexes= ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
    expect!["0:Failed:0 0:Pending:1 1:Pending:0"].assert_eq(&indexes(&scenario).await);
    scenario.exit(3, 1).await;
    expect![[r#"
        PUT jobs/j/status active=1 failed=1 failedIndexes=0 ready=0 start=00:00 terminating=0 uncounted={failed:[p3]}
        PATCH pods/p3 lets go
        PUT jobs/j/status active=1 failed=2 failedIndexes=0 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
    scenario.exit(2, 0).await;
    expect![[r#"
        PUT jobs/j/status FailureTarget(FailedIndexes) completedIndexes=1 failed=2 failedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=0
        PATCH pods/p2 lets go
        PUT jobs/j/status Failed(FailedIndexes) FailureTarget(FailedIndexes) completedIndexes=1 failed=2 failedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=0"#]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn too_many_failed_indexes_end_the_job() {
    let mut scenario = Scenario::begin().await;
    let more = json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1});
    scenario.create(with(indexed(5, 3), more)).await;
    scenario.exit(1, 1).await;
    expect![[r#"
        POST pods
        PUT jobs/j/status active=3 failedIndexes=0 ready=0 start=00:00 terminating=0 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status active=3 failed=1 failedIndexes=0 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
    scenario.exit(2, 1).await;
    expect![[r#"
        DELETE pods/p3
        DELETE pods/p4
        PUT jobs/j/status FailureTarget(MaxFailedIndexesExceeded) failed=1 failedIndexes=0,1 ready=0 start=00:00 terminating=2 uncounted={failed:[p2,p3,p4]}
        PATCH pods/p2 lets go
        PATCH pods/p3 lets go
        PATCH pods/p4 lets go
        PUT jobs/j/status FailureTarget(MaxFailedIndexesExceeded) failed=4 failedIndexes=0,1 ready=0 start=00:00 terminating=2
        PUT jobs/j/status FailureTarget(MaxFailedIndexesExceeded) failed=4 failedIndexes=0,1 ready=0 start=00:00 terminating=0
        PUT jobs/j/status Failed(MaxFailedIndexesExceeded) FailureTarget(MaxFailedIndexesExceeded) failed=4 failedIndexes=0,1 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
}

#[tokio::test(start_paused = true)]
async fn a_policy_fails_an_index() {
    let mut scenario = Scenario::begin().await;
    let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1]}});
    let more = json!({"backoffLimitPerIndex": 3, "podFailurePolicy": {"rules": [rule]}});
    scenario.create(with(indexed(2, 2), more)).await;
    scenario.exit(1, 7).await;
    expect![[r#"
        PUT jobs/j/status active=1 failedIndexes=0 ready=0 start=00:00 terminating=0 uncounted={failed:[p1]}
        PATCH pods/p1 lets go
        PUT jobs/j/status active=1 failed=1 failedIndexes=0 ready=0 start=00:00 terminating=0"#]].assert_eq(&scenario.tell().await);
}

// Upstream: TestGetNewIndexFailureCountValue.
#[tokio::test(start_paused = true)]
async fn an_ignored_failure_of_an_index_is_counted_apart() {
    let mut scenario = Scenario::begin().await;
    let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}});
    let more = json!({"backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": [rule]}});
    scenario.create(with(indexed(1, 1), more)).await;
    let mut told = Vec::new();
    for (number, code) in [(1, 7), (2, 1)] {
        scenario.exit(number, code).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        scenario.tell().await;
        let pod = scenario.pod(number + 1);
        let pod = scenario.world.get(&Pod::TYPE, &pod).await.unwrap();
        told.push(pod["metadata"]["annotations"].to_string());
    }
    let expected = [
        r#"{"batch.kubernetes.io/job-completion-index":"0","batch.kubernetes.io/job-index-failure-count":"0","batch.kubernetes.io/job-index-ignored-failure-count":"1"}"#,
        r#"{"batch.kubernetes.io/job-completion-index":"0","batch.kubernetes.io/job-index-failure-count":"1","batch.kubernetes.io/job-index-ignored-failure-count":"1"}"#,
    ];
    assert_eq!(told, expected);
}

// Upstream: TestSuccessPolicy (integration).
#[tokio::test(start_paused = true)]
async fn a_leader_is_enough() {
    let mut scenario = Scenario::begin().await;
    let policy = json!({"rules": [{"succeededIndexes": "0"}]});
    scenario
        .create(with(indexed(3, 3), json!({"successPolicy": policy})))
        .await;
    scenario.exit(1, 0).await;
    expect![[r#"
        DELETE pods/p2
        DELETE pods/p3
        PUT jobs/j/status SuccessCriteriaMet(SuccessPolicy) completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=2
        PATCH pods/p1 lets go
        PATCH pods/p2 lets go
        PATCH pods/p3 lets go
        PUT jobs/j/status SuccessCriteriaMet(SuccessPolicy) completedIndexes=0 ready=0 start=00:00 succeeded=1 terminating=0
        PUT jobs/j/status Complete(SuccessPolicy) SuccessCriteriaMet(SuccessPolicy) completedIndexes=0 completion=00:12 ready=0 start=00:00 succeeded=1 terminating=0"#]].assert_eq(&scenario.tell().await);
    scenario.world.finish_deletions().await;
    expect![[""]].assert_eq(&scenario.tell().await);
    expect![[r#"
        Normal Completed Job completed
        Normal SuccessfulCreate Created pod: p1
        Normal SuccessfulCreate Created pod: p2
        Normal SuccessfulCreate Created pod: p3
        Normal SuccessfulDelete Deleted pod: p2
        Normal SuccessfulDelete Deleted pod: p3"#]]
    .assert_eq(&scenario.events().await);
}
