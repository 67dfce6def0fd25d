//! When a kubelet is said to have stopped posting status.

use api::MicroTime;
use api::conditions::ConditionStatus;
use api::kinds::Lease;
use expect_test::{Expect, expect};

use super::super::health::{Seen, health_of};
use super::{at, node, settings};

/// `alive=10 Ready=True hb=5 lease=3 uid=u`
fn seen(text: &str) -> Option<Seen> {
    let mut seen = Seen {
        uid: "a".into(),
        alive_at: MicroTime::default(),
        ready: None,
        heartbeat: None,
        renewed_at: None,
    };
    if text.is_empty() {
        return None;
    }
    for word in text.split_whitespace() {
        let (what, value) = word.split_once('=').unwrap();
        let second = || at(value.parse().unwrap());
        match what {
            "alive" => seen.alive_at = second(),
            "Ready" => seen.ready = Some(ConditionStatus::from(value)),
            "hb" => seen.heartbeat = Some(second().time()),
            "lease" => seen.renewed_at = Some(second()),
            "uid" => seen.uid = value.into(),
            other => panic!("{other}"),
        }
    }
    Some(seen)
}

/// Looks at `object` at this second, with a lease that was renewed then.
fn check(object: &str, was: &str, lease: Option<u64>, now: u64, expected: Expect) {
    let lease = lease.map(|second| {
        let mut lease = Lease::default();
        lease.spec.renew_time = Some(at(second));
        lease
    });
    let patience = settings().patience;
    let found = health_of(
        &node(object),
        lease.as_ref(),
        seen(was).as_ref(),
        at(now),
        patience,
    );
    let seconds = found.seen.alive_at.unix_micros() / 1_000_000;
    let says = found.says.map_or("nothing".into(), |says| says.to_string());
    let mut text = format!("alive at {seconds}, said {}, says {says}", found.said);
    for one in found.unknown {
        let how = if one.never_reported {
            "never reported"
        } else {
            "stopped"
        };
        text.push_str(&format!("; {} {how}", one.condition));
    }
    expected.assert_eq(&text);
}

const ALL: &str = "MemoryPressure=False DiskPressure=False PIDPressure=False";

// Upstream: TestTryUpdateNodeHealth.
#[test]
fn a_new_heartbeat_is_a_sign_of_life_whatever_time_it_tells() {
    let was = "alive=10 Ready=True hb=5";
    check(
        "a Ready=True hb=5",
        was,
        None,
        60,
        expect!["alive at 10, said True, says True"],
    );
    check(
        "a Ready=True hb=6",
        was,
        None,
        60,
        expect!["alive at 60, said True, says True"],
    );
    check(
        "a Ready=True hb=4",
        was,
        None,
        60,
        expect!["alive at 60, said True, says True"],
    );
    check(
        "a Ready=False hb=6",
        was,
        None,
        60,
        expect!["alive at 60, said False, says False"],
    );
}

#[test]
fn a_renewed_lease_is_a_sign_of_life() {
    let was = "alive=10 Ready=True hb=5 lease=7";
    let same = expect![
        "alive at 10, said True, says Unknown; Ready stopped; MemoryPressure never reported; DiskPressure never reported; PIDPressure never reported"
    ];
    check("a Ready=True hb=5", was, Some(7), 61, same);
    check(
        "a Ready=True hb=5",
        was,
        Some(8),
        61,
        expect!["alive at 61, said True, says True"],
    );
    check(
        "a Ready=True hb=5",
        "alive=10 Ready=True hb=5",
        Some(1),
        61,
        expect!["alive at 61, said True, says True"],
    );
    // So is a report of its own when the lease is old.
    check(
        "a Ready=True hb=6",
        was,
        Some(7),
        61,
        expect!["alive at 61, said True, says True"],
    );
    // The node's clock was set back; it lives.
    check(
        &format!("a Ready=True {ALL}"),
        "alive=10 Ready=True lease=7",
        Some(6),
        61,
        expect!["alive at 61, said True, says True"],
    );
}

#[test]
fn who_is_seen_for_the_first_time_has_all_their_time() {
    check(
        "a Ready=True hb=5",
        "",
        None,
        1000,
        expect!["alive at 1000, said True, says True"],
    );
    check(
        "a Ready=Unknown hb=5",
        "",
        None,
        1000,
        expect!["alive at 1000, said Unknown, says Unknown"],
    );
    check(
        "a Ready=True hb=5 uid=another",
        "alive=10 Ready=True hb=5",
        None,
        1000,
        expect!["alive at 1000, said True, says True"],
    );
}

// Upstream: TestMonitorNodeHealthUpdateStatus, TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease.
#[test]
fn a_node_that_never_reported_has_its_time_to_start_from_its_birth() {
    check(
        "a born=100",
        "",
        None,
        150,
        expect!["alive at 100, said Unknown, says nothing"],
    );
    check(
        "a born=100",
        "",
        None,
        160,
        expect!["alive at 100, said Unknown, says nothing"],
    );
    check(
        "a born=100",
        "alive=100",
        None,
        161,
        expect![
            "alive at 100, said Unknown, says Unknown; Ready never reported; MemoryPressure never reported; DiskPressure never reported; PIDPressure never reported"
        ],
    );
    // UPSTREAM: one that renews its lease and never reports is left alone.
    check(
        "a born=100",
        "alive=100 lease=150",
        Some(160),
        161,
        expect!["alive at 161, said Unknown, says nothing"],
    );
    check(
        "a born=100",
        "",
        Some(160),
        161,
        expect!["alive at 161, said Unknown, says nothing"],
    );
    check(
        "a born=100",
        "",
        None,
        161,
        expect![
            "alive at 100, said Unknown, says Unknown; Ready never reported; MemoryPressure never reported; DiskPressure never reported; PIDPressure never reported"
        ],
    );
    check(
        "a born=100",
        "alive=100 lease=100",
        Some(100),
        161,
        expect![
            "alive at 100, said Unknown, says Unknown; Ready never reported; MemoryPressure never reported; DiskPressure never reported; PIDPressure never reported"
        ],
    );
}

#[test]
fn a_condition_that_comes_or_goes_is_a_sign_of_life() {
    check(
        "a Ready=True",
        "alive=10",
        None,
        200,
        expect!["alive at 200, said True, says True"],
    );
    check(
        "a",
        "alive=10 Ready=True",
        None,
        200,
        expect!["alive at 200, said Unknown, says nothing"],
    );
}

#[test]
fn silence_is_called_silence_after_the_grace_period_and_once() {
    let was = "alive=10 Ready=True";
    let node = format!("a Ready=True {ALL}");
    check(
        &node,
        was,
        None,
        60,
        expect!["alive at 10, said True, says True"],
    );
    check(
        &node,
        was,
        None,
        61,
        expect![
            "alive at 10, said True, says Unknown; Ready stopped; MemoryPressure stopped; DiskPressure stopped; PIDPressure stopped"
        ],
    );
    // UPSTREAM: the other conditions follow the Ready condition.
    check(
        "a Ready=Unknown MemoryPressure=False",
        "alive=10 Ready=Unknown",
        None,
        61,
        expect!["alive at 10, said Unknown, says Unknown"],
    );
    check(
        "a Ready=False MemoryPressure=Unknown",
        "alive=10 Ready=False",
        None,
        61,
        expect![
            "alive at 10, said False, says Unknown; Ready stopped; DiskPressure never reported; PIDPressure never reported"
        ],
    );
}
