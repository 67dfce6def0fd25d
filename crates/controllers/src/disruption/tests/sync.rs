//! Whole syncs against the embedded API server.

use api::Resource;
use api::kinds::{Pod, PodDisruptionBudget, ReplicaSet};
use serde_json::{Value, json};

use super::{budget, pod, replica_set, running, status};

#[tokio::test(start_paused = true)]
async fn the_status_is_counted_and_written_once() {
    let world = running().await;
    let set = replica_set(&world, "web", 3).await;
    for name in ["a", "b", "c"] {
        pod(&world, name, Some(&set)).await;
    }
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "there is no budget");
    budget(&world, json!({"minAvailable": "34%"})).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(writes[0].path.ends_with("/poddisruptionbudgets/b/status"));
    let mut body = writes[0].body.clone();
    assert_eq!(body["metadata"]["name"], "b");
    assert!(
        body["metadata"]["resourceVersion"].is_string(),
        "a write on what was read"
    );
    let at = body["status"]["conditions"][0]["lastTransitionTime"].take();
    assert!(at.is_string());
    assert_eq!(
        body["status"],
        json!({
            "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
            "conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "", "observedGeneration": 1, "lastTransitionTime": null}],
        })
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    world.make_unready("a").await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 2 healthy of 2, 3 expected"
    );
}

// TestPDBNotExist.
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_gone_is_no_news() {
    let world = running().await;
    budget(&world, json!({"minAvailable": 1})).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 0 healthy of 1, 0 expected"
    );
    world.delete(&PodDisruptionBudget::TYPE, "b").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT poddisruptionbudgets/b/status");
    assert_eq!(
        world.events().await,
        ["Normal NoPods No matching pods found"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_gets_other_labels_enqueues_the_budgets_that_it_leaves_and_enters() {
    let world = running().await;
    budget(&world, json!({"minAvailable": 1})).await;
    let other = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "other"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}},
    });
    world.create(&PodDisruptionBudget::TYPE, other).await;
    pod(&world, "a", None).await;
    pod(&world, "b", None).await;
    assert_eq!(
        status(&world).await,
        "1 allowed, 2 healthy of 1, 2 expected"
    );
    let patch = json!({"metadata": {"labels": {"app": "other"}}});
    world.patch(&Pod::TYPE, "a", patch).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 1 healthy of 1, 1 expected"
    );
    let other = world
        .get(&PodDisruptionBudget::TYPE, "other")
        .await
        .unwrap();
    assert_eq!(other["status"]["currentHealthy"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_scale_is_counted_at_once() {
    let world = running().await;
    let set = replica_set(&world, "web", 7).await;
    pod(&world, "a", Some(&set)).await;
    budget(&world, json!({"maxUnavailable": 2})).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 1 healthy of 5, 7 expected"
    );
    let patch = json!({"spec": {"replicas": 5}});
    world.patch(&ReplicaSet::TYPE, "web", patch).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 1 healthy of 3, 5 expected"
    );
}

