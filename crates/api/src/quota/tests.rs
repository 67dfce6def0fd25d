//! Usage and scopes of each kind, in JSON as short as it gets. Upstream: pkg/quota/v1/evaluator/core.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::amounts::show;
use crate::kinds::{DeviceClass, ResourceQuota};
use crate::pod_resources::PodResources;
use crate::{Resource, Time};

/// Midnight of New Year 2024.
const NOW: i64 = 1_704_067_200;

fn now() -> MicroTime {
    Time::from_unix(NOW).micro()
}

fn read<K: Resource>(value: Value) -> K {
    K::decode(value.to_string().as_bytes()).unwrap()
}

fn pod(containers: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
}

#[track_caller]
fn check_pod(pod: Value, expected: Expect) {
    let usage = Evaluator::of("", "pods").usage(&Item::Pod(&read(pod)), now());
    expected.assert_eq(&show(&usage));
}

fn asking(requests: Value, limits: Value) -> Value {
    pod(json!([{"name": "c", "resources": {"requests": requests, "limits": limits}}]))
}

// Upstream: TestPodEvaluatorUsage.
#[test]
fn pods_use_what_they_request_and_are_limited_to() {
    check_pod(
        asking(json!({"cpu": "1m"}), json!({"cpu": "2m"})),
        expect!["count/pods=1,cpu=1m,limits.cpu=2m,pods=1,requests.cpu=1m"],
    );
    check_pod(
        asking(json!({"memory": "1Mi"}), json!({"memory": "2Mi"})),
        expect!["count/pods=1,limits.memory=2Mi,memory=1Mi,pods=1,requests.memory=1Mi"],
    );
    check_pod(
        asking(
            json!({"ephemeral-storage": "32Mi"}),
            json!({"ephemeral-storage": "64Mi"}),
        ),
        expect![
            "count/pods=1,ephemeral-storage=32Mi,limits.ephemeral-storage=64Mi,pods=1,requests.ephemeral-storage=32Mi"
        ],
    );
    check_pod(
        asking(
            json!({"hugepages-2Mi": "100Mi"}),
            json!({"hugepages-2Mi": "100Mi"}),
        ),
        expect!["count/pods=1,hugepages-2Mi=100Mi,pods=1,requests.hugepages-2Mi=100Mi"],
    );
    check_pod(
        asking(
            json!({"example.com/dongle": "3"}),
            json!({"example.com/dongle": "3"}),
        ),
        expect!["count/pods=1,pods=1,requests.example.com/dongle=3"],
    );
    check_pod(
        asking(
            json!({"deviceclass.resource.kubernetes.io/gpu": "1"}),
            json!({}),
        ),
        expect!["count/pods=1,pods=1,requests.deviceclass.resource.kubernetes.io/gpu=1"],
    );
    check_pod(pod(json!([{"name": "c"}])), expect!["count/pods=1,pods=1"]);
}

#[test]
fn init_containers_count_where_they_need_more_and_sidecars_always() {
    let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let with_init = |init: Value| {
        let mut pod = pod(json!([{"name": "a", "resources": asks("1")},
                                 {"name": "b", "resources": asks("500m")}]));
        pod["spec"]["initContainers"] = init;
        pod
    };
    let init =
        json!([{"name": "i", "resources": asks("4")}, {"name": "j", "resources": asks("1")}]);
    check_pod(
        with_init(init),
        expect!["count/pods=1,cpu=4,pods=1,requests.cpu=4"],
    );
    let side = json!([{"name": "s", "restartPolicy": "Always", "resources": asks("2")},
                      {"name": "i", "resources": asks("1")}]);
    check_pod(
        with_init(side),
        expect!["count/pods=1,cpu=3500m,pods=1,requests.cpu=3500m"],
    );
}

