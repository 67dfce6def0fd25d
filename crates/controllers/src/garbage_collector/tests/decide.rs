//! What happens to an object whose owners are in some state.

use super::super::decide::{Action, OwnerState, decide, decide_deleting};
use super::super::graph::Graph;
use super::*;
use api::Uid;
use expect_test::{Expect, expect};

/// Objects, then the one to decide about and the states of its owners (`s`olid, `d`angling,
/// `w`aiting).
fn check(objects: &[&str], states: &str, expected: Expect) {
    let mut graph = Graph::default();
    observe(&mut graph, objects);
    let latest = meta(objects.last().unwrap());
    let item = graph.item(&latest.uid).unwrap();
    let owners: Vec<_> = latest
        .owners
        .iter()
        .cloned()
        .zip(states.chars().map(|state| match state {
            's' => OwnerState::Solid,
            'd' => OwnerState::Dangling,
            'w' => OwnerState::Waiting,
            _ => panic!("{state}"),
        }))
        .collect();
    let (action, reason) =
        decide_deleting(&item).unwrap_or_else(|| decide(&item, &latest, &owners));
    expected.assert_eq(&format!(
        "{action:?}: {}",
        api::decision::Line::from(&reason)
    ));
}

// Upstream: TestAttemptToDeleteItem.
#[test]
fn what_is_deleted() {
    check(
        &["ns/a <o"],
        "d",
        expect![
            "Delete { propagation: Background, unblock: false }: deletes it: its owners are gone: Thing o"
        ],
    );
    check(
        &["ns/a <o <p"],
        "dd",
        expect![
            "Delete { propagation: Background, unblock: false }: deletes it: its owners are gone: Thing o, Thing p"
        ],
    );
    check(
        &["ns/a <o +orphan"],
        "d",
        expect![
            "Delete { propagation: Orphan, unblock: false }: deletes it: its owners are gone: Thing o"
        ],
    );
    check(
        &["ns/a <o +foregroundDeletion"],
        "d",
        expect![
            "Delete { propagation: Foreground, unblock: false }: deletes it: its owners are gone: Thing o"
        ],
    );
}

#[test]
fn what_is_kept() {
    check(&["ns/a"], "", expect!["Nothing: is kept: it has no owner"]);
    check(
        &["ns/a <o"],
        "s",
        expect!["Nothing: is kept: all its owners exist"],
    );
    check(
        &["ns/a <o deleting"],
        "d",
        expect!["Nothing: is being deleted already"],
    );
    check(
        &["ns/a <o <p <q"],
        "dsw",
        expect![
            "RemoveReferences([o, q]): removes 2 owner references: their owners are gone or being deleted, and p still exists"
        ],
    );
}

#[test]
fn foreground_deletion_marks_dependents_down_the_tree() {
    check(
        &["ns/leaf <o"],
        "w",
        expect![
            "Delete { propagation: Background, unblock: false }: deletes it: Thing o is deleted in the foreground and waits for it"
        ],
    );
    check(
        &["ns/leaf <middle", "ns/middle <o"],
        "w",
        expect![
            "Delete { propagation: Foreground, unblock: false }: deletes it: Thing o is deleted in the foreground and waits for it"
        ],
    );
    check(
        &[
            "ns/o <middle! deleting +foregroundDeletion",
            "ns/middle <o!",
        ],
        "w",
        expect![
            "Delete { propagation: Foreground, unblock: true }: deletes it: Thing o is deleted in the foreground and waits for it; its own references stop blocking, as they form a cycle"
        ],
    );
}

#[test]
fn foreground_deletion_finishes_from_the_leaves_up() {
    check(
        &[
            "ns/a <o!",
            "ns/b <o!",
            "ns/c <o",
            "ns/o deleting +foregroundDeletion",
        ],
        "",
        expect!["DeleteFirst([a, b]): waits for 2 dependents: they block the deletion"],
    );
    check(
        &["ns/c <o", "ns/o deleting +foregroundDeletion"],
        "",
        expect![
            "RemoveForegroundFinalizer: removes the finalizer: no dependent blocks its deletion any more"
        ],
    );
    check(
        &[
            "ns/a <o! deleting +foregroundDeletion",
            "ns/o deleting +foregroundDeletion",
        ],
        "",
        expect!["DeleteFirst([]): waits for 1 dependent: it blocks the deletion"],
    );
}

/// The promise of the whole thing: with a solid owner nothing is ever deleted.
#[test]
fn a_living_owner_always_saves() {
    let states = [OwnerState::Solid, OwnerState::Dangling, OwnerState::Waiting];
    let mut graph = Graph::default();
    observe(&mut graph, &["ns/d <a", "ns/a <x <y <z"]);
    let item = graph.item(&Uid::from("a")).unwrap();
    let latest = meta("ns/a <x <y <z +foregroundDeletion");
    for code in 0..27_usize {
        let picks = [code % 3, code / 3 % 3, code / 9];
        let owners: Vec<_> = latest
            .owners
            .iter()
            .cloned()
            .zip(picks.map(|pick| states[pick]))
            .collect();
        let (action, _) = decide(&item, &latest, &owners);
        let saved = picks.contains(&0);
        assert_eq!(matches!(action, Action::Delete { .. }), !saved, "{picks:?}");
    }
}
