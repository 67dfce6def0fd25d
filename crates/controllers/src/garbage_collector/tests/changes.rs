//! What a change enqueues.

use super::super::graph::{Graph, KnownOwner};
use super::super::identity::Identity;
use super::*;
use api::Uid;

fn graph(texts: &[&str]) -> Graph {
    let mut graph = Graph::default();
    observe(&mut graph, texts);
    graph
}

fn update(graph: &mut Graph, old: &str, new: &str) -> String {
    let kind = thing(graph);
    describe(&graph.observe(kind, Some(&meta(old)), &meta(new)))
}

fn identity(place: &str, kind: &str) -> Identity {
    let object = meta(place);
    Identity {
        kind: kind.into(),
        api_version: "v1".into(),
        namespace: object.namespace,
        name: object.name,
        uid: object.uid,
    }
}

fn called(graph: &Graph, uid: &str) -> String {
    graph
        .item(&Uid::from(uid))
        .map_or("gone".into(), |item| item.identity.to_string())
}

// Upstream: TestProcessEvent, TestDependentsRace.
#[test]
fn dependents_of_a_deleted_owner_are_looked_at() {
    let mut graph = graph(&["ns/rs", "ns/a <rs", "ns/b <rs", "ns/c"]);
    assert_eq!(gone(&mut graph, "ns/rs"), "delete a b");
    assert_eq!(graph.len(), 3);
    let owner = owner_ref("rs");
    assert_eq!(
        graph.known_owner(&owner, &Istr::new("ns")),
        KnownOwner::Absent
    );
    assert_eq!(
        graph.known_owner(&owner, &Istr::new("other")),
        KnownOwner::Unknown
    );
    assert_eq!(gone(&mut graph, "ns/c"), "");
    assert_eq!(gone(&mut graph, "ns/never-seen"), "");
}

#[test]
fn an_unobserved_owner_is_checked_once() {
    let mut graph = Graph::default();
    assert_eq!(observe(&mut graph, &["ns/a <rs"]), "delete rs");
    assert!(graph.item(&Uid::from("rs")).unwrap().is_virtual);
    assert_eq!(observe(&mut graph, &["ns/b <rs"]), "");
    assert_eq!(observe(&mut graph, &["ns/rs"]), "");
    let item = graph.item(&Uid::from("rs")).unwrap();
    assert!(!item.is_virtual);
    assert_eq!(item.dependents, 2, "those that came first count");
    assert_eq!(
        graph.known_owner(&owner_ref("rs"), &Istr::new("ns")),
        KnownOwner::Observed {
            deleting_dependents: false
        }
    );
}

#[test]
fn a_denied_owner_takes_its_dependents_along() {
    let mut graph = graph(&["ns/a <rs", "ns/b <rs"]);
    let to_enqueue = graph.denied(&identity("ns/rs", "Thing"));
    assert_eq!(describe(&to_enqueue), "delete a b");
    assert_eq!(called(&graph, "rs"), "gone");
    assert_eq!(describe(&graph.denied(&identity("ns/rs", "Thing"))), "");
}

// Upstream: TestConflictingData.
#[test]
fn dependents_that_disagree_about_their_owner_each_get_their_say() {
    let mut graph = graph(&["ns/a <o=Cat", "ns/b <o=Dog", "ns/c <o=Ape"]);
    assert_eq!(
        called(&graph, "o"),
        "[v1/Cat, namespace: ns, name: o, uid: o]"
    );
    let to_enqueue = graph.denied(&identity("ns/o", "Cat"));
    assert_eq!(describe(&to_enqueue), "delete a; later o");
    assert_eq!(
        called(&graph, "o"),
        "[v1/Dog, namespace: ns, name: o, uid: o]"
    );
    let to_enqueue = graph.denied(&identity("ns/o", "Dog"));
    assert_eq!(
        describe(&to_enqueue),
        "delete b; later o",
        "and round again"
    );
    assert_eq!(
        called(&graph, "o"),
        "[v1/Ape, namespace: ns, name: o, uid: o]"
    );
}

