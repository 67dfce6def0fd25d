//! Jobs.

use super::{check, check_verdict};
use expect_test::expect;

const JOB: &str = "
kind: Job
metadata: {name: pi, namespace: shop, uid: j}
spec: {completions: 4, parallelism: 2, backoffLimit: 1, template: {spec: {containers: [{name: main, image: 'pi:1'}]}}}";

#[test]
fn a_job_that_progresses() {
    check(
        &format!(
            "{JOB}
status: {{active: 2, succeeded: 1, failed: 1}}
---
kind: Pod
metadata: {{name: pi-a, namespace: shop, ownerReferences: [{{uid: j, controller: true}}]}}
spec: {{nodeName: 'n'}}
status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}
---
controller: job-controller
object: {{group: batch, kind: Job, namespace: shop, name: pi, uid: j}}
lines: [{{class: acts, reason: TooFew, what: creates 1 pod, why: it has 1 of 2}}]"
        ),
        expect![[r#"
            job/pi in shop: 1 of 4 succeeded

            wants       4 pods of pi:1 to succeed, 2 at a time

            sees        2 active, 1 succeeded, 1 failed

            did         2m ago    creates 1 pod: it has 1 of 2

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_job_that_backs_off() {
    check_verdict(
        &format!(
            "{JOB}
status: {{failed: 1}}
---
controller: job-controller
object: {{group: batch, kind: Job, namespace: shop, name: pi, uid: j}}
lines: [{{class: waits, reason: BacksOff, what: replaces failed pods, why: 1 pod failed since the last success, until: '2026-01-01T12:00:10Z'}}]"
        ),
        expect![[r#"
            0 of 4 succeeded; replaces failed pods in 10s (12:00:10Z): 1 pod failed since the last success
            kubectl describe job/pi -n shop"#]],
    );
}

#[test]
fn a_job_that_backs_off_names_the_pod_that_failed() {
    check_verdict(
        &format!(
            "{JOB}
status: {{failed: 1}}
---
kind: Pod
metadata: {{name: pi-a, namespace: shop, ownerReferences: [{{uid: j, controller: true}}]}}
status: {{phase: Failed}}
---
controller: job-controller
object: {{group: batch, kind: Job, namespace: shop, name: pi, uid: j}}
lines: [{{class: waits, reason: BacksOff, what: replaces failed pods, why: 1 pod failed since the last success, until: '2026-01-01T12:00:10Z'}}]"
        ),
        expect![[r#"
            0 of 4 succeeded; replaces failed pods in 10s (12:00:10Z): 1 pod failed since the last success
            kubectl logs pi-a -n shop"#]],
    );
}

#[test]
fn jobs_that_are_not_running() {
    let condition = |type_: &str, message: &str| {
        format!(
            "{JOB}\nstatus: {{failed: 2, terminating: 1, conditions: [{{type: {type_}, status: 'True', message: {message}, lastTransitionTime: '2026-01-01T11:00:00Z'}}]}}"
        )
    };
    let failed = format!(
        "{}
---
kind: Pod
metadata: {{name: pi-b, namespace: shop, ownerReferences: [{{uid: j, controller: true}}]}}
status: {{phase: Failed}}",
        condition("Failed", "Job has reached the specified backoff limit")
    );
    check_verdict(
        &failed,
        expect![[r#"
        has failed: Job has reached the specified backoff limit
        kubectl logs pi-b -n shop"#]],
    );
    check_verdict(
        &condition("FailureTarget", "too much"),
        expect!["fails (too much); waits for 1 pod to end"],
    );
    check_verdict(
        &condition("Complete", "done"),
        expect!["is complete since 2026-01-01T11:00:00Z: 0 pods succeeded"],
    );
    check_verdict(
        &JOB.replace("completions: 4", "suspend: true"),
        expect![[r#"
            is suspended: it runs when it is resumed
            kubectl patch job pi --type=merge -p '{"spec":{"suspend":false}}' -n shop"#]],
    );
    check_verdict(
        &JOB.replace("completions: 4", "managedBy: example.com/q"),
        expect!["is managed by example.com/q, not by the job controller"],
    );
    let refused = format!(
        "{JOB}
---
controller: job-controller
object: {{group: batch, kind: Job, namespace: shop, name: pi, uid: j}}
lines: [{{class: acts, reason: TooFew, what: creates 2 pods, why: it has 0 of 2}}]
failure: 'pods \"pi-x\" is forbidden: it does not fit'
---
kind: ResourceQuota
metadata: {{name: small, namespace: shop}}
status: {{hard: {{pods: 3}}, used: {{pods: 3}}}}"
    );
    check_verdict(
        &refused,
        expect![[r#"
            cannot create pods: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3
            kubectl describe quota small -n shop"#]],
    );
    let unbound = format!(
        "{JOB}
status: {{active: 1}}
---
kind: Pod
metadata: {{name: pi-c, namespace: shop, ownerReferences: [{{uid: j, controller: true}}]}}
status: {{phase: Pending, conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient cpu.'}}]}}
---
{{kind: Node, metadata: {{name: a}}}}"
    );
    check_verdict(
        &unbound.replace("cpu.", "cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."),
        expect![[r#"
            0 of 4 succeeded; pod/pi-c cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu
            kubectl describe nodes"#]],
    );
    check_verdict(
        &unbound,
        expect![[r#"
            0 of 4 succeeded; pod/pi-c cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu.
            kubectl describe nodes"#]],
    );
}
