//! What nobody should send, and somebody does: never a panic, never a hot loop, and the right addresses at rest.

use std::time::Duration;

use api::Resource;
use api::kinds::{Endpoints, LAST_CHANGE_TRIGGER_TIME};
use expect_test::expect;
use serde_json::{Value, json};

use super::super::plan::{Action, plan};
use super::plan::{carried_out, check, many, snapshot};
use super::sync::{pod, running, service, stored};

#[test]
fn malformed_addresses_and_those_of_another_family_are_left_out() {
    check(
        json!({}),
        "a:ready,ip=nonsense b:ready,ip=10.0.0.300 c:ready,ip= d:ready,ip=fd00::1 e:ready,ip=x+10.0.0.7",
        expect!["http/8080: e"],
    );
}

#[test]
fn a_hundred_ports_are_a_hundred_ports_also_if_names_are_there_twice() {
    let ports: Vec<Value> = (0..100)
        .map(|number| json!({"name": format!("p{}", number % 50), "protocol": "TCP", "targetPort": number}))
        .collect();
    let mut now = snapshot(json!({"spec": {"ports": ports}}), "a:ready b");
    let sizes: Vec<[usize; 3]> = plan(&now)
        .subsets
        .iter()
        .map(|subset| {
            let lists = (&subset.addresses, &subset.not_ready_addresses);
            [subset.ports.len(), lists.0.len(), lists.1.len()]
        })
        .collect();
    assert_eq!(sizes, [[100, 1, 1]]);
    now.endpoints = Some(carried_out(&now));
    assert_eq!(plan(&now).action, Action::Nothing);
}

#[test]
fn a_port_that_is_there_twice_is_stored_once() {
    let port = json!({"name": "http", "protocol": "TCP", "targetPort": 8080});
    let twice = json!({"spec": {"ports": [port, port]}});
    check(twice, "a:ready", expect!["http/8080: a"]);
}

#[test]
fn of_ten_thousand_pods_a_thousand_are_stored() {
    let mut now = snapshot(json!({}), &many(1, 10_000, ":ready"));
    let first = plan(&now);
    assert_eq!((first.addresses, first.is_truncated), (10_000, true));
    assert_eq!(first.subsets[0].addresses.len(), 1000);
    now.endpoints = Some(carried_out(&now));
    assert_eq!(plan(&now).action, Action::Nothing);
}

/// Each of them is a subset: lists that are searched for each port take the square of 60,000 steps.
#[test]
fn pods_whose_ports_are_all_different_are_subsets_of_their_own() {
    let names = 0..20;
    let ports: Vec<Value> = names
        .clone()
        .map(|name| json!({"name": format!("p{name}"), "protocol": "TCP", "targetPort": format!("p{name}")}))
        .collect();
    let pods: Vec<String> = (1..=3000)
        .map(|pod| {
            let ports = names.clone().map(|name| format!("port=p{name}/{pod}"));
            format!("p{pod}:ready,{}", ports.collect::<Vec<String>>().join(","))
        })
        .collect();
    let now = snapshot(json!({"spec": {"ports": ports}}), &pods.join(" "));
    assert_eq!(plan(&now).subsets.len(), 3000);
}

/// The API server refuses objects with more than 256 kB of annotations, and the time of the change is one more.
#[tokio::test(start_paused = true)]
async fn annotations_that_leave_no_room_for_the_time_are_an_event() {
    let world = running().await;
    service(&world).await;
    world.wait_until_idle().await;
    let filled = "x".repeat((256 << 10) - "mine".len());
    // The time of the last change has no room any more.
    let annotations =
        json!({"metadata": {"annotations": {"mine": filled, LAST_CHANGE_TRIGGER_TIME: null}}});
    world.patch(&Endpoints::TYPE, "web", annotations).await;
    world.wait_until_idle().await;
    world.written();
    pod(&world, "a", "10.0.0.1").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    // UPSTREAM: the time of a change is told once; the next try has none, and fits.
    assert_eq!(
        world.written(),
        "PUT endpoints/web -> 422\nPUT endpoints/web"
    );
    let events = world.events().await;
    assert!(
        events.iter().all(|event| event
            .starts_with("Warning FailedToUpdateEndpoint Failed to update endpoint default/web: ")),
        "{events:?}"
    );
    assert!(!events.is_empty());
    assert_eq!(stored(&world).await, "10.0.0.1");
}
