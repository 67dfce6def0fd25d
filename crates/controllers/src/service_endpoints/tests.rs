//! Which services a pod enqueues, which port is meant, and which time is published.

use std::sync::Arc;

use api::Resource;
use api::kinds::{Pod, Service};
use runtime::Change;
use serde_json::{Value, json};
use testkit::World;

use super::*;

fn pod(value: Value) -> Pod {
    Pod::decode(value.to_string().as_bytes()).unwrap()
}

fn service(value: Value) -> Service {
    Service::decode(value.to_string().as_bytes()).unwrap()
}

fn labelled(labels: Value, more: Value) -> Arc<Pod> {
    let mut object = json!({"metadata": {"name": "p", "namespace": "default", "labels": labels}});
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    Arc::new(pod(object))
}

async fn membership() -> (World, Arc<Membership>) {
    let world = World::new().await;
    let membership = Membership::new(&world.context());
    for (name, selector) in [
        ("a", json!({"app": "a"})),
        ("b", json!({"app": "b"})),
        ("both", json!({"all": "yes"})),
        ("none", json!(null)),
    ] {
        let metadata = json!({"name": name, "namespace": "default"});
        let object = service(json!({"metadata": metadata, "spec": {"selector": selector}}));
        let informer = world.informers.of::<Service>();
        informer.store().put(Arc::new(object));
    }
    (world, membership)
}

// Upstream: TestGetPodServicesToUpdate, TestDetermineNeededServiceUpdates, Test_podChanged.
#[tokio::test]
async fn a_pod_enqueues_the_services_whose_endpoints_it_changes() {
    let (_world, membership) = membership().await;
    let enqueued = |change: &Change<'_, Pod>| {
        let keys = membership.concerned(change);
        let mut names: Vec<String> = keys.iter().map(|key| key.name.to_string()).collect();
        names.sort();
        names.join(" ")
    };
    let plain = json!({});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let placed = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}});
    let (a, b) = (
        json!({"app": "a", "all": "yes"}),
        json!({"app": "b", "all": "yes"}),
    );
    let one = labelled(a.clone(), plain.clone());
    assert_eq!(enqueued(&Change::Added(&one)), "a both");
    assert_eq!(enqueued(&Change::Deleted(&one)), "a both");
    let update = |old: &Arc<Pod>, new: &Arc<Pod>| enqueued(&Change::Updated { old, new });
    assert_eq!(update(&one, &one), "", "a resync");
    let same = labelled(a.clone(), json!({"spec": {"nodeName": "n"}}));
    assert_eq!(update(&one, &same), "", "nothing that an endpoint says");
    for more in [
        ready.clone(),
        placed,
        json!({"status": {"phase": "Failed"}}),
    ] {
        assert_eq!(update(&one, &labelled(a.clone(), more)), "a both");
    }
    let moved = labelled(b.clone(), plain);
    assert_eq!(
        update(&one, &moved),
        "a b",
        "who has it before and after need not know"
    );
    assert_eq!(update(&one, &labelled(b, ready)), "a b both");
    let gone = labelled(json!(null), json!({}));
    assert_eq!(update(&one, &gone), "a both");
    assert_eq!(update(&gone, &one), "a both");
}