#[test]
fn pod_level_resources_take_the_place_of_those_of_containers() {
    let mut pod = asking(json!({"cpu": "1", "memory": "1Gi"}), json!({}));
    pod["spec"]["resources"] = json!({"requests": {"cpu": "3"}, "limits": {"cpu": "4"}});
    pod["spec"]["overhead"] = json!({"cpu": "100m"});
    check_pod(
        pod,
        expect![
            "count/pods=1,cpu=3100m,limits.cpu=4100m,memory=1Gi,pods=1,requests.cpu=3100m,requests.memory=1Gi"
        ],
    );
}

// Upstream: TestPodEvaluatorUsageResourceResize.
#[test]
fn a_resize_counts_the_larger_of_what_is_wanted_and_what_is_there() {
    let resizing = |wanted: &str, actual: &str, reason: Option<&str>| {
        let mut pod = asking(json!({"cpu": wanted}), json!({"cpu": wanted}));
        pod["status"] = json!({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": actual},
            "resources": {"requests": {"cpu": actual}, "limits": {"cpu": actual}}}]});
        if let Some(reason) = reason {
            pod["status"]["conditions"] =
                json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        }
        pod
    };
    check_pod(
        resizing("1", "2", None),
        expect!["count/pods=1,cpu=2,limits.cpu=2,pods=1,requests.cpu=2"],
    );
    check_pod(
        resizing("3", "2", Some("Deferred")),
        expect!["count/pods=1,cpu=3,limits.cpu=3,pods=1,requests.cpu=3"],
    );
    check_pod(
        resizing("3", "2", Some("Infeasible")),
        expect!["count/pods=1,cpu=2,limits.cpu=2,pods=1,requests.cpu=2"],
    );
}

#[test]
fn pods_that_ended_or_should_be_gone_count_as_objects_alone() {
    let mut pod = asking(json!({"cpu": "1"}), json!({}));
    pod["status"] = json!({"phase": "Failed"});
    check_pod(pod.clone(), expect!["count/pods=1"]);
    pod["status"] = json!({"phase": "Running"});
    let at = |seconds: i64| Time::from_unix(NOW + seconds).to_string();
    // UPSTREAM: the grace period is waited for twice.
    pod["metadata"]["deletionTimestamp"] = json!(at(-30));
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    check_pod(
        pod.clone(),
        expect!["count/pods=1,cpu=1,pods=1,requests.cpu=1"],
    );
    pod["metadata"]["deletionTimestamp"] = json!(at(-31));
    check_pod(pod.clone(), expect!["count/pods=1"]);
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(i64::MIN);
    check_pod(pod, expect!["count/pods=1"]);
}

// Upstream: TestPodConstraintsFunc.
#[test]
fn containers_must_say_what_a_quota_limits() {
    let check = |pod: Value, tracked: &[&str], expected: Option<&str>| {
        let pod: PodResources = serde_json::from_value(pod).unwrap();
        let tracked: Vec<Istr> = tracked.iter().map(|name| Istr::new(name)).collect();
        let tracked: Vec<&Istr> = tracked.iter().collect();
        assert_eq!(missing_requests(&pod, &tracked).as_deref(), expected);
    };
    let half = pod(
        json!([{"name": "dummy", "resources": {"requests": {"cpu": "1m"}}},
                          {"name": "other"}]),
    );
    check(half.clone(), &["pods"], None);
    check(
        half.clone(),
        &["cpu", "requests.memory"],
        Some("must specify cpu for: other; requests.memory for: dummy,other"),
    );
    check(half.clone(), &["ephemeral-storage", "hugepages-2Mi"], None);
    let mut whole = half;
    whole["spec"]["resources"] = json!({"requests": {"memory": "1Gi"}});
    check(whole, &["cpu"], None);
}

#[track_caller]
fn check_service(spec: Value, expected: Expect) {
    let service: Service = read(json!({"metadata": {"name": "s"}, "spec": spec}));
    let usage = Evaluator::of("", "services").usage(&Item::Service(&service), now());
    expected.assert_eq(&show(&usage));
}

