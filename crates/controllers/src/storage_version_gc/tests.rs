//! Plans first, then the whole against the embedded API server, to which a custom resource stands in for the gated one.

use std::collections::BTreeSet;

use api::kinds::{Lease, StorageVersion};
use api::{Istr, Resource, Time};
use client::DeleteOptions;
use serde_json::{Value, json};
use testkit::World;

use super::{Step, controller, plan};

/// `1=v1 2=v2`
fn entries(text: &str) -> Value {
    let entry = |(server, version): (&str, &str)| {
        json!({
            "apiServerID": format!("kube-apiserver-{server}"), "encodingVersion": version,
            "decodableVersions": [version], "servedVersions": [version],
        })
    };
    text.split(' ')
        .filter_map(|one| one.split_once('='))
        .map(entry)
        .collect()
}

fn check(held: &str, common: &str, gone: &str, expected: &str) {
    let object = json!({
        "metadata": {"name": "apps.deployments", "generation": 3},
        "status": {
            "storageVersions": entries(held), "commonEncodingVersion": common,
            "conditions": [{"type": "AllEncodingVersionsEqual", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}],
        },
    });
    let version = StorageVersion::decode(object.to_string().as_bytes()).unwrap();
    let gone: BTreeSet<Istr> = gone
        .split(' ')
        .filter(|server| !server.is_empty())
        .map(|server| Istr::from(format!("kube-apiserver-{server}")))
        .collect();
    let answer = match plan(&version, &gone, Time::from_unix(1_704_067_200)) {
        Step::Keep => "keep".to_owned(),
        Step::Delete => "delete".to_owned(),
        Step::Update(status) => {
            let left = status.storage_versions.iter();
            let left: Vec<&str> = left.map(|entry| &entry.api_server_id[15..]).collect();
            let common = status.common_encoding_version.as_deref().unwrap_or("none");
            let condition = &status.conditions[0];
            let since = condition.last_transition_time.unwrap().to_string();
            format!(
                "{} left, {common}, {} {} since {}",
                left.join(" "),
                condition.status,
                condition.reason,
                &since[..4]
            )
        }
    };
    assert_eq!(answer, expected, "{held} without {gone:?}");
}

// Upstream: all four tests, as plans.
#[test]
fn what_is_left_says_whether_it_agrees() {
    check("1=v1 2=v2", "v1", "", "keep");
    check(
        "1=v1 2=v1",
        "v1",
        "1",
        "2 left, v1, True CommonEncodingVersionSet since 2020",
    );
    check(
        "1=v1 2=v2 3=v2",
        "v1",
        "1",
        "2 3 left, v2, True CommonEncodingVersionSet since 2024",
    );
    check(
        "1=v1 2=v2 3=v3",
        "v1",
        "1",
        "2 3 left, none, False CommonEncodingVersionUnset since 2024",
    );
    check("1=v1", "v1", "1", "delete");
    check("1=v1 2=v1", "v1", "1 2", "delete");
}

async fn world() -> World {
    let mut world = World::new().await;
    crate::test_definition(&world, &StorageVersion::TYPE, &["v1alpha1"]).await;
    for server in ["1", "2"] {
        lease(&world, server, "kube-apiserver").await;
    }
    let context = world.context();
    let running = controller(&context).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

async fn lease(world: &World, server: &str, component: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": format!("kube-apiserver-{server}"), "namespace": "kube-system",
            "labels": {"apiserver.kubernetes.io/identity": component},
        },
    });
    let created = world
        .user
        .create(&Lease::TYPE, "kube-system", lease.to_string())
        .await;
    created.unwrap();
}

async fn create(world: &World, held: &str) {
    let object = json!({
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion",
        "metadata": {"name": "apps.deployments"},
    });
    world.create(&StorageVersion::TYPE, object).await;
    let status = json!({"status": {"storageVersions": entries(held)}});
    let patch = client::Patch::Merge(status.to_string().into());
    let patched = world
        .user
        .patch(
            &StorageVersion::TYPE,
            "",
            "apps.deployments",
            Some("status"),
            &patch,
        )
        .await;
    patched.unwrap();
}

async fn delete_lease(world: &World, server: &str) {
    let (name, options) = (format!("kube-apiserver-{server}"), DeleteOptions::default());
    let deleted = world
        .user
        .delete(&Lease::TYPE, "kube-system", &name, &options)
        .await;
    deleted.unwrap();
}

// Upstream: Test_StorageVersionUpdatedWithAllEncodingVersionsEqualOnLeaseDeletion, Test_StorageVersionDeletedOnLeaseDeletion.
#[tokio::test(start_paused = true)]
async fn entries_go_with_the_leases_of_their_servers() {
    let world = world().await;
    create(&world, "1=v1 2=v2").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    delete_lease(&world, "1").await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body["status"],
        json!({
            "storageVersions": entries("2=v2"), "commonEncodingVersion": "v2",
            "conditions": [{
                "type": "AllEncodingVersionsEqual", "status": "True", "observedGeneration": 1,
                "reason": "CommonEncodingVersionSet", "message": "Common encoding version set",
                "lastTransitionTime": "2024-01-01T00:00:05Z",
            }],
        })
    );
    delete_lease(&world, "2").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "DELETE storageversions/apps.deployments");
}

// Upstream: Test_StorageVersionContainsInvalidLeaseID.
#[tokio::test(start_paused = true)]
async fn entries_of_servers_that_never_were_are_removed() {
    let world = world().await;
    lease(&world, "3", "something-else").await;
    create(&world, "1=v1 2=v1 3=v1 4=v1 =v1").await;
    world.wait_until_idle().await;
    let held = world
        .get(&StorageVersion::TYPE, "apps.deployments")
        .await
        .unwrap();
    assert_eq!(held["status"]["storageVersions"], entries("1=v1 2=v1"));
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_no_identities_enqueue_nothing() {
    let world = world().await;
    create(&world, "1=v1").await;
    lease(&world, "other", "something-else").await;
    delete_lease(&world, "other").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}
