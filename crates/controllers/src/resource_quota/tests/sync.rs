//! Quotas against the embedded API server, which charges what it admits.

use api::kinds::{Pod, ResourceQuota};
use api::{Resource, ResourceType};
use client::{DeleteOptions, Propagation};
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_quota_is_counted_and_a_second_sync_writes_nothing() {
    let (world, _) = world().await;
    world.create(&Pod::TYPE, pod("a", "100m")).await;
    world.wait_until_idle().await;
    world.writes();
    create_quota(
        &world,
        "q",
        json!({"hard": {"pods": "3", "requests.cpu": "1"}}),
    )
    .await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(
        writes[0].path,
        "/api/v1/namespaces/default/resourcequotas/q/status"
    );
    assert_eq!(
        writes[0].body["status"],
        json!({"hard": {"pods": "3", "requests.cpu": "1"}, "used": {"pods": "1", "requests.cpu": "100m"}})
    );
    assert_eq!(writes[0].body["spec"], json!({}));
    // Ten minutes, in which everything is recounted twice.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn what_is_created_is_charged_and_what_goes_is_given_back() {
    let (world, _) = world().await;
    create_quota(
        &world,
        "q",
        json!({"hard": {"pods": "2", "requests.cpu": "1"}}),
    )
    .await;
    world.create(&Pod::TYPE, pod("a", "600m")).await;
    let refused = world
        .try_create(&Pod::TYPE, pod("b", "600m"))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains(
            "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
        ),
        "{refused}"
    );
    world.create(&Pod::TYPE, pod("c", "400m")).await;
    let refused = world
        .try_create(&Pod::TYPE, pod("d", "1m"))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains(
            "exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1"
        ),
        "{refused}"
    );
    world.wait_until_idle().await;
    world.writes();
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "a", &now).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT resourcequotas/q/status");
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"pods": "1", "requests.cpu": "400m"})
    );
    world.create(&Pod::TYPE, pod("d", "600m")).await;
    // A pod that has ended holds nothing, and is still there.
    let ended = json!({"status": {"phase": "Succeeded"}});
    world
        .patch_subresource(&Pod::TYPE, "d", Some("status"), ended)
        .await;
    world.wait_until_idle().await;
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"pods": "1", "requests.cpu": "400m"})
    );
}