// Upstream: TestConflictingData.
// Upstream: TestGetAlternateOwnerIdentity.
#[test]
fn the_next_name_for_an_owner_is_the_next_in_order() {
    let check = |objects: &[&str], absent: (&str, &str), expected: &str| {
        let mut graph = graph(objects);
        let mut absent = identity(absent.0, absent.1);
        absent.uid = "o".into();
        graph.denied(&absent);
        assert_eq!(called(&graph, "o"), expected, "{objects:?}");
    };
    let ns = ["ns/a <o=Cat", "ns/b <o=Dog"];
    check(
        &ns,
        ("ns/o", "Cat"),
        "[v1/Dog, namespace: ns, name: o, uid: o]",
    );
    check(
        &["ns/a <o", "far/b <o"],
        ("ns/o", "Thing"),
        "[v1/Thing, namespace: far, name: o, uid: o]",
    );
    check(
        &["ns/a <o@x", "ns/b <o@y"],
        ("ns/x", "Thing"),
        "[v1/Thing, namespace: ns, name: y, uid: o]",
    );
    // After the last the first again; a reference that is not about this owner is passed over.
    check(
        &["ns/a <o=Dog", "ns/b <o=Ape <other=Bee"],
        ("ns/o", "Dog"),
        "[v1/Ape, namespace: ns, name: o, uid: o]",
    );
    // The kind was found to be cluster-scoped: the namespaces of dependents make no difference.
    check(&["a <o=Cat", "ns/b <o=Cat"], ("o", "Cat"), "gone");
    check(
        &["a <o=Cat@x", "ns/b <o=Cat@y"],
        ("x", "Cat"),
        "[v1/Cat, namespace: , name: y, uid: o]",
    );
    // Of another kind nobody knows that yet.
    check(
        &["a <o=Cat", "ns/b <o=Dog"],
        ("o", "Cat"),
        "[v1/Dog, namespace: ns, name: o, uid: o]",
    );
    // Said twice is said once.
    check(
        &["a <o=Cat <o=Dog <o=Dog"],
        ("o", "Cat"),
        "[v1/Dog, namespace: , name: o, uid: o]",
    );
    check(&["a <o=Cat <o=Cat"], ("o", "Cat"), "gone");
}

#[test]
fn a_wrong_name_for_a_living_owner_costs_just_the_one_who_uses_it() {
    let mut graph = graph(&["ns/o", "ns/good <o"]);
    assert_eq!(observe(&mut graph, &["ns/bad <o=Cat"]), "delete bad");
    let to_enqueue = graph.denied(&identity("ns/o", "Cat"));
    assert_eq!(describe(&to_enqueue), "delete bad");
    assert_eq!(
        called(&graph, "o"),
        "[v1/Thing, namespace: ns, name: o, uid: o]"
    );
    let known = |reference: &str| graph.known_owner(&owner_ref(reference), &Istr::new("ns"));
    assert_eq!(known("o=Cat"), KnownOwner::Absent);
    assert_eq!(
        known("o"),
        KnownOwner::Observed {
            deleting_dependents: false
        }
    );
}

// Upstream: TestConflictingData, the bad child before the good parent.
#[test]
fn an_owner_that_turns_out_otherwise_has_its_dependents_checked() {
    let mut graph = graph(&["ns/bad <o=Cat", "ns/good <o"]);
    assert_eq!(observe(&mut graph, &["ns/o"]), "delete bad");
    assert_eq!(
        called(&graph, "o"),
        "[v1/Thing, namespace: ns, name: o, uid: o]"
    );
}

#[test]
fn an_owner_in_another_namespace_is_warned_about() {
    let warning = "warn a [v1/Thing, namespace: one, name: o, uid: o]";
    let mut owner_first = graph(&["two/o"]);
    assert_eq!(
        observe(&mut owner_first, &["one/a <o"]),
        format!("delete a; {warning}")
    );
    let mut dependent_first = graph(&["one/a <o"]);
    assert_eq!(
        observe(&mut dependent_first, &["two/o"]),
        format!("delete a; {warning}")
    );
    let mut cluster_scoped = graph(&["o"]);
    assert_eq!(observe(&mut cluster_scoped, &["one/a <o"]), "");
}

#[test]
fn a_cluster_scoped_object_with_a_virtual_owner_makes_others_check() {
    let mut graph = graph(&["cluster <o"]);
    assert_eq!(observe(&mut graph, &["ns/a <o"]), "delete a");
}

#[test]
fn deletion_that_waits_is_worked_on_once() {
    let mut graph = graph(&["ns/o", "ns/a <o!", "ns/b <o"]);
    let foreground = "ns/o deleting +foregroundDeletion";
    assert_eq!(update(&mut graph, "ns/o", foreground), "delete a b o");
    assert_eq!(update(&mut graph, foreground, foreground), "");
    let item = graph.item(&Uid::from("o")).unwrap();
    assert!(item.deleting_dependents);
    assert_eq!(item.blocking, [(Uid::from("a"), false)]);
    assert_eq!(
        gone(&mut graph, "ns/a <o!"),
        "delete o",
        "the owner may go on"
    );

    observe(&mut graph, &["ns/p", "ns/c <p"]);
    let orphaning = "ns/p deleting +orphan";
    assert_eq!(update(&mut graph, "ns/p", orphaning), "orphan p");
    let first_seen = observe(&mut graph, &["ns/q deleting +foregroundDeletion"]);
    assert_eq!(
        first_seen, "delete q",
        "seen for the first time in that state"
    );
}

