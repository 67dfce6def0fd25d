//! Windows, bounds and policies.

use std::time::Duration;

use api::kinds::{Behavior, ScalingPolicy, ScalingRules};
use api::{MicroTime, Time};
use expect_test::{Expect, expect};

use super::super::{Bounds, Memory};

const NOW: i64 = 1_000_000;

pub(super) fn ago(seconds: i64) -> MicroTime {
    Time::from_unix(NOW - seconds).micro()
}

pub(super) fn now() -> MicroTime {
    ago(0)
}

/// `5@60 3@10`: what was proposed, or changed, so many seconds ago.
pub(super) fn past(text: &str) -> Vec<(i32, MicroTime)> {
    let read = |word: &str| {
        let (value, seconds) = word.split_once('@').unwrap();
        (value.parse().unwrap(), ago(seconds.parse().unwrap()))
    };
    text.split_whitespace().map(read).collect()
}

/// `window=60 select=Min Pods:4/60 Percent:100/15`
pub(super) fn rules(text: &str) -> ScalingRules {
    let mut rules = ScalingRules::default();
    for word in text.split_whitespace() {
        if let Some(window) = word.strip_prefix("window=") {
            rules.stabilization_window_seconds = window.parse().ok();
        } else if let Some(select) = word.strip_prefix("select=") {
            rules.select_policy = Some(select.into());
        } else {
            let (kind, rest) = word.split_once(':').unwrap();
            let (value, period) = rest.split_once('/').unwrap();
            rules.policies.push(ScalingPolicy {
                r#type: kind.into(),
                value: value.parse().unwrap(),
                period_seconds: period.parse().unwrap(),
            });
        }
    }
    rules
}

pub(super) struct Case<'a> {
    pub(super) up: &'a str,
    pub(super) down: &'a str,
    pub(super) proposals: &'a str,
    pub(super) ups: &'a str,
    pub(super) downs: &'a str,
}

pub(super) const NO_CASE: Case<'static> = Case {
    up: "",
    down: "",
    proposals: "",
    ups: "",
    downs: "",
};

/// `from` replicas, between 1 and 1000, of which `proposed` are wanted.
fn with(case: &Case<'_>, from: i32, proposed: i32) -> String {
    let behavior = Behavior {
        scale_up: (!case.up.is_empty()).then(|| rules(case.up)),
        scale_down: (!case.down.is_empty()).then(|| rules(case.down)),
    };
    normalize(Some(&behavior), case, from, proposed, (1, 1000))
}

fn without(proposals: &str, from: i32, proposed: i32, bounds: (i32, i32)) -> String {
    let case = Case {
        proposals,
        ..NO_CASE
    };
    normalize(None, &case, from, proposed, bounds)
}

pub(super) fn normalize(
    behavior: Option<&Behavior>,
    case: &Case<'_>,
    current: i32,
    proposed: i32,
    (least, most): (i32, i32),
) -> String {
    let mut memory = Memory {
        proposals: past(case.proposals),
        ups: past(case.ups),
        downs: past(case.downs),
    };
    let bounds = Bounds {
        least,
        most,
        current,
        downscale_window: Duration::from_secs(300),
    };
    let done = memory.normalize(behavior, proposed, bounds, now());
    let mut text = format!("{} {} {}", done.replicas, done.able.0, done.limited.0);
    if let Some(at) = done.opens_at {
        text.push_str(&format!(", opens in {} s", at.since(now()).as_secs()));
    }
    text
}

fn check(text: String, expected: Expect) {
    expected.assert_eq(&text);
}

