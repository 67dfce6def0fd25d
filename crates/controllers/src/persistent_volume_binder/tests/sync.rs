//! The whole against the embedded API server. Upstream: TestControllerSync, TestSync, TestMultiSync,
//! TestControllerCacheParsingError, TestControllerCache.

use std::time::Duration;

use api::kinds::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use api::{GoDuration, Key, Resource};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use testkit::World;

use super::super::controllers;
use super::{claim_json, volume_json};
use crate::config::{PersistentVolumeBinder, Recycler, VolumeConfiguration};

pub(super) fn settings() -> PersistentVolumeBinder {
    PersistentVolumeBinder {
        sync_period: GoDuration::from(Duration::from_secs(15)),
        volume_configuration: VolumeConfiguration {
            enable_host_path_provisioning: false,
            enable_dynamic_provisioning: true,
            persistent_volume_recycler_configuration: Recycler {
                maximum_retry: 3,
                minimum_timeout_nfs: 300,
                pod_template_file_path_nfs: String::new(),
                increment_timeout_nfs: 30,
                pod_template_file_path_host_path: String::new(),
                minimum_timeout_host_path: 60,
                increment_timeout_host_path: 30,
            },
            flex_volume_plugin_dir: String::new(),
        },
    }
}

pub(super) async fn running() -> World {
    let mut world = World::new().await;
    let loops = controllers(&world.context(), settings());
    for running in loops.into_runnables() {
        let stop = world.stop();
        world.run(running.run(stop));
    }
    world.start().await;
    world
}

pub(super) async fn create_volume(world: &World, text: &str) {
    let mut volume = volume_json(text);
    volume["metadata"]["uid"] = json!(null);
    volume["status"] = json!(null);
    world.create(&PersistentVolume::TYPE, volume).await;
}

pub(super) async fn create_claim(world: &World, text: &str) {
    let mut claim = claim_json(text);
    claim["metadata"]["uid"] = json!(null);
    claim["metadata"]["namespace"] = json!("default");
    claim["status"] = json!(null);
    world.create(&PersistentVolumeClaim::TYPE, claim).await;
}

async fn create_class(world: &World, name: &str, provisioner: &str, mode: &str, is_default: bool) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": is_default.to_string()},
        },
        "provisioner": provisioner, "volumeBindingMode": mode,
    });
    world.create(&StorageClass::TYPE, class).await;
}

/// Long enough for a resync and what follows.
pub(super) async fn pass(world: &World) {
    tokio::time::sleep(Duration::from_secs(40)).await;
    let _ = world;
}

pub(super) async fn lines(world: &World) -> String {
    let mut lines = Vec::new();
    for volume in world.list(&PersistentVolume::TYPE).await {
        let held = &volume["spec"]["claimRef"];
        let claim = match held["name"].as_str() {
            Some(name) => format!(
                " -> {name}{}",
                if held["uid"].is_null() {
                    " (no uid)"
                } else {
                    ""
                }
            ),
            None => String::new(),
        };
        lines.push(format!(
            "{} {}{claim}{}{}",
            volume["metadata"]["name"],
            volume["status"]["phase"],
            ours(&volume),
            match volume["metadata"]["deletionTimestamp"].is_null() {
                true => "",
                false => ", gone",
            }
        ));
    }
    for claim in world.list(&PersistentVolumeClaim::TYPE).await {
        let volume = match claim["spec"]["volumeName"].as_str() {
            Some(name) => format!(" -> {name}"),
            None => String::new(),
        };
        let size = match claim["status"]["capacity"]["storage"].as_str() {
            Some(size) => format!(" {size}"),
            None => String::new(),
        };
        lines.push(format!(
            "{} {}{volume}{size}{}",
            claim["metadata"]["name"],
            claim["status"]["phase"],
            ours(&claim)
        ));
    }
    lines.join("\n").replace('"', "")
}

fn ours(object: &Value) -> &'static str {
    match object["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"].is_null() {
        true => "",
        false => " by us",
    }
}

pub(super) async fn see(world: &World, expected: Expect) {
    pass(world).await;
    expected.assert_eq(&lines(world).await);
}

