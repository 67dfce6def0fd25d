//! How bounds, windows, policies and what was changed lately work together: upstream's large tables, with cases of our own.

use std::time::Duration;

use api::kinds::Behavior;

use super::super::{Bounds, Memory};
use super::behavior::{Case, NO_CASE, normalize, now, past, rules};

/// `10 -> 20 of 1-1000`: replicas, what is proposed, and the bounds.
fn limited(case: &Case<'_>, text: &str) -> String {
    let words: Vec<&str> = text
        .split([' ', '-', '>'])
        .filter(|word| !word.is_empty())
        .collect();
    let [from, proposed, "of", least, most] = words[..] else {
        panic!("{text}?")
    };
    let number = |text: &str| text.parse::<i32>().unwrap();
    let behavior = Behavior {
        scale_up: (!case.up.is_empty()).then(|| rules(case.up)),
        scale_down: (!case.down.is_empty()).then(|| rules(case.down)),
    };
    let bounds = (number(least), number(most));
    let text = normalize(
        Some(&behavior),
        case,
        number(from),
        number(proposed),
        bounds,
    );
    text.replace(" ReadyForNewScale", "")
}

// TestScalingWithRules.
#[test]
fn bounds_policies_and_recent_changes_limit_together() {
    let check = |case: &Case<'_>, text: &str, expected: &str| {
        assert_eq!(limited(case, text), expected, "{text}");
    };
    let none = NO_CASE;
    check(&none, "5 -> 7 of 3-8", "7 DesiredWithinRange");
    check(&none, "3 -> 1 of 2-8", "2 TooFewReplicas");
    check(&none, "1 -> 0 of 0-10", "0 DesiredWithinRange");
    check(&none, "20 -> 1000 of 1-10", "10 TooManyReplicas");
    check(&none, "100 -> 1000 of 100-150", "150 TooManyReplicas");
    check(&none, "10 -> 50 of 1-1000", "20 ScaleUpLimit");
    let up = |up: &'static str| Case { up, ..NO_CASE };
    check(&up("Percent:1/60"), "3 -> 1000 of 1-2000", "4 ScaleUpLimit");
    check(
        &up("Pods:90/60 Percent:50/60"),
        "10 -> 500 of 1-1000",
        "100 ScaleUpLimit",
    );
    check(
        &up("Pods:2/60 Percent:50/60"),
        "10 -> 500 of 1-1000",
        "15 ScaleUpLimit",
    );
    check(
        &up("Pods:90/60"),
        "10 -> 50 of 1-1000",
        "50 DesiredWithinRange",
    );
    check(
        &up("Pods:9999/60"),
        "10 -> 50 of 1-1000",
        "50 DesiredWithinRange",
    );
    check(&up("Pods:20/60"), "10 -> 50 of 1-1000", "30 ScaleUpLimit");
    check(
        &up("Percent:300/60"),
        "10 -> 90 of 1-1000",
        "40 ScaleUpLimit",
    );
    let down = |down: &'static str| Case { down, ..NO_CASE };
    check(
        &down("Pods:20/60"),
        "1000 -> 3 of 3-2000",
        "980 ScaleDownLimit",
    );
    check(
        &down("Pods:30/60 Percent:1/60"),
        "100 -> 2 of 1-1000",
        "70 ScaleDownLimit",
    );
    check(
        &down("Pods:2/60 Percent:1/60"),
        "100 -> 2 of 1-1000",
        "98 ScaleDownLimit",
    );
    check(
        &down("Pods:100/60"),
        "10 -> 0 of 1-1000",
        "1 TooFewReplicas",
    );
    check(
        &down("Percent:100/60"),
        "10 -> 2 of 5-1000",
        "5 TooFewReplicas",
    );
    check(&down("Pods:4/60"), "10 -> 2 of 1-1000", "6 ScaleDownLimit");
    check(
        &down("Percent:50/60"),
        "10 -> 5 of 1-1000",
        "5 DesiredWithinRange",
    );
    // Fifteen more within two minutes.
    let grown = |up: &'static str| Case {
        up,
        ups: "1@100 5@60 9@20",
        ..NO_CASE
    };
    check(
        &grown("Pods:300/60"),
        "100 -> 500 of 1-200",
        "200 TooManyReplicas",
    );
    check(
        &grown("Percent:9999/60"),
        "100 -> 500 of 1-200",
        "200 TooManyReplicas",
    );
    check(
        &grown("Pods:5/120"),
        "100 -> 500 of 1-1000",
        "100 ScaleUpLimit",
    );
    check(
        &grown("Pods:150/120"),
        "100 -> 500 of 1-1000",
        "235 ScaleUpLimit",
    );
    check(
        &grown("Percent:100/120"),
        "100 -> 500 of 1-1000",
        "170 ScaleUpLimit",
    );
    check(
        &grown("Pods:150/60"),
        "100 -> 500 of 1-1000",
        "241 ScaleUpLimit",
    );
    let moved =
        |up: &'static str, down: &'static str, ups: &'static str, downs: &'static str| Case {
            up,
            down,
            ups,
            downs,
            ..NO_CASE
        };
    // Six were four, four more and two less ago.
    check(
        &moved("Percent:300/300", "", "4@60", "2@60"),
        "6 -> 24 of 1-1000",
        "16 ScaleUpLimit",
    );
    check(
        &moved("", "Percent:50/180", "2@60", "4@60"),
        "10 -> 1 of 1-1000",
        "6 ScaleDownLimit",
    );
    // Fifteen fewer within two minutes.
    let shrunk = |down: &'static str| moved("", down, "", "1@100 5@60 9@20");
    check(&shrunk(""), "10 -> 5 of 1-1000", "5 DesiredWithinRange");
    check(
        &shrunk("Pods:115/120"),
        "100 -> 0 of 1-1000",
        "1 TooFewReplicas",
    );
    check(
        &shrunk("Pods:130/120"),
        "100 -> 0 of 5-1000",
        "5 TooFewReplicas",
    );
    check(
        &shrunk("Percent:100/120"),
        "100 -> 2 of 5-1000",
        "5 TooFewReplicas",
    );
    check(
        &shrunk("Pods:5/120"),
        "100 -> 2 of 1-1000",
        "100 ScaleDownLimit",
    );
    check(
        &shrunk("Percent:50/120"),
        "100 -> 0 of 1-1000",
        "57 ScaleDownLimit",
    );
    check(
        &shrunk("Percent:10/120"),
        "100 -> 0 of 1-1000",
        "100 ScaleDownLimit",
    );
    check(
        &shrunk("Percent:900/120"),
        "10 -> 5 of 1-1000",
        "5 DesiredWithinRange",
    );
    // Policies of different lengths each look as far back as they say.
    for up in [
        "Pods:1000/60",
        "Pods:1000/120 Percent:100/60",
        "Pods:1000/30 Percent:100/60",
    ] {
        check(&grown(up), "100 -> 200 of 1-1000", "200 DesiredWithinRange");
    }
    for down in [
        "Pods:1000/60",
        "Pods:1000/120 Percent:100/60",
        "Pods:1000/30 Percent:100/60",
    ] {
        check(&shrunk(down), "100 -> 5 of 1-1000", "5 DesiredWithinRange");
    }
}