// TestStatusForUnmanagedPod, TestTotalUnmanagedPods, TestNakedPod, TestIntegerMaxUnavailable.
#[tokio::test(start_paused = true)]
async fn unmanaged_pods_are_no_failure_but_an_event_says_what_to_do() {
    let world = running().await;
    budget(&world, json!({"minAvailable": "28%", "selector": {
        "matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}}))
    .await;
    pod(&world, "naked", None).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 1 healthy of 0, 0 expected"
    );
    let events = world.events().await;
    assert!(events.contains(&"Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:app,Operator:In,Values:[web x],},},}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.".to_owned()), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_under_two_budgets_is_told_so() {
    let world = running().await;
    budget(&world, json!({"minAvailable": 1, "selector": {}})).await;
    let other = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
        "spec": {"minAvailable": 1, "selector": {}},
    });
    world.create(&PodDisruptionBudget::TYPE, other).await;
    world.wait_until_idle().await;
    pod(&world, "p", None).await;
    assert_eq!(
        status(&world).await,
        "0 allowed, 1 healthy of 1, 1 expected"
    );
    let events = world.events().await;
    let warned = "Warning MultiplePodDisruptionBudgets Pod \"default\"/\"p\" matches multiple PodDisruptionBudgets.  Chose \"a\" arbitrarily.";
    assert!(events.iter().any(|event| event == warned), "{events:#?}");
}

// TestUpdatePDBStatusRetries.
#[tokio::test(start_paused = true)]
async fn an_eviction_between_reading_and_writing_is_never_lost() {
    use super::super::budgets;
    let world = testkit::World::new().await;
    let controller = budgets(&world.context());
    budget(&world, json!({"minAvailable": 1})).await;
    for name in ["moe", "larry", "curly"] {
        pod(&world, name, None).await;
    }
    let lagging = testkit::Lagging { world, controller };
    lagging.see::<PodDisruptionBudget>("b").await;
    for name in ["moe", "larry", "curly"] {
        lagging.see::<Pod>(name).await;
    }
    lagging.reconcile("b").await.unwrap();
    let world = &lagging.world;
    assert_eq!(status(world).await, "2 allowed, 3 healthy of 1, 3 expected");
    lagging.see::<PodDisruptionBudget>("b").await;
    world.make_unready("moe").await;
    lagging.see::<Pod>("moe").await;
    for name in ["larry", "curly"] {
        super::evictions::evict(world, name).await.unwrap();
    }
    let error = lagging.reconcile("b").await.unwrap_err();
    assert!(
        error.client().is_some_and(client::Error::is_conflict),
        "{error}"
    );
    assert_eq!(status(world).await, "0 allowed, 3 healthy of 1, 3 expected");
    // Even where the pods are seen to go later than the budget.
    lagging.see::<PodDisruptionBudget>("b").await;
    lagging.reconcile("b").await.unwrap();
    assert_eq!(status(world).await, "0 allowed, 0 healthy of 1, 3 expected");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_reported_and_retried() {
    let world = running().await;
    world.refuse("PUT", "/poddisruptionbudgets/b/status", 500, 1);
    pod(&world, "a", None).await;
    budget(&world, json!({"minAvailable": 0})).await;
    assert_eq!(
        status(&world).await,
        "1 allowed, 1 healthy of 0, 1 expected"
    );
    let reasons: Vec<Value> = world
        .writes()
        .iter()
        .map(|write| write.body["status"]["conditions"][0]["reason"].clone())
        .collect();
    assert_eq!(reasons, ["SufficientPods", "SyncFailed", "SufficientPods"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_decided_can_be_asked() {
    let mut world = testkit::World::new().await;
    let context = world.context();
    let running = super::controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    pod(&world, "a", None).await;
    budget(&world, json!({"minAvailable": 1})).await;
    world.wait_until_idle().await;
    let decisions = context
        .decisions
        .get(context.controller, &api::Key::new("default", "b"));
    let last = decisions.last().unwrap();
    assert_eq!(
        last.lines[0].to_string(),
        "allows no evictions: 1 pod is healthy, 1 must be"
    );
}

// TestInvalidSelectors: the API server would refuse them, so the cache is told.
#[tokio::test(start_paused = true)]
async fn a_selector_that_cannot_be_read_allows_nothing() {
    use super::super::budgets;
    for selector in [
        json!({"matchLabels": {"k8s.io/too/many/slashes": "value"}}),
        json!({"matchExpressions": [{"key": "foo", "operator": "illegal", "values": ["bar"]}]}),
    ] {
        let world = testkit::World::new().await;
        let controller = budgets(&world.context());
        budget(&world, json!({"minAvailable": 3})).await;
        let lagging = testkit::Lagging { world, controller };
        let world = &lagging.world;
        let mut seen = world.get(&PodDisruptionBudget::TYPE, "b").await.unwrap();
        seen["spec"]["selector"] = selector;
        lagging.put(PodDisruptionBudget::decode(seen.to_string().as_bytes()).unwrap());
        lagging.reconcile("b").await.unwrap();
        let told = status(world).await;
        let expected = "0 allowed, 0 healthy of 0, 0 expected (SyncFailed: ";
        assert!(told.starts_with(expected), "{told}");
        let events = world.events().await;
        let failed = "Warning NoPods Failed to get pods: ";
        assert!(events[0].starts_with(failed), "{events:?}");
    }
}