#[tokio::test(start_paused = true)]
async fn claim_and_volume_are_bound_in_four_writes() {
    let world = running().await;
    create_volume(&world, "v size=9Gi").await;
    pass(&world).await;
    expect!["PUT persistentvolumes/v/status"].assert_eq(&world.written());
    create_claim(&world, "data class=").await;
    see(
        &world,
        expect![[r#"
        v Bound -> data by us
        data Bound -> v 9Gi by us"#]],
    )
    .await;
    let writes = world.writes();
    let told: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "PUT persistentvolumes/v",
            "PUT persistentvolumes/v/status",
            "PUT persistentvolumeclaims/data",
            "PUT persistentvolumeclaims/data/status",
        ]
    );
    assert_eq!(
        writes[0].body["spec"]["claimRef"]["kind"],
        "PersistentVolumeClaim"
    );
    assert_eq!(
        writes[3].body["status"]["accessModes"],
        json!(["ReadWriteOnce"])
    );
    pass(&world).await;
    assert_eq!(world.written(), "", "a resync writes nothing");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_for_the_writes_of_a_binding_and_nothing_is_lost() {
    let world = running().await;
    let mut volume = volume_json("v size=9Gi");
    volume["metadata"]["uid"] = json!(null);
    volume["spec"]["mountOptions"] = json!(["noatime"]);
    world.create(&PersistentVolume::TYPE, volume).await;
    let mut claim = claim_json("data class=");
    claim["metadata"] =
        json!({"name": "data", "annotations": {"a": "b"}, "finalizers": ["example.com/hold"]});
    claim["spec"]["resources"]["limits"] = json!({"storage": "99Gi"});
    world.create(&PersistentVolumeClaim::TYPE, claim).await;
    see(
        &world,
        expect![[r#"
        v Bound -> data by us
        data Bound -> v 9Gi by us"#]],
    )
    .await;
    for path in ["/persistentvolumes/v", "/persistentvolumeclaims/data"] {
        assert_eq!(world.reads_of(path), 0, "{path}");
    }
    let volume = world.get(&PersistentVolume::TYPE, "v").await.unwrap();
    assert_eq!(volume["spec"]["mountOptions"], json!(["noatime"]));
    let claim = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    assert_eq!(
        claim["spec"]["resources"],
        json!({"limits": {"storage": "99Gi"}, "requests": {"storage": "5Gi"}})
    );
    assert_eq!(claim["metadata"]["annotations"]["a"], "b");
    let finalizers = claim["metadata"]["finalizers"].to_string();
    assert!(finalizers.contains("example.com/hold"), "{finalizers}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_is_made_up_for() {
    for refused in [
        "persistentvolumes/v/status",
        "persistentvolumeclaims/data",
        "persistentvolumeclaims/data/status",
    ] {
        let world = running().await;
        create_volume(&world, "v").await;
        pass(&world).await;
        world.refuse("PUT", refused, 500, 3);
        create_claim(&world, "data class=").await;
        see(
            &world,
            expect![[r#"
            v Bound -> data by us
            data Bound -> v 5Gi by us"#]],
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_claims_do_not_get_one_volume() {
    let world = running().await;
    for name in ["a", "b", "c"] {
        create_claim(&world, &format!("{name} class=hand")).await;
    }
    create_volume(&world, "v class=hand").await;
    create_volume(&world, "w class=hand size=6Gi").await;
    pass(&world).await;
    let found = lines(&world).await;
    let bound = found.lines().filter(|line| line.contains("Bound"));
    assert_eq!(bound.count(), 4, "{found}");
    assert_eq!(
        found
            .lines()
            .filter(|line| line.contains("Pending"))
            .count(),
        1
    );
}

/// Claims that are bound at the same time choose apart: nobody is refused, and nobody waits for the next resync.
#[tokio::test(start_paused = true)]
async fn claims_that_are_bound_at_the_same_time_choose_different_volumes() {
    let world = running().await;
    for size in 5..9 {
        create_volume(&world, &format!("v{size} class=hand size={size}Gi")).await;
    }
    pass(&world).await;
    world.writes();
    // Four writes for each: one claim after the other would take 1.6 s.
    world.slow_down(Duration::from_millis(100));
    for name in ["a", "b", "c", "d"] {
        create_claim(&world, &format!("{name} class=hand")).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    expect![[r#"
        v5 Bound -> a by us
        v6 Bound -> b by us
        v7 Bound -> c by us
        v8 Bound -> d by us
        a Bound -> v5 5Gi by us
        b Bound -> v6 6Gi by us
        c Bound -> v7 7Gi by us
        d Bound -> v8 8Gi by us"#]]
    .assert_eq(&lines(&world).await);
    assert_eq!(world.writes().len(), 4 * 4, "four writes for each");
}

#[tokio::test(start_paused = true)]
async fn each_side_may_be_named_by_hand() {
    let world = running().await;
    create_volume(&world, "v class=x claim=default/data/").await;
    create_volume(&world, "w").await;
    create_claim(&world, "data class=").await;
    create_claim(&world, "named class= volume=w").await;
    see(
        &world,
        expect![[r#"
        v Bound -> data
        w Bound -> named by us
        data Bound -> v 5Gi by us
        named Bound -> w 5Gi"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_points_at_each_other_crosswise_stays_as_it_is() {
    let world = running().await;
    create_volume(&world, "v claim=default/b/").await;
    create_volume(&world, "w claim=default/a/").await;
    create_claim(&world, "a class= volume=v").await;
    create_claim(&world, "b class= volume=w").await;
    see(
        &world,
        expect![[r#"
        v Available -> b (no uid)
        w Available -> a (no uid)
        a Pending -> v
        b Pending -> w"#]],
    )
    .await;
    let events = world.events().await;
    assert!(
        events.iter().any(|event| event
            .contains("FailedBinding volume \"v\" already bound to a different claim.")),
        "{events:?}"
    );
}

// UPSTREAM: which nodes a volume can be on is the scheduler's to ask.
#[tokio::test(start_paused = true)]
async fn a_volume_that_no_node_can_reach_is_bound_like_any_other() {
    let world = running().await;
    let mut volume = volume_json("v");
    volume["metadata"]["uid"] = json!(null);
    let nowhere = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["nowhere"]}]}]});
    volume["spec"]["nodeAffinity"] = json!({"required": nowhere});
    world.create(&PersistentVolume::TYPE, volume).await;
    create_claim(&world, "data class=").await;
    see(
        &world,
        expect![[r#"
        v Bound -> data by us
        data Bound -> v 5Gi by us"#]],
    )
    .await;
    let volume = world.get(&PersistentVolume::TYPE, "v").await.unwrap();
    assert_eq!(volume["spec"]["nodeAffinity"]["required"], nowhere);
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_a_claim_elsewhere_is_not_taken() {
    let world = running().await;
    create_volume(&world, "v claim=far/data/someone").await;
    create_claim(&world, "data class= volume=v").await;
    see(
        &world,
        expect![[r#"
        v Released -> data
        data Pending -> v"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_has_lost_its_volume_is_lost_for_ever() {
    let world = running().await;
    create_volume(&world, "v").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    let off = json!({"metadata": {"finalizers": null}});
    world.patch(&PersistentVolume::TYPE, "v", off).await;
    world.delete(&PersistentVolume::TYPE, "v").await;
    see(&world, expect!["data Lost -> v by us"]).await;
    create_volume(&world, "other").await;
    see(
        &world,
        expect![[r#"
        other Available
        data Lost -> v by us"#]],
    )
    .await;
    let events = world.events().await;
    let lost = events
        .iter()
        .filter(|event| event.contains("ClaimLost"))
        .count();
    assert_eq!(lost, 1, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provisioner_is_asked_and_its_volume_bound() {
    let world = running().await;
    create_class(&world, "fast", "disk.example.com", "Immediate", false).await;
    create_claim(&world, "data class=fast").await;
    pass(&world).await;
    let claim = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    let annotations = &claim["metadata"]["annotations"];
    for key in [
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
    ] {
        assert_eq!(annotations[key], "disk.example.com");
    }
    world.writes();
    pass(&world).await;
    assert_eq!(world.written(), "", "asked once");
    let uid = claim["metadata"]["uid"].as_str().unwrap();
    create_volume(&world, &format!("made class=fast source=csi policy=Delete made-by=disk.example.com claim=default/data/{uid}")).await;
    see(
        &world,
        expect![[r#"
        made Bound -> data
        data Bound -> made 5Gi by us"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_tell_its_provisioner_says_so() {
    let world = running().await;
    create_class(&world, "fast", "disk.example.com", "Immediate", false).await;
    world.refuse("PUT", "persistentvolumeclaims/data", 500, 1);
    create_claim(&world, "data class=fast").await;
    pass(&world).await;
    let events = world.events().await;
    let told: Vec<&String> = events
        .iter()
        .filter(|event| event.contains("ProvisioningFailed"))
        .collect();
    assert_eq!(told.len(), 1, "{events:?}");
    assert!(
        told[0].starts_with("Warning ProvisioningFailed Error saving claim: "),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_default_class_that_comes_later_is_assigned() {
    let world = running().await;
    create_claim(&world, "data").await;
    pass(&world).await;
    create_class(
        &world,
        "standard",
        "disk.example.com",
        "WaitForFirstConsumer",
        true,
    )
    .await;
    pass(&world).await;
    let claim = world
        .get(&PersistentVolumeClaim::TYPE, "data")
        .await
        .unwrap();
    assert_eq!(claim["spec"]["storageClassName"], "standard");
    let events = world.events().await;
    assert!(
        events
            .iter()
            .any(|event| event.contains("WaitForFirstConsumer")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_deleted_leaves_its_claims_waiting() {
    let world = running().await;
    create_class(
        &world,
        "fast",
        "kubernetes.io/no-provisioner",
        "Immediate",
        false,
    )
    .await;
    create_claim(&world, "data class=fast").await;
    pass(&world).await;
    world.delete(&StorageClass::TYPE, "fast").await;
    pass(&world).await;
    let events = world.events().await;
    assert!(
        events.iter().any(|event| event
            == "Warning ProvisioningFailed storageclass.storage.k8s.io \"fast\" not found"),
        "{events:?}"
    );
    create_volume(&world, "v class=fast").await;
    see(
        &world,
        expect![[r#"
        v Bound -> data by us
        data Bound -> v 5Gi by us"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn says_why_a_claim_waits() {
    let mut world = World::new().await;
    let context = world.context();
    for running in controllers(&context, settings()).into_runnables() {
        let stop = world.stop();
        world.run(running.run(stop));
    }
    world.start().await;
    create_volume(&world, "small size=1Gi").await;
    create_claim(&world, "data class=").await;
    pass(&world).await;
    let decided = context
        .decisions
        .get("test-controller", &Key::new("default", "data"));
    let told: Vec<String> = decided
        .last()
        .unwrap()
        .lines
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        told,
        [
            "waits for a volume that suits it: none does, and it has no class that could make one",
            "volume small is passed over: it is too small (1Gi)",
        ]
    );
}
