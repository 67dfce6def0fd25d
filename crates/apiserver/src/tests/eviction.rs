//! Eviction: what disruption budgets refuse, and in which words.

use super::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A pod `p` that runs and is ready, and a budget `b` over it with this status.
async fn server(status: Value) -> Server {
    let server = Server::new();
    server.service_account().await;
    pod(&server, "Running", "True").await;
    budget(&server, "b", json!({"minAvailable": 1})).await;
    write_status(&server, status).await;
    server
}

async fn pod(server: &Server, phase: &str, ready: &str) {
    let (_, mut pod) = server
        .post(PODS, json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}))
        .await;
    pod["status"] = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
    server.put(&format!("{PODS}/p/status"), pod).await;
}

async fn budget(server: &Server, name: &str, mut spec: Value) {
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
    let (code, made) = server
        .post(BUDGETS, json!({"metadata": {"name": name}, "spec": spec}))
        .await;
    assert_eq!(code, 201, "{made}");
}

async fn write_status(server: &Server, status: Value) {
    let status = json!({"status": status});
    let path = format!("{BUDGETS}/b/status");
    let (code, answer) = server.patch(&path, "merge-patch", status).await;
    assert_eq!(code, 200, "{answer}");
}

async fn evict(server: &Server, options: Value) -> (u16, Value) {
    let mut eviction = json!({"metadata": {"name": "p"}});
    if !options.is_null() {
        eviction["deleteOptions"] = options;
    }
    server.post(&format!("{PODS}/p/eviction"), eviction).await
}

async fn is_there(server: &Server) -> bool {
    let (code, pod) = server.get(&format!("{PODS}/p")).await;
    code == 200 && pod["metadata"]["deletionTimestamp"].is_null()
}

