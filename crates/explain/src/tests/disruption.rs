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
fn uncounted_budgets_are_computed() {
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
            "poddisruptionbudget/web allows no evictions now: 2 pods are healthy and 1 must be, so 1 could be evicted, but its status has not been written; a drain waits"
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

/// What is said of a budget with this spec and status over the pods `a` (ready) and `b` (not ready).
fn check_budget(spec: &str, status: &str, expected: Expect) {
    let yaml = format!(
        "
kind: PodDisruptionBudget
metadata: {{name: web, namespace: shop, generation: 1}}
spec: {{{spec}, selector: {{matchLabels: {{app: web}}}}}}
status: {{{status}}}
---
kind: Pod
metadata: {{name: a, namespace: shop, uid: a, labels: {{app: web}}}}
spec: {{nodeName: node-1}}
status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}
---
kind: Pod
metadata: {{name: b, namespace: shop, uid: b, labels: {{app: web}}}}
spec: {{nodeName: node-1}}
status: {{phase: Running, conditions: [{{type: Ready, status: 'False'}}]}}"
    );
    let told = crate::explain(&facts(&yaml));
    let mut lines = vec![format!("{:?}: {}", told.state, told.verdict)];
    lines.extend(told.wants.iter().map(|line| format!("wants {line}")));
    lines.extend(told.sees.iter().map(|line| format!("sees {line}")));
    for one in &told.in_the_way {
        lines.push(format!("{} {}", one.object, one.why));
    }
    if let Some(help) = told.help {
        lines.push(format!("{}: {}", help.command, help.why));
    }
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_budget_says_how_many_may_go_and_what_keeps_the_others() {
    check_budget(
        "maxUnavailable: 1",
        "observedGeneration: 1, expectedPods: 2, currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0, disruptedPods: {c: '2024-01-01T00:00:00Z'}",
        expect![[r#"
            Progressing: allows no evictions of pods that are ready: 1 of 2 pods healthy, 1 must be; a drain waits, but not for 1 pod that is not
            wants at most 1 pod unavailable
            sees 2 pods are under it, 1 healthy
            sees the eviction of pod/c was allowed and is under way; it counts as gone for two minutes
            pod/b runs and is not ready"#]],
    );
    check_budget(
        "minAvailable: 0",
        "observedGeneration: 1, expectedPods: 2, currentHealthy: 1, desiredHealthy: 0, disruptionsAllowed: 1",
        expect![[r#"
            Settled: allows 1 eviction now: 1 of 2 pods healthy, 0 must be
            wants at least 0 pods healthy
            sees 2 pods are under it, 1 healthy
            pod/b runs and is not ready"#]],
    );
    check_budget(
        "minAvailable: 2",
        "observedGeneration: 1, expectedPods: 2, currentHealthy: 1, desiredHealthy: 2, disruptionsAllowed: 0",
        expect![[r#"
            Stuck: never allows an eviction, even when all pods are healthy: 1 of 2 pods healthy, 2 must be; a drain waits for ever
            wants at least 2 pods healthy
            sees 2 pods are under it, 1 healthy
            pod/b runs and is not ready
            kubectl edit poddisruptionbudget/web -n shop: lets you set minAvailable to 1 or less"#]],
    );
    check_budget(
        "minAvailable: 100%",
        "observedGeneration: 1, expectedPods: 2, currentHealthy: 1, desiredHealthy: 2, disruptionsAllowed: 0",
        expect![[r#"
            Stuck: never allows an eviction, even when all pods are healthy: 1 of 2 pods healthy, 2 must be; a drain waits for ever
            wants at least 100% of its pods healthy
            sees 2 pods are under it, 1 healthy
            pod/b runs and is not ready
            kubectl edit poddisruptionbudget/web -n shop: lets you lower minAvailable"#]],
    );
    check_budget(
        "maxUnavailable: 50%",
        "observedGeneration: 1, conditions: [{type: DisruptionAllowed, status: 'False', reason: SyncFailed, message: jobs.batch does not implement the scale subresource}]",
        expect![[r#"
            Stuck: allows no evictions: its pods cannot be counted (jobs.batch does not implement the scale subresource)
            wants at most 50% of its pods unavailable
            sees 2 pods are under it, 1 healthy
            pod/b runs and is not ready
            kubectl describe poddisruptionbudget/web -n shop: shows its events"#]],
    );
    check_budget(
        "maxUnavailable: 50%",
        "disruptionsAllowed: 0",
        expect![[r#"
        Progressing: allows no evictions: its status has not been written
        wants at most 50% of its pods unavailable
        sees 2 pods are under it, 1 healthy
        sees its controller has not observed the last change of poddisruptionbudget/web yet (generation 1, observed 0)
        pod/b runs and is not ready"#]],
    );
}

#[test]
fn pods_that_are_not_ready_may_go_where_the_policy_says_so() {
    let status = "observedGeneration: 1, expectedPods: 3, currentHealthy: 1, desiredHealthy: 2, disruptionsAllowed: 0";
    check_budget(
        "minAvailable: 2",
        status,
        expect![[r#"
            Progressing: allows no evictions: 1 of 3 pods healthy, 2 must be; a drain waits
            wants at least 2 pods healthy
            sees 2 pods are under it, 1 healthy
            pod/b runs and is not ready"#]],
    );
    check_budget(
        "minAvailable: 2, unhealthyPodEvictionPolicy: AlwaysAllow",
        status,
        expect![[r#"
            Progressing: allows no evictions of pods that are ready: 1 of 3 pods healthy, 2 must be; a drain waits, but not for 1 pod that is not
            wants at least 2 pods healthy
            wants pods that are not ready to go whenever they are evicted (AlwaysAllow)
            sees 2 pods are under it, 1 healthy
            pod/b runs and is not ready"#]],
    );
    let pod = |phase: &str, ready: &str, policy: &str| {
        let yaml = format!(
            "
kind: Pod
metadata: {{name: a, namespace: shop, uid: a, labels: {{app: web}}}}
spec: {{nodeName: node-1}}
status: {{phase: {phase}, conditions: [{{type: Ready, status: '{ready}'}}]}}
---
kind: PodDisruptionBudget
metadata: {{name: web, namespace: shop}}
spec: {{minAvailable: 2, unhealthyPodEvictionPolicy: {policy}, selector: {{}}}}
status: {{{status}}}"
        );
        let told = crate::explain(&facts(&yaml));
        let mut lines = told.sees.into_iter();
        lines.find(|line| line.contains("budget")).unwrap()
    };
    let waits = "poddisruptionbudget/web allows no evictions now: 1 pod is healthy and 2 must be; a drain waits";
    let goes =
        "poddisruptionbudget/web does not keep the pod from being evicted, because it is not ready";
    assert_eq!(pod("Running", "True", "AlwaysAllow"), waits);
    assert_eq!(pod("Running", "False", "IfHealthyBudget"), waits);
    assert_eq!(pod("Running", "False", "AlwaysAllow"), goes);
    assert_eq!(pod("Pending", "False", "IfHealthyBudget"), goes);
}

#[test]
fn a_budget_whose_pods_have_another_one_allows_nothing_of_them() {
    super::check_verdict(
        "
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop, generation: 1}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
status: {observedGeneration: 1, expectedPods: 3, currentHealthy: 3, desiredHealthy: 1, disruptionsAllowed: 2}
---
kind: PodDisruptionBudget
metadata: {name: all, namespace: shop}
spec: {minAvailable: 1, selector: {}}
---
kind: Pod
metadata: {name: a, namespace: shop, labels: {app: web}}
status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}",
        expect![[r#"
            evictions are refused where poddisruptionbudget/all selects the pod, too: none is evicted that is under two budgets
            kubectl describe poddisruptionbudget/web -n shop"#]],
    );
}
