//! Claims for devices, the pods that wait for them, and nodes without a range.

use super::{check, check_verdict};
use expect_test::expect;

const CLAIM: &str = "
kind: ResourceClaim
metadata: {name: gpus, namespace: ml, uid: c}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}
---
kind: DeviceClass
metadata: {name: gpu}
---";

#[test]
fn an_allocated_claim_says_who_reserves_it() {
    check(
        "
kind: ResourceClaim
metadata: {name: gpus, namespace: ml, uid: c}
spec:
  devices:
    requests:
    - {name: big, exactly: {deviceClassName: gpu, allocationMode: All, adminAccess: true}}
    - name: any
      firstAvailable:
      - {name: a, deviceClassName: large, selectors: [{cel: {expression: 'true'}}]}
      - {name: b, deviceClassName: small, count: 2}
status:
  allocation: {devices: {results: [{request: big, driver: gpu.example.com, pool: n1, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: train, uid: p}]",
        expect![[r#"
            resourceclaim/gpus in ml: is allocated and reserved for pod/train

            wants       all devices of class gpu, with admin access beside their users (big)
                        the first that can be had of 1 device of class large (selected by 1 expression); 2 devices of class small (any)

            sees        devices gpu.example.com/n1/gpu-0
                        reserved for pod/train

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn a_claim_that_no_pod_waits_for_is_not_allocated_and_that_is_fine() {
    check_verdict(
        CLAIM.trim_end_matches("---"),
        expect![
            "is not allocated: devices are chosen when a pod that uses it is scheduled, and none waits"
        ],
    );
}

#[test]
fn a_claim_that_is_not_allocated_says_what_the_scheduler_lacks() {
    let pod = "
kind: Pod
metadata: {name: train, namespace: ml, uid: p, creationTimestamp: '2026-01-01T11:55:00Z'}
spec: {resourceClaims: [{name: gpu, resourceClaimName: gpus}]}
status: {conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/1 nodes are available: 1 cannot allocate all claims.'}]}";
    check_verdict(
        &format!("{CLAIM}{pod}"),
        expect![[r#"
            is not allocated: pod/train cannot be scheduled: 0/1 nodes are available: 1 cannot allocate all claims.
            kubectl get resourceslices"#]],
    );
    let classless =
        format!("{CLAIM}{pod}").replace("metadata: {name: gpu}", "metadata: {name: other}");
    check_verdict(
        &classless,
        expect![[r#"
            is not allocated: device class gpu does not exist
            kubectl get deviceclasses"#]],
    );
}

const POD: &str = "
kind: Pod
metadata: {name: train, namespace: ml, uid: p, creationTimestamp: '2026-01-01T11:55:00Z'}
spec: {containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimName: gpus}]}
status: {phase: Pending}
---";

#[test]
fn a_pod_says_which_claim_it_waits_for() {
    check_verdict(
        POD.trim_end_matches("---"),
        expect![[r#"
            cannot be scheduled: its resource claim gpus does not exist (for 5m)
            kubectl get resourceclaims,resourceclaimtemplates -n ml"#]],
    );
    check_verdict(
        &format!("{POD}{}", CLAIM.trim_end_matches("---")),
        expect![[r#"
        cannot be scheduled: its resource claim gpus has no devices yet (for 5m)
        kubectl get resourceslices"#]],
    );
    let decided = "
controller: resourceclaim-controller
object: {kind: Pod, namespace: ml, name: train, uid: p}
lines: [{class: waits, reason: ClaimRefused, what: waits for its claim gpu, why: there is no template big}]";
    check_verdict(
        &format!("{POD}{decided}"),
        expect![[r#"
            cannot be scheduled: for devices it waits for its claim gpu: there is no template big (for 5m)
            kubectl describe pod/train -n ml"#]],
    );
}

#[test]
fn a_pod_whose_device_is_tainted_says_when_it_is_evicted() {
    check_verdict(
        "
kind: Pod
metadata: {name: train, namespace: ml, uid: p}
spec: {nodeName: n1, containers: [{name: c, image: i}], resourceClaims: [{name: gpu, resourceClaimName: gpus}]}
status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}
---
controller: device-taint-eviction-controller
object: {kind: Pod, namespace: ml, name: train, uid: p}
lines: [{class: waits, reason: EvictedLater, what: is evicted, why: 'device gpu-0 has taint broken:NoExecute', until: '2026-01-01T12:05:00Z'}]",
        expect!["runs and is ready, but its device is tainted: it is evicted in 5m (12:05:00Z): device gpu-0 has taint broken:NoExecute"],
    );
}

#[test]
fn a_node_without_a_range_says_why_its_pods_get_no_addresses() {
    let node = "
kind: Node
metadata: {name: n1, uid: 'n', creationTimestamp: '2026-01-01T11:55:00Z'}
status: {conditions: [{type: Ready, status: 'True'}]}
---";
    let decided = "
controller: node-ipam-controller
object: {kind: Node, name: n1, uid: 'n'}
lines: [{class: waits, reason: Exhausted, what: waits for a range for its pods, why: all ranges of --cluster-cidr are taken, hint: restart with a larger --cluster-cidr}]";
    check_verdict(
        &format!("{node}{decided}"),
        expect![[r#"
        is ready, but its pods get no addresses: it waits for a range for its pods: all ranges of --cluster-cidr are taken
    "#]],
    );
    let event = "
kind: Event
reason: CIDRNotAvailable
message: 'Node n1 status is now: CIDRNotAvailable'
involvedObject: {kind: Node, name: n1}";
    check_verdict(
        &format!("{node}{event}"),
        expect![[r#"
        is ready, but its pods get no addresses: it has no range for its pods: Node n1 status is now: CIDRNotAvailable
        kubectl describe node/n1"#]],
    );
    check_verdict(node.trim_end_matches("---"), expect!["is ready"]);
}
