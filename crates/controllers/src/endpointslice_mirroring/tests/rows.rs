//! Upstream's tables, row by row. Upstream: TestReconcile, TestRecycleSlices, TestShouldMirror, TestNewEndpointSlice.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::plan::{Snapshot, plan};
use super::plan::{snapshot, with_slice};

/// `+` creates, `~` updates, `-` deletes, `=` slices there are in the end, and changes of endpoints: added, changed,
/// removed, skipped; how many there are.
fn counts(snapshot: &Snapshot<'_>) -> String {
    let plan = plan(snapshot);
    let counts = plan.counts;
    format!(
        "+{} ~{} -{} ={}/{} {}+ {}~ {}- {}! {}",
        plan.create.len(),
        plan.update.len(),
        plan.delete.len(),
        counts.slices,
        counts.ideal_slices,
        counts.added,
        counts.updated,
        counts.removed,
        counts.skipped,
        counts.endpoints
    )
}

#[track_caller]
fn check(want: &str, patch: Value, expected: &str) {
    assert_eq!(counts(&snapshot(want, patch)), expected);
}

/// With a slice of this, which has `patch`.
#[track_caller]
fn check_held(want: &str, own: Value, have: &str, patch: Value, expected: &str) {
    let case = with_slice(snapshot(want, own), "s", have, patch);
    assert_eq!(counts(&case), expected);
}

// Upstream: TestReconcile, without slices.
#[test]
fn subsets_become_slices() {
    let none = || json!({});
    for (want, expected) in [
        ("", "+0 ~0 -0 =0/0 0+ 0~ 0- 0! 0"),
        ("@80", "+0 ~0 -0 =0/0 0+ 0~ 0- 0! 0"),
        ("10.0.0.1 @80", "+1 ~0 -0 =1/1 1+ 0~ 0- 0! 1"),
        (
            "10.0.0.1 @80 | 10.0.0.2 @443",
            "+2 ~0 -0 =2/2 2+ 0~ 0- 0! 2",
        ),
        (
            "10.0.0.1 @80 | 10.0.0.1 @443",
            "+1 ~0 -0 =1/1 1+ 0~ 0- 0! 1",
        ),
        ("10.0.0.1 @80 | 10.0.0.2 @80", "+1 ~0 -0 =1/1 2+ 0~ 0- 0! 2"),
        ("10.0.0.1 10.0.0.2 @80,443", "+1 ~0 -0 =1/1 2+ 0~ 0- 0! 2"),
        ("-10.0.0.1 -10.0.0.2 @80,443", "+1 ~0 -0 =1/1 2+ 0~ 0- 0! 2"),
        (
            "10.1.1.1 10.1.1.2 -10.0.0.1 -10.0.0.2 @80,443",
            "+1 ~0 -0 =1/1 4+ 0~ 0- 0! 4",
        ),
        (
            "10.0.0.1 10.0.0.2 @80,443 | 10.0.1.1 10.0.1.2 10.0.1.3 @3000,3001",
            "+2 ~0 -0 =2/2 5+ 0~ 0- 0! 5",
        ),
        (
            "2001:db8::7 10.0.0.2 @80,443 | 10.0.1.1 10.0.1.2 2001:db8::8 @3000,3001",
            "+4 ~0 -0 =4/4 5+ 0~ 0- 0! 5",
        ),
        (
            "2001:db8::1 2001:db8::2 @80,443 | 2001:db8::3 2001:db8::4 2001:db8::5 @3000,3001",
            "+2 ~0 -0 =2/2 5+ 0~ 0- 0! 5",
        ),
        (
            "2001:db8::1 no-ip @80,443 | also-no-ip 2001:db8::4 2001:db8::5 @3000,3001",
            "+2 ~0 -0 =2/2 3+ 0~ 0- 2! 3",
        ),
        (
            "no-ip1 no-ip2 @80,443 | no-ip3 no-ip4 no-ip5 @3000,3001",
            "+0 ~0 -0 =0/0 0+ 0~ 0- 5! 0",
        ),
    ] {
        check(want, none(), expected);
    }
    let mut cut = snapshot(
        "10.0.0.1 10.0.0.2 @80,443 | 10.0.1.1 10.0.1.2 10.0.1.3 @3000,3001",
        none(),
    );
    cut.max_addresses = 2;
    assert_eq!(counts(&cut), "+2 ~0 -0 =2/2 4+ 0~ 0- 1! 4");
    let going = json!({"deletionTimestamp": "2024-01-01T00:00:00Z"});
    let deleted = plan(&snapshot("10.0.0.1 @80", going)).create.len();
    assert_eq!(deleted, 0);
}

