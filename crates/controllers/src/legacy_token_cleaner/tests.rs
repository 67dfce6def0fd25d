//! Steps first, then the whole against the embedded API server.
//! Upstream: TestLegacyServiceAccountTokenCleanUp.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{ConfigMap, Pod, SERVICE_ACCOUNT_TOKEN, Secret, ServiceAccount};
use api::{Resource, Time};
use runtime::Store;
use serde_json::{Value, json};
use testkit::World;

use super::{Limits, candidate, controller, mounted_secrets, next_step};

const DAY: Duration = Duration::from_secs(86_400);

/// 2024-01-01, when a year before is 2023-01-01.
const NOW: i64 = 1_704_067_200;

/// A token born on a day, with labels; what happens to it when no pod mounts it.
fn check(born: &str, labels: Value, expected: &str) {
    check_with(born, labels, |_, _| {}, expected);
}

/// The same, with something else about the account or the token.
fn check_with(born: &str, labels: Value, edit: fn(&mut Value, &mut Value), expected: &str) {
    let accounts = Store::new();
    let mut account = json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u"}, "secrets": [{"name": "t"}]});
    let mut secret = json!({
        "type": SERVICE_ACCOUNT_TOKEN,
        "metadata": {
            "name": "t", "namespace": "ns", "labels": labels,
            "creationTimestamp": format!("{born}T00:00:00Z"),
            "annotations": {"kubernetes.io/service-account.name": "a"},
        },
    });
    edit(&mut account, &mut secret);
    let account = ServiceAccount::decode(account.to_string().as_bytes()).unwrap();
    accounts.put(Arc::new(account));
    let secret = Secret::decode(secret.to_string().as_bytes()).unwrap();
    let limits = Limits::new(Time::from_unix(NOW).micro(), 365 * DAY);
    let step = candidate(&secret, &accounts, &limits).map(|found| next_step(&found, &limits));
    assert_eq!(format!("{step:?}"), expected, "{born} {labels}");
}

#[test]
fn old_and_unused_tokens_go_in_two_steps() {
    let mark = r#"Some(MarkInvalid { today: "2024-01-01" })"#;
    let used = |day: &str| json!({"kubernetes.io/legacy-token-last-used": day});
    let invalid = |day: &str| json!({"kubernetes.io/legacy-token-invalid-since": day});
    check("2022-01-01", json!({}), mark);
    check("2023-01-01", json!({}), "None");
    check("2022-12-31", json!({}), mark);
    check("2022-01-01", used("2022-12-31"), mark);
    check("2022-01-01", used("2023-01-01"), "None");
    check("2022-01-01", used("long ago"), "None");
    check("2022-01-01", invalid("2023-06-01"), "Some(Wait)");
    check("2022-01-01", invalid("2023-01-01"), "Some(Wait)");
    check("2022-01-01", invalid("2022-12-31"), "Some(Delete)");
    check("2022-01-01", invalid("nonsense"), mark);
}

#[test]
fn only_tokens_that_were_generated_for_an_account_go() {
    let kept = |edit: fn(&mut Value, &mut Value)| {
        check_with("2022-01-01", json!({}), edit, "None");
    };
    kept(|_, secret| secret["type"] = json!("Opaque"));
    kept(|_, secret| secret["metadata"]["deletionTimestamp"] = json!("2023-12-31T00:00:00Z"));
    kept(|account, _| account["secrets"] = json!([]));
    kept(|account, _| account["metadata"]["name"] = json!("other"));
    kept(|_, secret| {
        secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] = json!("");
    });
    kept(|_, secret| {
        secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("v");
    });
    check_with(
        "2022-01-01",
        json!({}),
        |_, secret| {
            secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("u");
        },
        r#"Some(MarkInvalid { today: "2024-01-01" })"#,
    );
    // Long unused, and long marked.
    let both = |invalid: &str| json!({"kubernetes.io/legacy-token-last-used": "2022-06-01", "kubernetes.io/legacy-token-invalid-since": invalid});
    check("2022-01-01", both("2023-06-01"), "Some(Wait)");
    check("2022-01-01", both("2022-12-01"), "Some(Delete)");
    check(
        "2022-01-01",
        json!({"kubernetes.io/legacy-token-last-used": "2022-12-27-1"}),
        "None",
    );
}