// TestConvertDesiredReplicasWithRules, TestUpscaleCap, TestUpscaleCapGreaterThanMaxReplicas.
#[test]
fn without_rules_it_stays_in_bounds_and_doubles_at_most() {
    check(
        without("", 7, 7, (1, 10)),
        expect!["7 ReadyForNewScale DesiredWithinRange"],
    );
    check(
        without("", 3, 0, (2, 10)),
        expect!["2 ReadyForNewScale TooFewReplicas"],
    );
    check(
        without("", 3, 0, (1, 10)),
        expect!["1 ReadyForNewScale TooFewReplicas"],
    );
    check(
        without("", 1, 0, (0, 10)),
        expect!["0 ReadyForNewScale DesiredWithinRange"],
    );
    check(
        without("", 20, 1000, (1, 10)),
        expect!["10 ReadyForNewScale TooManyReplicas"],
    );
    check(
        without("", 3, 1000, (1, 2000)),
        expect!["6 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        without("", 10, 100, (1, 12)),
        expect!["12 ReadyForNewScale TooManyReplicas"],
    );
    check(
        without("", 10, 100, (1, 1000)),
        expect!["20 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        without("", 1, 100, (1, 1000)),
        expect!["4 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        without("", i32::MAX, i32::MAX, (1, i32::MAX)),
        expect!["2147483647 ReadyForNewScale DesiredWithinRange"],
    );
}

// TestNormalizeDesiredReplicas, TestStabilizeDownscale, TestScaleDownStabilizeInitialSize.
#[test]
fn fewer_replicas_wait_for_the_window() {
    check(
        without("", 5, 5, (1, 10)),
        expect!["5 ReadyForNewScale DesiredWithinRange"],
    );
    check(
        without("4@60", 5, 2, (1, 10)),
        expect!["4 ScaleDownStabilized DesiredWithinRange, opens in 240 s"],
    );
    check(
        without("4@60 8@200 9@400", 5, 2, (1, 10)),
        expect!["8 ScaleDownStabilized DesiredWithinRange, opens in 240 s"],
    );
    check(
        without("9@301", 5, 2, (1, 10)),
        expect!["2 ReadyForNewScale DesiredWithinRange"],
    );
    check(
        without("1@120 2@60", 5, 3, (1, 10)),
        expect!["3 ReadyForNewScale DesiredWithinRange"],
    );
    check(
        without("10@600 4@60 5@120 9@540", 6, 3, (1, 10)),
        expect!["5 ScaleDownStabilized DesiredWithinRange, opens in 240 s"],
    );
    check(
        without("2@60", 5, 8, (1, 10)),
        expect!["8 ReadyForNewScale DesiredWithinRange"],
    );
}

// TestCalculateScaleUpLimitWithScalingRules, TestScalingWithRules (up).
#[test]
fn policies_limit_growth() {
    let up = |up: &'static str| Case { up, ..NO_CASE };
    check(
        with(&up("Pods:4/60"), 1, 10),
        expect!["5 ReadyForNewScale ScaleUpLimit"],
    );
    // UPSTREAM: a tenth more than a hundred is a little more than 110 in binary, and rounds up.
    check(
        with(&up("Percent:10/60"), 100, 200),
        expect!["111 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        with(&up("Percent:10/60"), 1, 200),
        expect!["2 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        with(&up("Pods:4/60 Percent:100/60"), 10, 100),
        expect!["20 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        with(&up("select=Min Pods:4/60 Percent:100/60"), 10, 100),
        expect!["14 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        with(&up("select=Disabled Pods:4/60"), 10, 100),
        expect!["10 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        with(&up("select=Min Pods:2/60 Percent:50/60"), 1, 100),
        expect!["2 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        with(&up("Pods:2000/60"), 10, 2000),
        expect!["1000 ReadyForNewScale TooManyReplicas"],
    );
    let busy = Case {
        up: "Pods:4/60",
        ups: "3@30 9@61",
        ..NO_CASE
    };
    check(
        with(&busy, 10, 100),
        expect!["11 ReadyForNewScale ScaleUpLimit"],
    );
    let full = Case {
        up: "Pods:4/60",
        ups: "9@30",
        ..NO_CASE
    };
    check(
        with(&full, 10, 100),
        expect!["10 ReadyForNewScale ScaleUpLimit"],
    );
    let both = Case {
        up: "Pods:4/60",
        ups: "3@30",
        downs: "2@10",
        ..NO_CASE
    };
    check(
        with(&both, 10, 100),
        expect!["13 ReadyForNewScale ScaleUpLimit"],
    );
    check(
        with(&up("Percent:2147483647/60"), 100, 999),
        expect!["999 ReadyForNewScale DesiredWithinRange"],
    );
}

// TestCalculateScaleDownLimitWithBehaviors, TestScalingWithRules (down).
#[test]
fn policies_limit_shrinking() {
    let down = |down: &'static str| Case { down, ..NO_CASE };
    check(
        with(&down("window=0 Pods:5/60"), 100, 10),
        expect!["95 ReadyForNewScale ScaleDownLimit"],
    );
    check(
        with(&down("window=0 Percent:20/60"), 5, 1),
        expect!["4 ReadyForNewScale ScaleDownLimit"],
    );
    check(
        with(&down("window=0 Percent:100/60"), 5, 0),
        expect!["1 ReadyForNewScale TooFewReplicas"],
    );
    check(
        with(&down("window=0 Pods:5/60 Percent:50/60"), 100, 10),
        expect!["50 ReadyForNewScale ScaleDownLimit"],
    );
    check(
        with(
            &down("window=0 select=Min Pods:5/60 Percent:50/60"),
            100,
            10,
        ),
        expect!["95 ReadyForNewScale ScaleDownLimit"],
    );
    check(
        with(&down("window=0 select=Min Pods:2/60 Percent:50/60"), 5, 1),
        expect!["3 ReadyForNewScale ScaleDownLimit"],
    );
    check(
        with(&down("window=0 select=Disabled Pods:5/60"), 100, 10),
        expect!["100 ReadyForNewScale ScaleDownLimit"],
    );
    let busy = Case {
        down: "window=0 Pods:5/60",
        downs: "4@30 50@61",
        ..NO_CASE
    };
    check(
        with(&busy, 100, 10),
        expect!["99 ReadyForNewScale ScaleDownLimit"],
    );
    check(
        with(&down("window=0 Percent:200/60"), 100, 2),
        expect!["2 ReadyForNewScale DesiredWithinRange"],
    );
}

// TestNormalizeDesiredReplicasWithBehavior.
#[test]
fn windows_hold_in_both_directions() {
    let case = |up: &'static str, down: &'static str, proposals: &'static str| Case {
        up,
        down,
        proposals,
        ..NO_CASE
    };
    check(
        with(&case("window=60 Pods:100/15", "", "6@30"), 5, 20),
        expect!["6 ScaleUpStabilized DesiredWithinRange, opens in 30 s"],
    );
    check(
        with(&case("window=60 Pods:100/15", "", "6@61"), 5, 20),
        expect!["20 ReadyForNewScale DesiredWithinRange"],
    );
    check(
        with(&case("window=60 Pods:100/15", "", "3@30"), 5, 20),
        expect!["5 ScaleUpStabilized DesiredWithinRange, opens in 30 s"],
    );
    check(
        with(&case("", "window=60 Percent:100/15", "9@30"), 10, 2),
        expect!["9 ScaleDownStabilized DesiredWithinRange, opens in 30 s"],
    );
    check(
        with(&case("", "window=60 Percent:100/15", "12@30"), 10, 2),
        expect!["10 ScaleDownStabilized DesiredWithinRange, opens in 30 s"],
    );
    // Without a window of its own that of the flag holds.
    check(
        with(&case("", "Percent:100/15", "9@200"), 10, 2),
        expect!["9 ScaleDownStabilized DesiredWithinRange, opens in 100 s"],
    );
}

#[test]
fn what_there_was_counts_as_proposed_once() {
    let mut memory = Memory::default();
    memory.begin(5, ago(10));
    memory.begin(9, now());
    assert_eq!(memory.proposals, past("5@10"));
}

#[test]
fn memory_stays_bounded() {
    let mut memory = Memory::default();
    let behavior = Behavior::default();
    for step in 0..10_000_u64 {
        let at = now().plus(Duration::from_secs(15 * step));
        let bounds = Bounds {
            least: 1,
            most: 100,
            current: 5,
            downscale_window: Duration::from_secs(300),
        };
        memory.normalize(Some(&behavior), (step % 7) as i32, bounds, at);
        memory.note_change(Some(&behavior), 5, 5 + (step % 3) as i32, at);
    }
    let Memory {
        proposals,
        ups,
        downs,
    } = memory;
    assert!(proposals.len() < 30 && ups.len() < 10 && downs.len() < 10);
}

/// How far it goes now, and after how many seconds its policies let it go on.
fn goes_on(case: &Case<'_>, from: i32, proposed: i32) -> (i32, Option<u64>) {
    let behavior = Behavior {
        scale_up: (!case.up.is_empty()).then(|| rules(case.up)),
        scale_down: (!case.down.is_empty()).then(|| rules(case.down)),
    };
    let mut memory = Memory {
        proposals: past(case.proposals),
        ups: past(case.ups),
        downs: past(case.downs),
    };
    let bounds = Bounds {
        least: 1,
        most: 1000,
        current: from,
        downscale_window: Duration::ZERO,
    };
    let done = memory.normalize(Some(&behavior), proposed, bounds, now());
    let next_at = done.next_at.map(|at| at.since(now()).as_secs());
    (done.replicas, next_at)
}

#[test]
fn policies_say_when_they_let_it_go_on() {
    let up = Case {
        up: "Pods:4/60",
        ..NO_CASE
    };
    assert_eq!(goes_on(&up, 1, 100), (5, Some(60)), "after this step");
    assert_eq!(goes_on(&up, 1, 3), (3, None), "it is not held");
    let grown = Case { ups: "4@20", ..up };
    assert_eq!(goes_on(&grown, 5, 100), (5, Some(40)), "after the last one");
    // The one whose period is over first lets it go on, or the one that allows least.
    let policies = |select| Case {
        up: select,
        ups: "4@20",
        ..NO_CASE
    };
    let either = policies("Pods:4/60 Pods:4/30");
    assert_eq!(goes_on(&either, 5, 100), (5, Some(10)));
    let both = policies("select=Min Pods:4/60 Pods:4/30");
    assert_eq!(goes_on(&both, 5, 100), (5, Some(40)));
    let down = Case {
        down: "Pods:2/60",
        downs: "2@50",
        ..NO_CASE
    };
    assert_eq!(goes_on(&down, 8, 1), (8, Some(10)));
    let off = Case {
        down: "select=Disabled",
        ..NO_CASE
    };
    assert_eq!(goes_on(&off, 8, 1), (8, None), "nothing ever does");
}
