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
async fn a_pod_has_an_address_of_each_range_of_its_node() {
    let world = world(Config::with_nodes(1).without_ranges()).await;
    world.create(&PODS, pod("web", json!({}))).await;
    let probe = json!({"tcpSocket": {"port": 80}, "periodSeconds": 1});
    let fails = json!({"metadata": {"annotations": {"steersman.dev/readiness-probe": "fails"}},
        "spec": {"containers": [{"name": "web", "image": "nginx", "readinessProbe": probe}]}});
    world.create(&PODS, pod("probed", fails)).await;
    pass(&world, 3).await;
    let ips = async |name: &str| world.get(&PODS, name).await.unwrap()["status"]["podIPs"].clone();
    assert_eq!(ips("web").await, Value::Null);
    let ranges = json!({"podCIDR": "fd00:1::/64", "podCIDRs": ["fd00:1::/64", "10.1.0.0/24"]});
    world.patch(&NODES, "node-0", json!({"spec": ranges})).await;
    world.create(&PODS, pod("db", json!({}))).await;
    pass(&world, 5).await;
    let of = |number: u8| json!([{"ip": format!("fd00:1::{number}")}, {"ip": format!("10.1.0.{number}")}]);
    assert_eq!(ips("db").await.as_array().map(Vec::len), Some(2));
    let mut all = [ips("web").await, ips("probed").await, ips("db").await];
    all.sort_by_key(Value::to_string);
    assert_eq!(all, [of(2), of(3), of(4)]);
    let made = world.get(&PODS, "web").await.unwrap();
    assert_eq!(made["status"]["podIP"], made["status"]["podIPs"][0]["ip"]);
    let events = world.events().await;
    let refused = "Readiness probe failed: dial tcp [fd00:1::";
    assert!(
        events
            .iter()
            .any(|event| format!("{event:?}").contains(refused)),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_creates_gets_what_a_kubelet_knows_of_itself() {
    let world = world(Config::default()).await;
    for name in ["mine", "yours"] {
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": "windows"}}});
        world.create(&NODES, node).await;
    }
    pass(&world, 5).await;
    let mut nodes = world.list(&NODES).await;
    nodes.retain(|node| {
        node["metadata"]["name"]
            .as_str()
            .is_some_and(|name| !name.starts_with("node-"))
    });
    let both = |pointer: &str| -> Vec<Value> {
        let found = nodes.iter().map(|node| node.pointer(pointer));
        found.map(|one| one.cloned().unwrap_or_default()).collect()
    };
    assert_eq!(
        both("/metadata/labels/kubernetes.io~1hostname"),
        ["mine", "yours"]
    );
    assert_eq!(
        both("/metadata/labels/kubernetes.io~1os"),
        ["windows", "windows"],
        "what was said stays"
    );
    let mut ranges = both("/spec/podCIDR");
    ranges.sort_by_key(Value::to_string);
    assert_eq!(ranges, ["10.64.6.0/23", "10.64.8.0/23"]);
    let mut addresses = both("/status/addresses/0/address");
    addresses.sort_by_key(Value::to_string);
    assert_eq!(addresses, ["172.16.0.5", "172.16.0.6"]);
    world
        .create(&PODS, pod("web", json!({"spec": {"nodeName": "mine"}})))
        .await;
    pass(&world, 3).await;
    let placed = world.get(&PODS, "web").await.unwrap();
    assert_eq!(placed["status"]["phase"], "Running");
    assert!(placed["status"]["podIP"].is_string(), "{placed}");
    world.writes();
    pass(&world, 1).await;
    let nodes = world
        .writes()
        .into_iter()
        .filter(|write| write.path.contains("/nodes/"));
    assert_eq!(nodes.count(), 0, "and nothing more is written of nodes");
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
    assert_eq!(made["status"]["podIPs"], json!([{"ip": "10.64.0.2"}]));
    assert_eq!(made["status"]["hostIP"], "172.16.0.2");
    for kind in ["Ready", "ContainersReady"] {
        let condition = condition(&made, kind);
        assert_eq!(condition["status"], "True");
        // What it said while it was false is gone.
        assert_eq!(
            (&condition["reason"], &condition["message"]),
            (&Value::Null, &Value::Null)
        );
    }
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
    // While virtual time stands still, events of two components come in either order.
    let (scheduled, told): (Vec<String>, Vec<String>) = world
        .events()
        .await
        .into_iter()
        .filter(|event| !event.contains("kubelet"))
        .partition(|event| event.contains("Scheduled"));
    assert_eq!(
        scheduled,
        ["Normal Scheduled Successfully assigned default/web to node-0"]
    );
    assert_eq!(
        told,
        [
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

#[tokio::test(start_paused = true)]
async fn a_jobs_pod_finishes_and_a_failing_one_fails() {
    let world = world(Config::default()).await;
    let done = json!({"spec": {"restartPolicy": "Never"}});
    world.create(&PODS, pod("done", done.clone())).await;
    let mut failing = done;
    merge(
        &mut failing,
        json!({"metadata": {"annotations": {"steersman.dev/exit-code": "3"}}}),
    );
    world.create(&PODS, pod("failing", failing)).await;
    pass(&world, 4).await;
    let phase = |pod: Value| pod["status"]["phase"].as_str().unwrap().to_owned();
    assert_eq!(phase(world.get(&PODS, "done").await.unwrap()), "Succeeded");
    let failed = world.get(&PODS, "failing").await.unwrap();
    assert_eq!(
        failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );
    assert_eq!(phase(failed), "Failed");
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_finalizers_ends_and_stays_until_they_are_gone() {
    let world = world(Config::default()).await;
    world
        .create(
            &PODS,
            pod(
                "tracked",
                json!({"metadata": {"finalizers": ["example.com/track"]}}),
            ),
        )
        .await;
    pass(&world, 2).await;
    world.delete(&PODS, "tracked").await;
    pass(&world, 3).await;
    let held = world.get(&PODS, "tracked").await.unwrap();
    assert_eq!(held["status"]["phase"], "Succeeded");
    world.writes();
    pass(&world, 60).await;
    assert!(
        world
            .writes()
            .iter()
            .all(|write| write.path.contains("leases")),
        "deleted once, then left alone"
    );
    world
        .patch(&PODS, "tracked", json!({"metadata": {"finalizers": null}}))
        .await;
    pass(&world, 1).await;
    assert_eq!(world.get(&PODS, "tracked").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_does_nothing_until_it_speaks_again() {
    let world = world(Config::with_nodes(1)).await;
    world.create(&PODS, pod("web", json!({}))).await;
    pass(&world, 2).await;
    world
        .patch(
            &NODES,
            "node-0",
            json!({"metadata": {"annotations": {"steersman.dev/silent": "true"}}}),
        )
        .await;
    pass(&world, 11).await;
    world.writes();
    world.delete(&PODS, "web").await;
    pass(&world, 60).await;
    assert!(
        world.writes().is_empty(),
        "no lease, no status, no deletion"
    );
    assert!(world.get(&PODS, "web").await.is_some());
    world
        .patch(
            &NODES,
            "node-0",
            json!({"metadata": {"annotations": {"steersman.dev/silent": null}}}),
        )
        .await;
    pass(&world, 2).await;
    assert_eq!(world.get(&PODS, "web").await, None);
    assert!(
        world
            .writes()
            .iter()
            .any(|write| write.path.contains("leases"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_others_called_unknown_reports_itself_ready() {
    let world = world(Config::with_nodes(1)).await;
    let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]);
    world
        .patch_subresource(
            &NODES,
            "node-0",
            Some("status"),
            json!({"status": {"conditions": unknown}}),
        )
        .await;
    pass(&world, 1).await;
    let node = world.get(&NODES, "node-0").await.unwrap();
    assert_eq!(condition(&node, "Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_deleted_and_stays_so() {
    let world = world(Config::default()).await;
    world
        .patch(
            &NODES,
            "node-1",
            json!({"metadata": {"annotations": {"steersman.dev/gone": "true"}}}),
        )
        .await;
    pass(&world, 60).await;
    assert_eq!(world.get(&NODES, "node-1").await, None);
    assert_eq!(world.list(&NODES).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nonsense_in_an_annotation_is_told_once() {
    let world = world(Config::default()).await;
    let annotated = json!({"metadata": {"annotations": {"steersman.dev/start-delay": "soon"}}});
    world.create(&PODS, pod("web", annotated)).await;
    pass(&world, 5).await;
    let told = "Warning InvalidBehaviour annotation steersman.dev/start-delay: \"soon\" is not a duration such as 5s or 1m30s";
    let events = world.events().await;
    assert_eq!(
        events.iter().filter(|event| *event == told).count(),
        1,
        "{events:?}"
    );
    assert_eq!(
        world.get(&PODS, "web").await.unwrap()["status"]["phase"],
        "Running"
    );
}

/// What is there, without what differs between any two runs by design.
async fn snapshot(world: &World) -> String {
    let mut text = String::new();
    for kind in [&NODES, &PODS] {
        for object in world.list(kind).await {
            text.push_str(&object.to_string());
            text.push('\n');
        }
    }
    text
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_cluster() {
    let run = async || {
        let world = world(Config::with_nodes(5)).await;
        for index in 0..50 {
            world
                .create(&PODS, pod(&format!("web-{index}"), json!({})))
                .await;
        }
        pass(&world, 20).await;
        let writes: Vec<String> = world
            .writes()
            .iter()
            .map(|write| format!("{write:?}"))
            .collect();
        format!("{}{}", snapshot(&world).await, writes.join("\n"))
    };
    let (one, two) = (run().await, run().await);
    assert!(one == two, "two runs of one seed differ");
}

#[tokio::test(start_paused = true)]
async fn a_new_process_goes_on_where_the_last_one_ended() {
    let mut world = world(Config::default()).await;
    let slow = json!({"metadata": {"annotations": {"steersman.dev/start-delay": "30s"}}});
    world.create(&PODS, pod("slow", slow)).await;
    world.create(&PODS, pod("running", json!({}))).await;
    pass(&world, 5).await;
    let before = world.get(&PODS, "running").await.unwrap();
    world.shut_down();

    let (stopper, stop) = runtime::Stop::new();
    let cluster = Cluster::new(
        world.client.clone(),
        Config::default(),
        world.clock.clone(),
        world.rng.fork(),
    );
    world.writes();
    let running = runtime::spawn(cluster.run(stop));
    pass(&world, 10).await;
    assert_eq!(
        world.get(&PODS, "running").await.unwrap(),
        before,
        "nothing to do for a pod that runs"
    );
    assert_eq!(
        world.get(&PODS, "slow").await.unwrap()["status"]["phase"],
        "Pending"
    );
    world
        .create(
            &PODS,
            pod(
                "new",
                json!({"spec": {"nodeName": before["spec"]["nodeName"]}}),
            ),
        )
        .await;
    pass(&world, 20).await;
    assert_eq!(
        world.get(&PODS, "slow").await.unwrap()["status"]["phase"],
        "Running"
    );
    let new = world.get(&PODS, "new").await.unwrap();
    assert_ne!(
        new["status"]["podIP"], before["status"]["podIP"],
        "addresses in use are known"
    );
    stopper.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn now_becomes_the_kubelets_own_time_and_kills_once() {
    let world = world(Config::default()).await;
    world.create(&PODS, pod("web", json!({}))).await;
    pass(&world, 3).await;
    let crash = json!({"metadata": {"annotations": {"steersman.dev/crash-at": "now"}}});
    world.patch(&PODS, "web", crash).await;
    pass(&world, 5).await;
    let seen = world.get(&PODS, "web").await.unwrap();
    let at = seen["metadata"]["annotations"]["steersman.dev/crash-at"].as_str();
    assert!(
        at.is_some_and(|at| api::Time::parse(at).is_some()),
        "{at:?}"
    );
    let container = &seen["status"]["containerStatuses"][0];
    assert_eq!(container["restartCount"], 1);
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 137);
    pass(&world, 600).await;
    let later = world.get(&PODS, "web").await.unwrap();
    assert_eq!(later["status"]["containerStatuses"][0]["restartCount"], 1);
}
