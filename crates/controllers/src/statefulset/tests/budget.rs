//! How many pods an update may take at once (`maxUnavailable`).

use expect_test::{Expect, expect};

use super::super::plan::{max_unavailable, plan};
use super::plan::{step, text};
use super::*;

fn check_budget(text_: &str, expected: Expect) {
    expected.assert_eq(&text(&snapshot(text_, with_max_unavailable(), false)));
}

// Upstream: TestStatefulSetControlRollingUpdateWithMaxUnavailable.
#[test]
fn a_budget_lets_several_be_updated_at_once() {
    let four = "0:ready,rev=old 1:ready,rev=old 2:ready,rev=old 3:ready,rev=old";
    check_budget(
        &format!("replicas=4 max=2 | {four}"),
        expect![[r#"
            update: delete web-3; delete web-2
            - acts: deletes web-3: its revision is old, and new is wanted
            - acts: deletes web-2: its revision is old, and new is wanted"#]],
    );
    check_budget(
        &format!("replicas=4 max=60% | {four}"),
        expect![[r#"
            update: delete web-3; delete web-2
            - acts: deletes web-3: its revision is old, and new is wanted
            - acts: deletes web-2: its revision is old, and new is wanted"#]],
    );
    check_budget(
        &format!("replicas=4 max=10% | {four}"),
        expect![[r#"
            update: delete web-3
            - acts: deletes web-3: its revision is old, and new is wanted"#]],
    );
    check_budget(
        &format!("replicas=4 max=2 partition=3 | {four}"),
        expect![[r#"
            update: delete web-3
            - acts: deletes web-3: its revision is old, and new is wanted
            - states: keeps 3 outdated pods: the partition lets ordinals from 3 on be updated"#]],
    );
    check_budget(
        "replicas=4 max=2 | 0:ready,rev=old 1:ready,rev=old",
        expect![[r#"
            create 2 at new
            - acts: creates web-2 of revision new: it is missing"#]],
    );
    check_budget(
        "replicas=4 max=2 | 0:ready,rev=old 1:ready,rev=old 2:running",
        expect![
            "- waits: waits until web-2 is running and ready: OrderedReady handles one pod after the other"
        ],
    );
    check_budget(
        "replicas=4 max=2 parallel | 0:running,rev=old 1:ready,rev=old 2:ready,rev=old 3:ready",
        expect![[r#"
            update: delete web-2
            - acts: deletes web-2: its revision is old, and new is wanted"#]],
    );
    check_budget(
        "replicas=4 max=2 parallel | 0:running,rev=old 1:ready,rev=old 2:ready,rev=old 3:running",
        expect![
            "- waits: waits to update more pods: 2 pods are unavailable, and maxUnavailable is 2"
        ],
    );
    let gate_off = text(&snapshot(
        &format!("replicas=4 max=2 | {four}"),
        Gates::default(),
        false,
    ));
    expect![[r#"
        update: delete web-3
        - acts: deletes web-3: its revision is old, and new is wanted"#]]
    .assert_eq(&gate_off);
    check_budget(
        "replicas=3 min=30 max=2 parallel | 0:ready,rev=old 1:ready,rev=old 2:ready,since=1",
        expect![[r#"
            update: delete web-1
            - acts: deletes web-1: its revision is old, and new is wanted"#]],
    );
}

// Upstream: TestGetStatefulSetMaxUnavailable.
#[test]
fn max_unavailable_rounds_down_but_never_to_nothing() {
    let most = |text: &str| max_unavailable(&set(text));
    assert_eq!(most("replicas=10"), 1);
    assert_eq!(most("replicas=10 max=3"), 3);
    assert_eq!(most("replicas=10 max=25%"), 2);
    assert_eq!(most("replicas=10 max=5%"), 1);
    assert_eq!(most("replicas=10 max=100%"), 10);
    assert_eq!(most("replicas=10 max=nonsense"), 1);
    assert_eq!(most("replicas=0 max=3"), 3);
    assert_eq!(most("replicas=0 max=0"), 1);
    assert_eq!(most("replicas=25 max=10%"), 2);
    assert_eq!(most("replicas=5 max=50%"), 2);
    assert_eq!(most("replicas=0 max=1%"), 1);
    assert_eq!(most("replicas=0 max=0%"), 1);
    assert_eq!(most("replicas=10 ondelete"), 1);
}

// Upstream: TestStatefulSetControlRollingUpdateWithMaxUnavailableInOrderedModeVerifyInvariant,
// TestStatefulSetControlRollingUpdateWithMaxUnavailable. Six pods of the old revision, two may be away, the lower three
// stay; some are on their way out already.
#[test]
fn pods_that_are_away_already_count_against_the_budget() {
    for (going, expected) in [
        ("", "5 4"),
        ("5", "4"),
        ("4", "5"),
        ("3", "5"),
        ("5 4", ""),
        ("5 3", ""),
        ("4 3", ""),
        ("5 4 3", ""),
        // Below the partition they count as well.
        ("2", "5"),
        ("1", "5"),
    ] {
        let pods: Vec<String> = (0..6)
            .map(|ordinal| {
                let gone = going.split(' ').any(|one| one == ordinal.to_string());
                let gone = if gone { ",gone" } else { "" };
                format!("{ordinal}:ready,rev=old{gone}")
            })
            .collect();
        let text = format!("replicas=6 max=2 partition=3 parallel | {}", pods.join(" "));
        let taken = plan(&snapshot(&text, with_max_unavailable(), false), now()).update;
        let taken: Vec<String> = taken
            .iter()
            .map(|taken| step(taken).replace("delete web-", ""))
            .collect();
        assert_eq!(taken.join(" "), expected, "{going:?} on their way");
    }
}
