//! The debug picture. Upstream: TestToDOTGraph, TestToDOTGraphObj, TestMarshalDOT.

use super::super::graph::Graph;
use super::*;
use api::Uid;
use expect_test::expect;

fn uids(dot: &str) -> Vec<&str> {
    dot.lines()
        .filter(|line| line.ends_with(" ["))
        .map(|line| line.trim().trim_end_matches(" [").trim_matches('"'))
        .collect()
}

#[test]
fn the_whole_graph_without_loners() {
    let mut graph = Graph::default();
    observe(&mut graph, &["ns/a <b!", "ns/b deleting", "ns/alone"]);
    expect![[r#"
        strict digraph full {
          // Node definitions.
          "a" [
            label="uid=a\nnamespace=ns\nThing.v1/a\n"
            group=""
            version="v1"
            kind="Thing"
            namespace="ns"
            name="a"
            uid="a"
            missing="false"
            beingDeleted="false"
            deletingDependents="false"
            virtual="false"
          ];
          "b" [
            label="uid=b\nnamespace=ns\nThing.v1/b\nbeingDeleted\n"
            group=""
            version="v1"
            kind="Thing"
            namespace="ns"
            name="b"
            uid="b"
            missing="false"
            beingDeleted="true"
            deletingDependents="false"
            virtual="false"
          ];
          // Edge definitions.
          "a" -> "b";
        }
    "#]]
    .assert_eq(&graph.to_dot(&[]));
    assert_eq!(Graph::default().to_dot(&[]), "strict digraph full {\n}\n");
}

#[test]
fn what_hangs_together_with_an_object() {
    let mut graph = Graph::default();
    observe(&mut graph, &["ns/a <b", "ns/b", "ns/c <b", "ns/x <y"]);
    let of = |uid: &str| graph.to_dot(&[Uid::from(uid)]);
    assert_eq!(uids(&of("a")), ["a", "b", "c"]);
    assert_eq!(uids(&of("x")), ["x", "y"]);
    assert!(of("y").contains(r#"virtual="true""#));
    assert!(uids(&of("nobody")).is_empty());
}

#[test]
fn names_are_quoted() {
    let mut graph = Graph::default();
    observe(&mut graph, &["ns/a\"\\ñ <b"]);
    assert!(graph.to_dot(&[]).contains(r#"  "a\"\\ñ" -> "b";"#));
}
