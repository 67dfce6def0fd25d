//! Hints by `trafficDistribution`. Upstream: trafficdist_test.go, TestReconcile_TrafficDistribution.

use expect_test::expect;
use serde_json::{Value, json};

use super::case::case;

fn prefer(what: &str) -> Value {
    json!({"spec": {"trafficDistribution": what}})
}

// Upstream: TestReconcileHints, TestReconcile_TrafficDistribution.
#[test]
fn ready_endpoints_are_for_their_own_zone() {
    for what in ["PreferClose", "PreferSameZone"] {
        case("a:ready,@na b:ready,@nb c:@na d:ready")
            .service(prefer(what))
            .check(expect!["create [a>za b>zb -c d]"]);
    }
    case("a:ready,@na")
        .service(prefer("Elsewhere"))
        .check(expect!["create [a]"]);
}

// Upstream: TestReconcileHints.
#[test]
fn or_for_their_own_node_and_zone() {
    case("a:ready,@na b:ready")
        .service(prefer("PreferSameNode"))
        .check(expect!["create [a>za+na b>n1]"]);
}

// Upstream: TestReconcileHints, TestReconcileHints_doesNotMutateUnchangedSlices.
#[test]
fn slices_with_other_hints_are_written() {
    let held = |hint: &str| {
        case("a:ready,@na b:ready,@nb")
            .slice("s", &format!("a:ready,@na{hint} b:ready,@nb>zb"))
            .service(prefer("PreferSameZone"))
    };
    held(">za").check(expect!["nothing"]);
    held("").check(expect!["update s[a>za b>zb]"]);
    held(">zb").check(expect!["update s[a>za b>zb]"]);
    held(">za+zb").check(expect!["update s[a>za b>zb]"]);
    case("a:@na")
        .slice("s", "a:@na")
        .service(prefer("PreferClose"))
        .check(expect!["nothing"]);
    case("a:ready")
        .slice("s", "a:ready>za")
        .service(prefer("PreferClose"))
        .check(expect!["update s[a]"]);
    case("a:ready,@na")
        .slice("s", "a:ready,@na>za")
        .service(prefer("PreferSameNode"))
        .check(expect!["update s[a>za+na]"]);
}

// Upstream: TestReconcileHints.
#[test]
fn unrequested_hints_are_removed() {
    case("a:ready,@na b:ready,@nb")
        .slice("s", "a:ready,@na>za")
        .slice("t", "b:ready,@nb")
        .check(expect!["update s[a]"]);
}

#[test]
fn the_annotation_wins() {
    let both = json!({
        "metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
        "spec": {"trafficDistribution": "PreferClose"},
    });
    case("a:ready,@na b:ready,@nb").service(both).zones("za=1 zb=1").check(expect![
        "create [a>za b>zb]; TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4"
    ]);
}
