//! What scenarios cover, by what our binary says of its controllers. No server is needed.

use std::collections::BTreeSet;

use real_tests::manager::{self, Controller};
use real_tests::scenario::{self, Scenario};

/// It writes nothing but events, and nobody has it on by default.
const WRITES_NOTHING: &str = "selinux-warning-controller";

/// Those that act as long as nobody turns a feature on: pinned servers do not.
fn acting() -> impl Iterator<Item = &'static Controller> {
    manager::ours().iter().filter(|one| one.acts_by_default())
}

#[test]
fn every_controller_is_played() {
    let all = Scenario::load(&[]).unwrap();
    let played: BTreeSet<&str> = all
        .iter()
        .flat_map(|scenario| scenario.controllers.iter().map(String::as_str))
        .collect();
    let known: BTreeSet<&str> = manager::ours().iter().map(|one| &*one.name).collect();
    let unknown: Vec<&&str> = played.difference(&known).collect();
    assert!(unknown.is_empty(), "no controllers: {unknown:?}");
    let silent = acting().filter(|one| !played.contains(&*one.name));
    let silent: Vec<&str> = silent.map(|one| &*one.name).collect();
    assert_eq!(silent, [WRITES_NOTHING], "no scenario names these");
}

#[test]
fn what_is_left_out_of_records_is_decided_about() {
    let stale = scenario::stale_exceptions();
    assert_eq!(stale, [""; 0], "src/scenario/resources.rs names these");
}
