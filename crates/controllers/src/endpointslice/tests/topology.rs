//! Hints by the annotation. Upstream: topologycache_test.go, utils_test.go, sliceinfo_test.go, TestReconcileTopology.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Istr;
use api::kinds::{AddressType, Node};
use expect_test::expect;
use serde_json::{Value, json};

use super::super::topology::{
    Allocation, Hinted, Zones, allocate, giving_and_receiving, is_overloaded,
};
use super::case::{Case, case, decode};

fn auto() -> Value {
    json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}})
}

fn hinted(mut case: Case) -> Case {
    case.snapshot.hinted.is_on = true;
    case
}

// Upstream: Test_hintsEnabled.
#[test]
fn the_annotation_says_so_and_the_older_one_first() {
    let asks = |annotations: Value| {
        let case = case("").service(json!({"metadata": {"annotations": annotations}}));
        super::super::snapshot::Closeness::of(&case.snapshot.service, case.snapshot.gates)
            == super::super::snapshot::Closeness::Proportional
    };
    let (old, new) = (
        "service.kubernetes.io/topology-aware-hints",
        "service.kubernetes.io/topology-mode",
    );
    assert!(asks(json!({new: "Auto"})) && asks(json!({new: "auto"})) && asks(json!({old: "auto"})));
    assert!(!asks(json!({new: "AUTO"})) && !asks(json!({})) && !asks(json!({new: "disabled"})));
    assert!(
        !asks(json!({old: "disabled", new: "Auto"})) && asks(json!({old: "Auto", new: "disabled"}))
    );
}

// Issue 21, point 18: versions that still have the gate.
#[test]
fn without_its_gate_only_prefer_close_distributes_traffic() {
    use super::super::snapshot::Closeness;
    let off = api::Gates::default().with(api::Gate::PreferSameTrafficDistribution, false);
    let of = |distribution: &str, gates: api::Gates| {
        let case = case("").service(json!({"spec": {"trafficDistribution": distribution}}));
        Closeness::of(&case.snapshot.service, gates)
    };
    assert_eq!(of("PreferClose", off), Closeness::Zone);
    assert_eq!(of("PreferSameZone", off), Closeness::Nowhere);
    assert_eq!(of("PreferSameNode", off), Closeness::Nowhere);
    assert_eq!(of("PreferSameNode", api::Gates::default()), Closeness::Node);
}

// Upstream: TestAddHints, TestReconcileTopology, Test_redistributeHints, Test_getHintsByZone, Test_getTotalReadyEndpoints.
#[test]
fn endpoints_are_shared_among_zones_by_their_cpu() {
    let zones = "za=1 zb=1 zc=1";
    let fair = || {
        hinted(
            case("a:ready,@na b:ready,@nb c:ready,@nc")
                .service(auto())
                .zones(zones),
        )
    };
    fair().check(expect!["create [a>za b>zb c>zc]"]);
    let held = "a:ready,@na>za b:ready,@nb>zb c:ready,@nc>zc";
    fair().slice("s", held).check(expect!["nothing"]);
    fair()
        .slice("s", "a:ready,@na>za b:ready,@nb c:ready,@nc>zc")
        .check(expect!["update s[a>za b>zb c>zc]"]);
    fair()
        .slice("s", "a:ready,@na>za b:ready,@nb>zz c:ready,@nc>zc")
        .check(expect!["update s[a>za b>zb c>zc]"]);
    hinted(
        case("a:ready,@na b:ready,@na c:ready,@na d:ready,@nb")
            .service(auto())
            .zones("za=1 zb=1"),
    )
    .check(expect!["create [a>zb b>za c>za d>zb]"]);
    hinted(
        case("a:ready,@na b:ready,@na c:ready,@na d:@na")
            .service(auto())
            .zones("za=2 zb=1"),
    )
    .check(expect!["create [a>zb b>za c>za -d]"]);
    hinted(
        case("a:ready,@na b:ready,@na c:ready,@na")
            .service(auto())
            .zones(zones),
    )
    .check(expect!["create [a>zb b>zc c>za]"]);
    hinted(
        case("a:ready,@na b:ready,@nb c:@nb")
            .service(auto())
            .zones("za=45 zb=55"),
    )
    .check(expect!["create [a>za b>zb -c]"]);
    // Within the threshold one is given, although another would make it more even.
    let ten = "a:ready,@na b:ready,@nb c:ready,@nc d:ready,@nc e:ready,@na f:ready,@na g:ready,@na h:ready,@nb i:ready,@nc j:ready,@na";
    let case = hinted(case(ten).service(auto()).zones("za=35 zb=35 zc=30"));
    let counts = case.plan().hinted.by_family[&AddressType::Ipv4].clone();
    let expected = [("za", 4), ("zb", 3), ("zc", 3)];
    assert_eq!(
        counts,
        BTreeMap::from(expected.map(|(zone, count)| (Istr::new(zone), count)))
    );
    case.check(expect![
        "create [a>zb b>zb c>zc d>zc e>za f>za g>za h>zb i>zc j>za]"
    ]);
}

