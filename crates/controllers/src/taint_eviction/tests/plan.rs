//! Whether and when a pod leaves.

use std::time::Duration;

use api::MicroTime;
use api::Resource;
use api::kinds::{Node, Pod};
use api::taints::Toleration;
use expect_test::{Expect, expect};
use serde_json::json;

use super::super::plan::{Plan, Scheduled, plan, shortest};
use super::super::{converged, no_execute, safe};

fn at(second: u64) -> MicroTime {
    MicroTime::default().plus(Duration::from_secs(second))
}

/// `a b=60`: tolerates the taint `a` for ever and `b` for a minute.
fn pod(tolerates: &str) -> Pod {
    let tolerations: Vec<_> = tolerates
        .split_whitespace()
        .map(|word| match word.split_once('=') {
            Some((key, seconds)) => json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": seconds.parse::<i64>().unwrap(),
            }),
            None => json!({"key": word, "operator": "Exists", "effect": "NoExecute"}),
        })
        .collect();
    let object = json!({
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n", "tolerations": tolerations},
    });
    Pod::decode(object.to_string().as_bytes()).unwrap()
}

/// `a b`: these taints drive pods away; `c:NoSchedule` does not.
fn node(taints: &str) -> Node {
    let taints: Vec<_> = taints
        .split_whitespace()
        .map(|word| match word.split_once(':') {
            Some((key, effect)) => json!({"key": key, "effect": effect}),
            None => json!({"key": word, "effect": "NoExecute"}),
        })
        .collect();
    let object = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
    Node::decode(object.to_string().as_bytes()).unwrap()
}

/// At second 100; `held` is since when and until when a deletion is planned.
fn check(tolerates: &str, taints: Option<&str>, held: Option<(u64, u64)>, expected: Expect) {
    let held = held.map(|(since, until)| Scheduled {
        since: at(since),
        at: at(until),
    });
    let node = taints.map(node);
    let plan = plan(&pod(tolerates), node.as_ref(), held, at(100), false);
    let text = match plan {
        Plan::Leave(scheduled, _) => {
            let seconds = |time: MicroTime| time.unix_micros() / 1_000_000;
            format!(
                "leaves at {}, since {}",
                seconds(scheduled.at),
                seconds(scheduled.since)
            )
        }
        other => api::decision::Line::from(&other).to_string(),
    };
    expected.assert_eq(&text);
}

// Upstream: TestFilterNoExecuteTaints.
#[test]
fn only_no_execute_drives_away() {
    assert_eq!(
        no_execute(&node("a b:NoSchedule c:PreferNoSchedule d")).len(),
        2
    );
    check(
        "",
        Some("b:NoSchedule"),
        None,
        expect!["stays: its node has no taint that drives pods away"],
    );
}

// Upstream: TestCreatePod, TestUpdateNode, TestCreateNode.
#[test]
fn a_pod_stays_as_long_as_it_tolerates_all() {
    check(
        "",
        Some(""),
        None,
        expect!["stays: its node has no taint that drives pods away"],
    );
    check(
        "",
        Some("a"),
        None,
        expect!["evicts it: it does not tolerate the taint a:NoExecute of its node"],
    );
    check(
        "a",
        Some("a"),
        None,
        expect!["stays: it tolerates the taints of its node"],
    );
    check(
        "a",
        Some("a b"),
        None,
        expect!["evicts it: it does not tolerate the taint b:NoExecute of its node"],
    );
    check("a=60", Some("a"), None, expect!["leaves at 160, since 100"]);
    check(
        "a=0",
        Some("a"),
        None,
        expect!["evicts it: it tolerated the taints of its node long enough"],
    );
    check(
        "a=-5",
        Some("a"),
        None,
        expect!["evicts it: it tolerated the taints of its node long enough"],
    );
}

// Upstream: TestUpdateNode (the first that runs out), TestUpdateNodeWithMultipleTaints.
#[test]
fn the_toleration_that_ends_first_counts() {
    check(
        "a=60 b=30",
        Some("a b"),
        None,
        expect!["leaves at 130, since 100"],
    );
    check(
        "a b=30",
        Some("a b"),
        None,
        expect!["leaves at 130, since 100"],
    );
    check(
        "a b=30",
        Some("a"),
        None,
        expect!["stays: it tolerates the taints of its node"],
    );
}