// Upstream: TestUnblockOwnerReference, TestReferencesDiffs.
#[test]
fn an_owner_is_enqueued_when_nothing_blocks_its_deletion() {
    let mut graph = graph(&["ns/o", "ns/p", "ns/a <o!"]);
    assert_eq!(update(&mut graph, "ns/a <o!", "ns/a <o"), "delete o");
    assert_eq!(update(&mut graph, "ns/a <o", "ns/a <o!"), "");
    assert_eq!(update(&mut graph, "ns/a <o!", "ns/a <p"), "delete o");
    assert_eq!(graph.dependents(&Uid::from("o")).len(), 0);
    assert_eq!(graph.dependents(&Uid::from("p")).len(), 1);
    assert_eq!(update(&mut graph, "ns/a <p", "ns/a <new"), "delete new");
}

#[test]
fn references_to_oneself_twice_and_in_circles_do_no_harm() {
    let mut graph = graph(&["ns/self <self!", "ns/twice <o <o", "ns/a <b!", "ns/b <a!"]);
    assert_eq!(graph.dependents(&Uid::from("o")).len(), 1);
    let foreground = "ns/self <self! deleting +foregroundDeletion";
    update(&mut graph, "ns/self <self!", foreground);
    let item = graph.item(&Uid::from("self")).unwrap();
    assert!(item.blocking.is_empty(), "nobody waits for itself");
    gone(&mut graph, "ns/self <self!");
    assert_eq!(called(&graph, "self"), "gone");
    assert_eq!(gone(&mut graph, "ns/a <b!"), "delete b");
    assert_eq!(gone(&mut graph, "ns/b <a!"), "");
    assert_eq!(graph.len(), 2);
}

#[test]
fn slots_are_used_again_without_mixing_objects_up() {
    let mut graph = graph(&["ns/o", "ns/a <o", "ns/b <o"]);
    gone(&mut graph, "ns/a <o");
    observe(&mut graph, &["ns/stranger"]);
    assert_eq!(gone(&mut graph, "ns/o"), "delete b");
}

#[test]
fn a_hundred_thousand_objects_take_less_than_200_bytes_each() {
    let mut graph = Graph::default();
    let kind = thing(&mut graph);
    for number in 0..100_000_u128 {
        let uid = Uid::from_random(number << 80);
        let owner = OwnerRef {
            uid: Uid::from_random((number / 100) << 80 | 1),
            ..owner_ref("o")
        };
        let object = Meta {
            uid,
            owners: api::meta::intern_owners(vec![owner]),
            ..Meta::default()
        };
        graph.observe(kind, None, &object);
    }
    assert_eq!(graph.len(), 101_000);
    let each = graph.heap_bytes() / graph.len();
    assert!(each <= 200, "{each} bytes an object");
}

mod random {
    //! Any order of events leaves a graph that says the same as the objects that are left.

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_graph_matches_what_is_there(steps in proptest::collection::vec((0..6_usize, 0..7_usize, any::<bool>()), 1..60)) {
            let mut graph = Graph::default();
            let kind = thing(&mut graph);
            let mut there: Vec<Option<Meta>> = vec![None; 6];
            for (object, owner, delete) in steps {
                if delete {
                    if let Some(last) = there[object].take() {
                        graph.gone(kind, &last);
                    }
                    continue;
                }
                // uids of deleted objects never come back; here they do, which is harder.
                let text = if owner < 6 { format!("ns/o{object} <o{owner}") } else { format!("ns/o{object}") };
                let new = meta(&text);
                graph.observe(kind, there[object].as_ref(), &new);
                there[object] = Some(new);
            }
            for object in there.iter().flatten() {
                let item = graph.item(&object.uid).unwrap();
                prop_assert!(!item.is_virtual);
                prop_assert_eq!(&item.owners, &object.owners);
            }
            for node in graph.nodes() {
                for dependent in graph.dependents(&node.uid) {
                    let dependent = there.iter().flatten().find(|held| held.uid == dependent.uid).unwrap();
                    prop_assert!(dependent.owners.iter().any(|owner| owner.uid == node.uid));
                }
            }
        }
    }
}

#[test]
fn an_object_of_a_restored_server_is_what_it_is_now() {
    let mut graph = graph(&["ns/o", "ns/a <o!"]);
    let foreground = "ns/o deleting +foregroundDeletion";
    assert_eq!(update(&mut graph, "ns/o", foreground), "delete a o");
    assert!(graph.item(&Uid::from("o")).unwrap().deleting_dependents);
    assert_eq!(update(&mut graph, foreground, "ns/o"), "");
    let item = graph.item(&Uid::from("o")).unwrap();
    assert!(!item.deleting_dependents && !item.being_deleted);
    // It was deleted at revision 5, and the server is back at 3, where it waits for its dependents.
    let at = |text: &str, revision: u64| Meta {
        resource_version: revision,
        ..meta(text)
    };
    let kind = thing(&mut graph);
    let to_enqueue = graph.observe(kind, Some(&at("ns/o deleting", 5)), &at(foreground, 3));
    assert_eq!(describe(&to_enqueue), "delete a o");
    assert!(graph.item(&Uid::from("o")).unwrap().deleting_dependents);
}

