//! Who holds what is being deleted.

use super::check;
use expect_test::expect;

#[test]
fn a_deployment_is_held_by_a_pod_of_an_old_set() {
    check(
        "
kind: Deployment
metadata: {name: fin, namespace: shop, uid: d, generation: 3, deletionTimestamp: '2026-01-01T11:58:00Z', finalizers: [foregroundDeletion], annotations: {deployment.kubernetes.io/revision: '2'}}
spec: {replicas: 1, strategy: {type: Recreate}, template: {spec: {containers: [{name: main, image: 'web:2'}]}}}
status: {observedGeneration: 3}
---
kind: ReplicaSet
metadata: {name: fin-2, namespace: shop, uid: r2, deletionTimestamp: '2026-01-01T11:58:00Z', finalizers: [foregroundDeletion, example.com/audit], annotations: {deployment.kubernetes.io/revision: '2'}, ownerReferences: [{uid: d, controller: true}]}
spec: {replicas: 1}
---
kind: ReplicaSet
metadata: {name: fin-1, namespace: shop, uid: r1, deletionTimestamp: '2026-01-01T11:58:00Z', finalizers: [foregroundDeletion], annotations: {deployment.kubernetes.io/revision: '1'}, ownerReferences: [{uid: d, controller: true}]}
spec: {replicas: 0}
---
kind: Pod
metadata: {name: fin-2-a, namespace: shop, ownerReferences: [{uid: r2, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Pending, containerStatuses: [{name: main, image: 'web:2', state: {waiting: {reason: ErrImagePull}}}]}
---
kind: Pod
metadata: {name: fin-1-a, namespace: shop, deletionTimestamp: '2026-01-01T11:57:30Z', deletionGracePeriodSeconds: 30, finalizers: [example.com/hold], ownerReferences: [{uid: r1, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Running}",
        expect![[r#"
            deployment/fin in shop: is being deleted; held by finalizer foregroundDeletion until everything that it owns is gone; replicaset/fin-2 held by finalizer foregroundDeletion until everything that it owns is gone and finalizer example.com/audit, which the controller of example.com has to remove

            wants       1 pod of web:2
                        all old pods gone before the first new one starts (Recreate)

            sees        0 pods, 0 of 1 updated, 0 ready, 0 available
                        replicaset/fin-2 has the current template: wants 1, has 0, 0 available

            in the way  replicaset/fin-2: held by finalizer foregroundDeletion until everything that it owns is gone and finalizer example.com/audit, which the controller of example.com has to remove (for 2m)
                        pod/fin-1-a: is being deleted and held by finalizer example.com/hold, which the controller of example.com has to remove (for 3m)
                        deployment/fin: held by finalizer foregroundDeletion until everything that it owns is gone (for 2m)

            would help  kubectl patch replicaset/fin-2 -n shop --type=merge -p '{"metadata":{"finalizers":null}}'
                        removes the finalizer; only if its controller is gone for good

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

/// Recreate waits for the pods of a set that is scaled to nothing already.
#[test]
fn a_rollout_waits_for_an_old_pod_that_is_held() {
    super::check_verdict(
        "
kind: Deployment
metadata: {name: fin, namespace: shop, uid: d, generation: 2, annotations: {deployment.kubernetes.io/revision: '1'}}
spec: {replicas: 1, strategy: {type: Recreate}}
status: {observedGeneration: 1}
---
kind: ReplicaSet
metadata: {name: fin-1, namespace: shop, uid: r1, annotations: {deployment.kubernetes.io/revision: '1'}, ownerReferences: [{uid: d, controller: true}]}
spec: {replicas: 0}
---
kind: Pod
metadata: {name: fin-1-a, namespace: shop, deletionTimestamp: '2026-01-01T11:57:30Z', finalizers: [example.com/hold], ownerReferences: [{uid: r1, controller: true}]}
spec: {nodeName: node-1}
status: {phase: Running}",
        expect![[r#"
            is stuck: 0 of 1 pod updated, 0 available; pod/fin-1-a is being deleted and held by finalizer example.com/hold, which the controller of example.com has to remove
            kubectl patch pod/fin-1-a -n shop --type=merge -p '{"metadata":{"finalizers":null}}'"#]],
    );
}

#[test]
fn owners_that_go_round_in_circles_are_no_trouble() {
    super::check_verdict(
        "
kind: ReplicaSet
metadata: {name: a, namespace: shop, uid: a, deletionTimestamp: '2026-01-01T11:57:30Z', finalizers: [example.com/hold], ownerReferences: [{uid: b, controller: true}]}
spec: {replicas: 0}
---
kind: ReplicaSet
metadata: {name: b, namespace: shop, uid: b, ownerReferences: [{uid: a, controller: true}]}
spec: {replicas: 0}",
        expect![[r#"
            is being deleted; held by finalizer example.com/hold, which the controller of example.com has to remove
            kubectl patch replicaset/a -n shop --type=merge -p '{"metadata":{"finalizers":null}}'"#]],
    );
}

/// Its own controller removes that finalizer: by hand, Services would keep addresses that are given out again.
#[test]
fn a_range_in_use_is_not_freed_by_hand() {
    let check = |decision: &str, expected: expect_test::Expect| {
        super::check_verdict(
            &format!(
                "
kind: ServiceCIDR
apiVersion: networking.k8s.io/v1
metadata: {{name: more, uid: r, deletionTimestamp: '2026-01-01T11:57:30Z', finalizers: [networking.k8s.io/service-cidr-finalizer]}}
spec: {{cidrs: [10.1.0.0/24]}}{decision}"
            ),
            expected,
        );
    };
    check(
        "",
        expect![[r#"
        is being deleted; held by finalizer networking.k8s.io/service-cidr-finalizer as long as a Service has an address that no other ServiceCIDR gives out
        kubectl describe servicecidr/more"#]],
    );
    let decision = "
---
controller: service-cidr-controller
object: {group: networking.k8s.io, kind: ServiceCIDR, name: more, uid: r}
lines: [{class: waits, reason: Blocked, what: waits until IPAddress 10.1.0.9 is deleted, hint: 'delete the Services in this range, or create a ServiceCIDR that covers it'}]";
    check(
        decision,
        expect![[r#"
        is being deleted; held by finalizer networking.k8s.io/service-cidr-finalizer as long as a Service has an address that no other ServiceCIDR gives out
    "#]],
    );
    let explanation = crate::explain(&super::facts(&format!(
        "
kind: ServiceCIDR
apiVersion: networking.k8s.io/v1
metadata: {{name: more, uid: r, deletionTimestamp: '2026-01-01T11:57:30Z', finalizers: [networking.k8s.io/service-cidr-finalizer]}}{decision}"
    )));
    let help = explanation.help.expect("its controller has a hint");
    expect![[r#"["waits until IPAddress 10.1.0.9 is deleted"]: delete the Services in this range, or create a ServiceCIDR that covers it"#]].assert_eq(&format!("{:?}: {}", explanation.waits, help.why));
}
