//! Updates, from the top down.

use super::*;

async fn started(set: Value, gates: Gates, recover: bool) -> World {
    let world = world_with(gates, recover).await;
    world.create(&StatefulSet::TYPE, set).await;
    roll_out(&world).await;
    world.written();
    world
}

// Upstream: TestStatefulSetControlRollingUpdate.
#[tokio::test(start_paused = true)]
async fn an_update_replaces_one_pod_at_a_time_from_the_top() {
    let world = started(stateful_set(3), Gates::default(), false).await;
    set_image(&world, "nginx:2").await;
    world.wait_until_idle().await;
    assert_eq!(
        images(&world).await,
        "web-0=nginx:1 web-1=nginx:1 web-2=nginx:2"
    );
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    let status = &set["status"];
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(status["currentReplicas"], 2);
    assert_eq!(status["updatedReplicas"], 1);
    assert_eq!(status["readyReplicas"], 2);
    world.wait_until_idle().await;
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "", "waits for web-2");

    world.make_ready("web-2").await;
    world.wait_until_idle().await;
    assert_eq!(
        images(&world).await,
        "web-0=nginx:1 web-1=nginx:2 web-2=nginx:2"
    );
    roll_out(&world).await;
    assert_eq!(
        images(&world).await,
        "web-0=nginx:2 web-1=nginx:2 web-2=nginx:2"
    );
    let set = world.get(&StatefulSet::TYPE, "web").await.unwrap();
    assert_eq!(
        set["status"]["currentRevision"],
        set["status"]["updateRevision"]
    );
    assert_eq!(set["status"]["currentReplicas"], 3);
}

/// The API server leaves `rollingUpdate` out when only the type is given; then the status decides which
/// revision the next pod is of, and must not be late.
#[tokio::test(start_paused = true)]
async fn an_update_without_parameters_makes_no_pod_of_the_old_revision_again() {
    let mut set = parallel(stateful_set(2));
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    let world = started(set, Gates::default(), false).await;
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    assert_eq!(images(&world).await, "web-0=nginx:2 web-1=nginx:2");
    let writes = world.writes();
    let is_create = |write: &&testkit::Write| {
        write.method == http::Method::POST && write.path.ends_with("/pods")
    };
    let created = writes.iter().filter(is_create).count();
    assert_eq!(created, 2, "each pod is made once");
}

