//! When evictions slow down and stop.

use expect_test::{Expect, expect};

use super::super::zones::{Count, State, Zones, assess, rate_of, state_of};
use super::settings;

fn count(ready: usize, down: usize) -> Count {
    Count { ready, down }
}

// Upstream: the zone states of TestMonitorNodeHealth.
#[test]
fn a_zone_is_down_by_share_and_never_for_two_nodes() {
    let state = |ready, down| state_of(count(ready, down), &settings().rates);
    assert_eq!(state(1, 0), State::Normal);
    assert_eq!(state(0, 0), State::Normal);
    assert_eq!(state(0, 1), State::FullDisruption);
    assert_eq!(state(1, 2), State::Normal);
    assert_eq!(state(1, 3), State::PartialDisruption);
    assert_eq!(state(3, 3), State::Normal);
    assert_eq!(state(9, 11), State::PartialDisruption, "just the share");
}

#[test]
fn a_small_zone_that_is_partly_down_is_left_alone() {
    let rate = |state, size| rate_of(state, size, &settings().rates);
    assert!((rate(State::Normal, 1) - 0.1).abs() < 1e-6);
    assert!((rate(State::FullDisruption, 1) - 0.1).abs() < 1e-6);
    assert!(rate(State::PartialDisruption, 50).abs() < 1e-6);
    assert!((rate(State::PartialDisruption, 51) - 0.01).abs() < 1e-6);
}

/// `a=new 1/2` and the like: the state at the last check, ready and down now; `-` where it is not known.
fn check(zones: &str, expected: Expect) {
    let (mut was, mut counts) = (Zones::new(), Zones::new());
    for zone in zones.split(", ").filter(|zone| !zone.is_empty()) {
        let (name, rest) = zone.split_once('=').unwrap();
        let (state, now) = rest.split_once(' ').unwrap();
        let state = match state {
            "new" => Some(State::Initial),
            "normal" => Some(State::Normal),
            "partly" => Some(State::PartialDisruption),
            "down" => Some(State::FullDisruption),
            _ => None,
        };
        if let Some(state) = state {
            was.insert(name.to_owned(), state);
        }
        if let Some((ready, down)) = now.split_once('/') {
            let number = |text: &str| text.parse().unwrap();
            counts.insert(name.to_owned(), count(number(ready), number(down)));
        }
    }
    let verdict = assess(&was, &counts, &settings().rates);
    let states: Vec<String> = verdict
        .states
        .iter()
        .map(|(zone, state)| match verdict.rates.get(zone) {
            Some(rate) => format!("{zone} {state} at {rate}"),
            None => format!("{zone} {state}"),
        })
        .collect();
    expected.assert_eq(&format!("{} | {:?}", states.join(", "), verdict.transition));
}

// Upstream: TestMonitorNodeHealth.
#[test]
fn the_pace_follows_the_state() {
    check("a=new 2/1", expect!["a normal at 0.1 | None"]);
    check("a=normal 2/1", expect!["a normal | None"]);
    check("a=normal 1/3", expect!["a partly down at 0 | None"]);
    check("a=normal 20/31", expect!["a partly down at 0.01 | None"]);
    check("a=partly 9/1", expect!["a normal at 0.1 | None"]);
    check(
        "a=normal 1/0, b=normal 0/3",
        expect!["a normal, b down at 0.1 | None"],
    );
    check("a=- 1/0", expect!["a normal at 0.1 | None"]);
}

#[test]
fn when_no_node_is_ready_evictions_stop_until_one_is() {
    check(
        "a=normal 0/1, b=down 0/1",
        expect!["a down at 0, b down at 0 | AllDown"],
    );
    check("a=down 0/1, b=down 0/1", expect!["a down, b down | None"]);
    check(
        "a=down 1/0, b=down 0/1",
        expect!["a normal at 0.1, b down at 0.1 | SomeUp"],
    );
    check("a=new 0/1", expect!["a down at 0 | AllDown"]);
    check(
        "a=down 0/1, b=- 0/1",
        expect!["a down at 0, b down at 0 | AllDown"],
    );
}

#[test]
fn a_zone_without_nodes_is_forgotten() {
    check("a=normal -, b=normal 1/0", expect!["b normal | None"]);
    check("a=normal -, b=down 0/1", expect!["b down | None"]);
    check("", expect![" | None"]);
}
