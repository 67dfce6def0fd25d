//! What happens when the API server says no.

use super::*;

async fn has_event(world: &World, text: &str) -> bool {
    world.events().await.iter().any(|event| event == text)
}

// Upstream: TestStatefulPodControlCreatePodFailed, TestStatefulSetStatusUpdate, CreatePodFailure of TestStatefulSetControl.
#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_reported_and_tried_again() {
    let world = world().await;
    world.refuse("POST", "/pods", 500, 1);
    world.create(&StatefulSet::TYPE, stateful_set(1)).await;
    world.wait_until_idle().await;
    assert!(
        has_event(
            &world,
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: refused by the test: InternalError",
        )
        .await,
        "{:?}",
        world.events().await
    );
    let written = world.written();
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(
        lines[1..3],
        ["POST pods -> 500", "PUT statefulsets/web/status"],
        "the status is written all the same"
    );
    assert_eq!(world.pod_names().await, ["web-0"]);
}

// Upstream: TestStatefulSetStatusUpdaterUpdateReplicasFailure, ...Conflict, ...ConflictFailure.
#[tokio::test(start_paused = true)]
async fn a_refused_status_is_written_again() {
    for code in [409, 500] {
        let world = world().await;
        world.refuse("PUT", "/status", code, 2);
        world.create(&StatefulSet::TYPE, stateful_set(1)).await;
        world.wait_until_idle().await;
        let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
        assert_eq!(set["status"]["replicas"], 1, "{code}");
        assert_eq!(world.pod_names().await, ["web-0"]);
    }
}

// Upstream: TestStatefulPodControlDeleteFailure, TestStatefulSetControlScaleDownDeleteError.
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_reported_and_tried_again() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(2)).await;
    roll_out(&world).await;
    world.refuse("DELETE", "/pods/web-1", 500, 1);
    scale(&world, 1).await;
    world.wait_until_idle().await;
    assert!(
        has_event(
            &world,
            "Warning FailedDelete Delete Pod web-1 in StatefulSet web failed error: refused by the test: InternalError",
        )
        .await
    );
    roll_out(&world).await;
    assert_eq!(world.pod_names().await, ["web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_meets_a_conflict_is_tried_again() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(2)).await;
    roll_out(&world).await;
    world.refuse("DELETE", "/pods/web-1", 409, 1);
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    assert_eq!(images(&world).await, "web-0=nginx:2 web-1=nginx:2");
}

// Upstream: TestStatefulPodControlDeleteStatefulPodNotFound, TestStatefulPodControlDeletesStatefulPod.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_already_counts_as_deleted() {
    let world = world().await;
    world.create(&StatefulSet::TYPE, stateful_set(2)).await;
    roll_out(&world).await;
    world.refuse("DELETE", "/pods/web-1", 404, 1);
    scale(&world, 1).await;
    world.wait_until_idle().await;
    assert!(
        has_event(
            &world,
            "Normal SuccessfulDelete Delete Pod web-1 in StatefulSet web successful",
        )
        .await
    );
}

// Upstream: TestStatefulPodControlCreatePodPvcCreateFailure.
#[tokio::test(start_paused = true)]
async fn without_its_claim_there_is_no_pod() {
    let world = world().await;
    world.refuse("POST", "/persistentvolumeclaims", 500, 1);
    let set = with_claims(stateful_set(1), "Retain", "Retain");
    world.create(&StatefulSet::TYPE, set).await;
    world.wait_until_idle().await;
    for event in [
        "Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: refused by the test: InternalError",
        "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: refused by the test: InternalError",
    ] {
        assert!(has_event(&world, event).await, "{event}");
    }
    assert_eq!(world.pod_names().await, ["web-0"], "at the second try");
}

// Upstream: TestStatefulPodControlUpdateIdentityFailure, TestStatefulPodControlUpdatePodConflictSuccess.
#[tokio::test(start_paused = true)]
async fn a_refused_repair_is_reported_and_tried_again() {
    for (code, reason) in [(500, "InternalError"), (409, "Conflict")] {
        let world = world().await;
        world.create(&StatefulSet::TYPE, stateful_set(1)).await;
        roll_out(&world).await;
        world.refuse("PATCH", "/pods/web-0", code, 1);
        let label = "statefulset.kubernetes.io/pod-name";
        let patch = json!({"metadata": {"labels": {label: null}}});
        world.patch(&Pod::TYPE, "web-0", patch).await;
        world.wait_until_idle().await;
        let event = format!(
            "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: refused by the test: {reason}"
        );
        assert!(has_event(&world, &event).await, "{event}");
        let pod = world.get(&Pod::TYPE, "web-0").await.unwrap();
        assert_eq!(pod["metadata"]["labels"][label], "web-0");
    }
}

// Upstream: TestStatefulPodControlUpdatesPodStorage, TestStatefulPodControlUpdatePodStorageFailure.
// No API server lets volumes change: the user has to hear of it.
#[tokio::test(start_paused = true)]
async fn missing_volumes_of_an_adopted_pod_are_patched_and_the_refusal_is_reported() {
    let world = world().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    });
    let pod = world.create(&Pod::TYPE, pod).await;
    world.make_ready("web-0").await;
    let set = with_claims(stateful_set(1), "Retain", "Retain");
    world.create(&StatefulSet::TYPE, set).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let at = writes
        .iter()
        .position(|write| !write.body["spec"]["volumes"].is_null())
        .unwrap();
    assert_eq!(writes[at - 1].to_string(), "POST persistentvolumeclaims");
    assert_eq!(writes[at].to_string(), "PATCH pods/web-0 -> 422");
    assert_eq!(
        writes[at].body,
        json!({
            "metadata": {
                "uid": pod["metadata"]["uid"],
                "labels": {
                    "statefulset.kubernetes.io/pod-name": "web-0",
                    "apps.kubernetes.io/pod-index": "0",
                },
            },
            "spec": {"volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            ]},
        })
    );
    let events = world.events().await;
    let refused = "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: ";
    assert!(
        events.iter().any(|event| event.starts_with(refused)),
        "{events:?}"
    );
}

