//! Budgets whose status nobody has written, as where no disruption controller runs.

use super::facts;
use expect_test::{Expect, expect};

/// What an object sees of a budget with this spec over three pods, two of them ready.
fn check(asked: &str, budget: &str, expected: Expect) {
    let pods: String = ["a True", "b True", "c False"]
        .iter()
        .map(|pod| {
            let (name, ready) = pod.split_once(' ').unwrap();
            format!(
                "
---
kind: Pod
metadata: {{name: {name}, namespace: shop, uid: {name}, labels: {{app: web}}, ownerReferences: [{{uid: r, controller: true}}]}}
spec: {{nodeName: node-1}}
status: {{phase: Running, conditions: [{{type: Ready, status: '{ready}'}}]}}"
            )
        })
        .collect();
    let yaml = format!(
        "{asked}
---
kind: ReplicaSet
metadata: {{name: web-1, namespace: shop, uid: r, ownerReferences: [{{uid: d, controller: true}}]}}
spec: {{replicas: 3}}
---
kind: PodDisruptionBudget
metadata: {{name: web, namespace: shop}}
spec: {{{budget}, selector: {{matchLabels: {{app: web}}}}}}
status: {{disruptionsAllowed: 0}}
---
kind: PodDisruptionBudget
metadata: {{name: web, namespace: elsewhere}}
spec: {{minAvailable: 9, selector: {{}}}}{pods}"
    );
    let explanation = crate::explain(&facts(&yaml));
    let budgets = explanation
        .sees
        .iter()
        .filter(|line| line.contains("budget"));
    let budgets: Vec<&str> = budgets.map(String::as_str).collect();
    expected.assert_eq(&budgets.join("\n"));
}

const DEPLOYMENT: &str = "
kind: Deployment
metadata: {name: web, namespace: shop, uid: d}
spec: {replicas: 4, template: {metadata: {labels: {app: web}}}}";

#[test]
fn budgets_are_counted_where_nobody_did() {
    check(
        DEPLOYMENT,
        "minAvailable: 3",
        expect![
            "poddisruptionbudget/web allows no evictions now: 2 pods are healthy and 3 must be; a drain waits"
        ],
    );
    check(
        DEPLOYMENT,
        "minAvailable: 1",
        expect![
            "poddisruptionbudget/web allows no evictions now: 2 pods are healthy and 1 must be, so 1 could be evicted, but nobody has written its status; a drain waits"
        ],
    );
    check(
        DEPLOYMENT,
        "maxUnavailable: 50%",
        expect![
            "poddisruptionbudget/web allows no evictions now: 2 pods are healthy and 2 must be; a drain waits"
        ],
    );
    check(
        DEPLOYMENT,
        "minAvailable: 50%",
        expect![
            "poddisruptionbudget/web allows no evictions now: 2 pods are healthy and 2 must be; a drain waits"
        ],
    );
}

#[test]
fn a_pod_and_its_node_hear_of_the_budget() {
    let pod = "
kind: Pod
metadata: {name: d, namespace: shop, uid: d, labels: {app: web}}
spec: {nodeName: node-1}
status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}";
    check(
        pod,
        "minAvailable: 3",
        expect![
            "poddisruptionbudget/web allows no evictions now: 3 pods are healthy and 3 must be; a drain waits"
        ],
    );
    let node = "
kind: Node
metadata: {name: node-1}
spec: {unschedulable: true}
status: {conditions: [{type: Ready, status: 'True'}]}";
    check(
        node,
        "minAvailable: 3",
        expect![
            "in shop, poddisruptionbudget/web allows no evictions now: 2 pods are healthy and 3 must be; a drain waits"
        ],
    );
    check(
        &node.replace("node-1", "node-2"),
        "minAvailable: 3",
        expect![[r#""#]],
    );
}