// Upstream: TestAddHints (why there are none), TestReconcileTopology.
#[test]
fn or_not_at_all() {
    let check = |pods: &str, zones: &str, expected: expect_test::Expect| {
        case(pods).service(auto()).zones(zones).check(expected);
    };
    check(
        "a:ready,@na",
        "za=1 zb=1",
        expect![
            "create [a]; TopologyAwareHintsDisabled Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"
        ],
    );
    check(
        "a:ready,@na b:ready",
        "za=1 zb=1",
        expect![
            "create [a b]; TopologyAwareHintsDisabled One or more endpoints do not have a zone specified, addressType: IPv4"
        ],
    );
    check(
        "a:ready,@na b:ready,@nb c:ready,@nc",
        "za=10 zb=1 zc=1",
        expect![
            "create [a b c]; TopologyAwareHintsDisabled Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (3 endpoints, 3 zones), addressType: IPv4"
        ],
    );
    case("a:ready,@na b:ready,@nb").service(auto()).check(expect![
        "create [a b]; TopologyAwareHintsDisabled Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4"
    ]);
    hinted(case("a:ready,@na").service(auto()).zones("za=1 zb=1").slice("s", "a:ready,@na>za")).check(expect![
        "update s[a]; TopologyAwareHintsDisabled Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"
    ]);
}

// Upstream: TestReconcileTopology (annotation removed).
#[test]
fn hints_go_with_the_annotation_and_an_event_says_so_once() {
    let case = hinted(
        case("a:ready,@na b:ready,@nb")
            .slice("s", "a:ready,@na>za")
            .slice("t", "b:ready,@nb"),
    );
    case.check(expect![
        "update s[a]; TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4"
    ]);
}

#[test]
fn what_was_given_is_remembered_by_family() {
    let case = case("a:ready,@na b:ready,@nb")
        .service(auto())
        .zones("za=1 zb=1");
    let plan = case.plan();
    let by_zone = BTreeMap::from([(Istr::new("za"), 1), (Istr::new("zb"), 1)]);
    let expected = Hinted {
        is_on: true,
        by_family: BTreeMap::from([(AddressType::Ipv4, by_zone)]),
    };
    assert_eq!(plan.hinted, expected);
}

/// `za zone=…`: `za=2000` has two CPUs; `!` is not ready, `#` a control plane, `-` without a zone.
fn node(text: &str) -> Arc<Node> {
    let mark = &text[..1];
    let (zone, cpu) = text
        .trim_start_matches(['!', '#', '-'])
        .split_once('=')
        .unwrap();
    let mut labels = json!({"topology.kubernetes.io/zone": zone});
    match mark {
        "#" => labels["node-role.kubernetes.io/control-plane"] = json!(""),
        "-" => labels = json!({}),
        _ => {}
    }
    let ready = if mark == "!" { "False" } else { "True" };
    let object = json!({
        "metadata": {"name": text, "labels": labels},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": ready}]},
    });
    Arc::new(decode(&object))
}

