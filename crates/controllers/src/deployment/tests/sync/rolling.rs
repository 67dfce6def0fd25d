use std::time::Duration;

use api::Resource;
use api::kinds::{Deployment, Pod, ReplicaSet};
use expect_test::expect;
use serde_json::{Value, json};

use super::*;

// Upstream: TestSyncDeploymentCreatesReplicaSet.
#[tokio::test(start_paused = true)]
async fn a_new_deployment_makes_its_set() {
    let world = world().await;
    let mut object = deployment(2);
    object["metadata"]["annotations"] =
        json!({"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    object["spec"]["minReadySeconds"] = json!(5);
    world.create(&Deployment::TYPE, object).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let writes = world.writes();
    let made = &writes[0];
    assert_eq!(made.to_string(), "POST replicasets");
    let deployment = web(&world).await;
    let hash = made.body["metadata"]["labels"]["pod-template-hash"].clone();
    let labels = json!({"app": "web", "pod-template-hash": hash});
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"] = labels.clone();
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("web-{}", hash.as_str().unwrap()),
            "namespace": "default",
            "labels": labels,
            "annotations": {
                "team": "a",
                "deployment.kubernetes.io/revision": "1",
                "deployment.kubernetes.io/desired-replicas": "2",
                "deployment.kubernetes.io/max-replicas": "3",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                "uid": deployment["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 2, "minReadySeconds": 5,
            "selector": {"matchLabels": labels}, "template": template,
        },
    });
    assert_eq!(made.body, expected);
    assert_eq!(
        deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );
    let status = &writes[1];
    assert_eq!(status.to_string(), "PUT deployments/web/status");
    let body = without_hashes(&world, &status.body["status"].to_string()).await;
    expect![[r#"{"conditions":[{"lastTransitionTime":"2024-01-01T00:00:00Z","lastUpdateTime":"2024-01-01T00:00:00Z","message":"Created new replica set \"web-v1\"","reason":"NewReplicaSetCreated","status":"True","type":"Progressing"},{"lastTransitionTime":"2024-01-01T00:00:00Z","lastUpdateTime":"2024-01-01T00:00:00Z","message":"Deployment does not have minimum availability.","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}],"observedGeneration":1,"terminatingReplicas":0,"unavailableReplicas":2}"#]].assert_eq(&body);
}

#[tokio::test(start_paused = true)]
async fn rolls_from_one_template_to_the_next() {
    let world = world().await;
    world.create(&Deployment::TYPE, deployment(4)).await;
    roll_out(&world).await;
    world.written();
    edit(&world, image("2")).await;
    roll_out(&world).await;
    expect![[r#"
        1 nginx:1 0/0
        2 nginx:2 4/4"#]]
    .assert_eq(&sets(&world).await);
    let written = world.written();
    let writes = |what: &str| {
        written
            .lines()
            .filter(|line| line.starts_with(what))
            .count()
    };
    // One new, 4 to 3 old, 2 new, 1 old, 4 new, none old.
    assert_eq!(writes("POST replicasets"), 1);
    assert_eq!(writes("PATCH replicasets"), 5, "{written}");
    assert!(
        !written.contains("deployments/web/status -> 409"),
        "{written}"
    );
    expect![[r#"
        00:00 Normal ScalingReplicaSet Scaled up replica set web-v1 from 0 to 4
        00:30 Normal ScalingReplicaSet Scaled down replica set web-v1 from 4 to 3
        00:30 Normal ScalingReplicaSet Scaled up replica set web-v2 from 0 to 1
        00:30 Normal ScalingReplicaSet Scaled up replica set web-v2 from 1 to 2
        00:40 Normal ScalingReplicaSet Scaled down replica set web-v1 from 3 to 1
        00:40 Normal ScalingReplicaSet Scaled up replica set web-v2 from 2 to 4
        00:55 Normal ScalingReplicaSet Scaled down replica set web-v1 from 1 to 0"#]]
    .assert_eq(&events(&world).await);
    expect![[r#"
        Available True MinimumReplicasAvailable Deployment has minimum availability.
        Progressing True NewReplicaSetAvailable ReplicaSet "web-v2" has successfully progressed."#]]
    .assert_eq(&without_hashes(&world, &conditions(&world).await).await);
    assert_converged(&world).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "",
        "a Deployment that has converged writes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn scaling_is_one_patch_with_a_precondition() {
    let world = world().await;
    world.create(&Deployment::TYPE, deployment(2)).await;
    roll_out(&world).await;
    world.writes();
    let set = &world.list(&ReplicaSet::TYPE).await[0];
    edit(&world, json!({"spec": {"replicas": 5}})).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert!(writes[0].to_string().starts_with("PATCH replicasets/web-"));
    let expected = json!({
        "metadata": {
            "resourceVersion": set["metadata"]["resourceVersion"],
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": "5",
                "deployment.kubernetes.io/max-replicas": "7",
            },
        },
        "spec": {"replicas": 5},
    });
    assert_eq!(writes[0].body, expected);
}

#[tokio::test(start_paused = true)]
async fn a_broken_template_stops_half_way_and_times_out() {
    let world = world().await;
    let mut object = deployment(4);
    object["spec"]["progressDeadlineSeconds"] = json!(60);
    world.create(&Deployment::TYPE, object).await;
    roll_out(&world).await;
    edit(&world, image("broken")).await;
    for _ in 0..3 {
        world.wait_until_idle().await;
        world.finish_deletions().await;
    }
    expect![[r#"
        1 nginx:1 3/3
        2 nginx:broken 0/2"#]]
    .assert_eq(&sets(&world).await);
    expect![[r#"
        Available True MinimumReplicasAvailable Deployment has minimum availability.
        Progressing True ReplicaSetUpdated ReplicaSet "web-vbroken" is progressing."#]]
    .assert_eq(&without_hashes(&world, &conditions(&world).await).await);
    world.writes();
    tokio::time::sleep(Duration::from_secs(60)).await;
    expect![[r#"
        Available True MinimumReplicasAvailable Deployment has minimum availability.
        Progressing False ProgressDeadlineExceeded ReplicaSet "web-vbroken" has timed out progressing."#]].assert_eq(&without_hashes(&world, &conditions(&world).await).await);
    assert_eq!(world.written(), "PUT deployments/web/status");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.written(), "", "stuck is said once");

    // A better template gets through.
    edit(&world, image("2")).await;
    roll_out(&world).await;
    expect![[r#"
        1 nginx:1 0/0
        2 nginx:broken 0/0
        3 nginx:2 4/4"#]]
    .assert_eq(&sets(&world).await);
    assert_converged(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll_out() {
    let world = world().await;
    world.create(&Deployment::TYPE, deployment(2)).await;
    roll_out(&world).await;
    edit(&world, json!({"spec": {"paused": true}})).await;
    world.wait_until_idle().await;
    expect![[r#"
        Available True MinimumReplicasAvailable Deployment has minimum availability.
        Progressing Unknown DeploymentPaused Deployment is paused"#]]
    .assert_eq(&without_hashes(&world, &conditions(&world).await).await);
    edit(&world, image("2")).await;
    edit(&world, json!({"spec": {"replicas": 3}})).await;
    roll_out(&world).await;
    expect!["1 nginx:1 3/3"].assert_eq(&sets(&world).await);
    world.writes();
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    edit(&world, json!({"spec": {"paused": false}})).await;
    roll_out(&world).await;
    expect![[r#"
        1 nginx:1 0/0
        2 nginx:2 3/3"#]]
    .assert_eq(&sets(&world).await);
    assert_converged(&world).await;
}

#[tokio::test(start_paused = true)]
async fn old_sets_beyond_the_limit_are_deleted() {
    let world = world().await;
    let mut object = deployment(1);
    object["spec"]["revisionHistoryLimit"] = json!(2);
    world.create(&Deployment::TYPE, object).await;
    for tag in ["2", "3", "4", "5"] {
        roll_out(&world).await;
        edit(&world, image(tag)).await;
    }
    roll_out(&world).await;
    expect![[r#"
        3 nginx:3 0/0
        4 nginx:4 0/0
        5 nginx:5 1/1"#]]
    .assert_eq(&sets(&world).await);
    assert_converged(&world).await;
}

#[tokio::test(start_paused = true)]
async fn annotations_and_readiness_follow_the_deployment_without_a_rollout() {
    let world = world().await;
    world.create(&Deployment::TYPE, deployment(1)).await;
    roll_out(&world).await;
    world.writes();
    let change =
        json!({"metadata": {"annotations": {"team": "b"}}, "spec": {"minReadySeconds": 3}});
    edit(&world, change).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    let patches: Vec<&Value> = writes
        .iter()
        .filter(|write| write.method == "PATCH")
        .map(|write| &write.body)
        .collect();
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0]["metadata"]["annotations"], json!({"team": "b"}));
    assert_eq!(patches[0]["spec"], json!({"minReadySeconds": 3}));
    assert_eq!(world.list(&ReplicaSet::TYPE).await.len(), 1);
}

// Upstream: TestSyncDeploymentDontDoAnythingDuringDeletion.
#[tokio::test(start_paused = true)]
async fn one_that_is_being_deleted_is_left_alone() {
    let world = world().await;
    let mut object = deployment(2);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(&Deployment::TYPE, object).await;
    roll_out(&world).await;
    world.delete(&Deployment::TYPE, "web").await;
    edit(&world, image("2")).await;
    world.wait_until_idle().await;
    world.writes();
    let pod = world.pod_names().await.remove(0);
    world.make_unready(&pod).await;
    world.wait_until_idle().await;
    assert_eq!(world.list(&ReplicaSet::TYPE).await.len(), 1, "no rollout");
    assert_eq!(web(&world).await["status"]["availableReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_deleted_comes_back() {
    let world = world().await;
    world.create(&Deployment::TYPE, deployment(1)).await;
    roll_out(&world).await;
    let name = world.list(&ReplicaSet::TYPE).await[0]["metadata"]["name"].clone();
    world
        .delete(&ReplicaSet::TYPE, name.as_str().unwrap())
        .await;
    for pod in world.pod_names().await {
        world.delete(&Pod::TYPE, &pod).await;
    }
    world.wait_until_idle().await;
    let sets = world.list(&ReplicaSet::TYPE).await;
    assert_eq!(
        sets[0]["metadata"]["name"], name,
        "the same template has the same name"
    );
}
