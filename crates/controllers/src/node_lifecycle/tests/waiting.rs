//! Who is tainted when.

use std::sync::Arc;
use std::time::Duration;

use api::MicroTime;
use api::kinds::Node;

use super::super::waiting::{Allowed, Waiting};
use super::{at, node};

fn named(name: &str) -> Arc<Node> {
    Arc::new(node(name))
}

fn queue(rate: f32, names: &[&str]) -> Waiting {
    let mut waiting = Waiting::new(rate, at(0));
    for name in names {
        assert!(waiting.add(named(name)));
    }
    waiting
}

/// The names that are allowed at this time, in order.
fn allowed(waiting: &mut Waiting, now: MicroTime) -> String {
    let mut names = Vec::new();
    while let Allowed::Node(node) = waiting.next(now) {
        names.push(node.metadata.name.to_string());
    }
    names.join(" ")
}

// Upstream: TestAddNode, TestTryOrdering, TestUniqueQueueGet.
#[test]
fn first_come_first_served_and_once() {
    let mut waiting = queue(1.0, &["b", "a"]);
    assert!(!waiting.add(named("b")), "it waits already");
    assert_eq!(allowed(&mut waiting, at(0)), "b");
    assert_eq!(allowed(&mut waiting, at(0)), "", "one token");
    assert!(!waiting.add(named("b")), "it was taken");
    assert_eq!(allowed(&mut waiting, at(1)), "a");
    assert_eq!(waiting.next(at(2)), Allowed::Nobody);
}

// Upstream: TestDelNode, TestTryRemovingWhileTry.
#[test]
fn a_node_that_is_forgotten_may_come_again() {
    let mut waiting = queue(1.0, &["a", "b", "c"]);
    assert!(waiting.forget("b"));
    assert!(!waiting.forget("b"));
    assert_eq!(allowed(&mut waiting, at(0)), "a");
    assert!(waiting.forget("a"), "it was taken and is known");
    waiting.put_back(named("a"));
    assert_eq!(
        allowed(&mut waiting, at(1)),
        "c",
        "what is forgotten is not put back"
    );
    assert!(waiting.add(named("a")));
    assert_eq!(allowed(&mut waiting, at(2)), "a");
}

// Upstream: TestAddAfterTry.
#[test]
fn a_node_that_lost_its_taint_is_readmitted_without_losing_a_place() {
    let mut waiting = queue(1.0, &["a", "b"]);
    assert_eq!(allowed(&mut waiting, at(0)), "a");
    waiting.readmit("a");
    waiting.readmit("b");
    assert!(waiting.add(named("a")));
    assert!(!waiting.add(named("b")));
    assert_eq!(allowed(&mut waiting, at(1)), "b");
    assert_eq!(allowed(&mut waiting, at(2)), "a");
}

// Upstream: TestTry.
#[test]
fn a_node_that_is_put_back_has_spent_its_token_and_goes_to_the_back() {
    let mut waiting = queue(0.1, &["a", "b"]);
    let Allowed::Node(node) = waiting.next(at(0)) else {
        panic!("the first token is there");
    };
    waiting.put_back(node);
    assert_eq!(allowed(&mut waiting, at(5)), "");
    assert_eq!(allowed(&mut waiting, at(10)), "b");
    assert_eq!(allowed(&mut waiting, at(20)), "a");
}

#[test]
fn returns_the_wait_until_the_next_node() {
    let mut waiting = queue(0.1, &["a", "b"]);
    assert_eq!(allowed(&mut waiting, at(0)), "a");
    let Allowed::After(wait) = waiting.next(at(4)) else {
        panic!("b waits");
    };
    let wait = wait.as_micros();
    assert!((6_000_000..6_000_010).contains(&wait), "{wait}");
    let due = at(4).plus(Duration::from_micros(u64::try_from(wait).unwrap()));
    assert_eq!(allowed(&mut waiting, due), "b");
}

// Upstream: TestSwapLimiter.
#[test]
fn a_new_rate_gives_no_new_token() {
    let mut waiting = queue(1.0, &["a", "b", "c", "d"]);
    waiting.set_rate(10.0, at(0));
    assert_eq!(allowed(&mut waiting, at(0)), "a", "the token was not spent");
    waiting.set_rate(1.0, at(0));
    assert_eq!(allowed(&mut waiting, at(0)), "");
    waiting.set_rate(0.0, at(1));
    assert_eq!(waiting.next(at(100)), Allowed::Nobody, "no rate, no node");
    waiting.set_rate(0.1, at(100));
    assert_eq!(allowed(&mut waiting, at(109)), "");
    assert_eq!(allowed(&mut waiting, at(110)), "b");
    waiting.set_rate(0.1, at(115));
    assert_eq!(
        allowed(&mut waiting, at(120)),
        "c",
        "the same rate changes nothing"
    );
}

/// Never more nodes than the rate allows, whatever rates come and go in between.
#[test]
fn no_more_nodes_than_the_rate_allows() {
    let rng = api::Rng::from_seed(7);
    for _ in 0..50 {
        let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut waiting = queue(0.5, &names);
        let (mut taken, mut allowed, mut rate, mut last) = (0_u32, 1.0, 0.5_f64, 0_u32);
        for second in 1..200_u32 {
            allowed += f64::from(second - last) * rate;
            last = second;
            while let Allowed::Node(_) = waiting.next(at(second.into())) {
                taken += 1;
            }
            assert!(
                f64::from(taken) <= allowed + 1e-6,
                "{taken} nodes of {allowed} at {second}"
            );
            if rng.below(10) == 0 {
                rate = [0.0, 0.1, 0.5, 2.0][rng.below(4)];
                waiting.set_rate(rate as f32, at(second.into()));
            }
        }
    }
}
