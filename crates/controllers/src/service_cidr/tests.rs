//! Plans first, then the whole against the embedded API server.

use std::sync::Arc;
use std::time::Duration;

use api::decision::Explain;
use api::kinds::{IpAddress, SERVICE_CIDR_FINALIZER, Service, ServiceCidr};
use api::{Resource, Time};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use testkit::World;

use super::plan::{Finalizer, containing, overlapping};
use super::{can_go, controller, plan};

const NOW: i64 = 1_704_067_200;

fn cidr(name: &str, ranges: &str) -> ServiceCidr {
    let ranges: Vec<&str> = ranges.split_whitespace().collect();
    let json = json!({"metadata": {"name": name}, "spec": {"cidrs": ranges}});
    ServiceCidr::decode(json.to_string().as_bytes()).unwrap()
}

/// `name: range range, name: range`
fn cidrs(text: &str) -> Vec<Arc<ServiceCidr>> {
    let parts = text.split(',').filter_map(|part| part.split_once(": "));
    let cidrs = parts.map(|(name, ranges)| Arc::new(cidr(name.trim(), ranges)));
    cidrs.collect()
}

// Upstream: TestController_canDeleteCIDR.
#[test]
fn a_range_may_go_unless_an_address_lies_in_it_alone() {
    let check = |all: &str, addresses: &str| {
        let all = cidrs(all);
        let allocated = addresses
            .split_whitespace()
            .map(|text| text.parse().unwrap());
        can_go(&all[0], &all, allocated).is_ok()
    };
    assert!(check("a: 192.168.0.0/24", ""), "no addresses");
    assert!(!check("a: 192.168.0.0/24", "192.168.0.24"));
    assert!(
        check("a: 192.168.0.0/24", "192.168.1.24"),
        "of another range"
    );
    assert!(
        check("a: 192.168.0.0/24", "192.168.0.0 192.168.0.255"),
        "nobody has these"
    );
    assert!(
        !check("a: 2001:db2::/112", "2001:db2::ffff"),
        "there is no broadcast in IPv6"
    );
    assert!(
        check("a: 192.168.0.0/24, b: 192.168.0.0/24", "192.168.0.23"),
        "the same range"
    );
    assert!(
        check("a: 192.168.0.0/24, b: 192.168.0.0/26", "192.168.0.23"),
        "in a smaller one"
    );
    assert!(
        !check("a: 192.168.0.0/24, b: 192.168.0.0/28", "192.168.0.23"),
        "outside of it"
    );
    assert!(
        check("a: 192.168.0.0/24, b: 192.168.0.0/16", "192.168.0.23"),
        "a larger one"
    );
    assert!(
        !check("a: 192.168.0.0/24 fd00::/112, b: 192.168.0.0/16", "fd00::5"),
        "both count"
    );
    assert!(
        check("a: nonsense", "192.168.0.23"),
        "what is no range holds nothing"
    );
}

// Upstream: TestController_ipToCidrs.
#[test]
fn an_address_enqueues_the_ranges_that_give_it_out() {
    let all = cidrs(
        "a: 192.168.0.0/24, b: 192.168.0.0/24, c: 192.168.0.0/16, d: fd00::/120, e: fd00::/112",
    );
    let enqueued = |address: &str| {
        let found = containing(address.parse().unwrap(), &all);
        let names: Vec<&str> = found.map(|cidr| &*cidr.metadata.name).collect();
        names.join(" ")
    };
    assert_eq!(enqueued("192.168.0.23"), "a b c");
    assert_eq!(enqueued("192.168.0.0"), "", "the first of all three");
    assert_eq!(
        enqueued("192.168.0.255"),
        "c",
        "the broadcast address of two"
    );
    assert_eq!(
        (enqueued("fd00::"), enqueued("fd00::ff")),
        (String::new(), "d e".to_owned())
    );
    assert_eq!(enqueued("10.0.0.1"), "");
}

// Upstream: TestController_cidrToCidrs.
#[test]
fn a_range_enqueues_those_that_it_overlaps_with() {
    let all = cidrs("a: 192.168.0.0/24, b: 192.168.0.0/24, c: 192.168.0.0/16, d: fd00::/120");
    let enqueued = |range: &str| {
        let new = cidr("new", range);
        let names: Vec<&str> = overlapping(&new, &all)
            .map(|cidr| &*cidr.metadata.name)
            .collect();
        names.join(" ")
    };
    assert_eq!(enqueued("192.168.0.0/20"), "a b c");
    assert_eq!(enqueued("192.168.9.0/24 fd00::/8"), "c d");
    assert_eq!(enqueued("10.0.0.0/8"), "");
}

/// What is done about a range that has the finalizer or not, and was deleted so many seconds ago or not.
fn check(held: bool, deleted: Option<i64>, addresses: &[&str], expected: Expect) {
    let mut subject = cidr("a", "192.168.0.0/24");
    if held {
        subject.metadata.finalizers = Arc::from([SERVICE_CIDR_FINALIZER.into()]);
    }
    subject.metadata.deleted_at = deleted.map(|ago| Time::from_unix(NOW - ago));
    let allocated = addresses.iter().map(|text| text.parse().unwrap());
    let all = [Arc::new(subject.clone())];
    let plan = plan(&subject, &all, allocated, Time::from_unix(NOW).micro());
    let mut said: Vec<String> = plan.explain().iter().map(ToString::to_string).collect();
    said.push(format!("{:?}", plan.next));
    expected.assert_eq(&said.join("\n"));
    assert!(plan.finalizer != Some(Finalizer::Add) || deleted.is_none());
}