/// Code, reason and message of the first cause.
fn refusal((code, status): (u16, Value)) -> String {
    let cause = &status["details"]["causes"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let said = match cause["message"].is_string() {
        true => format!("{}: {}", text(&cause["reason"]), text(&cause["message"])),
        false => text(&status["message"]),
    };
    format!("{code} {said}")
}

fn allows(allowed: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 2})
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_taken_from_what_the_budget_allows() {
    let server = server(allows(1)).await;
    assert_eq!(evict(&server, Value::Null).await.0, 201);
    let (_, budget) = server.get(&format!("{BUDGETS}/b")).await;
    let status = &budget["status"];
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(
        status["disruptedPods"],
        json!({"p": "2023-11-14T22:13:20Z"})
    );
    assert_eq!(
        status["conditions"],
        json!([{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2023-11-14T22:13:20Z"}])
    );
    let (_, pod) = server.get(&format!("{PODS}/p")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let target = &pod["status"]["conditions"][1];
    assert_eq!(
        (&target["type"], &target["reason"], &target["message"]),
        (
            &json!("DisruptionTarget"),
            &json!("EvictionByEvictionAPI"),
            &json!("Eviction API: evicting")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_allows_nothing_says_why() {
    let condition = |reason: &str, message: &str| json!([{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2023-11-14T22:13:20Z"}]);
    let mut failed = allows(0);
    failed["conditions"] = condition("SyncFailed", "found no controllers for pod \"p\"");
    let mut other = allows(0);
    other["currentHealthy"] = json!(3);
    let mut told = other.clone();
    told["conditions"] = condition("Holiday", "come back later");
    let mut too_many = allows(1);
    let pods: serde_json::Map<String, Value> = (0..2001)
        .map(|pod| (format!("p{pod}"), json!("2023-11-14T22:13:20Z")))
        .collect();
    too_many["disruptedPods"] = json!(pods);
    for (status, expected) in [
        (
            json!({"observedGeneration": 0}),
            "429 DisruptionBudget: The disruption budget b is still being processed by the server.",
        ),
        (
            allows(0),
            "429 DisruptionBudget: The disruption budget b needs 1 healthy pods and has 1 currently",
        ),
        (
            failed,
            "429 DisruptionBudget: The disruption budget b does not allow evicting pods currently because it failed sync: found no controllers for pod \"p\"",
        ),
        (
            other,
            "429 DisruptionBudget: The disruption budget b does not allow evicting pods currently",
        ),
        (
            told,
            "429 DisruptionBudget: The disruption budget b does not allow evicting pods currently (Holiday): come back later",
        ),
        (
            too_many,
            "403 poddisruptionbudget.policy \"b\" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    ] {
        let server = server(status).await;
        assert_eq!(refusal(evict(&server, Value::Null).await), expected);
        assert!(is_there(&server).await);
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_budget_that_is_processed_is_worth_a_quick_retry() {
    let server = server(json!({"observedGeneration": 0})).await;
    let (_, status) = evict(&server, Value::Null).await;
    assert_eq!(status["details"]["retryAfterSeconds"], 10);
    write_status(&server, allows(0)).await;
    let (_, status) = evict(&server, Value::Null).await;
    assert_eq!(status["details"]["retryAfterSeconds"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn two_budgets_are_one_too_many() {
    let server = server(allows(1)).await;
    budget(&server, "c", json!({"maxUnavailable": 1})).await;
    let (code, status) = evict(&server, Value::Null).await;
    assert_eq!(code, 500);
    assert_eq!(
        status,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
            "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."})
    );
    assert!(is_there(&server).await);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_takes_nothing() {
    let server = server(allows(1)).await;
    assert_eq!(evict(&server, json!({"dryRun": ["All"]})).await.0, 201);
    let path = format!("{PODS}/p/eviction?dryRun=All");
    let eviction = json!({"metadata": {"name": "p"}});
    assert_eq!(server.post(&path, eviction).await.0, 201);
    let (_, budget) = server.get(&format!("{BUDGETS}/b")).await;
    assert_eq!(budget["status"], allows(1));
    assert!(is_there(&server).await);
    write_status(&server, allows(0)).await;
    assert_eq!(evict(&server, json!({"dryRun": ["All"]})).await.0, 429);
}

#[tokio::test(start_paused = true)]
async fn preconditions_hold_before_anything_is_taken() {
    let server = server(allows(1)).await;
    let (_, pod) = server.get(&format!("{PODS}/p")).await;
    let other = evict(&server, json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(
        refusal(other),
        format!(
            "409 Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (other) does not match the UID in record ({}). The object might have been deleted and then recreated",
            pod["metadata"]["uid"].as_str().unwrap()
        )
    );
    let old = json!({"preconditions": {"resourceVersion": "1"}});
    assert_eq!(evict(&server, old).await.0, 409);
    let (_, budget) = server.get(&format!("{BUDGETS}/b")).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);
    let current = json!({"preconditions": {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}});
    assert_eq!(evict(&server, current).await.0, 201);
    assert!(!is_there(&server).await);
}

#[tokio::test(start_paused = true)]
async fn no_budget_protects_a_pod_that_has_not_begun_or_is_over() {
    for phase in ["Pending", "Succeeded", "Failed"] {
        let server = Server::new();
        server.service_account().await;
        pod(&server, phase, "False").await;
        budget(&server, "b", json!({"minAvailable": 1})).await;
        assert_eq!(evict(&server, Value::Null).await.0, 201, "{phase}");
        assert!(!is_there(&server).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_ready_goes_where_the_policy_lets_it() {
    let short = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1});
    for (policy, status, code) in [
        (None, short.clone(), 429),
        (Some("IfHealthyBudget"), short.clone(), 429),
        (Some("AlwaysAllow"), short, 201),
        (None, allows(0), 201),
        (Some("IfHealthyBudget"), allows(0), 201),
    ] {
        let server = Server::new();
        server.service_account().await;
        pod(&server, "Running", "False").await;
        let mut spec = json!({"minAvailable": 1});
        if let Some(policy) = policy {
            spec["unhealthyPodEvictionPolicy"] = json!(policy);
        }
        budget(&server, "b", spec).await;
        write_status(&server, status.clone()).await;
        let (answered, answer) = evict(&server, Value::Null).await;
        assert_eq!(answered, code, "{policy:?} {answer}");
        let (_, budget) = server.get(&format!("{BUDGETS}/b")).await;
        assert_eq!(budget["status"], status, "nothing is taken from the budget");
    }
}

#[tokio::test(start_paused = true)]
async fn unsafe_deletion_is_not_for_evictions() {
    let server = server(allows(1)).await;
    let options = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});
    let (code, status) = evict(&server, options).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "Eviction.policy \"p\" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: can not be set for pod eviction, try after removing the option"
    );
}