// Upstream: TestStatefulPodControlRetentionPolicyUpdate with a failing client.
#[tokio::test(start_paused = true)]
async fn owners_that_could_not_be_set_are_set_later() {
    let world = world().await;
    let set = with_claims(stateful_set(1), "Retain", "Retain");
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    world.refuse("PUT", "/data-web-0", 409, 1);
    let policy = json!({"whenScaled": "Retain", "whenDeleted": "Delete"});
    let patch = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
    world.patch(&StatefulSet::TYPE, "web", patch).await;
    world.wait_until_idle().await;
    assert!(
        has_event(
            &world,
            "Warning FailedUpdate Update Pod web-0 in StatefulSet web failed error: could not update claim data-web-0 for delete policy ownerRefs: refused by the test: Conflict",
        )
        .await,
        "{:?}",
        world.events().await
    );
    let claim = world
        .get(&PersistentVolumeClaim::TYPE, "data-web-0")
        .await
        .unwrap();
    assert_eq!(
        claim["metadata"]["ownerReferences"][0]["kind"],
        "StatefulSet"
    );
}

// Upstream: TestParallelScale (slow start stops at the first failing batch).
#[tokio::test(start_paused = true)]
async fn a_parallel_set_that_is_refused_does_not_insist() {
    let world = world().await;
    world.refuse("POST", "/pods", 403, 1);
    world
        .create(&StatefulSet::TYPE, parallel(stateful_set(20)))
        .await;
    world.wait_until_idle().await;
    let written = world.written();
    let lines: Vec<&str> = written.lines().take(3).collect();
    assert_eq!(
        lines,
        [
            "POST controllerrevisions",
            "POST pods -> 403",
            "PUT statefulsets/web/status"
        ],
        "one request shows it"
    );
    assert_eq!(world.pod_names().await.len(), 20);
}

// Upstream: TestStatefulSetMetrics.
#[tokio::test(start_paused = true)]
async fn figures_come_with_the_gate_and_go_with_the_set() {
    let metrics = Metrics::new();
    let world = world_counting(with_max_unavailable(), false, metrics.clone()).await;
    world.create(&StatefulSet::TYPE, stateful_set(3)).await;
    world.wait_until_idle().await;
    world.make_ready("web-0").await;
    world.wait_until_idle().await;
    let line = |name: &str| {
        let text = metrics.render();
        let found = text
            .lines()
            .find(|line| line.starts_with(&format!("statefulset_controller_statefulset_{name}{{")));
        found.map(ToString::to_string)
    };
    let labels = r#"pod_management_policy="OrderedReady",statefulset_name="web",statefulset_namespace="default""#;
    assert_eq!(
        line("unavailable_replicas"),
        Some(format!(
            "statefulset_controller_statefulset_unavailable_replicas{{{labels}}} 2"
        ))
    );
    assert_eq!(
        line("max_unavailable"),
        Some(format!(
            "statefulset_controller_statefulset_max_unavailable{{{labels}}} 1"
        ))
    );
    world.delete(&StatefulSet::TYPE, "web").await;
    world.wait_until_idle().await;
    assert_eq!(line("max_unavailable"), None);
}

// Upstream: TestStatefulSetMetrics.
#[test]
fn figures_say_what_is_allowed_and_what_is() {
    let told = |text: &str, away: i32, all: i32| {
        let pods: Vec<String> = (0..all)
            .map(|place| match place < away {
                true => format!("{place}:running"),
                false => format!("{place}:ready"),
            })
            .collect();
        let text = format!("replicas={all} {text} | {}", pods.join(" "));
        let metrics = Metrics::new();
        let figures = super::super::metrics::StatefulSetMetrics::new(&metrics);
        figures.observe(&snapshot(&text, with_max_unavailable(), false), now());
        let rendered = metrics.render();
        let value = |name: &str| {
            let line = rendered
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        };
        let family = "statefulset_controller_statefulset_";
        (
            value(&format!("{family}max_unavailable{{")),
            value(&format!("{family}unavailable_replicas{{")),
        )
    };
    for (text, all, away, allowed) in [
        ("max=2", 5, 1, 2),
        ("max=20% parallel", 10, 3, 2),
        ("max=3", 6, 3, 3),
        ("max=1 parallel", 4, 0, 1),
        ("max=25%", 8, 1, 2),
        ("max=80% parallel", 5, 4, 4),
        ("max=1", 2, 1, 1),
        ("max=1 parallel", 1, 1, 1),
        ("ondelete", 3, 2, 1),
        ("ondelete parallel", 4, 1, 1),
        ("", 5, 2, 1),
        ("parallel", 6, 0, 1),
    ] {
        let expected = (allowed.to_string(), away.to_string());
        assert_eq!(told(text, away, all), expected, "{text}");
    }
}
