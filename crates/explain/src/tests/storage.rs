//! Claims and volumes.

use super::check;
use expect_test::expect;

#[test]
fn a_claim_is_held_by_the_pods_that_use_it() {
    check(
        "
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c, deletionTimestamp: '2026-01-01T11:58:00Z', finalizers: [kubernetes.io/pvc-protection]}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], volumeName: v, resources: {requests: {storage: 1Gi}}}
status: {phase: Bound}
---
kind: Pod
metadata: {name: db, namespace: shop}
spec: {nodeName: n1, volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]}
---
kind: Pod
metadata: {name: other, namespace: shop}
spec: {nodeName: n1, volumes: [{name: d, persistentVolumeClaim: {claimName: other}}]}
---
controller: persistentvolumeclaim-protection-controller
object: {kind: PersistentVolumeClaim, namespace: shop, name: data, uid: c}
lines: [{class: waits, reason: InUse, what: 'is kept until pod db is gone, which uses it'}]",
        expect![[r#"
            persistentvolumeclaim/data in shop: is being deleted; held by finalizer kubernetes.io/pvc-protection as long as a pod uses it

            wants       a volume of class fast with 1Gi, ReadWriteOnce

            sees        phase Bound, volume v
                        used by pod/db

            pending     is kept until pod db is gone, which uses it

            in the way  pod/db: uses it on node n1
                        persistentvolumeclaim/data: held by finalizer kubernetes.io/pvc-protection as long as a pod uses it (for 2m)

            would help  kubectl delete pod db -n shop
                        allows the claim to be deleted, if the pod is not needed any more

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_volume_is_held_by_its_claim() {
    check(
        "
kind: PersistentVolume
metadata: {name: v, uid: v, deletionTimestamp: '2026-01-01T11:58:00Z', finalizers: [kubernetes.io/pv-protection]}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, claimRef: {namespace: shop, name: data, uid: c}}
status: {phase: Bound}
---
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c}",
        expect![[r#"
            persistentvolume/v: is being deleted; held by finalizer kubernetes.io/pv-protection as long as a claim is bound to it

            wants       to give 1Gi, ReadWriteOnce to a claim

            sees        phase Bound, claim shop/data, reclaim policy Retain

            in the way  persistentvolumeclaim/data: is bound to it
                        persistentvolume/v: held by finalizer kubernetes.io/pv-protection as long as a claim is bound to it (for 2m)

            would help  kubectl describe persistentvolume/v
                        shows its events

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_released_volume_says_who_has_to_delete_it() {
    let released = |annotations: &str, since: &str| {
        format!(
            "
kind: PersistentVolume
metadata: {{name: v, uid: v, annotations: {{{annotations}}}}}
spec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Delete, csi: {{driver: d, volumeHandle: h}}, claimRef: {{namespace: shop, name: data, uid: c}}}}
status: {{phase: Released, lastPhaseTransitionTime: '2026-01-01T{since}Z'}}"
        )
    };
    super::check_verdict(
        &released("pv.kubernetes.io/provisioned-by: d", "11:59:50"),
        expect![[r#"
            its claim is gone; waits until d has deleted it
        "#]],
    );
    check(
        &released("pv.kubernetes.io/provisioned-by: d", "11:50:00"),
        expect![[r#"
            persistentvolume/v: its claim is gone; waits until d has deleted it, for 10m now

            wants       to give 1Gi, ReadWriteOnce to a claim

            sees        phase Released, claim shop/data, reclaim policy Delete

            would help  see whether d runs

            Source: the controllers themselves, at https://here.
        "#]],
    );
    super::check_verdict(
        &released(
            "pv.kubernetes.io/provisioned-by: kubernetes.io/x, pv.kubernetes.io/migrated-to: d",
            "11:59:50",
        ),
        expect![[r#"
            its claim is gone; waits until d has deleted it
        "#]],
    );
    check(
        &released("", "11:59:50"),
        expect![[r#"
        persistentvolume/v: its claim is gone; no driver deletes it: it was not provisioned by one

        wants       to give 1Gi, ReadWriteOnce to a claim

        sees        phase Released, claim shop/data, reclaim policy Delete

        would help  kubectl delete persistentvolume/v
                    deletes the object, and nothing of what is stored

        Source: the controllers themselves, at https://here.
    "#]],
    );
}

#[test]
fn a_claim_says_what_it_waits_for() {
    let claim = "
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c, creationTimestamp: '2026-01-01T11:50:00Z'}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
status: {phase: Pending}
---
controller: persistentvolume-binder-controller
object: {kind: PersistentVolumeClaim, namespace: shop, name: data, uid: c}
lines:";
    super::check_verdict(
        &format!(
            "{claim} [{{class: waits, reason: WaitsForProvisioner, what: waits until p has provisioned a volume, hint: see whether p runs}}]"
        ),
        expect![[r#"
            waits until p has provisioned a volume, for 10m now
        "#]],
    );
    super::check_verdict(
        &format!(
            "{claim} [{{class: waits, reason: WaitForFirstConsumer, what: waits for the first pod that uses it, why: its class says so}}]"
        ),
        expect!["waits for the first pod that uses it: its class says so"],
    );
    check(
        &format!(
            "{claim} [{{class: waits, reason: NoVolume, what: waits for a volume that suits it, why: none does}}, {{class: states, reason: PassedOver, what: volume small is passed over, why: it is too small (1Gi)}}]"
        ),
        expect![[r#"
            persistentvolumeclaim/data in shop: waits for a volume that suits it: none does

            wants       a volume of class fast with 5Gi, ReadWriteOnce

            sees        volume small is passed over: it is too small (1Gi)
                        phase Pending, no volume

            pending     waits for a volume that suits it: none does

            would help  kubectl describe persistentvolumeclaim/data -n shop
                        shows its events

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_pod_says_what_its_claim_waits_for() {
    super::check_verdict(
        "
kind: Pod
metadata: {name: db, namespace: shop, creationTimestamp: '2026-01-01T11:50:00Z'}
spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: x, lastTransitionTime: '2026-01-01T11:50:00Z'}]}
---
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c}
status: {phase: Pending}
---
controller: persistentvolume-binder-controller
object: {kind: PersistentVolumeClaim, namespace: shop, name: data, uid: c}
lines: [{class: waits, reason: WaitsForProvisioner, what: waits until p has provisioned a volume}]",
        expect![[r#"
            cannot be scheduled: its claim data is not bound: it waits until p has provisioned a volume (for 10m)
            kubectl describe pvc data -n shop"#]],
    );
}

/// A pod in ContainerCreating, and what the attach-detach controller decided about it.
fn check_waiting(lines: &str, expected: expect_test::Expect) {
    super::check_verdict(
        &format!(
            "
kind: Pod
metadata: {{name: db, namespace: shop, uid: p, creationTimestamp: '2026-01-01T11:50:00Z'}}
spec: {{nodeName: n2, containers: [{{name: main}}], volumes: [{{name: d, persistentVolumeClaim: {{claimName: data}}}}]}}
status: {{phase: Pending, containerStatuses: [{{name: main, state: {{waiting: {{reason: ContainerCreating}}}}}}]}}
---
controller: persistentvolume-attach-detach-controller
object: {{kind: Pod, namespace: shop, name: db, uid: p}}
lines: [{lines}]"
        ),
        expected,
    );
}

#[test]
fn a_pod_says_who_has_its_volume_and_until_when() {
    check_waiting(
        "{class: waits, reason: MultiAttach, what: waits to attach volume v to n2, why: 'only one node may have it, and n1 does', until: '2026-01-01T12:04:00Z'}",
        expect![[r#"
            cannot start: waits to attach volume v to n2 in 4m (12:04:00Z): only one node may have it, and n1 does
            kubectl describe pod db -n shop"#]],
    );
    check_waiting(
        "{class: waits, reason: MultiAttach, what: cannot attach volume v to n2, why: 'only one node may have it, and n1 does, where shop/web needs it'}",
        expect![[r#"
            cannot start: cannot attach volume v to n2: only one node may have it, and n1 does, where shop/web needs it (for 10m)
            kubectl describe pod db -n shop"#]],
    );
    check_waiting(
        "{class: waits, reason: AttachFails, what: waits until volume v is attached to n2, why: 'driver d.example.com says: no room'}",
        expect![[r#"
            cannot start: waits until volume v is attached to n2: driver d.example.com says: no room (for 10m)
            kubectl describe pod db -n shop"#]],
    );
    check_waiting(
        "{class: states, reason: Attached, what: volume v is attached to n2}",
        expect!["is starting on n2 (for 10m)"],
    );
}

#[test]
fn where_another_manager_runs_the_events_of_the_pod_say_it() {
    super::check_verdict(
        "
kind: Pod
metadata: {name: db, namespace: shop, uid: p, creationTimestamp: '2026-01-01T11:50:00Z'}
spec: {nodeName: n2, containers: [{name: main}]}
status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ContainerCreating}}}]}
---
kind: Event
reason: FailedAttachVolume
message: 'Multi-Attach error for volume \"v\" Volume is already used by pod(s) web'
involvedObject: {kind: Pod, name: db}
lastTimestamp: '2026-01-01T11:55:00Z'",
        expect![[r#"
            cannot start: Multi-Attach error for volume "v" Volume is already used by pod(s) web (for 10m)
            kubectl describe pod db -n shop"#]],
    );
}

/// A claim of the class `standard` is bound when its pod has a node: room is what the pod lacks.
#[test]
fn a_claim_that_waits_for_its_consumer_is_not_why_a_pod_has_no_node() {
    let pod = "
kind: Pod
metadata: {name: db, namespace: shop, creationTimestamp: '2026-01-01T11:50:00Z'}
spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]}
status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient cpu.', lastTransitionTime: '2026-01-01T11:50:00Z'}]}
---
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c}
status: {phase: Pending}
---
{kind: Node, metadata: {name: a}}
---";
    let room = || {
        expect![[r#"
            cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu. (for 10m)
            kubectl describe nodes"#]]
    };
    super::check_verdict(
        &format!(
            "{pod}
controller: persistentvolume-binder-controller
object: {{kind: PersistentVolumeClaim, namespace: shop, name: data, uid: c}}
lines: [{{class: waits, reason: WaitForPodScheduled, what: waits until its pod has a node}}]"
        ),
        room(),
    );
    super::check_verdict(
        &format!(
            "{pod}
kind: Event
reason: WaitForFirstConsumer
message: waiting for first consumer to be created before binding
involvedObject: {{kind: PersistentVolumeClaim, name: data}}
lastTimestamp: '2026-01-01T11:50:00Z'"
        ),
        room(),
    );
}

/// To remove its finalizers by hand would take the volume away from its users.
#[test]
fn a_volume_that_is_attached_is_not_to_be_freed_by_hand() {
    super::check_verdict(
        "
kind: PersistentVolume
metadata: {name: v, uid: v, deletionTimestamp: '2026-01-01T11:58:00Z', finalizers: [kubernetes.io/pv-protection, external-attacher/simulated-steersman-dev]}
spec: {capacity: {storage: 1Gi}, claimRef: {namespace: shop, name: data, uid: c}}
status: {phase: Bound}",
        expect![[r#"
            is being deleted; held by finalizer kubernetes.io/pv-protection as long as a claim is bound to it and finalizer external-attacher/simulated-steersman-dev as long as it is attached to a node
            kubectl describe persistentvolume/v"#]],
    );
}

#[test]
fn a_pod_says_what_gets_its_volume_from_a_node_that_is_gone() {
    let check = |node: &str, expected: expect_test::Expect| {
        super::check_verdict(
            &format!(
                "
kind: Pod
metadata: {{name: new, namespace: shop, uid: p, creationTimestamp: '2026-01-01T11:50:00Z'}}
spec: {{nodeName: n2, volumes: [{{name: d, persistentVolumeClaim: {{claimName: data}}}}]}}
status: {{phase: Pending}}
---
kind: Pod
metadata: {{name: old, namespace: shop, uid: o, deletionTimestamp: '2026-01-01T11:40:00Z'}}
spec: {{nodeName: n1, volumes: [{{name: d, persistentVolumeClaim: {{claimName: data}}}}]}}
---
kind: Node
metadata: {{name: n1{node}}}
---
controller: persistentvolume-attach-detach-controller
object: {{kind: Pod, namespace: shop, name: new, uid: p}}
lines: [{{class: waits, reason: MultiAttach, what: cannot attach volume v to n2, why: 'only one node may have it, and n1 does'}}]"
            ),
            expected,
        );
    };
    check(
        "",
        expect![[r#"
        cannot start: cannot attach volume v to n2: only one node may have it, and n1 does (for 10m)
        kubectl delete pod old --force -n shop"#]],
    );
    check(
        ", annotations: {steersman.dev/silent: 'true'}",
        expect![[r#"
            cannot start: cannot attach volume v to n2: only one node may have it, and n1 does (for 10m)
            steersman node start n1"#]],
    );
}

/// What the provisioner says is why; that the binder once found no class is not.
#[test]
fn a_claim_says_what_its_provisioner_says() {
    super::check_verdict(
        "
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: c, creationTimestamp: '2026-01-01T11:59:50Z'}
spec: {storageClassName: fast, resources: {requests: {storage: 5Gi}}}
status: {phase: Pending}
---
kind: Event
reason: ProvisioningFailed
message: no space left
source: {component: d.example.com}
involvedObject: {kind: PersistentVolumeClaim, name: data}
lastTimestamp: '2026-01-01T11:59:52Z'
---
kind: Event
reason: ProvisioningFailed
message: 'storageclass.storage.k8s.io \"fast\" not found'
source: {component: persistentvolume-controller}
involvedObject: {kind: PersistentVolumeClaim, name: data}
lastTimestamp: '2026-01-01T11:59:53Z'
---
controller: persistentvolume-binder-controller
object: {kind: PersistentVolumeClaim, namespace: shop, name: data, uid: c}
lines: [{class: waits, reason: WaitsForProvisioner, what: waits until d.example.com has provisioned a volume, hint: see whether it runs}]",
        expect![[r#"
            waits until d.example.com has provisioned a volume: no space left
            kubectl describe persistentvolumeclaim/data -n shop"#]],
    );
}

#[test]
fn a_volume_that_names_a_claim_waits_for_that_one() {
    super::check_verdict(
        "
kind: PersistentVolume
metadata: {name: v}
spec: {capacity: {storage: 1Gi}, claimRef: {namespace: shop, name: data}}
status: {phase: Available}",
        expect!["waits for claim shop/data, which it is kept for"],
    );
}

#[test]
fn a_claim_names_the_attributes_class_that_is_not_there() {
    let claim = |phase: &str, current: &str| {
        format!(
            "
kind: PersistentVolumeClaim
metadata: {{name: data, namespace: shop, uid: c, creationTimestamp: '2026-01-01T11:59:50Z'}}
spec: {{storageClassName: fast, volumeAttributesClassName: gold, accessModes: [ReadWriteOnce], volumeName: v, resources: {{requests: {{storage: 5Gi}}}}}}
status: {{phase: {phase}{current}}}
"
        )
    };
    let asked = "---
controller: persistentvolume-binder-controller
object: {kind: PersistentVolumeClaim, namespace: shop, name: data, uid: c}
lines: [{class: waits, reason: WaitsForProvisioner, what: waits until p has provisioned a volume}]
";
    let class = "---
kind: VolumeAttributesClass
metadata: {name: gold, uid: g}
";
    let check = super::check_verdict;
    check(
        &format!("{}{asked}", claim("Pending", "")),
        expect![[r#"
        waits until p has provisioned a volume: VolumeAttributesClass gold does not exist
    "#]],
    );
    check(
        &claim("Pending", ""),
        expect![[r#"
        is not bound: VolumeAttributesClass gold does not exist
    "#]],
    );
    check(
        &format!("{}{asked}{class}", claim("Pending", "")),
        expect!["waits until p has provisioned a volume"],
    );
    check(
        &claim("Bound", ""),
        expect![[r#"
        is bound to v, which cannot get the attributes of gold: there is no such VolumeAttributesClass
    "#]],
    );
    check(
        &format!("{}{class}", claim("Bound", "")),
        expect!["is bound to v"],
    );
    // Its volume has what the class asked for, although it was deleted since.
    check(
        &claim("Bound", ", currentVolumeAttributesClassName: gold"),
        expect!["is bound to v"],
    );
}