// Upstream: Test_podChanged.
#[tokio::test]
async fn only_changes_that_endpoints_show_enqueue_a_service() {
    let (_world, membership) = membership().await;
    let with = |labels: Value, more: Value| {
        let mut all = json!({"app": "a"});
        all.as_object_mut()
            .unwrap()
            .extend(labels.as_object().cloned().unwrap());
        labelled(all, more)
    };
    let ips = |list: &[&str]| {
        let ips: Vec<Value> = list.iter().map(|ip| json!({"ip": ip})).collect();
        with(json!({}), json!({"status": {"podIPs": ips}}))
    };
    let plain = || with(json!({}), json!({}));
    let status = |status: Value| with(json!({}), json!({"status": status}));
    let ready = |value: &str| status(json!({"conditions": [{"type": "Ready", "status": value}]}));
    let marked = {
        let mut object = json!({"name": "p", "namespace": "default", "labels": {"app": "a"}});
        object["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        Arc::new(pod(json!({"metadata": object})))
    };
    let label = |value: &str| with(json!({"label": value}), json!({}));
    for (what, old, new, expected) in [
        ("nothing", plain(), plain(), false),
        (
            "its node",
            plain(),
            with(json!({}), json!({"spec": {"nodeName": "n"}})),
            false,
        ),
        ("a first address", plain(), ips(&["1.2.3.4"]), true),
        (
            "another address",
            ips(&["1.2.3.4"]),
            ips(&["2.3.4.5"]),
            true,
        ),
        ("a first address of IPv6", plain(), ips(&["fd00::1"]), true),
        (
            "another one of IPv6",
            ips(&["fd00::1"]),
            ips(&["fd00::2"]),
            true,
        ),
        (
            "a second address",
            ips(&["1.2.3.4"]),
            ips(&["1.2.3.4", "fd00::1"]),
            true,
        ),
        (
            "another second one",
            ips(&["1.2.3.4", "fd00::1"]),
            ips(&["1.2.3.4", "fd00::2"]),
            true,
        ),
        (
            "no second one any more",
            ips(&["1.2.3.4", "fd00::1"]),
            ips(&["1.2.3.4"]),
            true,
        ),
        ("its readiness", ready("False"), ready("True"), true),
        ("that it is to go", plain(), marked, true),
        ("a label more", plain(), label("new"), false),
        ("another label", label("old"), label("new"), false),
        ("a label less", label("old"), plain(), false),
    ] {
        let change = Change::Updated {
            old: &old,
            new: &new,
        };
        assert_eq!(
            !membership.concerned(&change).is_empty(),
            expected,
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_changes_is_found_at_once() {
    let world = World::new().await;
    let context = world.context();
    let membership = Membership::new(&context);
    context.informers.of::<Pod>();
    world.start().await;
    let pod = labelled(json!({"app": "a"}), json!({}));
    let enqueued = || membership.concerned(&Change::Added(&pod)).len();
    assert_eq!(enqueued(), 0);
    let ports = json!([{"port": 80}]);
    let object =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "a"}, "ports": ports}});
    world.create(&Service::TYPE, object).await;
    world.wait_until_idle().await;
    assert_eq!((enqueued(), enqueued()), (1, 1));
    let other = json!({"spec": {"selector": {"app": "b"}}});
    world.patch(&Service::TYPE, "web", other).await;
    world.wait_until_idle().await;
    assert_eq!(enqueued(), 0);
}

fn pod_of(value: Value) -> Pod {
    pod(value)
}

// Upstream: TestFindPort.
#[test]
fn a_port_is_found_by_name_and_protocol_in_containers_and_then_in_sidecars() {
    let ports = |name: &str, protocol: &str, port: i32| json!([{"name": name, "protocol": protocol, "containerPort": port}]);
    let pod = pod(json!({"spec": {
        "containers": [{"ports": ports("web", "TCP", 80)}, {"ports": ports("dns", "UDP", 53)}, {}],
        "initContainers": [
            {"ports": ports("once", "TCP", 1)},
            {"restartPolicy": "Always", "ports": ports("side", "TCP", 9)},
            {"restartPolicy": "Always", "ports": ports("web", "TCP", 8)},
        ],
    }}));
    let found = |target: Value, protocol: &str| {
        let port = json!({"targetPort": target, "protocol": protocol});
        find_port(&pod, &serde_json::from_value(port).unwrap())
    };
    assert_eq!(found(json!(8080), "TCP"), Some(8080));
    assert_eq!(found(json!("web"), "TCP"), Some(80));
    assert_eq!(found(json!("web"), "UDP"), None);
    assert_eq!(found(json!("dns"), "UDP"), Some(53));
    assert_eq!(found(json!("side"), "TCP"), Some(9));
    assert_eq!(found(json!("once"), "TCP"), None);
    assert_eq!(found(json!("nine"), "TCP"), None);
    // UPSTREAM: a number that can be no port is found, too, and of several of one name the first.
    let odd = pod_of(json!({"spec": {
        "containers": [{}, {"ports": ports("a", "TCP", -1)}, {"ports": ports("a", "TCP", 82)}],
        "initContainers": [{"restartPolicy": "Always", "ports": ports("a", "TCP", 80)}],
    }}));
    let named = serde_json::from_value(json!({"targetPort": "a", "protocol": "TCP"})).unwrap();
    assert_eq!(find_port(&odd, &named), Some(-1));
}

