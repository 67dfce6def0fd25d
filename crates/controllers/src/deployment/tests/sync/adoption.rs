use api::Resource;
use api::kinds::{Deployment, ReplicaSet};
use expect_test::expect;
use serde_json::{Value, json};

use super::*;

/// A set as another controller, or another version of it, would have made: its hash is not ours.
fn foreign_set(name: &str, tag: &str, owners: Value) -> Value {
    let labels = json!({"app": "web", "pod-template-hash": "6b474476c4"});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": format!("nginx:{tag}")}]},
            },
        },
    })
}

// Upstream: TestGetReplicaSetsForDeploymentAdoptRelease, TestGetReplicaSetsForDeployment.
#[tokio::test(start_paused = true)]
async fn an_orphan_of_the_template_is_adopted_and_used() {
    let world = world().await;
    world
        .create(
            &ReplicaSet::TYPE,
            foreign_set("web-6b474476c4", "1", Value::Null),
        )
        .await;
    world.wait_until_idle().await;
    world.writes();
    world.create(&Deployment::TYPE, deployment(2)).await;
    world.wait_until_idle().await;
    expect![[r#"
        PATCH replicasets/web-6b474476c4 ×2
        PUT deployments/web/status"#]]
    .assert_eq(&world.written());
    roll_out(&world).await;
    expect!["1 nginx:1 2/2"].assert_eq(&sets(&world).await);
    expect![[r#"
        Available True MinimumReplicasAvailable Deployment has minimum availability.
        Progressing True NewReplicaSetAvailable ReplicaSet "web-v1" has successfully progressed."#]]
    .assert_eq(&without_hashes(&world, &conditions(&world).await).await);
    let set = world
        .get(&ReplicaSet::TYPE, "web-6b474476c4")
        .await
        .unwrap();
    assert_eq!(set["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(world.pod_names().await.len(), 2, "its pods stay");

    let relabel = json!({"metadata": {"labels": {"app": "other"}}});
    world
        .patch(&ReplicaSet::TYPE, "web-6b474476c4", relabel)
        .await;
    world.wait_until_idle().await;
    let set = world
        .get(&ReplicaSet::TYPE, "web-6b474476c4")
        .await
        .unwrap();
    assert_eq!(
        set["metadata"]["ownerReferences"],
        Value::Null,
        "it is released"
    );
    assert_eq!(world.list(&ReplicaSet::TYPE).await.len(), 2, "and replaced");
}

#[tokio::test(start_paused = true)]
async fn a_set_of_another_deployment_is_not_touched() {
    let world = world().await;
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "other",
        "uid": "6f0e7d3a-9f0b-4d53-8f3e-0123456789ab", "controller": true,
    }]);
    world
        .create(&ReplicaSet::TYPE, foreign_set("theirs", "1", owner.clone()))
        .await;
    world.create(&Deployment::TYPE, deployment(2)).await;
    roll_out(&world).await;
    let theirs = world.get(&ReplicaSet::TYPE, "theirs").await.unwrap();
    assert_eq!(theirs["metadata"]["ownerReferences"], owner);
    assert_eq!(theirs["spec"]["replicas"], 2);
    assert_eq!(world.list(&ReplicaSet::TYPE).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_counts_as_a_collision() {
    let world = world().await;
    // What would the name be? The Deployment tells; then it goes, and its set stays with another template.
    world.create(&Deployment::TYPE, deployment(1)).await;
    world.wait_until_idle().await;
    let name = world.list(&ReplicaSet::TYPE).await[0]["metadata"]["name"].clone();
    let name = name.as_str().unwrap();
    world.delete(&Deployment::TYPE, "web").await;
    world.delete(&ReplicaSet::TYPE, name).await;
    world.wait_until_idle().await;
    let mut taken = foreign_set(name, "other", Value::Null);
    for path in [
        "/metadata/labels",
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        *taken.pointer_mut(path).unwrap() = json!({"app": "other"});
    }
    world.create(&ReplicaSet::TYPE, taken).await;
    world.wait_until_idle().await;
    world.writes();

    world.create(&Deployment::TYPE, deployment(1)).await;
    world.wait_until_idle().await;
    let writes: Vec<String> = world
        .writes()
        .iter()
        .map(ToString::to_string)
        .take(4)
        .collect();
    expect![[r#"
        POST replicasets -> 409
        PUT deployments/web/status
        POST replicasets
        PUT deployments/web/status"#]]
    .assert_eq(&writes.join("\n"));
    assert_eq!(web(&world).await["status"]["collisionCount"], 1);
    let sets = world.list(&ReplicaSet::TYPE).await;
    let ours: Vec<&Value> = sets
        .iter()
        .filter(|set| set["metadata"]["name"] != name)
        .collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0]["metadata"]["ownerReferences"][0]["name"], "web");
}
