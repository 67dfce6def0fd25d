//! Migrations of stored objects.

use super::check_verdict;
use expect_test::expect;

const MIGRATION: &str = "
kind: StorageVersionMigration
metadata: {name: m, uid: m}
spec: {resource: {group: example.com, resource: widgets}}";

#[test]
fn a_migration_says_how_far_it_is() {
    check_verdict(
        MIGRATION,
        expect![
            "has not begun, and no controller of this manager says why: storage-version-migrator-controller needs the gate StorageVersionMigrator"
        ],
    );
    let of = |kind: &str, message: &str| {
        format!(
            "{MIGRATION}
status: {{conditions: [{{type: {kind}, status: 'True', message: '{message}', lastTransitionTime: '2026-01-01T11:50:00Z'}}]}}"
        )
    };
    check_verdict(&of("Running", ""), expect!["has been running for 10m"]);
    check_verdict(
        &of("Succeeded", ""),
        expect!["all widgets.example.com were written again"],
    );
    check_verdict(
        &of("Failed", "resource does not exist"),
        expect![[r#"
        has failed: resource does not exist
        kubectl delete storageversionmigration/m"#]],
    );
}

#[test]
fn a_migration_that_is_stuck_says_what_it_waits_for() {
    let waits = |reason: &str, what: &str, why: &str| {
        format!(
            "{MIGRATION}
---
controller: storage-version-migrator-controller
object: {{group: storagemigration.k8s.io, kind: StorageVersionMigration, name: m, uid: m}}
lines: [{{class: waits, reason: {reason}, what: {what}, why: {why}}}]"
        )
    };
    check_verdict(
        &waits(
            "NotServed",
            "waits for widgets.example.com",
            "the API server does not serve it",
        ),
        expect![[r#"
            waits for widgets.example.com: the API server does not serve it
            kubectl describe storageversionmigration/m"#]],
    );
    check_verdict(
        &waits(
            "AwaitsTurn",
            "waits for another migration",
            "migration n of the same resource runs",
        ),
        expect!["waits for another migration: migration n of the same resource runs"],
    );
}
