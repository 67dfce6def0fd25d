//! Objects sent to kube-apiserver 1.36 as dry runs, with its answers: ours must be the same.

use serde_json::Value;

use crate::fields::text;
use crate::{defaults, kinds, schema, strategy};

/// The object as the server would answer it.
fn created(mut sent: Value, answer: &Value) -> Value {
    let registry = kinds::Registry::default();
    let kind = registry.kind(text(&sent, "apiVersion"), text(&sent, "kind")).expect("a built-in kind");
    let ty = schema::type_for(&kind.group, &kind.version, &kind.kind).unwrap();
    let mut object = schema::decode(ty, sent.take()).unwrap().object;
    for path in ["metadata.uid", "metadata.creationTimestamp", "metadata.namespace"] {
        crate::fields::copy(&mut object, answer, path);
    }
    defaults::apply(kind, &mut object);
    strategy::prepare_create(kind, &mut object, text(answer, "metadata.creationTimestamp"));
    object
}

fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (ours.get(name), theirs.get(name)) {
                    (Some(ours), Some(theirs)) => differences(&path, ours, theirs, found),
                    (ours, theirs) => found.push(format!("{path}: ours {ours:?}, theirs {theirs:?}")),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                differences(&format!("{path}[{index}]"), ours, theirs, found);
            }
        }
        (ours, theirs) if ours != theirs => found.push(format!("{path}: ours {ours}, theirs {theirs}")),
        _ => {}
    }
}

#[test]
fn created_objects_are_what_upstream_answers() {
    let corpus: Vec<Value> = serde_json::from_str(include_str!("../testdata/created.json")).unwrap();
    let mut found = Vec::new();
    for case in &corpus {
        let ours = created(case["sent"].clone(), &case["answer"]);
        let theirs = case["answer"].clone();
        differences(text(&ours, "kind"), &ours, &theirs, &mut found);
    }
    assert!(corpus.len() > 50);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
