//! Steps first, then the whole against the embedded API server.
//! Upstream: TestLegacyServiceAccountTokenCleanUp.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::kinds::{ConfigMap, SERVICE_ACCOUNT_TOKEN, Secret, ServiceAccount};
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
    let accounts = Store::new();
    let account = json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u"}, "secrets": [{"name": "t"}]});
    let account = ServiceAccount::decode(account.to_string().as_bytes()).unwrap();
    accounts.put(Arc::new(account));
    let secret = json!({
        "type": SERVICE_ACCOUNT_TOKEN,
        "metadata": {
            "name": "t", "namespace": "ns", "labels": labels,
            "creationTimestamp": format!("{born}T00:00:00Z"),
            "annotations": {"kubernetes.io/service-account.name": "a"},
        },
    });
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
fn every_use_of_a_secret_counts() {
    let pod = json!({"spec": {
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}}, {"name": "plain"}],
                        "envFrom": [{"secretRef": {"name": "from"}}]}],
        "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "init"}}}]}],
        "volumes": [
            {"secret": {"secretName": "mounted"}}, {"rbd": {"secretRef": {"name": "rbd"}}},
            {"projected": {"sources": [{"secret": {"name": "projected"}}]}},
            {"csi": {"nodePublishSecretRef": {"name": "csi"}}}, {"emptyDir": {}},
        ],
    }});
    let mut names = BTreeSet::new();
    mounted_secrets(&pod, &mut names);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "csi",
            "env",
            "from",
            "init",
            "mounted",
            "projected",
            "pull",
            "rbd"
        ]
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
}