// Upstream: TestServiceEvaluatorUsage.
#[test]
fn services_use_node_ports_by_what_they_intend() {
    let ports = json!([{"port": 27443}, {"port": 27444, "nodePort": 32001}]);
    check_service(
        json!({"type": "ClusterIP", "ports": ports}),
        expect!["count/services=1,services=1,services.loadbalancers=0,services.nodeports=0"],
    );
    check_service(
        json!({"type": "NodePort", "ports": ports}),
        expect!["count/services=1,services=1,services.loadbalancers=0,services.nodeports=2"],
    );
    check_service(
        json!({"type": "LoadBalancer", "ports": ports}),
        expect!["count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"],
    );
    check_service(
        json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false}),
        expect!["count/services=1,services=1,services.loadbalancers=1,services.nodeports=1"],
    );
}

#[track_caller]
fn check_claim(claim: Value, expected: Expect) {
    let claim: PersistentVolumeClaim = read(claim);
    let usage = Evaluator::of("", "persistentvolumeclaims").usage(&Item::Claim(&claim), now());
    expected.assert_eq(&show(&usage));
}

// Upstream: TestPersistentVolumeClaimEvaluatorUsage.
#[test]
fn claims_count_in_all_and_by_class() {
    let claim = |class: Option<&str>, size: &str| {
        json!({"metadata": {"name": "c"}, "spec": {"storageClassName": class,
            "resources": {"requests": {"storage": size}}}})
    };
    check_claim(
        claim(None, "10Gi"),
        expect!["count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=10Gi"],
    );
    check_claim(
        claim(Some("gold"), "10Gi"),
        expect![
            "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=10Gi,persistentvolumeclaims=1,requests.storage=10Gi"
        ],
    );
    check_claim(
        claim(None, "1000m"),
        expect!["count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=1"],
    );
    let mut growing = claim(None, "10Gi");
    growing["status"] = json!({"allocatedResources": {"storage": "12Gi"}});
    check_claim(
        growing,
        expect!["count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=12Gi"],
    );
}

// Issue 21, point 18: versions that still have these gates.
#[test]
fn without_their_gates_expansions_and_attributes_classes_do_not_count() {
    use crate::gates::{Gate, Gates};
    let claim: PersistentVolumeClaim = read(json!({
        "metadata": {"name": "c"},
        "spec": {"resources": {"requests": {"storage": "10Gi"}}, "volumeAttributesClassName": "fast"},
        "status": {"allocatedResources": {"storage": "12Gi"}},
    }));
    let (on, item) = (Gates::default(), Item::Claim(&claim));
    let off = on
        .with(Gate::RecoverVolumeExpansionFailure, false)
        .with(Gate::VolumeAttributesClass, false);
    let used = |gates| {
        let evaluator = Evaluator::of("", "persistentvolumeclaims").gated(gates);
        evaluator.usage(&item, MicroTime::from_unix_micros(0))["requests.storage"].to_string()
    };
    assert_eq!(
        (used(on), used(off)),
        ("12Gi".to_owned(), "10Gi".to_owned())
    );
    let quota: ResourceQuota = read(
        json!({"metadata": {"name": "q"}, "spec": {"hard": {}, "scopeSelector":
        {"matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": "Exists"}]}}}),
    );
    assert!(matches_gated(&quota, &item, on) && !matches_gated(&quota, &item, off));
    let all: ResourceQuota = read(json!({"metadata": {"name": "q"}, "spec": {"hard": {}}}));
    assert!(matches_gated(&all, &item, off));
}