// Upstream: TestShouldPodBeInEndpoints, TestShouldSetHostname.
#[test]
fn a_pod_that_runs_and_has_an_address_can_be_published() {
    let status = |status: Value| has_endpoint(&pod(json!({"status": status})));
    let ips = json!([{"ip": "10.0.0.1"}]);
    assert!(status(json!({"podIPs": ips})) && status(json!({"podIP": "10.0.0.1"})));
    assert!(status(json!({"phase": "Pending", "podIPs": ips})));
    assert!(!status(json!({"phase": "Running"})));
    assert!(!status(json!({"phase": "Failed", "podIPs": ips})));
    assert!(!status(json!({"phase": "Succeeded", "podIPs": ips})));
    let named = |hostname: &str, subdomain: &str, namespace: &str| {
        let metadata = json!({"name": "p", "namespace": namespace});
        let spec = json!({"hostname": hostname, "subdomain": subdomain});
        let web = service(json!({"metadata": {"name": "web", "namespace": "a"}}));
        hostname_of(&pod(json!({"metadata": metadata, "spec": spec})), &web)
    };
    assert_eq!(named("p0", "web", "a"), "p0");
    assert_eq!(named("", "web", "a"), "");
    assert_eq!(named("p0", "db", "a"), "");
    assert_eq!(named("p0", "web", "b"), "");
}

fn hostname_of(pod: &Pod, service: &Service) -> String {
    hostname(pod, service).to_owned()
}

// Upstream: TestNewServiceNoPods, TestNewServiceExistingPods, TestPodsAdded, TestPodsUpdated,
// TestPodsUpdatedNoOp, TestPodDeletedThenAdded, TestServiceDeletedThenAdded, TestServiceUpdatedNoPodChange.
#[test]
fn the_oldest_time_that_is_new_is_published() {
    let times = TriggerTimes::default();
    let at = |second: i64| api::Time::from_unix(second).to_string();
    let web = |created: i64| {
        let metadata = json!({"name": "web", "namespace": "a", "creationTimestamp": at(created)});
        service(json!({"metadata": metadata}))
    };
    let ready = |name: &str, second: i64| {
        let condition =
            json!({"type": "Ready", "status": "True", "lastTransitionTime": at(second)});
        let status = json!({"conditions": [condition]});
        Arc::new(pod(json!({"metadata": {"name": name}, "status": status})))
    };
    let observe =
        |service: &Service, pods: &[Arc<Pod>]| times.observe(service, pods).map(api::Time::unix);
    let service = web(10);
    assert_eq!(
        observe(&service, &[ready("a", 5)]),
        Some(10),
        "a new service"
    );
    assert_eq!(observe(&service, &[ready("a", 5)]), None, "nothing new");
    assert_eq!(
        observe(&service, &[ready("a", 5), ready("b", 20)]),
        Some(20)
    );
    assert_eq!(
        observe(&service, &[ready("b", 25), ready("a", 24)]),
        Some(24),
        "the oldest, whatever the order"
    );
    assert_eq!(observe(&service, &[ready("a", 24)]), None, "a pod has gone");
    assert_eq!(
        observe(&service, &[ready("a", 24), ready("b", 23)]),
        Some(23)
    );
    assert_eq!(observe(&service, &[ready("b", 1)]), None, "back in time");
    assert_eq!(observe(&web(30), &[ready("b", 1)]), Some(30));
    times.forget(&web(30).key());
    assert_eq!(observe(&web(40), &[ready("b", 1)]), Some(40));
    times.forget(&web(30).key());
    assert_eq!(observe(&web(0), &[]), None, "a service without a time");
}
