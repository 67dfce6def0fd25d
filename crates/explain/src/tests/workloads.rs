//! Workloads, namespaces and whatever else there is.

use super::{check, check_verdict, facts};
use crate::decisions::{Line, classify};
use crate::facts::Source;
use expect_test::expect;

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
about: deployment/shop/web
lines: ['scales web-2 from 1 to 2: it has the current template', 'old replicas kept: 3 are left, 3 pods must stay available, 3 are, and 2 new pods are not available yet', 'counts as stuck at 2026-01-01T12:08:00Z unless there is progress before']
---
controller: garbage-collector-controller
about: deployment/shop/web
lines: ['Deployment kept: it has no owner', 'Service deleted: its owners are gone']
---
controller: replicaset-controller
about: replicaset/shop/web-2
lines: ['has 1 of 2 pods: creates 1']
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
            deployment/web in shop: does not get on: 2 of 4 pods are updated, 3 available; pod/web-2-a container main cannot pull image "web:bad": ErrImagePull

            wants       4 pods of web:bad
                        at most 25% unavailable and 1 too many while it rolls out

            sees        5 pods, 2 of 4 updated, 3 ready, 3 available
                        replicaset/web-2 has the current template: wants 2, has 2, 0 available
                        replicaset/web-1 is revision 1: wants 3, has 3, 3 available
                        poddisruptionbudget/web lets nobody be evicted now: 3 pods are healthy and 3 must be; a drain waits

            did         2m ago    scales web-2 from 1 to 2: it has the current template
                        2m ago    replicaset/web-2 has 1 of 2 pods: creates 1

            waits       old replicas kept: 3 are left, 3 pods must stay available, 3 are, and 2 new pods are not available yet
                        counts as stuck at 2026-01-01T12:08:00Z unless there is progress before

            in the way  pod/web-2-a and 1 more: container main cannot pull image "web:bad": ErrImagePull (for 3m)

            would help  kubectl rollout undo deployment/web -n shop
                        goes back to the revision before

            Told by the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn from_the_objects_alone_it_says_what_would_be_done() {
    let mut facts = facts(STUCK);
    facts.source = Source::Objects("no manager of ours answers there".to_owned());
    let told = crate::explain(&facts);
    assert!(told.did.is_empty());
    expect![[r#"
        scales web-2 from 1 to 2: it has the current template
        replicaset/web-2 has 1 of 2 pods: creates 1"#]]
    .assert_eq(&told.would.join("\n"));
    assert_eq!(
        told.told_by,
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
            is paused: 1 of 3 pods are updated, 3 available
            kubectl rollout resume deployment/web -n shop"#]],
    );
    check_verdict(
        &deployment(
            "",
            ", replicas: 2, updatedReplicas: 2, availableReplicas: 2",
            "status:
  replicas: 2
  conditions:
  - {type: ReplicaFailure, status: 'True', reason: FailedCreate, message: 'pods \"web-1-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'}",
        ),
        expect![[r#"
            does not get on: 2 of 3 pods are updated, 2 available; replicaset/web-1 cannot create pods: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2
            kubectl describe quota few -n shop"#]],
    );
    check_verdict(
        &deployment(
            "",
            ", replicas: 3, updatedReplicas: 3, availableReplicas: 1, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]",
            "",
        ),
        expect![[r#"
            has made no progress within its deadline: 3 of 3 pods are updated, 1 available
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
            deployment/web in shop: is on its way: 3 of 3 pods are updated, 2 available; pod/web-1-a runs and is not ready

            wants       3 pods of web:1
                        at most 25% unavailable and 25% too many while it rolls out

            sees        4 pods, 3 of 3 updated, 2 ready, 2 available
                        replicaset/web-1 has the current template: wants 3, has 3, 2 available
                        replicaset/web-0 is revision 0: wants 1, has 1, 0 available

            in the way  pod/web-1-a: runs and is not ready
                        pod/web-0-a: container main cannot pull image "web:missing": ImagePullBackOff

            would help  kubectl logs web-1-a --all-containers -n shop
                        shows what it is busy with; kubectl describe pod shows the rest

            Told by the controllers themselves, at https://here.
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
about: statefulset/shop/db
lines: ['waits until db-1 runs and is ready, though it is of revision db-1 and db-2 is wanted: delete db-1 if it never gets ready']
---
kind: Pod
metadata: {name: db-1, namespace: shop, ownerReferences: [{uid: s, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Pending}",
        expect![[r#"
            1 of 3 pods are available; pod/db-1 is starting on node-1
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
about: daemonset/shop/agent
lines: ['leaves 2 pods of old revisions until somebody deletes them (OnDelete)']",
        expect![[r#"
            2 pods wait to be deleted by somebody before they are updated (OnDelete)
            kubectl get pods -L controller-revision-hash -n shop"#]],
    );
    check_verdict(
        "
kind: StatefulSet
metadata: {name: db, namespace: shop, uid: s}
spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}
status: {replicas: 3, readyReplicas: 3, availableReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}",
        expect!["is complete: 3 pods are available, 1 updated"],
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
about: namespace//old
lines: ['waits for 1 pods to end']",
        expect![[r#"
            namespace/old: does not go: widget/w held by finalizer widgets.example.com/cleanup, which whoever runs widgets.example.com has to remove

            wants       to be gone, since 2026-01-01T11:30:00Z (30m ago)

            sees        left in it: 1 ConfigMap, 1 PersistentVolumeClaim, 1 Pod, 1 Widget

            waits       for 1 pods to end

            in the way  widget/w: held by finalizer widgets.example.com/cleanup, which whoever runs widgets.example.com has to remove (for 29m)
                        persistentvolumeclaim/data: held by finalizer kubernetes.io/pvc-protection as long as a pod uses it (for 29m)
                        pod/p: is being deleted, but node node-9 does not confirm that it has stopped (for 29m)
                        configmap/c: has not been deleted yet: its turn comes, or its kind cannot be deleted just now
                        namespace/old: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1 (for 29m)

            would help  kubectl patch widget/w -n old --type=merge -p '{"metadata":{"finalizers":null}}'
                        lets it go; only if whoever set the finalizer is gone for good

            Told by the controllers themselves, at https://here.
        "#]],
    );
    check_verdict(
        "{kind: Namespace, metadata: {name: new}}",
        expect!["is active; nobody has deleted it"],
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
about: configmap/shop/c
lines: ['ConfigMap waits for 2 dependents that block its deletion']",
        expect![[r#"
            configmap/c in shop: is being deleted; held by finalizer foregroundDeletion until everything that it owns is gone

            waits       for 2 dependents that block its deletion

            in the way  configmap/c: held by finalizer foregroundDeletion until everything that it owns is gone (for 60s)

            would help  kubectl describe configmap/c -n shop
                        shows its events

            Told by the controllers themselves, at https://here.
        "#]],
    );
    check_verdict(
        "{kind: Secret, metadata: {name: s, namespace: shop}}",
        expect!["no controller of this manager has decided anything about it"],
    );
}

#[test]
fn lines_are_told_apart_by_their_words() {
    for (line, expected) in [
        (
            "creates web-1 with 3 of 3 pods: no ReplicaSet has this template",
            Line::Act,
        ),
        ("has 0 of 3 pods: creates 3", Line::Act),
        ("has 3 pods and wants 1: deletes 2", Line::Act),
        ("deletes a-1: it is not ready", Line::Act),
        ("deletes db-2 only when db-1 is healthy or gone", Line::Wait),
        (
            "creates no db-1 yet: its claim still belongs to the pod before it",
            Line::Wait,
        ),
        (
            "keeps web-1 at 2 of 4 pods: there are 5 pods in all",
            Line::Wait,
        ),
        (
            "updates 3 more pods when fewer than 1 nodes are without an available pod",
            Line::Wait,
        ),
        ("is paused: no rollout, only scaling", Line::Wait),
        ("has the 3 pods it wants", Line::State),
        (
            "is complete: 3 pods of the current template are available",
            Line::State,
        ),
    ] {
        assert_eq!(classify(line), expected, "{line}");
    }
}