// Upstream: TestResourceClaimEvaluatorUsage.
#[test]
fn devices_count_by_class_and_under_the_name_of_their_extended_resource() {
    let claim: ResourceClaim = read(
        json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
        {"name": "b", "exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [
            {"name": "x", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3},
            {"name": "y", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
            {"name": "z", "deviceClassName": "tpu", "allocationMode": "Whatever"}]}]}}}),
    );
    let class: DeviceClass = read(
        json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}),
    );
    let classes = DeviceClasses::new([&class]);
    let evaluator = Evaluator::of("resource.k8s.io", "resourceclaims");
    let usage = evaluator.usage(&Item::Devices(&claim, &classes, None), now());
    expect![
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=5,nic.deviceclass.resource.k8s.io/devices=32,requests.deviceclass.resource.kubernetes.io/gpu=5,requests.deviceclass.resource.kubernetes.io/nic=32,requests.example.com/gpu=5,tpu.deviceclass.resource.k8s.io/devices=0"
    ]
    .assert_eq(&show(&usage));
    // What the pod pays for already is not paid for twice.
    let pod: Pod = read(asking(json!({"example.com/gpu": "4"}), json!({})));
    let usage = evaluator.usage(&Item::Devices(&claim, &classes, Some(&pod)), now());
    assert_eq!(usage["requests.example.com/gpu"].to_string(), "1");
    let tracks = |name: &str| evaluator.tracks(name, &classes);
    assert!(
        tracks("nic.deviceclass.resource.k8s.io/devices") && tracks("requests.example.com/gpu")
    );
    assert!(tracks("requests.deviceclass.resource.kubernetes.io/gpu"));
    assert!(
        !tracks("requests.deviceclass.resource.kubernetes.io/nic"),
        "stands for nothing"
    );
    assert!(!tracks("requests.example.com/other") && !tracks("requests.cpu"));
}

#[test]
fn of_several_claims_for_one_pod_the_oldest_is_paid_for() {
    let claim = |name: &str, created: &str| -> ResourceClaim {
        read(
            json!({"metadata": {"name": name, "creationTimestamp": created,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": true,
                                 "uid": "7e469a36-aea3-49b2-951f-a58dc34609da"}]}}),
        )
    };
    let (old, new) = (
        claim("b", "2024-01-01T00:00:00Z"),
        claim("a", "2024-01-01T00:00:01Z"),
    );
    let pod = |status: Value| -> Pod {
        read(
            json!({"metadata": {"name": "p", "uid": "7e469a36-aea3-49b2-951f-a58dc34609da"}, "status": status}),
        )
    };
    let silent = pod(json!({}));
    assert!(is_paid_by(&old, &silent, [&old, &new]) && !is_paid_by(&new, &silent, [&old, &new]));
    let says = pod(json!({"extendedResourceClaimStatus": {"resourceClaimName": "a"}}));
    assert!(is_paid_by(&new, &says, [&old, &new]) && !is_paid_by(&old, &says, [&old, &new]));
    assert!(
        !is_paid_by(&old, &read(json!({"metadata": {"name": "p"}})), [&old]),
        "another pod"
    );
}

// Upstream: TestPersistentVolumeClaimEvaluatorMatchingResources and the like.
#[test]
fn each_kind_tracks_its_own_names() {
    let tracks = |group: &str, plural: &str| {
        let names = [
            "pods",
            "count/pods",
            "cpu",
            "requests.memory",
            "limits.cpu",
            "limits.hugepages-2Mi",
            "hugepages-2Mi",
            "requests.hugepages-2Mi",
            "requests.example.com/x",
            "example.com/x",
            "requests.storage",
            "services",
            "services.nodeports",
            "persistentvolumeclaims",
            "gold.storageclass.storage.k8s.io/requests.storage",
            "secrets",
            "count/secrets",
            "count/deployments.apps",
            "count/widgets.example.com",
            "resourcequotas",
            "unknown",
        ];
        let evaluator = Evaluator::of(group, plural);
        let tracked = |name: &&str| evaluator.tracks(name, &DeviceClasses::default());
        names
            .into_iter()
            .filter(tracked)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        tracks("", "pods"),
        "pods count/pods cpu requests.memory limits.cpu hugepages-2Mi requests.hugepages-2Mi requests.example.com/x"
    );
    assert_eq!(tracks("", "services"), "services services.nodeports");
    assert_eq!(
        tracks("", "persistentvolumeclaims"),
        "requests.storage persistentvolumeclaims gold.storageclass.storage.k8s.io/requests.storage"
    );
    assert_eq!(tracks("", "secrets"), "secrets count/secrets");
    assert_eq!(tracks("apps", "deployments"), "count/deployments.apps");
    assert_eq!(
        tracks("example.com", "widgets"),
        "count/widgets.example.com"
    );
    assert_eq!(tracks("example.com", "secrets"), "");
}