// Upstream: TestGetMinTolerationTime.
#[test]
fn the_shortest_time_of_those_that_end() {
    let toleration = |toleration_seconds| Toleration {
        toleration_seconds,
        ..Toleration::default()
    };
    let check = |times: &[Option<i64>], expected: Option<u64>| {
        let all: Vec<Toleration> = times.iter().map(|time| toleration(*time)).collect();
        let found = shortest(&all.iter().collect::<Vec<_>>());
        assert_eq!(found, expected.map(Duration::from_secs), "{times:?}");
    };
    check(&[], None);
    check(&[None], None);
    check(&[None, Some(1)], Some(1));
    check(&[Some(2), Some(1)], Some(1));
    check(&[Some(2), Some(-1)], Some(0));
    check(&[Some(0), None], Some(0));
}

#[test]
fn what_was_decided_stays_decided_while_there_is_a_reason() {
    check(
        "a=60",
        Some("a"),
        Some((50, 110)),
        expect!["leaves at 110, since 50"],
    );
    // UPSTREAM: also where another taint gives more time, or less.
    check(
        "a=60 b=300",
        Some("b"),
        Some((50, 110)),
        expect!["leaves at 110, since 50"],
    );
    check(
        "a=60 b=1",
        Some("a b"),
        Some((50, 110)),
        expect!["leaves at 110, since 50"],
    );
    check(
        "a=60",
        Some("a"),
        Some((40, 100)),
        expect!["evicts it: it tolerated the taints of its node long enough"],
    );
    check(
        "a=60",
        Some(""),
        Some((50, 110)),
        expect!["stays: its node has no taint that drives pods away"],
    );
    check(
        "a",
        Some("a"),
        Some((50, 110)),
        expect!["stays: it tolerates the taints of its node"],
    );
    check(
        "",
        Some("a"),
        Some((50, 110)),
        expect!["evicts it: it does not tolerate the taint a:NoExecute of its node"],
    );
}

// Upstream: TestDeleteNode.
#[test]
fn a_node_that_is_gone_decides_nothing() {
    check("", None, None, expect!["stays: its node is gone"]);
    check(
        "",
        None,
        Some((50, 110)),
        expect!["leaves at 110, since 50"],
    );
    check(
        "",
        None,
        Some((50, 90)),
        expect!["evicts it: it tolerated the taints of its node long enough"],
    );
}

/// Plans from random taints and tolerations, each carried out when it is due, never break the invariants.
#[test]
fn no_pod_is_evicted_that_tolerates_the_taint_or_before_its_time() {
    let rng = api::Rng::from_seed(3);
    let (mut left, mut stayed) = (0, 0);
    for _ in 0..2000 {
        let pick = |words: &[&'static str]| {
            let picked = words.iter().filter(|_| rng.below(2) == 0);
            picked.copied().collect::<Vec<_>>().join(" ")
        };
        let pod = pod(&pick(&["a=20", "b=40", "c", "d=5"]));
        let (mut held, mut tainted_since, mut now) = (None, None, 100);
        for _ in 0..6 {
            let node = node(&pick(&["a", "b", "c", "d"]));
            let is_tainted = !no_execute(&node).is_empty();
            tainted_since = is_tainted.then(|| tainted_since.unwrap_or(at(now)));
            match plan(&pod, Some(&node), held, at(now), false) {
                Plan::Stay(_) => {
                    held = None;
                    if let Some(since) = tainted_since {
                        converged(&pod, &node, since, at(now), false).unwrap();
                    }
                    stayed += 1;
                }
                Plan::Leave(scheduled, _) => held = Some(scheduled),
                Plan::LeaveNow(_) => {
                    safe(&pod, Some(&node), tainted_since, at(now), false).unwrap();
                    left += 1;
                    break;
                }
            }
            now += 1 + rng.below(30) as u64;
        }
    }
    assert!(left > 100 && stayed > 100, "{left} {stayed}");
}

#[test]
fn the_invariants_find_who_left_wrongly() {
    let wrong = |tolerates: &str, taints: &str, since| {
        safe(&pod(tolerates), Some(&node(taints)), since, at(100), false).unwrap_err()
    };
    expect!["ns/p was driven away from n, which has no taint"].assert_eq(&wrong("", "", None));
    expect!["ns/p was driven away from n although it tolerates its taints"]
        .assert_eq(&wrong("a", "a", None));
    expect!["ns/p was driven away from n before its time"].assert_eq(&wrong(
        "a=60",
        "a",
        Some(at(50)),
    ));
    assert!(safe(&pod("a=60"), Some(&node("a")), Some(at(40)), at(100), false).is_ok());
    assert!(converged(&pod(""), &node("a"), at(99), at(100), false).is_err());
    assert!(converged(&pod("a=60"), &node("a"), at(39), at(100), false).is_err());
    assert!(converged(&pod("a=60"), &node("a"), at(41), at(100), false).is_ok());
}