// Upstream: TestStatefulSetControlRollingUpdateWithPartition.
#[tokio::test(start_paused = true)]
async fn a_partition_holds_the_lower_pods_back_even_when_they_are_replaced() {
    let mut set = stateful_set(3);
    set["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 2}});
    let world = started(set, Gates::default(), false).await;
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    let halfway = "web-0=nginx:1 web-1=nginx:1 web-2=nginx:2";
    assert_eq!(images(&world).await, halfway);
    world.delete(&Pod::TYPE, "web-0").await;
    roll_out(&world).await;
    assert_eq!(
        images(&world).await,
        halfway,
        "made of the old revision again"
    );
    let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    world.patch(&StatefulSet::TYPE, "web", patch).await;
    roll_out(&world).await;
    assert_eq!(
        images(&world).await,
        "web-0=nginx:2 web-1=nginx:2 web-2=nginx:2"
    );
}

// Upstream: TestStatefulSetControlOnDeleteUpdate.
#[tokio::test(start_paused = true)]
async fn on_delete_leaves_it_to_the_user() {
    let mut set = stateful_set(2);
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let world = started(set, Gates::default(), false).await;
    set_image(&world, "nginx:2").await;
    roll_out(&world).await;
    assert_eq!(images(&world).await, "web-0=nginx:1 web-1=nginx:1");
    world.delete(&Pod::TYPE, "web-0").await;
    roll_out(&world).await;
    assert_eq!(images(&world).await, "web-0=nginx:2 web-1=nginx:1");
}

// Upstream: TestStatefulSetControlRollingUpdateWithMaxUnavailable without a value. The embedded API
// server has the gate off and drops the value; the plan's tests cover values.
#[tokio::test(start_paused = true)]
async fn with_the_gate_on_and_no_value_one_pod_at_a_time_is_updated() {
    let set = parallel(stateful_set(3));
    let world = started(set, with_max_unavailable(), false).await;
    set_image(&world, "nginx:2").await;
    world.wait_until_idle().await;
    assert_eq!(
        images(&world).await,
        "web-0=nginx:1 web-1=nginx:1 web-2=nginx:2"
    );
    roll_out(&world).await;
    assert!(!images(&world).await.contains("nginx:1"));
}

#[tokio::test(start_paused = true)]
async fn a_bad_revision_holds_an_ordered_set_up_unless_recovery_is_on() {
    for (recover, expected) in [
        (false, "web-0=nginx:1 web-1=bad"),
        (true, "web-0=nginx:3 web-1=nginx:3"),
    ] {
        let world = started(stateful_set(2), Gates::default(), recover).await;
        set_image(&world, "bad").await;
        world.wait_until_idle().await;
        assert_eq!(images(&world).await, "web-0=nginx:1 web-1=bad");
        world.make_unready("web-1").await;
        set_image(&world, "nginx:3").await;
        for _ in 0..5 {
            world.wait_until_idle().await;
            for pod in world.list(&Pod::TYPE).await {
                if pod["spec"]["containers"][0]["image"] != "bad" {
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    world.make_ready(name).await;
                }
            }
        }
        assert_eq!(images(&world).await, expected, "recovery {recover}");
    }
}

// Upstream: TestStatefulSetControlRollingUpdate with burst.
#[tokio::test(start_paused = true)]
async fn a_parallel_set_updates_one_by_one_too() {
    let world = started(parallel(stateful_set(3)), Gates::default(), false).await;
    set_image(&world, "nginx:2").await;
    world.wait_until_idle().await;
    assert_eq!(
        images(&world).await,
        "web-0=nginx:1 web-1=nginx:1 web-2=nginx:2"
    );
    roll_out(&world).await;
    assert!(!images(&world).await.contains("nginx:1"));
}

async fn set_image_and_size(world: &World, image: &str, replicas: i32) {
    let containers = json!([{"name": "c", "image": image}]);
    let template = json!({"spec": {"containers": containers}});
    let patch = json!({"spec": {"template": template, "replicas": replicas}});
    world.patch(&StatefulSet::TYPE, "web", patch).await;
}

/// `1122`: the versions of the pods, in order.
async fn versions(world: &World) -> String {
    let images = images(world).await;
    let version = |pod: &str| pod.rsplit(':').next().unwrap_or_default().to_owned();
    images.split_whitespace().map(version).collect()
}

// Upstream: TestStatefulSetControlRollingUpdate, TestStatefulSetControlOnDeleteUpdate,
// TestStatefulSetControlRollingUpdateWithPartition, TestStatefulSetControlRollback, each with monotonic and burst.
#[tokio::test(start_paused = true)]
async fn an_update_and_another_size_go_together() {
    let rolling = json!({"type": "RollingUpdate"});
    let on_delete = json!({"type": "OnDelete"});
    let partition = json!({"rollingUpdate": {"partition": 2}});
    for (strategy, before, after, expected, all_deleted) in [
        (&rolling, 3, 3, "222", "222"),
        (&rolling, 3, 5, "22222", "22222"),
        (&rolling, 5, 3, "222", "222"),
        (&on_delete, 3, 3, "111", "222"),
        (&on_delete, 3, 5, "11122", "22222"),
        (&on_delete, 5, 3, "111", "222"),
        (&partition, 3, 3, "112", "112"),
        (&partition, 3, 5, "11222", "11222"),
    ] {
        for is_parallel in [false, true] {
            let mut set = stateful_set(before);
            set["spec"]["updateStrategy"] = strategy.clone();
            if is_parallel {
                set = parallel(set);
            }
            let world = started(set, Gates::default(), false).await;
            let case = format!("{strategy} {before} {after} {is_parallel}");
            set_image_and_size(&world, "nginx:2", after).await;
            roll_out(&world).await;
            assert_eq!(versions(&world).await, expected, "{case}");
            for name in world.pod_names().await {
                world.delete(&Pod::TYPE, &name).await;
            }
            roll_out(&world).await;
            assert_eq!(versions(&world).await, all_deleted, "{case}");
            // And back, with the size of before.
            set_image_and_size(&world, "nginx:1", before).await;
            roll_out(&world).await;
            for name in world.pod_names().await {
                world.delete(&Pod::TYPE, &name).await;
            }
            roll_out(&world).await;
            let back = "1".repeat(before as usize);
            assert_eq!(versions(&world).await, back, "{case}");
        }
    }
}