// Upstream: TestReconcile, with slices.
#[test]
fn slices_that_are_there_are_kept_or_written() {
    let (none, bar) = (|| json!({}), || json!({"foo": "bar"}));
    let (one, same) = ("10.0.0.1 @80", "+0 ~0 -0 =1/1 0+ 0~ 0- 0! 1");
    let written = "+0 ~1 -0 =1/1 0+ 0~ 0- 0! 1";
    check_held(one, none(), one, none(), same);
    let of_namesake =
        json!([{"apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "u0"}]);
    for (own, patch) in [
        (none(), json!({"ownerReferences": of_namesake})),
        (none(), json!({"annotations": bar()})),
        (json!({"labels": bar()}), json!({"annotations": bar()})),
        (none(), json!({"annotations": {LAST_APPLIED: "{}"}})),
    ] {
        check_held(one, own, one, patch, written);
    }
    let two = "10.0.0.1 10.0.0.2 @80,443 | 10.0.1.1 10.0.1.2 10.0.1.3 @3000,3001";
    check_held(
        two,
        none(),
        "10.0.0.1 10.0.0.2 @80,443",
        none(),
        "+1 ~0 -0 =2/2 3+ 0~ 0- 0! 5",
    );
    let mut empty = with_slice(snapshot(two, none()), "s", "10.0.0.1 @80,443", none());
    Arc::make_mut(&mut empty.slices[0]).endpoints = Default::default();
    assert_eq!(counts(&empty), "+1 ~1 -0 =2/2 5+ 0~ 0- 0! 5");
    // One address stays and another one goes.
    check_held(
        two,
        none(),
        "-10.0.0.2 10.0.0.3 @80,443",
        none(),
        "+1 ~1 -0 =2/2 4+ 1~ 1- 0! 5",
    );
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

// Upstream: TestReconcile (annotations), TestNewEndpointSlice.
#[test]
fn labels_and_annotations_are_mirrored_but_for_two() {
    let ours = "endpointslice.kubernetes.io/managed-by=endpointslicemirroring-controller.k8s.io,kubernetes.io/service-name=web";
    for (patch, labels, annotations) in [
        (json!({}), "", ""),
        (json!({"annotations": {LAST_APPLIED: "{}"}}), "", ""),
        (json!({"annotations": {LAST_APPLIED: ""}}), "", ""),
        (
            json!({"annotations": {LAST_APPLIED: "{}", "foo": "bar"}}),
            "",
            "foo=bar",
        ),
        (json!({"annotations": {"foo": "bar"}}), "", "foo=bar"),
        (json!({"labels": {"foo": "bar"}}), "foo=bar", ""),
        (
            json!({"labels": {"foo": "bar"}, "annotations": {
                "foo2": "bar2", "endpoints.kubernetes.io/last-change-trigger-time": "date",
            }}),
            "foo=bar",
            "foo2=bar2",
        ),
    ] {
        let snapshot = snapshot("10.0.0.1 @80", patch);
        let plan = plan(&snapshot);
        let own = match labels {
            "" => String::new(),
            labels => format!(",{labels}"),
        };
        // Sorted by their names.
        let mut expected: Vec<String> = format!("{ours}{own}")
            .split(',')
            .map(str::to_owned)
            .collect();
        expected.sort();
        assert_eq!(plan.labels.to_string(), expected.join(","));
        assert_eq!(plan.annotations.to_string(), annotations);
    }
}

// Upstream: TestRecycleSlices.
#[test]
fn what_is_created_takes_the_place_of_what_is_deleted() {
    let after = |want: &str, held: &[&str]| {
        let names = ["a", "b", "c"].iter();
        let case = names
            .zip(held)
            .fold(snapshot(want, json!({})), |case, (name, text)| {
                with_slice(case, name, text, json!({}))
            });
        let plan = plan(&case);
        (plan.create.len(), plan.update.len(), plan.delete.len())
    };
    let (v4, v6) = ("10.2.3.4 @1", "2001:db8::2 @1");
    assert_eq!(after("", &[]), (0, 0, 0));
    assert_eq!(after("10.1.2.3 @80", &[v4]), (0, 1, 0));
    let with_update = "10.1.2.3 @80 | 10.2.3.4 10.9.9.9 @81";
    assert_eq!(after(with_update, &[v4, "10.2.3.4 @81"]), (0, 2, 0));
    assert_eq!(after("10.1.2.3 @80 | 10.3.4.5 @81", &[v4]), (1, 1, 0));
    assert_eq!(after("10.1.2.3 @80", &[v4, "10.3.4.5 @2"]), (0, 1, 1));
    assert_eq!(after("10.1.2.3 2001:db8::1 @80", &[v4, v6]), (0, 2, 0));
    assert_eq!(after("10.1.2.3 @80", &[v6]), (1, 0, 1));
}
