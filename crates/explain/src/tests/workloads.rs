//! Workloads, namespaces and whatever else there is.

use super::{check, check_verdict, facts};
use crate::facts::Source;
use expect_test::{Expect, expect};

/// A rollout that is held up by two pods of a bad image.
const STUCK: &str = "
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 2, annotations: {deployment.kubernetes.io/revision: '2'}}
spec:
  replicas: 4
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}
  template: {spec: {containers: [{name: main, image: 'web:bad'}]}}
status: {observedGeneration: 2, replicas: 5, updatedReplicas: 2, readyReplicas: 3, availableReplicas: 3}
---
kind: ReplicaSet
metadata: {name: web-2, namespace: shop, uid: r2, annotations: {deployment.kubernetes.io/revision: '2'}, ownerReferences: [{uid: d, controller: true}]}
spec: {replicas: 2}
status: {replicas: 2}
---
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: r1, annotations: {deployment.kubernetes.io/revision: '1'}, ownerReferences: [{uid: d, controller: true}]}
spec: {replicas: 3}
status: {replicas: 3, availableReplicas: 3}
---
kind: Pod
metadata: {name: web-2-a, namespace: shop, ownerReferences: [{uid: r2, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Pending, startTime: '2026-01-01T11:58:00Z', containerStatuses: [{name: main, image: 'web:bad', state: {waiting: {reason: ErrImagePull}}}]}
---
kind: Pod
metadata: {name: web-2-b, namespace: shop, ownerReferences: [{uid: r2, controller: true}]}
spec: {nodeName: node-2}
status: {phase: Pending, startTime: '2026-01-01T11:57:00Z', containerStatuses: [{name: main, image: 'web:bad', state: {waiting: {reason: ErrImagePull}}}]}
---
controller: deployment-controller
object: {group: apps, kind: Deployment, namespace: shop, name: web, uid: d}
lines:
- {class: acts, reason: Scales, what: scales web-2 from 1 to 2, why: it has the current template}
- {class: waits, reason: OldKept, what: keeps 3 old pods, why: '3 pods must stay available (maxUnavailable), 3 are, and 2 new pods are not available yet'}
- {class: waits, reason: TimesOutAt, what: progress deadline, until: '2026-01-01T12:08:20Z'}
---
controller: garbage-collector-controller
object: {kind: Service, namespace: shop, name: web}
lines: [{class: acts, reason: OwnersGone, what: deletes it, why: its owners are gone}]
---
controller: replicaset-controller
object: {group: apps, kind: ReplicaSet, namespace: shop, name: web-2, uid: r2}
lines: [{class: acts, reason: TooFew, what: creates 1 pod, why: it has 1 of 2}]
---
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {selector: {}}
status: {expectedPods: 5, disruptionsAllowed: 0, currentHealthy: 3, desiredHealthy: 3}";

#[test]
fn a_rollout_that_a_bad_image_holds_up() {
    check(
        STUCK,
        expect![[r#"
            deployment/web in shop: is stuck: 2 of 4 pods updated, 3 available; pod/web-2-a container main cannot pull image "web:bad": ErrImagePull

            wants       4 pods of web:bad
                        at most 25% unavailable and 1 extra while it rolls out

            sees        5 pods, 2 of 4 updated, 3 ready, 3 available
                        replicaset/web-2 has the current template: wants 2, has 2, 0 available
                        replicaset/web-1 is revision 1: wants 3, has 3, 3 available
                        poddisruptionbudget/web allows no evictions now: 3 pods are healthy and 3 must be; a drain waits

            did         2m ago    scales web-2 from 1 to 2: it has the current template
                        2m ago    replicaset/web-2 creates 1 pod: it has 1 of 2

            pending     keeps 3 old pods: 3 pods must stay available (maxUnavailable), 3 are, and 2 new pods are not available yet
                        progress deadline in 8m20s (12:08:20Z)

            in the way  pod/web-2-a and 1 more: container main cannot pull image "web:bad": ErrImagePull (for 3m)

            would help  kubectl rollout undo deployment/web -n shop
                        goes back to the revision before

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn from_the_objects_alone_it_says_what_would_be_done() {
    let mut facts = facts(STUCK);
    facts.source = Source::Objects("no manager of ours answers there".to_owned());
    let explanation = crate::explain(&facts);
    assert!(explanation.did.is_empty());
    expect![[r#"
        scales web-2 from 1 to 2: it has the current template
        replicaset/web-2 creates 1 pod: it has 1 of 2"#]]
    .assert_eq(&explanation.would.join("\n"));
    assert_eq!(
        explanation.source,
        "the objects alone (no manager of ours answers there): what our controllers would decide on a copy of them"
    );
}

/// A Deployment of three with this spec and status, and what else.
fn deployment(spec: &str, status: &str, more: &str) -> String {
    format!(
        "
kind: Deployment
metadata: {{name: web, namespace: shop, uid: d, generation: 2, annotations: {{deployment.kubernetes.io/revision: '1'}}}}
spec: {{replicas: 3{spec}}}
status: {{observedGeneration: 2{status}}}
---
kind: ReplicaSet
metadata: {{name: web-1, namespace: shop, uid: r1, annotations: {{deployment.kubernetes.io/revision: '1'}}, ownerReferences: [{{uid: d, controller: true}}]}}
spec: {{replicas: 3}}
{more}"
    )
}

#[test]
fn deployments_in_short() {
    let done = ", replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3";
    check_verdict(
        &deployment("", done, ""),
        expect!["is complete: all 3 pods are updated and available"],
    );
    check_verdict(
        &deployment(
            ", paused: true",
            ", replicas: 3, updatedReplicas: 1, availableReplicas: 3",
            "",
        ),
        expect![[r#"
            is paused: 1 of 3 pods updated, 3 available
            kubectl rollout resume deployment/web -n shop"#]],
    );
    check_verdict(
        &deployment(
            "",
            ", replicas: 2, updatedReplicas: 2, availableReplicas: 2",
            "status:
  replicas: 2
  conditions:
  - {type: ReplicaFailure, status: 'True', reason: FailedCreate, message: 'pods \"web-1-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'}
---
kind: ResourceQuota
metadata: {name: few, namespace: shop}
status: {hard: {pods: 2}, used: {pods: 2}}",
        ),
        expect![[r#"
            is stuck: 2 of 3 pods updated, 2 available; replicaset/web-1 cannot create pods: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2
            kubectl describe quota few -n shop"#]],
    );
    check_verdict(
        &deployment(
            "",
            ", replicas: 3, updatedReplicas: 3, availableReplicas: 1, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]",
            "",
        ),
        expect![[r#"
            has exceeded its progress deadline: 3 of 3 pods updated, 1 available
            kubectl describe deployment/web -n shop"#]],
    );
}

/// The image that cannot be pulled is the old set's, whose pods go anyway.
#[test]
fn a_rollout_that_was_taken_back() {
    check(
        &deployment(
            ", template: {spec: {containers: [{name: main, image: 'web:1'}]}}",
            ", replicas: 4, updatedReplicas: 3, readyReplicas: 2, availableReplicas: 2",
            "status: {replicas: 3, availableReplicas: 2}
---
kind: Pod
metadata: {name: web-1-a, namespace: shop, ownerReferences: [{uid: r1, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}
---
kind: ReplicaSet
metadata: {name: web-0, namespace: shop, uid: r0, annotations: {deployment.kubernetes.io/revision: '0'}, ownerReferences: [{uid: d, controller: true}]}
spec: {replicas: 1}
status: {replicas: 1}
---
kind: Pod
metadata: {name: web-0-a, namespace: shop, ownerReferences: [{uid: r0, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Pending, containerStatuses: [{name: main, image: 'web:missing', state: {waiting: {reason: ImagePullBackOff}}}]}",
        ),
        expect![[r#"
            deployment/web in shop: is progressing: 3 of 3 pods updated, 2 available; pod/web-1-a runs and is not ready

            wants       3 pods of web:1
                        at most 25% unavailable and 25% extra while it rolls out

            sees        4 pods, 3 of 3 updated, 2 ready, 2 available
                        replicaset/web-1 has the current template: wants 3, has 3, 2 available
                        replicaset/web-0 is revision 0: wants 1, has 1, 0 available

            in the way  pod/web-1-a: runs and is not ready
                        pod/web-0-a: container main cannot pull image "web:missing": ImagePullBackOff

            would help  kubectl logs web-1-a --all-containers -n shop
                        shows what it is busy with; kubectl describe pod shows the rest

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_stateful_set_that_waits_for_a_superseded_pod() {
    check_verdict(
        "
kind: StatefulSet
metadata: {name: db, namespace: shop, uid: s}
spec: {replicas: 3}
status: {replicas: 2, readyReplicas: 1, availableReplicas: 1, updatedReplicas: 0, currentRevision: a, updateRevision: b}
---
controller: statefulset-controller
object: {group: apps, kind: StatefulSet, namespace: shop, name: db, uid: s}
lines:
- {class: waits, reason: AwaitsSuperseded, object: {kind: Pod, namespace: shop, name: db-1}, what: waits until db-1 is running and ready, why: its revision a is superseded by b}
---
kind: Pod
metadata: {name: db-1, namespace: shop, ownerReferences: [{uid: s, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Pending}",
        expect![[r#"
            1 of 3 pods available; pod/db-1 is starting on node-1
            kubectl delete pod db-1 -n shop"#]],
    );
}

#[test]
fn sets_that_are_left_alone_on_purpose() {
    check_verdict(
        "
kind: DaemonSet
metadata: {name: agent, namespace: shop, uid: s}
spec: {updateStrategy: {type: OnDelete}}
status: {desiredNumberScheduled: 3, currentNumberScheduled: 3, numberReady: 3, numberAvailable: 3, updatedNumberScheduled: 1}
---
controller: daemonset-controller
object: {group: apps, kind: DaemonSet, namespace: shop, name: agent, uid: s}
lines: [{class: waits, reason: OnDelete, what: leaves 2 outdated pods alone until they are deleted}]",
        expect![[r#"
            leaves 2 outdated pods alone until a user deletes them (OnDelete)
            kubectl get pods -L controller-revision-hash -n shop"#]],
    );
    check_verdict(
        "
kind: StatefulSet
metadata: {name: db, namespace: shop, uid: s}
spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}
status: {replicas: 3, readyReplicas: 3, availableReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}",
        expect!["is complete: 3 pods available, 1 updated"],
    );
}

#[test]
fn a_namespace_says_what_is_left_and_who_holds_it() {
    check(
        "
kind: Namespace
metadata: {name: old, deletionTimestamp: '2026-01-01T11:30:00Z'}
spec: {finalizers: [kubernetes]}
status:
  conditions:
  - {type: NamespaceDeletionDiscoveryFailure, status: 'True', message: 'unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1', lastTransitionTime: '2026-01-01T11:31:00Z'}
---
kind: Widget
metadata: {name: w, namespace: old, deletionTimestamp: '2026-01-01T11:30:05Z', finalizers: [widgets.example.com/cleanup]}
---
kind: PersistentVolumeClaim
metadata: {name: data, namespace: old, deletionTimestamp: '2026-01-01T11:30:05Z', finalizers: [kubernetes.io/pvc-protection]}
---
kind: Pod
metadata: {name: p, namespace: old, deletionTimestamp: '2026-01-01T11:31:00Z', deletionGracePeriodSeconds: 30}
spec: {nodeName: node-9}
---
kind: ConfigMap
metadata: {name: c, namespace: old}
---
controller: namespace-controller
object: {kind: Namespace, name: old}
lines: [{class: waits, reason: ContentRemains, what: waits until all pods are gone, why: 1 is left}]",
        expect![[r#"
            namespace/old: deletion is blocked: widget/w held by finalizer widgets.example.com/cleanup, which the controller of widgets.example.com has to remove

            wants       to be gone, since 2026-01-01T11:30:00Z (30m ago)

            sees        left in it: 1 ConfigMap, 1 PersistentVolumeClaim, 1 Pod, 1 Widget

            pending     waits until all pods are gone: 1 is left

            in the way  widget/w: held by finalizer widgets.example.com/cleanup, which the controller of widgets.example.com has to remove (for 29m)
                        persistentvolumeclaim/data: held by finalizer kubernetes.io/pvc-protection as long as a pod uses it (for 29m)
                        pod/p: is being deleted, but node node-9 does not confirm that it has stopped (for 29m)
                        configmap/c: has not been deleted yet: other kinds come first, or its kind cannot be deleted just now
                        namespace/old: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1 (for 29m)

            would help  kubectl patch widget/w -n old --type=merge -p '{"metadata":{"finalizers":null}}'
                        removes the finalizer; only if its controller is gone for good

            Source: the controllers themselves, at https://here.
        "#]],
    );
    check_verdict(
        "{kind: Namespace, metadata: {name: new}}",
        expect!["is active and not deleted"],
    );
}

#[test]
fn any_object_gets_an_answer() {
    check(
        "
kind: ConfigMap
metadata: {name: c, namespace: shop, deletionTimestamp: '2026-01-01T11:59:00Z', finalizers: [foregroundDeletion]}
---
controller: garbage-collector-controller
object: {kind: ConfigMap, namespace: shop, name: c}
lines: [{class: waits, reason: WaitsForDependents, what: waits for 2 dependents, why: they block the deletion}]",
        expect![[r#"
            configmap/c in shop: is being deleted; held by finalizer foregroundDeletion until everything that it owns is gone

            pending     waits for 2 dependents: they block the deletion

            in the way  configmap/c: held by finalizer foregroundDeletion until everything that it owns is gone (for 60s)

            would help  kubectl describe configmap/c -n shop
                        shows its events

            Source: the controllers themselves, at https://here.
        "#]],
    );
    check_verdict(
        "{kind: Secret, metadata: {name: s, namespace: shop}}",
        expect!["no controller of this manager has decided anything about it"],
    );
}

/// Acts are history, waits and states are of the last decision alone.
#[test]
fn lines_are_distinguished_by_class() {
    let yaml = "
kind: Deployment
metadata: {name: web, namespace: shop, uid: d}
spec: {replicas: 1}
---
controller: deployment-controller
object: {group: apps, kind: Deployment, namespace: shop, name: web, uid: d}
lines:
- {class: acts, reason: A, what: waits as it may}
- {class: waits, reason: W, what: creates something}
- {class: states, reason: S, what: deletes nothing}";
    let explanation = crate::explain(&facts(yaml));
    let did: Vec<&str> = explanation.did.iter().map(|did| &*did.what).collect();
    assert_eq!(did, ["waits as it may"]);
    assert_eq!(explanation.waits, ["creates something"]);
    assert!(explanation.sees.contains(&"deletes nothing".to_owned()));
}

/// Until when it waits is a duration first, and the clock after it.
#[test]
fn waits_say_when_they_are_over() {
    let waits = |until: &str| {
        let yaml = format!(
            "
kind: Job
metadata: {{name: pi, namespace: shop, uid: j}}
---
controller: job-controller
object: {{group: batch, kind: Job, namespace: shop, name: pi, uid: j}}
lines: [{{class: waits, reason: BacksOff, what: replaces failed pods, why: 1 pod failed since the last success, until: '{until}'}}]"
        );
        crate::explain(&facts(&yaml)).waits.join("\n")
    };
    let all = [
        waits("2026-01-01T12:09:35Z"),
        waits("2026-01-01T12:00:00Z"),
        waits("2026-01-01T11:59:50Z"),
        waits("2026-01-02T00:00:10Z"),
    ];
    expect![[r#"
        replaces failed pods in 9m35s (12:09:35Z): 1 pod failed since the last success
        replaces failed pods, due now (12:00:00Z): 1 pod failed since the last success
        replaces failed pods, due 10s ago (11:59:50Z): 1 pod failed since the last success
        replaces failed pods in 12h (2026-01-02T00:00:10Z): 1 pod failed since the last success"#]]
    .assert_eq(&all.join("\n"));
}

/// A hint of a controller is passed on where there is no better help.
#[test]
fn hints_help_where_nothing_else_does() {
    check(
        "
kind: Deployment
metadata: {name: web, namespace: shop, uid: d}
spec: {replicas: 1, template: {spec: {containers: [{name: main, image: 'web:1'}]}}}
---
controller: deployment-controller
object: {group: apps, kind: Deployment, namespace: shop, name: web, uid: d}
lines: [{class: states, reason: SelectsEverything, what: does nothing, why: its selector is empty and would select all pods, hint: recreate it with a selector that is not empty}]",
        expect![[r#"
            deployment/web in shop: is progressing: 0 of 1 pod updated, 0 available

            wants       1 pod of web:1
                        at most 25% unavailable and 25% extra while it rolls out

            sees        does nothing: its selector is empty and would select all pods
                        0 pods, 0 of 1 updated, 0 ready, 0 available

            would help  recreate it with a selector that is not empty

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

/// Only decisions to create pods can be refused so; whatever else fails is said as it is.
#[test]
fn a_reconcile_that_keeps_failing() {
    let set = |reason: &str, count: u64| {
        format!(
            "
kind: ReplicaSet
metadata: {{name: web, namespace: shop, uid: r}}
spec: {{replicas: 1}}
---
controller: replicaset-controller
object: {{group: apps, kind: ReplicaSet, namespace: shop, name: web, uid: r}}
lines: [{{class: acts, reason: {reason}, what: acts}}]
failure: the server is down
count: {count}"
        )
    };
    check_verdict(
        &set("TooFew", 2),
        expect![[r#"
            cannot create pods: the server is down
            kubectl describe replicaset/web -n shop"#]],
    );
    check_verdict(
        &set("TooMany", 2),
        expect![[r#"
            0 of 1 pod available; replicaset/web reconcile keeps failing: the server is down
            kubectl describe replicaset/web -n shop"#]],
    );
    check_verdict(
        &set("TooMany", 1),
        expect!["0 of 1 pod available; replicaset/web reconcile fails: the server is down"],
    );
}

/// Decisions about a namesake: recreated since, or of another group.
#[test]
fn namesakes_are_other_objects() {
    let asked = |version: &str, kind: &str, uid: &str| {
        format!(
            "
apiVersion: {version}
kind: {kind}
metadata: {{name: web, namespace: shop, uid: {uid}}}
spec: {{replicas: 1, completions: 1}}
---
controller: some-controller
object: {{group: apps, kind: Deployment, namespace: shop, name: web, uid: d}}
lines: [{{class: acts, reason: A, what: decides about the Deployment}}]
---
controller: some-controller
object: {{group: batch, kind: Job, namespace: shop, name: web, uid: j}}
lines: [{{class: acts, reason: A, what: decides about the Job}}]"
        )
    };
    let did = |version: &str, kind: &str, uid: &str| {
        let explanation = crate::explain(&facts(&asked(version, kind, uid)));
        let did = explanation.did.iter().map(|did| did.what.clone());
        (did.collect::<Vec<_>>(), explanation.wants)
    };
    let (deployment, _) = did("apps/v1", "Deployment", "d");
    assert_eq!(deployment, ["decides about the Deployment"]);
    let (recreated, _) = did("apps/v1", "Deployment", "e");
    assert!(recreated.is_empty(), "{recreated:?}");
    let (job, wants) = did("batch/v1", "Job", "j");
    assert_eq!(job, ["decides about the Job"]);
    assert!(!wants.is_empty());
    for custom in ["example.com/v1", "v1"] {
        let (custom, wants) = did(custom, "Job", "j");
        assert!(custom.is_empty(), "{custom:?}");
        assert!(wants.is_empty(), "explained as a Job: {wants:?}");
    }
    check_verdict(
        &asked("example.com/v1", "Job", "j"),
        expect!["no controller of this manager has decided anything about it"],
    );
}

#[test]
fn a_daemon_set_that_matches_no_node_says_which_label_is_missing() {
    let check = |selector: &str, labels: &str, expected: Expect| {
        let yaml = format!(
            "
kind: DaemonSet
metadata: {{name: agent, namespace: shop, generation: 1}}
spec: {{template: {{spec: {{{selector} containers: [{{name: main, image: 'agent:1'}}]}}}}}}
status: {{observedGeneration: 1, desiredNumberScheduled: 0}}
---
kind: Node
metadata: {{name: n1, labels: {labels}}}
---
kind: Node
metadata: {{name: n2, labels: {{disk: hdd, zone: a}}}}"
        );
        super::check_verdict(&yaml, expected);
    };
    check(
        "nodeSelector: {disk: ssd},",
        "{disk: hdd}",
        expect![[r#"
        matches no node: its nodeSelector wants disk=ssd, which no node has
        kubectl get nodes --show-labels"#]],
    );
    check(
        "nodeSelector: {disk: ssd, zone: a},",
        "{disk: ssd}",
        expect![[r#"
        matches no node: no node has all labels of its nodeSelector, disk=ssd,zone=a
        kubectl get nodes --show-labels"#]],
    );
    check(
        "",
        "{disk: ssd}",
        expect![[r#"
        matches no node: its tolerations let it onto none of the 2
        kubectl get nodes --show-labels"#]],
    );
}

#[test]
fn every_violation_of_pod_security_is_in_the_first_line() {
    super::check_verdict(
        "
kind: Deployment
metadata: {name: web, namespace: shop, uid: d, generation: 1, annotations: {deployment.kubernetes.io/revision: '1'}}
spec: {replicas: 1, template: {spec: {containers: [{name: main, image: 'web:1'}]}}}
status: {observedGeneration: 1, unavailableReplicas: 1}
---
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: s, ownerReferences: [{kind: Deployment, name: web, uid: d, controller: true}], annotations: {deployment.kubernetes.io/revision: '1'}}
spec: {replicas: 1, template: {spec: {containers: [{name: main, image: 'web:1'}]}}}
status: {replicas: 0, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: 'pods \"web-1\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"main\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"main\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"main\" must set securityContext.runAsNonRoot=true)'}]}
---
{kind: Namespace, metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: restricted}}}",
        expect![[r#"
            is stuck: 0 of 1 pod updated, 0 available; replicaset/web-1 cannot create pods: pods "web-1" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true
            kubectl get ns shop --show-labels"#]],
    );
}