// Upstream: TestSetNodes.
#[test]
fn zones_are_counted_by_the_cpu_of_ready_nodes() {
    let shares = |nodes: &str| {
        let nodes: Vec<Arc<Node>> = nodes.split_whitespace().map(node).collect();
        let Zones(Some(shares)) = Zones::of(&nodes) else {
            return "unknown".to_owned();
        };
        let shares: Vec<String> = shares
            .iter()
            .map(|(zone, share)| format!("{zone}={share:.3}"))
            .collect();
        shares.join(" ")
    };
    assert_eq!(shares(""), "unknown");
    assert_eq!(shares("za=1"), "unknown");
    assert_eq!(shares("za=1000m za=1000m"), "unknown");
    assert_eq!(shares("za=1000m zb=1000m"), "za=0.500 zb=0.500");
    assert_eq!(shares("!za=1 zb=1"), "unknown");
    assert_eq!(shares("za=1 #zb=1"), "unknown");
    assert_eq!(shares("za=1 zb=1 !zb=1"), "za=0.500 zb=0.500");
    assert_eq!(shares("za=1 zb=1 #zb=1"), "za=0.500 zb=0.500");
    assert_eq!(
        shares("za=1 za=1 za=1 za=2 zb=3 zb=1500m zc=500m"),
        "za=0.500 zb=0.450 zc=0.050"
    );
    assert_eq!(shares("za=1 zb=2"), "za=0.333 zb=0.667");
    assert_eq!(shares("za=1 zb=2000m za=1"), "za=0.500 zb=0.500");
    assert_eq!(shares("za=1 !zb=2"), "unknown");
    assert_eq!(shares("za=1 zb=1 !zc=2 #zd=4"), "za=0.500 zb=0.500");
    assert_eq!(shares("za=1 zb=1 -x=1"), "unknown");
    assert_eq!(shares("za=1 zb=1 zc=0"), "unknown");
}

fn zones(text: &str) -> Zones {
    (*case("").zones(text).snapshot.zones).clone()
}

fn half_of(one: &str, two: &str) -> Zones {
    zones(&format!("{one}=1 {two}=1"))
}

// Upstream: Test_checkNodeTopologyDistribution.
#[test]
fn a_zone_with_too_few_endpoints_is_overloaded() {
    let is = |held: &str, zones: &Zones| {
        let by_zone = held
            .split_whitespace()
            .map(|word| word.split_once('=').unwrap())
            .map(|(zone, count)| (Istr::new(zone), count.parse().unwrap()));
        is_overloaded(&by_zone.collect(), zones)
    };
    let half = zones("za=1 zb=1");
    assert!(!is("", &half) && !is("", &Zones(None)) && is("za=1", &Zones(None)));
    assert!(!is("za=5 zb=5", &half) && !is("za=6 zb=5", &half));
    assert!(is("za=20 zb=9", &half) && is("za=10", &half));
    assert!(!is("za=5 zb=5 zc=5", &zones("za=1 zb=1 zc=1")));
    assert!(is("za=5 zb=5", &zones("za=1 zb=1 zc=1")), "a zone has none");
    assert!(is("za=1 zb=2 zc=3", &zones("za=1 zb=10 zc=20")));
    assert!(is("za=1 zb=2 zc=3", &zones("zb=10 zc=20")));
    assert!(!is("zb=5 zc=4", &half_of("zb", "zc")) && is("zb=6 zc=4", &half_of("zb", "zc")));
    let uneven = zones("za=20 zb=10 zc=1");
    assert!(!is("za=20 zb=10 zc=1", &uneven) && is("za=20 zb=10 zc=0", &uneven));
}