// TestNormalizeDesiredReplicasWithBehavior: also what is remembered after it.
#[test]
fn windows_keep_to_the_lowest_and_the_highest_and_forget_what_both_have_passed() {
    let check = |windows: (i32, i32),
                 proposals: &str,
                 (from, proposed): (i32, i32),
                 stabilized: i32,
                 kept: &str| {
        let (up, down) = (
            format!("window={} Pods:999/15", windows.0),
            format!("window={} Pods:999/15", windows.1),
        );
        let behavior = Behavior {
            scale_up: Some(rules(&up)),
            scale_down: Some(rules(&down)),
        };
        let mut memory = Memory {
            proposals: past(proposals),
            ..Memory::default()
        };
        let bounds = Bounds {
            least: 0,
            most: 1000,
            current: from,
            downscale_window: Duration::from_secs(300),
        };
        let done = memory.normalize(Some(&behavior), proposed, bounds, now());
        let what = format!("{windows:?} {proposals}: {from} to {proposed}");
        assert_eq!(done.stabilized, stabilized, "{what}");
        assert_eq!(memory.proposals, past(kept), "{what}");
    };
    check((0, 0), "", (90, 6), 6, "6@0");
    check((0, 180), "4@120 6@60", (90, 3), 6, "4@120 6@60 3@0");
    check((300, 0), "4@120 6@60", (1, 8), 4, "4@120 6@60 8@0");
    check((300, 0), "1@120 2@60", (90, 3), 3, "1@120 2@60 3@0");
    check((0, 300), "4@120 6@60", (1, 3), 3, "4@120 6@60 3@0");
    check((0, 0), "9@600 8@540", (90, 3), 3, "3@0");
    check((0, 0), "9@600 8@540", (1, 90), 90, "90@0");
    check(
        (0, 180),
        "9@600 4@60 6@120 8@540",
        (90, 3),
        6,
        "4@60 6@120 3@0",
    );
    check(
        (300, 0),
        "9@6000 7@60 6@120 8@180",
        (1, 90),
        6,
        "7@60 6@120 8@180 90@0",
    );
    check((300, 300), "2@6000 3@180", (2, 1), 2, "3@180 1@0");
    check((300, 300), "2@6000 1@180", (2, 3), 2, "1@180 3@0");
}