// Upstream: TestControllerSync.
#[test]
fn a_range_is_protected_and_waits_before_it_goes() {
    check(
        false,
        None,
        &["192.168.0.7"],
        expect![[r#"
            adds its finalizer: it must not be deleted while Services have addresses of it
            sets Ready to True
            AwaitChange"#]],
    );
    check(
        true,
        None,
        &[],
        expect![[r#"
            sets Ready to True
            AwaitChange"#]],
    );
    check(
        true,
        Some(60),
        &["192.168.0.7"],
        expect![[r#"
            sets Ready to False
            waits until IPAddress 192.168.0.7 is deleted: no other ServiceCIDR that stays gives it out
            AwaitChange"#]],
    );
    check(
        true,
        Some(4),
        &[],
        expect![[r#"
            is deleted at 2024-01-01T00:00:06Z: API servers may not have heard of the deletion yet
            After(6s)"#]],
    );
    check(
        true,
        Some(10),
        &[],
        expect![[r#"
            removes its finalizer: no Service has an address that only it gives out
            AwaitChange"#]],
    );
    check(false, Some(10), &[], expect!["AwaitChange"]);
}

async fn world() -> World {
    let mut world = World::new().await;
    let context = world.context();
    let running = controller(&context, 5).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    world
}

fn object(name: &str, range: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name},
        "spec": {"cidrs": [range]}})
}

fn service(name: &str, address: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]}})
}

#[tokio::test(start_paused = true)]
async fn a_new_range_is_protected_made_ready_and_gives_out_addresses() {
    let world = world().await;
    world.writes();
    world
        .create(&ServiceCidr::TYPE, object("more", "10.9.0.0/28"))
        .await;
    let early = world
        .try_create(&Service::TYPE, service("early", "10.9.0.5"))
        .await;
    assert!(
        early
            .unwrap_err()
            .to_string()
            .contains("is not in the valid range"),
        "it is not ready yet"
    );
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"finalizers": [SERVICE_CIDR_FINALIZER]}})
    );
    assert_eq!(
        writes[1].path,
        "/apis/networking.k8s.io/v1/servicecidrs/more/status"
    );
    assert_eq!(
        writes[1].body["status"]["conditions"][0]["message"],
        "Kubernetes Service CIDR is ready"
    );
    world
        .create(&Service::TYPE, service("web", "10.9.0.5"))
        .await;
    let marker = world.get(&IpAddress::TYPE, "10.9.0.5").await.unwrap();
    assert_eq!(
        marker["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "web"})
    );
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
}

#[tokio::test(start_paused = true)]
async fn a_range_stays_until_the_last_address_is_free() {
    let world = world().await;
    world
        .create(&ServiceCidr::TYPE, object("more", "10.9.0.0/28"))
        .await;
    world.wait_until_idle().await;
    world
        .create(&Service::TYPE, service("web", "10.9.0.5"))
        .await;
    world.delete(&ServiceCidr::TYPE, "more").await;
    world.wait_until_idle().await;
    let blocked = world.get(&ServiceCidr::TYPE, "more").await.unwrap();
    let ready = &blocked["status"]["conditions"][0];
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("Terminating"))
    );
    let late = world
        .try_create(&Service::TYPE, service("late", "10.9.0.6"))
        .await;
    assert!(late.is_err(), "it gives out nothing any more");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.get(&ServiceCidr::TYPE, "more").await.is_some());
    world.delete(&Service::TYPE, "web").await;
    world.wait_until_idle().await;
    assert!(world.get(&ServiceCidr::TYPE, "more").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_larger_range_sets_a_smaller_one_free() {
    let world = world().await;
    world
        .create(&ServiceCidr::TYPE, object("small", "10.9.0.0/28"))
        .await;
    world.wait_until_idle().await;
    world
        .create(&Service::TYPE, service("web", "10.9.0.5"))
        .await;
    world.delete(&ServiceCidr::TYPE, "small").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world
        .create(&ServiceCidr::TYPE, object("large", "10.9.0.0/20"))
        .await;
    world.wait_until_idle().await;
    assert!(world.get(&ServiceCidr::TYPE, "small").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn of_ranges_that_are_to_go_together_one_stays_for_the_addresses() {
    let world = world().await;
    for name in ["one", "two"] {
        world
            .create(&ServiceCidr::TYPE, object(name, "10.9.0.0/28"))
            .await;
    }
    world.wait_until_idle().await;
    world
        .create(&Service::TYPE, service("web", "10.9.0.5"))
        .await;
    for name in ["one", "two"] {
        world.delete(&ServiceCidr::TYPE, name).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.get(&ServiceCidr::TYPE, "one").await.is_none());
    assert!(world.get(&ServiceCidr::TYPE, "two").await.is_some());
    world.delete(&Service::TYPE, "web").await;
    world.wait_until_idle().await;
    assert!(world.get(&ServiceCidr::TYPE, "two").await.is_none());
}