#[test]
fn every_use_of_a_secret_counts() {
    let pod = json!({"spec": {
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}}, {"name": "plain"}],
                        "envFrom": [{"secretRef": {"name": "from"}}]}],
        "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "init"}}}]}],
        "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "debug"}}, {"secretRef": {"name": ""}}]}],
        "volumes": [
            {"secret": {"secretName": "mounted"}}, {"rbd": {"secretRef": {"name": "rbd"}}},
            {"projected": {"sources": [{"secret": {"name": "projected"}}]}},
            {"csi": {"nodePublishSecretRef": {"name": "csi"}}}, {"emptyDir": {}},
            {"azureFile": {"secretName": "azure"}}, {"cephfs": {"secretRef": {"name": "ceph"}}},
            {"cinder": {"secretRef": {"name": "cinder"}}}, {"flexVolume": {"secretRef": {"name": "flex"}}},
            {"scaleIO": {"secretRef": {"name": "scale"}}}, {"iscsi": {"secretRef": {"name": "iscsi"}}},
            {"storageos": {"secretRef": {"name": "storage"}}}, {"rbd": {"secretRef": null}},
        ],
    }});
    let mut names = BTreeSet::new();
    mounted_secrets(&pod, &mut names);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        names.join(" "),
        "azure ceph cinder csi debug env flex from init iscsi mounted projected pull rbd scale storage"
    );
}

async fn world(since: &str) -> World {
    let mut world = World::new().await;
    let tracking = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": since},
    });
    // The API server makes one when it starts; this says since when it has looked.
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let told = world
        .user
        .replace(
            &ConfigMap::TYPE,
            "kube-system",
            name,
            None,
            tracking.to_string(),
        )
        .await;
    told.unwrap();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"},
        "secrets": [{"name": "t"}],
    });
    world.create(&ServiceAccount::TYPE, account).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": SERVICE_ACCOUNT_TOKEN,
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "robot"}},
    });
    world.create(&Secret::TYPE, secret).await;
    let context = world.context();
    let reading = world.user.clone();
    let running = controller(&context, reading, 3 * DAY).run(world.stop());
    world.run(running);
    world.start().await;
    world
}

#[tokio::test(start_paused = true)]
async fn marked_after_a_while_and_deleted_after_another() {
    let world = world("2023-01-01").await;
    tokio::time::sleep(DAY).await;
    assert_eq!(world.written(), "", "it is young");
    tokio::time::sleep(3 * DAY + Duration::from_secs(60)).await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    let labels = &writes[0].body["metadata"]["labels"];
    let day = labels["kubernetes.io/legacy-token-invalid-since"].as_str();
    assert!(day.unwrap().starts_with("2024-01-0"), "{day:?}");
    tokio::time::sleep(6 * DAY).await;
    assert_eq!(world.written(), "DELETE secrets/t");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_before_uses_are_known() {
    let world = world("2024-01-01").await;
    tokio::time::sleep(4 * DAY - Duration::from_secs(60)).await;
    assert_eq!(world.written(), "");
    // Nor where nobody says since when they are, or says it in other words.
    for since in ["", "2022-12-27-1"] {
        let world = self::world(since).await;
        tokio::time::sleep(30 * DAY).await;
        assert_eq!(world.written(), "", "{since:?}");
    }
    let world = self::world("2023-01-01").await;
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let (maps, now) = (ConfigMap::TYPE, client::DeleteOptions::default());
    let gone = world.user.delete(&maps, "kube-system", name, &now).await;
    gone.unwrap();
    tokio::time::sleep(30 * DAY).await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_a_pod_mounts_stays_until_it_does_not() {
    let world = world("2023-01-01").await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "nginx"}],
            "volumes": [{"name": "v", "secret": {"secretName": "t"}}],
        },
    });
    world.create(&Pod::TYPE, pod).await;
    tokio::time::sleep(30 * DAY).await;
    assert_eq!(world.written(), "");
    world.delete(&Pod::TYPE, "p").await;
    tokio::time::sleep(DAY).await;
    assert_eq!(world.written(), "PATCH secrets/t");
}