// Upstream: TestAddHints (allocations).
#[test]
fn a_zone_may_have_its_share_and_a_little_more() {
    let text = |zones: &Zones, count: usize| match allocate(zones, count) {
        Ok(found) => found
            .iter()
            .map(|(zone, found)| {
                format!(
                    "{zone}:{}..{} {:.2}",
                    found.minimum, found.maximum, found.desired
                )
            })
            .collect::<Vec<String>>()
            .join(" "),
        Err(why) => why,
    };
    expect!["za:5..6 5.50 zb:5..6 5.50"].assert_eq(&text(&zones("za=1 zb=1"), 11));
    expect!["za:3..3 3.00 zb:1..1 1.00"].assert_eq(&text(&zones("za=3 zb=1"), 4));
}

// Upstream: Test_getGivingAndReceivingZones.
#[test]
fn whole_endpoints_are_given() {
    let check = |allocations: &[(&str, f64)], held: &[(&str, usize)]| {
        let allocation = |desired: f64| Allocation {
            minimum: 0,
            maximum: 0,
            desired,
        };
        let allocations = allocations
            .iter()
            .map(|(zone, desired)| (Istr::new(zone), allocation(*desired)));
        let held = held.iter().map(|(zone, count)| (Istr::new(zone), *count));
        let (giving, receiving) = giving_and_receiving(&allocations.collect(), &held.collect());
        format!("{giving:?} {receiving:?}")
    };
    let cases = [
        (
            check(&[("a", 3.0), ("b", 3.0)], &[("a", 4), ("b", 2)]),
            expect![[r#"{"a": 1} {"b": 1}"#]],
        ),
        (
            check(&[("a", 3.0), ("b", 3.0)], &[("a", 3), ("b", 3)]),
            expect!["{} {}"],
        ),
        (
            check(&[("a", 5.0), ("b", 5.0)], &[("a", 8), ("b", 2)]),
            expect![[r#"{"a": 3} {"b": 3}"#]],
        ),
        (
            check(&[("a", 5.1), ("b", 1.9)], &[("a", 6), ("b", 1)]),
            expect!["{} {}"],
        ),
        (
            check(
                &[("a", 2.0), ("b", 4.5), ("c", 0.4)],
                &[("a", 4), ("b", 4), ("c", 0)],
            ),
            expect![[r#"{"a": 1} {"b": 1}"#]],
        ),
        (check(&[], &[]), expect!["{} {}"]),
        (
            check(&[("a", 5.1), ("b", 5.1), ("c", 5.8)], &[("a", 16)]),
            expect![[r#"{"a": 10} {"b": 5, "c": 5}"#]],
        ),
        (
            check(&[("a", 5.0), ("b", 5.6), ("c", 5.4)], &[("a", 16)]),
            expect![[r#"{"a": 11} {"b": 6, "c": 5}"#]],
        ),
        (
            check(&[("a", 5.0), ("b", 5.6), ("c", 5.4)], &[("b", 8), ("c", 8)]),
            expect![[r#"{"b": 2, "c": 3} {"a": 5}"#]],
        ),
        (
            check(&[("a", 5.0), ("b", 5.0)], &[("a", 6), ("b", 6)]),
            expect!["{} {}"],
        ),
        (
            check(
                &[("a", 1.2), ("b", 1.1), ("c", 1.0)],
                &[("a", 1), ("b", 1), ("c", 1)],
            ),
            expect!["{} {}"],
        ),
        (
            check(
                &[("a", 5.0), ("b", 5.0), ("c", 5.0)],
                &[("a", 6), ("b", 6), ("c", 6)],
            ),
            expect!["{} {}"],
        ),
    ];
    for (found, expected) in cases {
        expected.assert_eq(&found);
    }
}

// Upstream: Test_getHintsByZone.
#[test]
fn hints_that_would_starve_a_zone_are_given_anew() {
    let held = "a:ready,@na>za b:ready,@nb>za c:ready,@na>za d:ready,@nb>za";
    hinted(
        case("a:ready,@na b:ready,@nb c:ready,@na d:ready,@nb")
            .service(auto())
            .zones("za=1 zb=1"),
    )
    .slice("s", held)
    .check(expect!["update s[a>za b>zb c>za d>zb]"]);
}