// TestStoreScaleEvents: what was changed, what a policy of a minute sees of it, and what is remembered after five more.
#[test]
fn scale_events_are_kept_for_the_longest_policy_period() {
    for (policies, before, seen, kept) in [
        (None, "", 0, ""),
        (Some("Pods:10/60 Percent:100/60"), "", 0, "5@0"),
        (None, "7@61", 0, "7@61"),
        (Some("Pods:10/60 Percent:100/60"), "7@61", 0, "5@0"),
        (Some("Pods:10/60 Percent:100/60"), "7@58", 7, "7@58 5@0"),
        (Some("Pods:10/60"), "7@61 6@59", 6, "6@59 5@0"),
        // UPSTREAM: of two that are too old one stays, and is never looked at again.
        (
            Some("Pods:10/60 Percent:100/30"),
            "8@29 6@59 7@61 9@61",
            14,
            "8@29 6@59 5@0",
        ),
        (
            Some("Pods:10/120 Percent:100/30"),
            "7@58 6@59",
            13,
            "7@58 6@59 5@0",
        ),
    ] {
        let behavior = policies.map(|policies| Behavior {
            scale_up: Some(rules(policies)),
            scale_down: Some(rules(policies)),
        });
        let memory = || Memory {
            ups: past(before),
            downs: past(before),
            ..Memory::default()
        };
        let grow = Case {
            up: "Pods:20/60",
            ups: before,
            ..NO_CASE
        };
        assert_eq!(
            limited(&grow, "100 -> 500 of 1-1000"),
            format!("{} ScaleUpLimit", 120 - seen)
        );
        let mut grown = memory();
        grown.note_change(behavior.as_ref(), 10, 15, now());
        assert_eq!(
            (grown.ups, grown.downs),
            (past(kept), past(before)),
            "{policies:?} {before}"
        );
        let mut shrunk = memory();
        shrunk.note_change(behavior.as_ref(), 10, 5, now());
        assert_eq!(
            (shrunk.ups, shrunk.downs),
            (past(before), past(kept)),
            "{policies:?} {before}"
        );
    }
    let mut memory = Memory::default();
    memory.note_change(Some(&Behavior::default()), i32::MIN, i32::MAX, now());
    assert_eq!(memory.ups, [(i32::MAX, now())]);
}
