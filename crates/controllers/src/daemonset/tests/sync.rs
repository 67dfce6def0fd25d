//! The whole controller against the embedded API server, on a virtual clock.

use std::time::Duration;

use api::Resource;
use api::kinds::{ControllerRevision, DaemonSet, Node, Pod};
use expect_test::expect;
use serde_json::{Value, json};

use super::*;

// Upstream: TestSimpleDaemonSetLaunchesPods, TestSimpleDaemonSetUpdatesStatusAfterLaunchingPods.
#[tokio::test(start_paused = true)]
async fn runs_on_every_node_and_then_rests() {
    let world = world(&["n1", "n2", "n3"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.wait_until_idle().await;
    expect![[r#"
        POST controllerrevisions
        POST pods ×3
        PUT daemonsets/web/status"#]]
    .assert_eq(&world.written());
    assert_eq!(images(&world).await, "n1=nginx:1 n2=nginx:1 n3=nginx:1");

    world.make_all_ready().await;
    world.wait_until_idle().await;
    expect![[r#"{"currentNumberScheduled":3,"desiredNumberScheduled":3,"numberAvailable":3,"numberMisscheduled":0,"numberReady":3,"observedGeneration":1,"updatedNumberScheduled":3}"#]]
        .assert_eq(&status(&world).await);
    world.written();
    let patch = json!({"metadata": {"labels": {"touched": "yes"}}});
    world.patch(&DaemonSet::TYPE, "web", patch).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "",
        "a set that has converged writes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_and_revisions_are_created_from_the_template() {
    let world = world(&["n1"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.wait_until_idle().await;
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    let writes = world.writes();
    let (revision, pod) = (&writes[0].body, &writes[1].body);
    let hash = revision["metadata"]["labels"]["controller-revision-hash"].clone();
    assert_eq!(
        revision["metadata"]["name"],
        json!(format!("web-{}", hash.as_str().unwrap()))
    );
    assert_eq!(revision["revision"], 1);
    let mut template = set["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    assert_eq!(revision["data"], json!({"spec": {"template": template}}));
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], hash);
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    for made in [revision, pod] {
        assert_eq!(made["metadata"]["ownerReferences"], owner);
    }
    let mut spec = pod["spec"].clone();
    spec["affinity"].take();
    spec["tolerations"].take();
    let mut wanted = set["spec"]["template"]["spec"].clone();
    wanted["affinity"] = Value::Null;
    wanted["tolerations"] = Value::Null;
    assert_eq!(spec, wanted, "the rest of the spec passes through");
    let pods = world.pod_names().await;
    assert_eq!(
        world.events().await,
        [format!("Normal SuccessfulCreate Created pod: {}", pods[0])]
    );
}

// Upstream: TestNoNodesDoesNothing, TestAddNode, TestUpdateNode.
#[tokio::test(start_paused = true)]
async fn follows_nodes_as_they_come_and_change() {
    let world = world(&[]).await;
    let mut set = daemon_set();
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    world.create(&DaemonSet::TYPE, set).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "POST controllerrevisions\nPUT daemonsets/web/status"
    );
    add_node(&world, "n1:disk=ssd").await;
    add_node(&world, "n2").await;
    world.wait_until_idle().await;
    assert_eq!(images(&world).await, "n1=nginx:1");
    let labels = |disk: Value| json!({"metadata": {"labels": {"disk": disk}}});
    world.patch(&Node::TYPE, "n2", labels(json!("ssd"))).await;
    world.patch(&Node::TYPE, "n1", labels(Value::Null)).await;
    world.wait_until_idle().await;
    world.finish_deletions().await;
    world.wait_until_idle().await;
    assert_eq!(images(&world).await, "n2=nginx:1");
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["desiredNumberScheduled"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_takes_its_unbound_pod_along() {
    let world = world(&["n1", "n2"]).await;
    world.create(&DaemonSet::TYPE, daemon_set()).await;
    world.wait_until_idle().await;
    world.delete(&Node::TYPE, "n2").await;
    world.wait_until_idle().await;
    world.finish_deletions().await;
    assert_eq!(images(&world).await, "n1=nginx:1");
    let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
    assert_eq!(set["status"]["desiredNumberScheduled"], 1);
}

#[tokio::test(start_paused = true)]
async fn adopts_orphans_and_releases_what_it_no_longer_selects() {
    let world = world(&["n1"]).await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stray", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:0"}], "affinity": meant_for("n1")},
    });
    world.create(&Pod::TYPE, orphan).await;
    let mut set = daemon_set();
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    world.create(&DaemonSet::TYPE, set).await;
    world.wait_until_idle().await;
    assert_eq!(images(&world).await, "n1=nginx:0");
    let written = world.written();
    assert!(written.contains("PATCH pods/stray"), "{written}");
    let patch = json!({"metadata": {"labels": {"app": "other"}}});
    world.patch(&Pod::TYPE, "stray", patch).await;
    world.wait_until_idle().await;
    let stray = world.get(&Pod::TYPE, "stray").await.unwrap();
    assert_eq!(stray["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(images(&world).await, "n1=nginx:0 n1=nginx:1");
}

// Upstream: TestDontDoAnythingIfBeingDeleted.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_is_left_alone() {
    let world = world(&["n1"]).await;
    let mut set = daemon_set();
    set["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(&DaemonSet::TYPE, set).await;
    world.wait_until_idle().await;
    world.delete(&DaemonSet::TYPE, "web").await;
    world.wait_until_idle().await;
    world.written();
    add_node(&world, "n2").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn availability_comes_with_time() {
    let world = world(&["n1"]).await;
    let mut set = daemon_set();
    set["spec"]["minReadySeconds"] = json!(60);
    world.create(&DaemonSet::TYPE, set).await;
    world.wait_until_idle().await;
    world.make_all_ready().await;
    world.wait_until_idle().await;
    let available = async || {
        let set = world.get(&DaemonSet::TYPE, "web").await.unwrap();
        set["status"]["numberAvailable"].as_i64().unwrap_or(0)
    };
    assert_eq!(available().await, 0);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(available().await, 1);
    world.written();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    assert_eq!(world.list(&ControllerRevision::TYPE).await.len(), 1);
}
