//! Pods and nodes through their whole lives.

use super::*;

#[tokio::test(start_paused = true)]
async fn nodes_register_and_renew_their_leases() {
    let world = world(Config::default()).await;
    let nodes = world.list(&NODES).await;
    let names: Vec<&str> = nodes
        .iter()
        .filter_map(|node| node["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["node-0", "node-1", "node-2"]);
    assert_eq!(condition(&nodes[0], "Ready")["status"], "True");
    assert_eq!(nodes[0]["status"]["allocatable"]["pods"], "500");
    assert_eq!(nodes[0]["spec"]["podCIDR"], "10.64.0.0/23");

    let leases = ResourceType::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
    let lease = |renewed: bytes::Bytes| {
        let lease: Value = serde_json::from_slice(&renewed).unwrap();
        lease["spec"]["renewTime"].as_str().unwrap().to_owned()
    };
    let first = lease(
        world
            .user
            .get(&leases, "kube-node-lease", "node-1")
            .await
            .unwrap(),
    );
    world.writes();
    pass(&world, 30).await;
    let later = lease(
        world
            .user
            .get(&leases, "kube-node-lease", "node-1")
            .await
            .unwrap(),
    );
    assert!(later > first, "{later} {first}");
    assert_eq!(
        world.writes().len(),
        9,
        "three renewals of three leases and nothing else"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_becomes_ready_and_goes_when_it_is_deleted() {
    let world = world(Config::default()).await;
    world.create(&PODS, pod("web", json!({}))).await;
    pass(&world, 3).await;
    let made = world.get(&PODS, "web").await.unwrap();
    assert_eq!(made["spec"]["nodeName"], "node-0");
    assert_eq!(made["status"]["phase"], "Running");
    assert_eq!(made["status"]["podIP"], "10.64.0.2");
    assert_eq!(made["status"]["hostIP"], "172.16.0.2");
    assert_eq!(condition(&made, "Ready")["status"], "True");
    let container = &made["status"]["containerStatuses"][0];
    assert_eq!(
        (&container["ready"], &container["started"]),
        (&json!(true), &json!(true))
    );
    assert!(
        container["containerID"]
            .as_str()
            .unwrap()
            .starts_with("containerd://")
    );
    assert_eq!(
        world
            .events()
            .await
            .into_iter()
            .filter(|event| !event.contains("kubelet"))
            .collect::<Vec<_>>(),
        [
            "Normal Scheduled Successfully assigned default/web to node-0",
            "Normal Pulling Pulling image \"nginx\"",
            "Normal Pulled Successfully pulled image \"nginx\" in 100ms (100ms including waiting). Image size: 50000000 bytes.",
            "Normal Created Container created",
            "Normal Started Container started",
        ]
    );

    world.writes();
    pass(&world, 60).await;
    let idle: Vec<_> = world
        .writes()
        .into_iter()
        .filter(|write| !write.path.contains("leases"))
        .collect();
    assert!(idle.is_empty(), "a pod that runs needs no writes: {idle:?}");

    world.delete(&PODS, "web").await;
    pass(&world, 3).await;
    assert_eq!(world.get(&PODS, "web").await, None);
    assert!(
        world
            .events()
            .await
            .contains(&"Normal Killing Stopping container web".to_owned())
    );
}