#[test]
fn a_relisted_object_may_have_lost_our_writes() {
    let mut graph = graph(&["ns/o", "ns/a <o", "ns/b <o", "ns/c <o <p", "ns/p", "ns/d"]);
    let again = |graph: &mut Graph, text: &str| {
        let kind = thing(graph);
        describe(&graph.review(kind, &meta(text)))
    };
    assert_eq!(again(&mut graph, "ns/a <o"), "", "its owner lives");
    assert_eq!(gone(&mut graph, "ns/o"), "delete a b c");
    for uid in ["a", "b"] {
        graph.note_deletion(&Uid::from(uid));
    }
    assert_eq!(again(&mut graph, "ns/a <o"), "delete a");
    let item = graph.item(&Uid::from("a")).unwrap();
    assert!(!item.being_deleted, "the server has forgotten that");
    assert_eq!(again(&mut graph, "ns/b <o deleting"), "", "as it should");
    assert_eq!(again(&mut graph, "ns/c <o <p"), "delete c");
    assert_eq!(again(&mut graph, "ns/d"), "");
    let foreground = "ns/p deleting +foregroundDeletion";
    assert_eq!(update(&mut graph, "ns/p", foreground), "delete c p");
    assert_eq!(again(&mut graph, foreground), "delete c p");
    let orphan = "ns/d deleting +orphan";
    assert_eq!(update(&mut graph, "ns/d", orphan), "orphan d");
    assert_eq!(again(&mut graph, orphan), "orphan d");
}

#[test]
fn an_owner_that_a_restored_server_has_again_is_not_absent() {
    let mut graph = graph(&["ns/o", "ns/a <o", "ns/b <o=Cat"]);
    graph.denied(&identity("ns/o", "Cat"));
    gone(&mut graph, "ns/o");
    let known =
        |graph: &Graph, reference: &str| graph.known_owner(&owner_ref(reference), &Istr::new("ns"));
    assert_eq!(known(&graph, "o"), KnownOwner::Absent);
    observe(&mut graph, &["ns/o"]);
    let alive = KnownOwner::Observed {
        deleting_dependents: false,
    };
    assert_eq!(known(&graph, "o"), alive);
    assert_eq!(known(&graph, "o=Cat"), KnownOwner::Absent, "never its name");
    // Of a cluster-scoped owner in whatever namespace it was asked for.
    observe(&mut graph, &["ns/c <wide"]);
    graph.denied(&identity("ns/wide", "Thing"));
    assert_eq!(known(&graph, "wide"), KnownOwner::Absent);
    observe(&mut graph, &["wide"]);
    assert_eq!(known(&graph, "wide"), alive);
}

/// It went, and its dependents stayed where they were; so they do when it is back.
#[test]
fn an_owner_that_reappears_has_its_dependents_again() {
    let mut graph = graph(&["ns/o", "ns/a <o!", "ns/b <o", "ns/c <p", "ns/p"]);
    assert_eq!(gone(&mut graph, "ns/o"), "delete a b");
    assert_eq!(gone(&mut graph, "ns/b"), "");
    assert_eq!(observe(&mut graph, &["ns/o"]), "");
    let foreground = "ns/o deleting +foregroundDeletion";
    assert_eq!(update(&mut graph, "ns/o", foreground), "delete a o");
    let blocking = graph.item(&Uid::from("o")).unwrap().blocking;
    assert_eq!(blocking, [(Uid::from("a"), false)], "it waits");
    assert_eq!(gone(&mut graph, "ns/o"), "delete a", "and is missed");
    // It comes back on its way out, after another that refers to it.
    assert_eq!(observe(&mut graph, &["ns/d <o"]), "delete o");
    assert_eq!(observe(&mut graph, &[foreground]), "delete a d o");
}

#[test]
fn a_dependent_that_is_seen_late_is_deleted_with_the_others() {
    let mut graph = graph(&["ns/o", "ns/a <o!"]);
    let foreground = "ns/o deleting +foregroundDeletion";
    assert_eq!(update(&mut graph, "ns/o", foreground), "delete a o");
    assert_eq!(observe(&mut graph, &["ns/late <o"]), "delete late");
    assert_eq!(update(&mut graph, "ns/b", "ns/b <o"), "delete b");
}
