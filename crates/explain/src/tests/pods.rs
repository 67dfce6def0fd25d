//! Why a pod is not available, or not gone.

use super::{check, check_verdict};
use expect_test::{Expect, expect};

/// A pod on a node with this status.
fn check_pod(status: &str, expected: Expect) {
    check_with(status, "", expected);
}

fn check_with(status: &str, more: &str, expected: Expect) {
    let yaml = format!(
        "
kind: Pod
metadata: {{name: web-1, namespace: shop, creationTimestamp: '2026-01-01T11:50:00Z'}}
spec:
  nodeName: node-1
  containers: [{{name: main, image: 'web:2', readinessProbe: {{}}}}]
status: {status}
{more}"
    );
    check_verdict(&yaml, expected);
}

#[test]
fn a_pod_that_is_ready() {
    check(
        "
kind: Pod
metadata: {name: web-1, namespace: shop}
spec: {nodeName: node-1, containers: [{name: main, image: 'web:2'}]}
status: {phase: Running, conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T11:00:00Z'}]}",
        expect![[r#"
            pod/web-1 in shop: runs and is ready

            wants       to run web:2

            sees        phase Running, on node-1
                        not managed by a controller; nothing will recreate it

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn images_that_cannot_be_pulled() {
    check_with(
        "{phase: Pending, startTime: '2026-01-01T11:57:00Z', containerStatuses: [{name: main, image: 'web:2', state: {waiting: {reason: ImagePullBackOff, message: Back-off}}}]}",
        "---
kind: Event
reason: Failed
message: 'Failed to pull image: not found'
involvedObject: {kind: Pod, name: web-1}",
        expect![[r#"
            container main cannot pull image "web:2": ImagePullBackOff (Failed to pull image: not found) (for 3m)
            kubectl describe pod web-1 -n shop"#]],
    );
}

#[test]
fn containers_that_crash_or_cannot_start() {
    check_pod(
        "{phase: Running, startTime: '2026-01-01T11:57:00Z', containerStatuses: [{name: main, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}",
        expect![[r#"
            container main keeps crashing: exit code 137, OOMKilled, started 5 times (for 3m)
            kubectl logs web-1 -c main --previous -n shop"#]],
    );
    check_pod(
        "{phase: Pending, initContainerStatuses: [{name: migrate, restartCount: 1, state: {terminated: {exitCode: 3, reason: Error}}}]}",
        expect![[r#"
            init container migrate keeps crashing: exit code 3, started 2 times
            kubectl logs web-1 -c migrate --previous -n shop"#]],
    );
    check_pod(
        "{phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: CreateContainerConfigError, message: 'secret \"db\" not found'}}}]}",
        expect![[r#"
            container main cannot be started: secret "db" not found
            kubectl describe pod web-1 -n shop"#]],
    );
}

#[test]
fn probes_and_gates() {
    let running = "{phase: Running, containerStatuses: [{name: main, ready: false, started: true, state: {running: {startedAt: '2026-01-01T11:55:00Z'}}}]}";
    check_pod(
        running,
        expect![[r#"
        container main runs, and its readiness probe has not succeeded yet (for 5m)
        kubectl logs web-1 -c main -n shop"#]],
    );
    check_with(
        running,
        "---
kind: Event
reason: Unhealthy
message: 'Readiness probe failed: HTTP probe failed with statuscode: 503'
involvedObject: {kind: Pod, name: web-1}",
        expect![[r#"
            container main runs, but its readiness probe fails: Readiness probe failed: HTTP probe failed with statuscode: 503 (for 5m)
            kubectl logs web-1 -c main -n shop"#]],
    );
    check_with(
        running,
        "---
kind: Event
reason: Unhealthy
message: 'Readiness probe failed: '
involvedObject: {kind: Pod, name: web-1}",
        expect![[r#"
            container main runs, but its readiness probe fails: Readiness probe failed (for 5m)
            kubectl logs web-1 -c main -n shop"#]],
    );
    check_verdict(
        "
kind: Pod
metadata: {name: web-1, namespace: shop}
spec: {nodeName: 'n', readinessGates: [{conditionType: lb.io/ready}], containers: [{name: main}]}
status: {phase: Running, containerStatuses: [{name: main, ready: true}], conditions: [{type: Ready, status: 'False'}]}",
        expect![[r#"
            is not ready: its readiness gate lb.io/ready is not true, which an external controller has to set
            kubectl describe pod web-1 -n shop"#]],
    );
}

/// Without a probe nothing says what it lacks.
#[test]
fn a_pod_that_runs_and_is_not_ready() {
    let pod = "
kind: Pod
metadata: {name: db-0, namespace: shop, ownerReferences: [{uid: s, controller: true}]}
spec: {nodeName: node-1, containers: [{name: main}]}
status: {phase: Running, containerStatuses: [{name: main, ready: false, state: {running: {}}}], conditions: [{type: Ready, status: 'False'}]}";
    check_verdict(
        pod,
        expect![[r#"
        runs and is not ready
        kubectl logs db-0 --all-containers -n shop"#]],
    );
    let set = "{kind: StatefulSet, metadata: {name: db, namespace: shop, uid: s}, spec: {replicas: 1}, status: {replicas: 1}}";
    check_verdict(
        &format!("{set}\n---{pod}"),
        expect![[r#"
            0 of 1 pod available; pod/db-0 runs and is not ready
            kubectl logs db-0 --all-containers -n shop"#]],
    );
}

#[test]
fn pods_that_find_no_node() {
    let unscheduled = |spec: &str, condition: &str| {
        format!(
            "
kind: Pod
metadata: {{name: web-1, namespace: shop, creationTimestamp: '2026-01-01T11:50:00Z'}}
spec: {spec}
status: {{phase: Pending, conditions: [{condition}]}}"
        )
    };
    check_verdict(
        &unscheduled("{}", ""),
        expect!["waits for the scheduler, which has not tried it yet (for 10m)"],
    );
    check_verdict(
        &unscheduled(
            "{}",
            "{type: PodScheduled, status: 'False', reason: Unschedulable, lastTransitionTime: '2026-01-01T11:51:00Z', message: '0/3 nodes are available: 3 Insufficient cpu.'}",
        ),
        expect![[r#"
            cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu. (for 9m)
            kubectl get nodes -o wide"#]],
    );
    check_verdict(
        &unscheduled(
            "{schedulingGates: [{name: example.com/wait}]}",
            "{type: PodScheduled, status: 'False', reason: SchedulingGated}",
        ),
        expect![[r#"
            may not be scheduled yet: scheduling gate example.com/wait (for 10m)
            kubectl get pod web-1 -o jsonpath='{.spec.schedulingGates}' -n shop"#]],
    );
    let claim = unscheduled(
        "{volumes: [{persistentVolumeClaim: {claimName: data}}]}",
        "",
    );
    check_verdict(
        &format!(
            "{claim}\n---\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nstatus: {{phase: Pending}}"
        ),
        expect![[r#"
            cannot be scheduled: its claim data is not bound (for 10m)
            kubectl describe pvc data -n shop"#]],
    );
    let not_found = unscheduled(
        "{volumes: [{persistentVolumeClaim: {claimName: nosuch}}]}",
        "{type: PodScheduled, status: 'False', reason: Unschedulable, message: 'persistentvolumeclaim \"nosuch\" not found'}",
    );
    check_verdict(
        &not_found,
        expect![[r#"
        cannot be scheduled: its claim nosuch does not exist (for 10m)
        kubectl get pvc -n shop"#]],
    );
    let mut unread = super::facts(&not_found);
    unread.could_not_read("PersistentVolumeClaim", "persistentvolumeclaims".to_owned());
    let explanation = crate::explain(&unread);
    expect![[r#"cannot be scheduled: persistentvolumeclaim "nosuch" not found (for 10m)"#]]
        .assert_eq(&explanation.verdict);
}

#[test]
fn pods_whose_deletion_is_blocked() {
    let going = |finalizers: &str, due: &str| {
        format!(
            "
kind: Pod
metadata: {{name: web-1, namespace: shop, finalizers: {finalizers}, deletionTimestamp: '{due}', deletionGracePeriodSeconds: 30}}
spec: {{nodeName: node-1}}
status: {{phase: Running}}"
        )
    };
    check_verdict(
        &going("[]", "2026-01-01T12:00:20Z"),
        expect!["is stopping; its grace period ends in 20s (12:00:20Z)"],
    );
    check_verdict(
        &going("[]", "2026-01-01T11:55:00Z"),
        expect![[r#"
        is being deleted, but node node-1 does not confirm that it has stopped (for 5m30s)
        kubectl describe node node-1"#]],
    );
    check_verdict(
        &going("[example.com/backup]", "2026-01-01T11:55:00Z"),
        expect![[r#"
            is being deleted and held by finalizer example.com/backup, which the controller of example.com has to remove (for 5m30s)
            kubectl patch pod/web-1 -n shop --type=merge -p '{"metadata":{"finalizers":null}}'"#]],
    );
    check_verdict(
        &going("[batch.kubernetes.io/job-tracking]", "2026-01-01T11:55:00Z"),
        expect![[r#"
            is being deleted and held by finalizer batch.kubernetes.io/job-tracking until its Job has counted it (for 5m30s)
            kubectl describe pod/web-1 -n shop"#]],
    );
}

#[test]
fn ready_is_not_available_yet() {
    check_verdict(
        "
kind: Pod
metadata: {name: web-1, namespace: shop, ownerReferences: [{uid: u, controller: true, kind: ReplicaSet, name: web}]}
spec: {nodeName: node-1}
status: {phase: Running, conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T11:59:50Z'}]}
---
kind: ReplicaSet
metadata: {name: web, namespace: shop, uid: u}
spec: {minReadySeconds: 30}",
        expect!["is ready, and available in 20s (12:00:20Z): minReadySeconds is 30"],
    );
}

#[test]
fn a_pod_without_an_owner_that_failed() {
    check_verdict(
        "
kind: Pod
metadata: {name: web-1, namespace: shop}
status: {phase: Failed, reason: Evicted, message: 'The node was low on resource: memory.'}",
        expect![[r#"
            has failed: Evicted: The node was low on resource: memory.
            kubectl describe pod web-1 -n shop"#]],
    );
    check_pod(
        "{phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 3, reason: Error}}}]}",
        expect![[r#"
            has failed: container main has ended with exit code 3
            kubectl logs web-1 -c main -n shop"#]],
    );
}

/// There is nothing to do about it, and nothing in the way.
#[test]
fn a_pod_that_succeeded_gets_no_advice() {
    check_pod("{phase: Succeeded}", expect!["has succeeded"]);
    let pod = "{kind: Pod, metadata: {name: web-1, namespace: shop}, status: {phase: Succeeded}}";
    let explanation = crate::explain(&super::facts(pod));
    assert_eq!(explanation.state, crate::State::Settled);
}

/// What is missing is known by what the pod refers to, not by what its kubelet says.
#[test]
fn a_missing_reference_is_created_by_one_command() {
    let check = |container: &str, message: &str, known: &str, expected: Expect| {
        let pod = format!(
            "
kind: Pod
metadata: {{name: web-1, namespace: shop}}
spec: {{nodeName: 'n', containers: [{container}]}}
status: {{phase: Pending, containerStatuses: [{{name: main, state: {{waiting: {{reason: CreateContainerConfigError, message: {message}}}}}}}]}}
---
{known}"
        );
        check_verdict(&pod, expected);
    };
    let of_key =
        "{name: main, env: [{name: URL, valueFrom: {configMapKeyRef: {name: db, key: url}}}]}";
    check(
        of_key,
        "no such thing",
        "{absent: ConfigMap, name: db}",
        expect![[r#"
            container main cannot be started: no such thing
            kubectl create configmap db --from-literal=KEY=VALUE -n shop"#]],
    );
    check(
        of_key,
        "no such key",
        "{kind: ConfigMap, metadata: {name: db, namespace: shop}, data: {port: null}}",
        expect![[r#"
            container main cannot be started: no such key
            kubectl edit configmap db -n shop"#]],
    );
    check(
        "{name: main, envFrom: [{secretRef: {name: db, optional: true}}]}",
        "something else",
        "{absent: Secret, name: db}",
        expect![[r#"
            container main cannot be started: something else
            kubectl describe pod web-1 -n shop"#]],
    );
    check(
        "{name: main, securityContext: {runAsNonRoot: true}}",
        "not as root",
        "{absent: Secret, name: other}",
        expect![[r#"
            container main cannot be started: not as root
        "#]],
    );
    let mounts = "
kind: Pod
metadata: {name: web-1, namespace: shop, creationTimestamp: '2026-01-01T11:50:00Z'}
spec: {nodeName: 'n', containers: [{name: main}], volumes: [{name: v, secret: {secretName: db}}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: 'True'}]}
---
kind: Event
reason: FailedMount
message: the volume is not ready
involvedObject: {kind: Pod, name: web-1}
---
{absent: Secret, name: db}";
    check_verdict(
        mounts,
        expect![[r#"
            cannot mount its volumes: the volume is not ready (for 10m)
            kubectl create secret generic db --from-literal=KEY=VALUE -n shop"#]],
    );
}

/// Why no node takes a pod is known by the nodes, not by what the scheduler says.
#[test]
fn the_command_for_an_unschedulable_pod_follows_from_the_nodes() {
    let check = |spec: &str, nodes: &str, expected: Expect| {
        let pod = format!(
            "
kind: Pod
metadata: {{name: web-1, namespace: shop}}
spec: {spec}
status: {{phase: Pending, conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable, message: no node}}]}}
---
{nodes}"
        );
        check_verdict(&pod, expected);
    };
    let tainted = "{kind: Node, metadata: {name: a, labels: {disk: ssd}}, spec: {taints: [{key: x, effect: NoSchedule}]}}";
    let open = "{kind: Node, metadata: {name: b}}";
    check(
        "{}",
        tainted,
        expect![[r#"
        cannot be scheduled: no node
        kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"#]],
    );
    check(
        "{tolerations: [{operator: Exists}]}",
        tainted,
        expect![[r#"
            cannot be scheduled: no node
            kubectl describe nodes"#]],
    );
    check(
        "{nodeSelector: {disk: ssd}}",
        open,
        expect![[r#"
        cannot be scheduled: no node
        kubectl get nodes --show-labels"#]],
    );
    check(
        "{nodeSelector: {disk: ssd}}",
        &format!("{tainted}\n---\n{open}"),
        expect![[r#"
            cannot be scheduled: no node
            kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints"#]],
    );
    check(
        "{}",
        "{absent: Node, name: a}",
        expect![[r#"
        cannot be scheduled: no node
        kubectl get nodes -o wide"#]],
    );
}

#[test]
fn a_pod_of_another_scheduler_names_it() {
    check_verdict(
        "
kind: Pod
metadata: {name: web-1, namespace: shop}
spec: {schedulerName: mine}
status: {phase: Pending}",
        expect![[r#"
            waits for the scheduler mine, which has not tried it yet
        "#]],
    );
}

#[test]
fn a_pod_that_a_taint_evicts() {
    let yaml = "
kind: Pod
metadata: {name: web-1, namespace: shop, deletionTimestamp: '2026-01-01T12:00:20Z', deletionGracePeriodSeconds: 30}
spec: {nodeName: node-1, containers: [{name: main, image: 'web:2'}]}
status:
  phase: Running
  conditions:
  - {type: DisruptionTarget, status: 'True', reason: DeletionByTaintManager, message: 'Taint manager: deleting due to NoExecute taint'}";
    check_verdict(
        yaml,
        expect![
            "is stopping (Taint manager: deleting due to NoExecute taint); its grace period ends in 20s (12:00:20Z)"
        ],
    );
}

#[test]
fn whom_a_pod_keeps_away_from_is_named() {
    check_verdict(
        "
kind: Pod
metadata: {name: web, namespace: shop, creationTimestamp: '2026-01-01T11:50:00Z'}
spec:
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}]}}
status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 node(s) did not match pod anti-affinity rules.', lastTransitionTime: '2026-01-01T11:50:00Z'}]}
---
{kind: Node, metadata: {name: a}}",
        expect![[r#"
            cannot be scheduled: 0/3 nodes are available: 3 node(s) did not match pod anti-affinity rules. (it keeps away from pods with app=web on the same kubernetes.io/hostname) (for 10m)
            kubectl get pods -o wide -n shop"#]],
    );
}

#[test]
fn who_preempts_whom_is_named_on_both_sides() {
    let big = "
kind: Pod
metadata: {name: big, namespace: shop, creationTimestamp: '2026-01-01T11:59:00Z'}
spec: {priority: 1000}
status: {phase: Pending, nominatedNodeName: n1, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient cpu.'}]}";
    let small = "
kind: Pod
metadata: {name: small, namespace: shop, creationTimestamp: '2026-01-01T11:00:00Z', deletionTimestamp: '2026-01-01T12:00:20Z', deletionGracePeriodSeconds: 30}
spec: {nodeName: n1, priority: 1}
status: {phase: Running, conditions: [{type: DisruptionTarget, status: 'True', reason: PreemptionByScheduler, message: 'default-scheduler: preempting to accommodate a higher priority pod'}]}";
    check_verdict(
        &format!("{big}\n---{small}"),
        expect![
            "is to run on n1 once those that it preempts there have stopped: pod/small (for 60s)"
        ],
    );
    check_verdict(
        &format!("{small}\n---{big}"),
        expect!["is stopping (preempted for pod/big); its grace period ends in 20s (12:00:20Z)"],
    );
}

/// What is wrong with a pod is its verdict, and is not in its own way as well.
#[test]
fn a_pod_says_what_is_wrong_with_it_once() {
    check(
        "
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: n1, containers: [{name: main, image: 'web:bad'}]}
status:
  phase: Pending
  containerStatuses:
  - {name: main, image: 'web:bad', state: {waiting: {reason: ErrImagePull, message: no such image}}}",
        expect![[r#"
            pod/web in shop: container main cannot pull image "web:bad": ErrImagePull (no such image)

            wants       to run web:bad

            sees        phase Pending, on n1
                        not managed by a controller; nothing will recreate it

            would help  kubectl describe pod web -n shop
                        shows what the registry answered

            Source: the controllers themselves, at https://here.
        "#]],
    );
}
