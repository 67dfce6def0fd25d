//! Revisions that others made, or made twice.

use api::Resource;
use api::kinds::{ControllerRevision, DaemonSet, Pod};
use serde_json::json;

use super::super::Revisions;
use super::*;

// Upstream: TestGetNodesToDaemonPods (with pods that are finished and being deleted).
#[test]
fn revisions_that_pods_have_are_kept() {
    let revision = |text: &str| {
        let (hash, number) = text.split_once('=').unwrap();
        let held = json!({
            "metadata": {"name": hash, "labels": {"controller-revision-hash": hash}},
            "revision": number.parse::<i64>().unwrap(),
        });
        Arc::new(ControllerRevision::decode(held.to_string().as_bytes()).unwrap())
    };
    let check = |limit, pods: &str, expected: &str| {
        let revisions = Revisions {
            current: revision("new=9"),
            old: ["x=1", "old=2", "z=3"].map(revision).into(),
        };
        let snapshot = snapshot(&format!("max=1 | n1 | {pods}"));
        let pods = snapshot.all_pods().chain(&snapshot.leaving);
        let surplus = revisions.surplus(limit, pods);
        let names: Vec<&str> = surplus.iter().map(|held| &*held.metadata.name).collect();
        assert_eq!(names.join(" "), expected);
    };
    check(3, "", "");
    check(2, "", "x");
    check(1, "", "x old");
    check(1, "a@n1:old", "x z");
    check(1, "a@n1:old,failed,gone", "x z");
    check(0, "a@n1:old", "x z");
}

async fn idle_world() -> (World, Value) {
    let world = world(&["n1"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.wait_until_idle().await;
    world.make_all_ready().await;
    world.wait_until_idle().await;
    world.written();
    let revision = world.list(&ControllerRevision::TYPE).await.remove(0);
    (world, revision)
}

/// A copy under another name, as another controller manager may have made it.
fn copy(revision: &Value, name: &str, number: i64) -> Value {
    let mut copy = revision.clone();
    let owners = copy["metadata"]["ownerReferences"].clone();
    copy["metadata"] = json!({
        "name": name, "ownerReferences": owners,
        "labels": {"app": "web", "controller-revision-hash": name},
    });
    copy["revision"] = json!(number);
    copy
}

#[tokio::test(start_paused = true)]
async fn of_equal_revisions_the_newest_stays_and_no_pod_is_lost() {
    let (world, revision) = idle_world().await;
    let pods = world.pod_names().await;
    // By its generation alone the pod would be up to date.
    let bare = json!({"metadata": {"labels": {"pod-template-generation": null}}});
    world.patch(&Pod::TYPE, &pods[0], bare).await;
    world.wait_until_idle().await;
    world
        .create(&ControllerRevision::TYPE, copy(&revision, "web-go", 2))
        .await;
    world.wait_until_idle().await;
    let old = revision["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        world.written(),
        format!("PATCH pods/{}\nDELETE controllerrevisions/{old}", pods[0])
    );
    assert_eq!(world.pod_names().await, pods);
    let pod = world.get(&Pod::TYPE, &pods[0]).await.unwrap();
    assert_eq!(
        pod["metadata"]["labels"]["controller-revision-hash"],
        "web-go"
    );
}

// Upstream: TestControlledHistories.
#[tokio::test(start_paused = true)]
async fn orphaned_revisions_are_adopted_and_unselected_ones_released() {
    let (world, revision) = idle_world().await;
    let mut orphan = copy(&revision, "web-orphan", 1);
    orphan["metadata"]["ownerReferences"] = json!([]);
    orphan["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:0");
    world.create(&ControllerRevision::TYPE, orphan).await;
    let mut alien = copy(&revision, "web-alien", 1);
    alien["metadata"]["labels"] = json!({"app": "other"});
    world.create(&ControllerRevision::TYPE, alien).await;
    world.wait_until_idle().await;
    let owners = async |name: &str| {
        let held = world.get(&ControllerRevision::TYPE, name).await.unwrap();
        held["metadata"]["ownerReferences"].clone()
    };
    assert_eq!(owners("web-orphan").await[0]["kind"], "DaemonSet");
    assert_eq!(owners("web-alien").await, Value::Null);
    let own = revision["metadata"]["name"].as_str().unwrap();
    let held = world.get(&ControllerRevision::TYPE, own).await.unwrap();
    assert_eq!(held["revision"], 2, "the current one stays the newest");
}

#[tokio::test(start_paused = true)]
async fn a_revision_without_a_hash_is_called_by_its_name() {
    let (world, revision) = idle_world().await;
    let mut bare = copy(&revision, "web-bare", 1);
    bare["metadata"]["labels"] = json!({"app": "web"});
    bare["data"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:0");
    world.create(&ControllerRevision::TYPE, bare).await;
    world.wait_until_idle().await;
    let bare = world
        .get(&ControllerRevision::TYPE, "web-bare")
        .await
        .unwrap();
    assert_eq!(
        bare["metadata"]["labels"]["controller-revision-hash"],
        "web-bare"
    );
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_counts_as_a_collision() {
    let world = world(&["n1"]).await;
    let mut set = daemon_set();
    set["metadata"]["name"] = json!("web");
    world.create(&DaemonSet::TYPE, set.clone()).await;
    world.wait_until_idle().await;
    let revision = world.list(&ControllerRevision::TYPE).await.remove(0);
    let name = revision["metadata"]["name"].as_str().unwrap().to_string();
    world.delete(&DaemonSet::TYPE, "web").await;
    world.delete(&ControllerRevision::TYPE, &name).await;
    for pod in world.pod_names().await {
        world.delete(&Pod::TYPE, &pod).await;
    }
    world.finish_deletions().await;
    let mut taken = copy(&revision, &name, 1);
    taken["metadata"]["ownerReferences"] = json!([]);
    taken["metadata"]["labels"] = json!({"app": "other"});
    taken["data"] = json!({"spec": {"template": {"x": 1}}});
    world.create(&ControllerRevision::TYPE, taken).await;
    world.create(&DaemonSet::TYPE, set).await;
    world.wait_until_idle().await;
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["collisionCount"], 1);
    assert_eq!(set["status"]["currentNumberScheduled"], 1);
    assert_eq!(world.list(&ControllerRevision::TYPE).await.len(), 2);
}