// Upstream: TestPodEvaluatorMatchingScopes, TestPersistentVolumeClaimEvaluatorMatchingScopes.
#[test]
fn scopes_choose_pods_and_claims() {
    let quota = |scope: &str, operator: &str, values: &[&str]| -> ResourceQuota {
        read(
            json!({"metadata": {"name": "q"}, "spec": {"scopeSelector": {"matchExpressions": [
            {"scopeName": scope, "operator": operator, "values": values}]}}}),
        )
    };
    let choose = |item: &Item<'_>| {
        let cases = [
            ("Terminating", "Exists", &[][..]),
            ("NotTerminating", "Exists", &[]),
            ("BestEffort", "Exists", &[]),
            ("NotBestEffort", "Exists", &[]),
            ("CrossNamespacePodAffinity", "Exists", &[]),
            ("PriorityClass", "Exists", &[]),
            ("PriorityClass", "In", &["high"]),
            ("PriorityClass", "NotIn", &["high"]),
            ("PriorityClass", "DoesNotExist", &[]),
            ("VolumeAttributesClass", "In", &["fast"]),
            ("VolumeAttributesClass", "NotIn", &["fast"]),
            ("VolumeAttributesClass", "DoesNotExist", &[]),
            ("Nonsense", "Exists", &[]),
        ];
        let chosen = cases
            .into_iter()
            .filter(|(scope, operator, values)| matches(&quota(scope, operator, values), item));
        let words: Vec<String> = chosen
            .map(|(scope, how, _)| format!("{scope} {how}"))
            .collect();
        words.join(", ")
    };
    let plain: Pod = read(pod(json!([{"name": "c"}])));
    expect![
        "NotTerminating Exists, BestEffort Exists, PriorityClass NotIn, PriorityClass DoesNotExist"
    ]
    .assert_eq(&choose(&Item::Pod(&plain)));
    let mut busy = asking(json!({"cpu": "1"}), json!({}));
    busy["spec"]["activeDeadlineSeconds"] = json!(0);
    busy["spec"]["priorityClassName"] = json!("high");
    busy["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}}}]}});
    let busy: Pod = read(busy);
    expect!["Terminating Exists, NotBestEffort Exists, CrossNamespacePodAffinity Exists, PriorityClass Exists, PriorityClass In"]
        .assert_eq(&choose(&Item::Pod(&busy)));
    let claim = |spec: Value| -> PersistentVolumeClaim {
        read(json!({"metadata": {"name": "c"}, "spec": spec}))
    };
    expect!["VolumeAttributesClass NotIn, VolumeAttributesClass DoesNotExist"]
        .assert_eq(&choose(&Item::Claim(&claim(json!({})))));
    expect!["VolumeAttributesClass In"].assert_eq(&choose(&Item::Claim(&claim(
        json!({"volumeAttributesClassName": "fast"}),
    ))));
    expect![""].assert_eq(&choose(&Item::Other));
}

#[test]
fn absurd_amounts_are_added_and_compared() {
    let huge = asking(
        json!({"cpu": "9e99", "memory": "-1", "x/y": "1n"}),
        json!({"cpu": "oops"}),
    );
    check_pod(
        huge,
        expect![
            "count/pods=1,cpu=9e99,memory=-1,pods=1,requests.cpu=9e99,requests.memory=-1,requests.x/y=1n"
        ],
    );
    let nothing: Pod = read(
        json!({"metadata": {}, "spec": {"containers": null, "overhead": null, "resources": null}}),
    );
    assert!(nothing.body.charge.is_best_effort);
}
