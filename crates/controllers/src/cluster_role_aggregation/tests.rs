//! Sums first, then the whole against the embedded API server. Upstream: TestSyncClusterRole.

use std::sync::Arc;

use api::Resource;
use api::kinds::ClusterRole;
use serde_json::{Value, json};
use testkit::World;

use super::{aggregate, controller};

fn part(name: &str, label: &str, resources: &[&str]) -> Value {
    let rules: Vec<Value> = resources
        .iter()
        .map(|resource| json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]}))
        .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"part": label}}, "rules": rules,
    })
}

fn sum(name: &str, labels: &[&str]) -> Value {
    let selectors: Vec<Value> = labels
        .iter()
        .map(|label| json!({"matchLabels": {"part": label}}))
        .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"part": "a"}},
        "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": [],
    })
}

fn view(json: &Value) -> Arc<ClusterRole> {
    Arc::new(ClusterRole::decode(json.to_string().as_bytes()).unwrap())
}

fn check(roles: &[Value], expected: Option<&[&str]>) {
    let roles: Vec<_> = roles.iter().map(view).collect();
    let rules = aggregate(&roles[0], &roles).unwrap();
    let found: Option<Vec<String>> = rules.map(|rules| {
        rules
            .iter()
            .map(|rule| rule.resources[0].to_string())
            .collect()
    });
    let expected: Option<Vec<String>> =
        expected.map(|all| all.iter().map(ToString::to_string).collect());
    assert_eq!(found, expected);
}

#[test]
fn rules_add_up_in_order_and_once() {
    check(&[part("x", "a", &["pods"])], None);
    check(&[sum("x", &["a"])], Some(&[]));
    check(
        &[
            sum("x", &["b", "a"]),
            part("z", "a", &["pods", "nodes"]),
            part("y", "a", &["secrets", "pods"]),
            part("w", "b", &["nodes"]),
            part("v", "c", &["jobs"]),
        ],
        Some(&["nodes", "secrets", "pods"]),
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_part_is_added_and_a_lost_one_removed() {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    world.written();
    world
        .create(&ClusterRole::TYPE, sum("all", &["mine"]))
        .await;
    world
        .create(&ClusterRole::TYPE, part("one", "mine", &["pods"]))
        .await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PATCH clusterroles/all");
    let all = world.get(&ClusterRole::TYPE, "all").await.unwrap();
    assert_eq!(
        all["rules"],
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])
    );
    world.delete(&ClusterRole::TYPE, "one").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PATCH clusterroles/all");
    let all = world.get(&ClusterRole::TYPE, "all").await.unwrap();
    assert!(all["rules"].as_array().is_none_or(Vec::is_empty), "{all}");
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}
