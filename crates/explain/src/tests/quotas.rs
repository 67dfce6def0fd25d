//! What a quota counts, and whom it refuses.

use super::check;
use expect_test::expect;

#[test]
fn a_quota_that_is_used_up_names_whom_it_refuses() {
    check(
        "
kind: ResourceQuota
metadata: {name: few, namespace: shop}
spec: {hard: {pods: 2, requests.cpu: 4}, scopes: [NotTerminating]}
status: {hard: {pods: 2, requests.cpu: 4}, used: {pods: 2, requests.cpu: 500m}}
---
kind: Event
involvedObject: {kind: ReplicaSet, name: web-1}
reason: FailedCreate
message: refused
---
kind: Event
involvedObject: {kind: ReplicaSet, name: web-1}
reason: FailedCreate
message: refused
---
kind: ReplicaSet
metadata: {name: web-1, namespace: shop}
spec: {template: {spec: {containers: [{name: main, resources: {requests: {cpu: 10m}}}]}}}",
        expect![[r#"
            resourcequota/few in shop: is used up and refuses more: pods 2 of 2

            wants       no more than pods=2,requests.cpu=4
                        of what is in scope NotTerminating

            sees        pods: 2 of 2 used
                        requests.cpu: 500m of 4 used

            in the way  replicaset/web-1: was refused: requested: pods=1, used: pods=2, limited: pods=2

            would help  kubectl edit resourcequota few -n shop
                        raise spec.hard, or delete what is not needed

            Source: the controllers themselves, at https://here.
        "#]],
    );
}

#[test]
fn quotas_in_one_sentence() {
    let check = |status: &str, expected: expect_test::Expect| {
        super::check_verdict(
            &format!(
                "
kind: ResourceQuota
metadata: {{name: few, namespace: shop}}
spec: {{hard: {{pods: 2}}}}
status: {status}"
            ),
            expected,
        );
    };
    check(
        "{}",
        expect!["its usage is not computed yet: until then it limits nothing"],
    );
    check(
        "{hard: {pods: 1}, used: {pods: 1}}",
        expect![
            "its limits have changed, and the old ones are enforced until its usage is computed again"
        ],
    );
    check(
        "{hard: {pods: 2}, used: {pods: 1}}",
        expect!["has room for more of everything"],
    );
    check(
        "{hard: {pods: 2}, used: {pods: 3}}",
        expect!["is used up: pods 3 of 2"],
    );
}

/// There may be room, and still not for what somebody asks for.
#[test]
fn a_quota_with_room_names_whom_it_refuses() {
    let quota = |container: &str, at: &str| {
        format!(
            "
kind: ResourceQuota
metadata: {{name: few, namespace: shop}}
spec: {{hard: {{requests.cpu: 4}}}}
status: {{hard: {{requests.cpu: 4}}, used: {{requests.cpu: 3}}}}
---
kind: Event
reason: FailedCreate
message: refused
involvedObject: {{kind: ReplicaSet, name: web-1}}
lastTimestamp: '{at}'
---
kind: ReplicaSet
metadata: {{name: web-1, namespace: shop}}
spec: {{template: {{spec: {{containers: [{container}]}}}}}}"
        )
    };
    let lately = "2026-01-01T11:59:00Z";
    super::check_verdict(
        &quota("{name: nginx}", lately),
        expect![[r#"
            has room, but not for all: replicaset/web-1 was refused: must specify requests.cpu for: nginx
        "#]],
    );
    let exceeded = "{name: nginx, resources: {requests: {cpu: 2}}}";
    super::check_verdict(
        &quota(exceeded, lately),
        expect![[r#"
            has room, but not for all: replicaset/web-1 was refused: requested: requests.cpu=2, used: requests.cpu=3, limited: requests.cpu=4
        "#]],
    );
    super::check_verdict(
        &quota(exceeded, "2026-01-01T11:00:00Z"),
        expect!["has room for more of everything"],
    );
}

#[test]
fn what_the_controller_says_of_a_resource_is_said_once() {
    check(
        "
kind: ResourceQuota
metadata: {name: few, namespace: shop, uid: q}
spec: {hard: {pods: 2}}
status: {hard: {pods: 2}, used: {pods: 2}}
---
controller: resourcequota-controller
object: {kind: ResourceQuota, namespace: shop, name: few}
lines:
- {class: states, reason: Uncountable, what: x is not counted}
- {class: states, reason: Exhausted, what: '2 pods are 2', why: what would use more is refused}",
        expect![[r#"
            resourcequota/few in shop: is used up: pods 2 of 2

            wants       no more than pods=2

            sees        x is not counted
                        pods: 2 of 2 used: what would use more is refused

            Source: the controllers themselves, at https://here.
        "#]],
    );
}
