use api::Resource;
use api::kinds::{Deployment, Pod};
use expect_test::expect;
use serde_json::json;

use super::super::super::snapshot::unfinished;
use super::*;

async fn started() -> World {
    let world = world().await;
    let mut object = deployment(2);
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create(&Deployment::TYPE, object).await;
    roll_out(&world).await;
    world
}

#[tokio::test(start_paused = true)]
async fn no_new_pod_runs_beside_an_old_one() {
    let world = started().await;
    let held = world.pod_names().await.remove(0);
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.patch(&Pod::TYPE, &held, hold).await;
    edit(&world, image("2")).await;
    world.wait_until_idle().await;
    world.finish_deletions().await;
    world.wait_until_idle().await;
    expect!["1 nginx:1 0/0"].assert_eq(&sets(&world).await);
    assert_eq!(world.pod_names().await, [held.as_str()]);

    let release = json!({"metadata": {"finalizers": null}});
    world.patch(&Pod::TYPE, &held, release).await;
    roll_out(&world).await;
    expect![[r#"
        1 nginx:1 0/0
        2 nginx:2 2/2"#]]
    .assert_eq(&sets(&world).await);
    expect![[r#"
        00:00 Normal ScalingReplicaSet Scaled up replica set web-v1 from 0 to 2
        00:30 Normal ScalingReplicaSet Scaled down replica set web-v1 from 2 to 0
        00:45 Normal ScalingReplicaSet Scaled up replica set web-v2 from 0 to 2"#]]
    .assert_eq(&events(&world).await);
    assert_converged(&world).await;
    world.writes();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn pods_that_have_ended_are_not_waited_for() {
    let world = started().await;
    let pods = world.pod_names().await;
    // Its set replaces the failed pod and leaves it lying around.
    world.make_failed(&pods[0]).await;
    world.wait_until_idle().await;
    edit(&world, image("2")).await;
    world.wait_until_idle().await;
    world.finish_deletions().await;
    world.wait_until_idle().await;
    assert!(world.get(&Pod::TYPE, &pods[0]).await.is_some());
    expect![[r#"
        1 nginx:1 0/0
        2 nginx:2 0/2"#]]
    .assert_eq(&sets(&world).await);
}

// Upstream: TestOldPodsRunning, TestGetPodMapForReplicaSets.
#[tokio::test(start_paused = true)]
async fn pods_of_every_phase_but_the_last_two_still_run() {
    let world = World::new().await;
    controller(&world.context(), 1);
    let pods = world.informers.store::<Pod>();
    let put = |name: &str, phase: &str, owner: &str| {
        let pod = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "labels": {"app": "web"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "a", "uid": owner, "controller": owner != "-"}],
            },
            "status": {"phase": phase},
        });
        pods.put(Pod::decode(pod.to_string().as_bytes()).unwrap().into());
    };
    for (name, phase, running) in [
        ("failed", "Failed", 0),
        ("succeeded", "Succeeded", 0),
        ("unknown", "Unknown", 1),
        ("pending", "Pending", 2),
        ("running", "Running", 3),
        ("silent", "", 4),
    ] {
        put(name, phase, "a");
        assert_eq!(unfinished(&pods, &"a".into()), running, "{name}");
    }
    put("another", "Running", "b");
    put("nobodys", "Running", "-");
    assert_eq!(unfinished(&pods, &"a".into()), 4);
    assert_eq!(unfinished(&pods, &"b".into()), 1);
}
