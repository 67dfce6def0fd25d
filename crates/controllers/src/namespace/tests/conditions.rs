//! The five conditions. Upstream: TestUpdateConditions, TestProcessContentTotals.

use super::super::conditions::{Findings, update_conditions};
use api::conditions::ConditionStatus;
use api::{Condition, Time};
use expect_test::{Expect, expect};

fn text(conditions: &[Condition]) -> String {
    let line = |condition: &Condition| {
        format!(
            "{}={:?} {}: {} @{}",
            condition.type_,
            condition.status,
            condition.reason,
            condition.message,
            condition.last_transition_time.unwrap_or_default().unix()
        )
    };
    conditions.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(findings: &Findings, expected: Expect) {
    let mut conditions = Vec::new();
    assert!(update_conditions(
        &mut conditions,
        findings,
        Time::from_unix(1)
    ));
    expected.assert_eq(&text(&conditions));
    let again = update_conditions(&mut conditions, findings, Time::from_unix(2));
    assert!(!again, "the same findings change nothing");
}

fn some() -> Findings {
    Findings {
        remaining: [("pods.".into(), 2), ("xs.a.io".into(), 1)].into(),
        finalizers: [("b/f".into(), 3), ("a/f".into(), 1)].into(),
        content_failures: vec!["z".into(), "a".into()],
        discovery_failure: Some("no".into()),
        ..Findings::default()
    }
}

#[test]
fn all_is_well() {
    check(
        &Findings::default(),
        expect![[r#"
            NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered @1
            NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed @1
            NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization @1
            NamespaceContentRemaining=False ContentRemoved: All content successfully removed @1
            NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers finished @1"#]],
    );
}

#[test]
fn everything_is_named_in_a_stable_order() {
    check(
        &some(),
        expect![[r#"
            NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: no @1
            NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed @1
            NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: a, z @1
            NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: pods. has 2 resource instances, xs.a.io has 1 resource instances @1
            NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: a/f in 1 resource instances, b/f in 3 resource instances @1"#]],
    );
}

#[test]
fn times_change_with_the_status_alone() {
    let mut conditions = Vec::new();
    update_conditions(&mut conditions, &some(), Time::from_unix(1));
    let mut fewer = some();
    fewer.remaining.insert("pods.".into(), 1);
    fewer.discovery_failure = None;
    assert!(update_conditions(
        &mut conditions,
        &fewer,
        Time::from_unix(9)
    ));
    let times: Vec<i64> = conditions
        .iter()
        .map(|held| held.last_transition_time.unwrap().unix())
        .collect();
    assert_eq!(times, [9, 1, 1, 1, 1]);
}

// Upstream: TestUpdateConditions, TestProcessContentTotals.
#[test]
fn each_condition_keeps_its_place_and_strangers_stay() {
    let check = |held: &[(&str, bool)], findings: &Findings, expected: &str| {
        let now = Time::from_unix(1);
        let held = held.iter().map(|(type_, is_true)| {
            let status = match is_true {
                true => ConditionStatus::True,
                false => ConditionStatus::False,
            };
            Condition::new(type_, status, "r", "m", now)
        });
        let mut conditions: Vec<Condition> = held.collect();
        assert!(update_conditions(&mut conditions, findings, now));
        let short = |held: &Condition| {
            let type_ = held.type_.trim_start_matches("Namespace");
            let mark = if held.is_true() { "!" } else { "" };
            format!("{}{mark}", type_.trim_start_matches("Deletion"))
        };
        let told: Vec<String> = conditions.iter().map(short).collect();
        assert_eq!(told.join(" "), expected);
    };
    let (discovery, parsing) = (
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
    );
    let well = Findings::default();
    check(
        &[("Unknown", true)],
        &well,
        "Unknown! DiscoveryFailure GroupVersionParsingFailure ContentFailure ContentRemaining FinalizersRemaining",
    );
    check(
        &[(discovery, true)],
        &well,
        "DiscoveryFailure GroupVersionParsingFailure ContentFailure ContentRemaining FinalizersRemaining",
    );
    check(
        &[(parsing, true), (discovery, true)],
        &well,
        "GroupVersionParsingFailure DiscoveryFailure ContentFailure ContentRemaining FinalizersRemaining",
    );
    let failed = Findings {
        discovery_failure: Some("no".into()),
        ..Findings::default()
    };
    check(
        &[(parsing, false), (discovery, false)],
        &failed,
        "GroupVersionParsingFailure DiscoveryFailure! ContentFailure ContentRemaining FinalizersRemaining",
    );
    check(
        &[(parsing, true)],
        &failed,
        "GroupVersionParsingFailure DiscoveryFailure! ContentFailure ContentRemaining FinalizersRemaining",
    );
    let remaining = Findings {
        remaining: some().remaining,
        ..Findings::default()
    };
    check(
        &[],
        &remaining,
        "DiscoveryFailure GroupVersionParsingFailure ContentFailure ContentRemaining! FinalizersRemaining",
    );
    let finalizers = Findings {
        finalizers: some().finalizers,
        ..Findings::default()
    };
    check(
        &[],
        &finalizers,
        "DiscoveryFailure GroupVersionParsingFailure ContentFailure ContentRemaining FinalizersRemaining!",
    );
}

#[test]
fn an_operator_reads_what_holds_it() {
    let mut findings = some();
    findings.estimate_seconds = 15;
    expect![[r#"
        waits until all pods are gone: 2 are left
        waits until all xs.a.io are gone: 1 is left
        waits for 1 object with finalizer a/f
        waits for 3 objects with finalizer b/f
        checks again in at most 15 s: deletion may take that long
        could not delete everything: [no, z, a]"#]]
    .assert_eq(&in_words(&findings));
    assert_eq!(
        in_words(&Findings::default()),
        "removes its finalizer: it is empty"
    );
}

fn in_words(findings: &Findings) -> String {
    let lines: Vec<String> = findings.lines().iter().map(ToString::to_string).collect();
    lines.join("\n")
}