// Upstream: TestReplenishQuota… of update_filter_test.go.
#[tokio::test(start_paused = true)]
async fn pods_that_move_to_another_scope_and_services_of_another_type_are_counted_anew() {
    let (world, _) = world().await;
    create_quota(
        &world,
        "ends",
        json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]}),
    )
    .await;
    create_quota(
        &world,
        "ports",
        json!({"hard": {"services.nodeports": "5"}}),
    )
    .await;
    world.create(&Pod::TYPE, pod("a", "1m")).await;
    let services = ResourceType::namespaced("", "v1", "services", "Service");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    world.create(&services, service).await;
    world.wait_until_idle().await;
    assert_eq!(status(&world, "ends").await["used"], json!({"pods": "0"}));
    assert_eq!(
        status(&world, "ports").await["used"],
        json!({"services.nodeports": "1"})
    );
    world
        .patch(
            &Pod::TYPE,
            "a",
            json!({"spec": {"activeDeadlineSeconds": 1000}}),
        )
        .await;
    world
        .patch(&services, "s", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    world.wait_until_idle().await;
    assert_eq!(status(&world, "ends").await["used"], json!({"pods": "1"}));
    assert_eq!(
        status(&world, "ports").await["used"],
        json!({"services.nodeports": "0"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_should_be_gone_stops_counting_by_itself() {
    let (world, _) = world().await;
    create_quota(
        &world,
        "q",
        json!({"hard": {"pods": "1", "count/pods": "9"}}),
    )
    .await;
    let mut stuck = pod("a", "1m");
    stuck["metadata"]["finalizers"] = json!(["example.com/hold"]);
    stuck["spec"]["nodeName"] = json!("lost");
    world.create(&Pod::TYPE, stuck).await;
    let grace = DeleteOptions {
        grace_period_seconds: Some(20),
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "a", &grace).await;
    tokio::time::sleep(Duration::from_secs(38)).await;
    assert_eq!(status(&world, "q").await["used"]["pods"], "1");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(
        status(&world, "q").await["used"],
        json!({"pods": "0", "count/pods": "1"})
    );
}

/// A quota of pods and services, and a pod that keeps its finalizer: it stops counting 40 seconds after its deletion,
/// without another word of the API server.
async fn world_with_a_stuck_pod() -> World {
    let (world, _) = world().await;
    let hard = json!({"pods": "9", "services": "99"});
    create_quota(&world, "q", json!({"hard": hard})).await;
    let mut stuck = pod("a", "1m");
    stuck["metadata"]["finalizers"] = json!(["example.com/hold"]);
    stuck["spec"]["nodeName"] = json!("lost");
    world.create(&Pod::TYPE, stuck).await;
    create_service(&world, "s").await;
    let grace = DeleteOptions {
        grace_period_seconds: Some(20),
        ..DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "a", &grace).await;
    world
}

async fn create_service(world: &World, name: &str) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    world.create(&SERVICES, service).await;
}

const SERVICES: ResourceType = ResourceType::namespaced("", "v1", "services", "Service");

#[tokio::test(start_paused = true)]
async fn no_cache_is_waited_for_because_of_our_own_write() {
    let world = world_with_a_stuck_pod().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // What we write now is newer than anything that the cache of pods will see.
    world.delete(&SERVICES, "s").await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    // The other service is that of the API server.
    let used = |pods: &str| json!({"pods": pods, "services": "1"});
    assert_eq!(status(&world, "q").await["used"], used("1"));
    world.writes();
    // The second is over that the end is rounded up to, and the two are not that a cache would be waited for.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(world.written(), "PUT resourcequotas/q/status");
    assert_eq!(status(&world, "q").await["used"], used("0"));
}

#[tokio::test(start_paused = true)]
async fn charges_for_one_kind_do_not_hold_up_another_for_ever() {
    let world = world_with_a_stuck_pod().await;
    tokio::time::sleep(Duration::from_secs(38)).await;
    for number in 0..20 {
        create_service(&world, &format!("s{number}")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(status(&world, "q").await["used"]["pods"], "0");
}

#[tokio::test(start_paused = true)]
async fn additions_are_counted_only_if_the_last_count_may_lack_them() {
    let (world, _) = world().await;
    create_quota(&world, "q", json!({"hard": {"pods": "9"}})).await;
    let forge = async |used: &str| {
        let forged = json!({"status": {"used": {"pods": used}}});
        world
            .patch_subresource(&ResourceQuota::TYPE, "q", Some("status"), forged)
            .await;
    };
    tokio::time::sleep(Duration::from_secs(10)).await;
    forge("4").await;
    world.create(&Pod::TYPE, pod("a", "1m")).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "5"}));
    // Something goes, which makes us count.
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "a", &now).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "0"}));
    forge("4").await;
    world.create(&Pod::TYPE, pod("b", "1m")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "1"}));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_limits_is_taken_over() {
    let (world, _) = world().await;
    create_quota(&world, "q", json!({"hard": {"pods": "1"}})).await;
    let hard = json!({"spec": {"hard": {"pods": "2", "secrets": "1k"}}});
    world.patch(&ResourceQuota::TYPE, "q", hard).await;
    world.wait_until_idle().await;
    assert_eq!(
        status(&world, "q").await,
        json!({"hard": {"pods": "2", "secrets": "1k"}, "used": {"pods": "0", "secrets": "0"}})
    );
    world.writes();
    world.delete(&ResourceQuota::TYPE, "q").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again() {
    let (world, _) = world().await;
    world.refuse("PUT", "/resourcequotas/q/status", 409, 2);
    create_quota(&world, "q", json!({"hard": {"pods": "1"}})).await;
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "0"}));
}

#[tokio::test(start_paused = true)]
async fn forged_usage_is_fixed_by_the_next_recount() {
    let (world, _) = world().await;
    create_quota(&world, "q", json!({"hard": {"pods": "5"}})).await;
    let forged = json!({"status": {"used": {"pods": "4"}}});
    world
        .patch_subresource(&ResourceQuota::TYPE, "q", Some("status"), forged)
        .await;
    tokio::time::sleep(Duration::from_secs(310)).await;
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "0"}));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_marked_for_deletion_is_counted_again_once_it_should_be_gone() {
    let (world, _) = world().await;
    create_quota(&world, "q", json!({"hard": {"pods": "9"}})).await;
    let mut placed = pod("a", "1m");
    placed["spec"]["nodeName"] = json!("lost");
    world.create(&Pod::TYPE, placed).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The next recount finds out that this is not so.
    let forged = json!({"status": {"used": {"pods": "4"}}});
    world
        .patch_subresource(&ResourceQuota::TYPE, "q", Some("status"), forged)
        .await;
    let grace = DeleteOptions {
        grace_period_seconds: Some(20),
        ..DeleteOptions::default()
    };
    world.delete_with(&Pod::TYPE, "a", &grace).await;
    tokio::time::sleep(Duration::from_secs(39)).await;
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "4"}));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "0"}));
}

// Sixty-four at once, and a controller that counts at the same time.
#[tokio::test(start_paused = true)]
async fn many_at_once_never_get_more_than_there_is() {
    let (world, _) = world().await;
    create_quota(&world, "q", json!({"hard": {"pods": "10"}})).await;
    let creations = (0..64).map(|number| {
        let world = &world;
        async move {
            tokio::time::sleep(Duration::from_millis(number % 7)).await;
            let created = world
                .try_create(&Pod::TYPE, pod(&format!("p{number}"), "1m"))
                .await;
            created.is_ok()
        }
    });
    let created = futures_util::future::join_all(creations).await;
    assert_eq!(created.iter().filter(|created| **created).count(), 10);
    world.wait_until_idle().await;
    assert_eq!(world.list(&Pod::TYPE).await.len(), 10);
    assert_eq!(status(&world, "q").await["used"], json!({"pods": "10"}));
}
