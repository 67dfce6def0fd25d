use serde_json::{Value, json};

use super::*;
use crate::crd::CustomVersion;
use crate::fields::text;
use crate::kinds::{Registry, Verbs, built_in};

/// Objects of kube-apiserver 1.36 with the cells of its own tables.
#[test]
fn rows_are_those_of_upstream() {
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/tables.json")).unwrap();
    let registry = Registry::default();
    let mut found = Vec::new();
    for case in &corpus {
        let object = &case["object"];
        let kind = registry
            .kind(text(object, "apiVersion"), text(object, "kind"))
            .unwrap();
        let ours = cells(kind, object, text(object, "metadata.creationTimestamp"));
        let theirs = case["cells"].as_array().unwrap();
        assert!(
            ours.len() == theirs.len() || kind.kind == "IPAddress",
            "{}",
            kind.kind
        );
        for (column, (ours, theirs)) in columns(kind).iter().zip(ours.iter().zip(theirs)) {
            // What depends on when the row was printed.
            let timed =
                ["Age", "Last Seen", "First Seen", "Last Schedule"].contains(&column.name.as_str());
            if !timed && ours != theirs {
                found.push(format!(
                    "{} {}: ours {ours}, theirs {theirs}",
                    kind.kind, column.name
                ));
            }
        }
    }
    assert!(corpus.len() > 70);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_stored_kind_has_columns() {
    for kind in built_in().iter().filter(|kind| kind.verbs == Verbs::All) {
        assert!(
            LAYOUTS.contains_key(&(kind.api_version().to_owned(), kind.kind.to_string())),
            "{}",
            kind.kind
        );
    }
    let words = include_str!("columns.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').count() - 2);
    assert_eq!(
        words.sum::<usize>(),
        LAYOUTS.values().map(Vec::len).sum::<usize>(),
        "a column does not parse"
    );
}

#[test]
fn ages_have_two_units_at_most() {
    for (seconds, text) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (3600, "60m"),
        (10_799, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (49 * 3600, "2d1h"),
        (8 * 86_400, "8d"),
        (700 * 86_400, "700d"),
        (800 * 86_400, "2y70d"),
        (3000 * 86_400, "8y"),
    ] {
        assert_eq!(age::human(seconds), text, "{seconds}");
    }
}

#[test]
fn restarts_say_how_long_ago() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running", "containerStatuses": [
        {"name": "c", "restartCount": 2, "state": {}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}}]}});
    let row = cells(
        crate::kinds::find("", "Pod").unwrap(),
        &pod,
        "2026-01-01T00:05:00Z",
    );
    assert_eq!(row[3], "2 (5m ago)");
}

#[test]
fn custom_columns_follow_json_paths() {
    let object = json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"a.b/c": "note"}},
        "spec": {"replicas": 3, "hosts": ["a", "b"]}, "status": {"conditions": [{"type": "Synced", "status": "True"}, {"type": "Ready", "status": "False"}]}});
    for (path, expected) in [
        (".spec.replicas", json!([3])),
        (
            ".status.conditions[?(@.type==\"Ready\")].status",
            json!(["False"]),
        ),
        (".spec.hosts[*]", json!(["a", "b"])),
        (".spec.hosts[-1]", json!(["b"])),
        (".metadata.annotations['a.b/c']", json!(["note"])),
        (".metadata.annotations.a\\.b/c", json!(["note"])),
        (".spec.none[0].x", json!([])),
        ("nonsense[", json!([])),
    ] {
        assert_eq!(json!(custom::find(&object, path)), expected, "{path}");
    }
    let column =
        |name: &str, ty: &str, path: &str| json!({"name": name, "type": ty, "jsonPath": path});
    let custom = CustomVersion {
        columns: vec![
            column("Replicas", "integer", ".spec.replicas"),
            column("Hosts", "string", ".spec.hosts[*]"),
            column("Made", "date", ".metadata.creationTimestamp"),
            column("None", "string", ".spec.none"),
        ],
        ..CustomVersion::default()
    };
    let now = age::seconds("2026-01-01T00:00:30Z").unwrap();
    assert_eq!(
        custom::cells(&custom, &object, now),
        [
            json!("x"),
            json!(3),
            json!("a b"),
            json!("30s"),
            Value::Null
        ]
    );
}

#[test]
fn a_row_of_a_thousand_columns_is_not_a_thousand_objects() {
    let object = json!({"metadata": {"name": "x"}, "spec": {"text": "\u{e9}".repeat(100_000)}});
    let column = |number: usize| json!({"name": format!("c{number}"), "type": "string", "jsonPath": ".spec"});
    let custom = CustomVersion {
        columns: (0..1000).map(column).collect(),
        ..CustomVersion::default()
    };
    let cells = custom::cells(&custom, &object, 0);
    assert_eq!(cells.len(), 1001);
    let length: usize = cells.iter().filter_map(Value::as_str).map(str::len).sum();
    assert!((60_000..70_000).contains(&length), "{length}");
}
