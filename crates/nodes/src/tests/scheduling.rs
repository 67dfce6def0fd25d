//! The scheduler against the API server: what it writes, and when it tries again.

use super::*;

fn asking(name: &str, cpu: &str) -> Value {
    let container =
        json!({"name": "web", "image": "nginx", "resources": {"requests": {"cpu": cpu}}});
    pod(name, json!({"spec": {"containers": [container]}}))
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_says_so_and_is_tried_when_room_is_made() {
    let small = "nodes: [{count: 1, capacity: {cpu: 2}}]";
    let world = world(Config::parse(small, "nodes.yaml").unwrap()).await;
    world.create(&PODS, asking("first", "2")).await;
    pass(&world, 2).await;
    world.create(&PODS, asking("second", "1")).await;
    pass(&world, 2).await;
    let stuck = world.get(&PODS, "second").await.unwrap();
    let why = condition(&stuck, "PodScheduled");
    let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(
        (&why["status"], &why["reason"]),
        (&json!("False"), &json!("Unschedulable"))
    );
    assert_eq!(why["message"], message);
    assert!(
        world
            .events()
            .await
            .contains(&format!("Warning FailedScheduling {message}"))
    );

    world.writes();
    pass(&world, 60).await;
    assert_eq!(
        quiet(&world),
        Vec::<String>::new(),
        "nothing changes, so nothing is tried"
    );

    world.delete(&PODS, "first").await;
    pass(&world, 2).await;
    assert_eq!(
        world.get(&PODS, "second").await.unwrap()["status"]["phase"],
        "Running"
    );
}

/// Writes other than leases.
fn quiet(world: &World) -> Vec<String> {
    let writes = world
        .writes()
        .into_iter()
        .filter(|write| !write.path.contains("leases"));
    writes.map(|write| write.path).collect()
}

#[tokio::test(start_paused = true)]
async fn with_no_nodes_everything_waits_and_says_why() {
    let world = world(Config::with_nodes(0)).await;
    world.create(&PODS, pod("web", json!({}))).await;
    pass(&world, 2).await;
    let stuck = world.get(&PODS, "web").await.unwrap();
    assert_eq!(
        condition(&stuck, "PodScheduled")["message"],
        "no nodes available to schedule pods"
    );
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"},
    });
    world.create(&NODES, node).await;
    pass(&world, 15).await;
    assert_eq!(
        world.get(&PODS, "web").await.unwrap()["spec"]["nodeName"],
        "late"
    );
}

#[tokio::test(start_paused = true)]
async fn an_important_pod_drives_out_a_lesser_one() {
    let small = "nodes: [{count: 1, capacity: {cpu: 2}}]";
    let world = world(Config::parse(small, "nodes.yaml").unwrap()).await;
    let classes = ResourceType::cluster(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
    );
    let high = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000,
    });
    world.create(&classes, high).await;
    world.create(&PODS, asking("lesser", "2")).await;
    pass(&world, 2).await;
    let mut important = asking("important", "2");
    important["spec"]["priorityClassName"] = json!("high");
    world.create(&PODS, important).await;
    pass(&world, 10).await;
    assert_eq!(world.get(&PODS, "lesser").await, None);
    assert_eq!(
        world.get(&PODS, "important").await.unwrap()["status"]["phase"],
        "Running"
    );
    let events = world.events().await;
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("Normal Preempted Preempted by pod ")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn gates_are_waited_for_and_other_schedulers_pods_left_alone() {
    let world = world(Config::default()).await;
    world
        .create(
            &PODS,
            pod(
                "gated",
                json!({"spec": {"schedulingGates": [{"name": "wait"}]}}),
            ),
        )
        .await;
    world
        .create(
            &PODS,
            pod("foreign", json!({"spec": {"schedulerName": "mine"}})),
        )
        .await;
    pass(&world, 5).await;
    let gated = world.get(&PODS, "gated").await.unwrap();
    assert_eq!(gated["spec"]["nodeName"], Value::Null);
    assert_eq!(
        condition(&gated, "PodScheduled")["reason"],
        "SchedulingGated"
    );
    assert_eq!(
        world.get(&PODS, "foreign").await.unwrap()["spec"]["nodeName"],
        Value::Null
    );
    world
        .patch(&PODS, "gated", json!({"spec": {"schedulingGates": null}}))
        .await;
    pass(&world, 3).await;
    assert_eq!(
        world.get(&PODS, "gated").await.unwrap()["status"]["phase"],
        "Running"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_named_by_the_user_is_taken_as_it_is() {
    let world = world(Config::default()).await;
    world
        .create(
            &PODS,
            pod("pinned", json!({"spec": {"nodeName": "node-2"}})),
        )
        .await;
    pass(&world, 3).await;
    let pinned = world.get(&PODS, "pinned").await.unwrap();
    assert_eq!(
        (&pinned["spec"]["nodeName"], &pinned["status"]["phase"]),
        (&json!("node-2"), &json!("Running"))
    );
}

#[tokio::test(start_paused = true)]
async fn many_pods_on_many_nodes_spread_evenly() {
    let world = world(Config::with_nodes(30)).await;
    for index in 0..300 {
        world
            .create(&PODS, pod(&format!("web-{index}"), json!({})))
            .await;
    }
    pass(&world, 10).await;
    let pods = world.list(&PODS).await;
    let mut counts = std::collections::BTreeMap::new();
    for pod in &pods {
        assert_eq!(
            condition(pod, "Ready")["status"],
            "True",
            "{}",
            pod["metadata"]["name"]
        );
        *counts
            .entry(pod["spec"]["nodeName"].as_str().unwrap().to_owned())
            .or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 30);
    assert!(
        counts.values().all(|count| (8..=12).contains(count)),
        "{counts:?}"
    );
    let mut addresses: Vec<&str> = pods
        .iter()
        .filter_map(|pod| pod["status"]["podIP"].as_str())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 300, "no address twice");
}
