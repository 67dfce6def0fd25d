//! Objects sent to kube-apiserver 1.36 as dry runs, with its answers: ours must be the same.

use serde_json::{Value, json};

use crate::admission::{self, Networks, Operation, Request, User, store::Store};
use crate::fields::{copy, text};
use crate::{defaults, kinds, schema, strategy};

/// The object as the server would answer it.
fn created(sent: Value, answer: &Value) -> Value {
    let registry = kinds::Registry::default();
    let kind = registry
        .kind(text(&sent, "apiVersion"), text(&sent, "kind"))
        .expect("a built-in kind");
    let ty = schema::type_for(&kind.group, &kind.version, &kind.kind).unwrap();
    let mut object = schema::decode(ty, sent).unwrap().object;
    for path in [
        "metadata.uid",
        "metadata.creationTimestamp",
        "metadata.namespace",
    ] {
        copy(&mut object, answer, path);
    }
    defaults::apply(kind, &mut object);
    let (name, namespace) = (
        text(answer, "metadata.name"),
        text(answer, "metadata.namespace"),
    );
    let request = Request {
        operation: Operation::Create,
        kind,
        namespace,
        name,
        subresource: None,
    };
    let cluster = Store::of(&[
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}, "status": {"phase": "Active"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": "default"}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}),
    ]);
    let context = admission::Context {
        cluster: &cluster,
        user: &User {
            name: "admin".to_owned(),
            uid: "1".to_owned(),
            groups: vec![
                "system:masters".to_owned(),
                "system:authenticated".to_owned(),
            ],
            ..User::default()
        },
        now: text(answer, "metadata.creationTimestamp"),
        random: &api::Rng::from_seed(1),
        networks: &Networks::default(),
    };
    admission::mutate(&context, &request, &mut object, None).unwrap();
    strategy::prepare_create(kind, &mut object, context.now);
    admission::validate(&context, &request, &object, None).unwrap();
    object
}

/// The same text with the random part of volume names cut off.
fn without_random_names(object: &Value) -> Value {
    const PREFIX: &str = "kube-api-access-";
    let mut text = object.to_string();
    let mut from = 0;
    while let Some(found) = text[from..].find(PREFIX) {
        from += found + PREFIX.len();
        text.replace_range(from..from + 5, "");
    }
    serde_json::from_str(&text).unwrap()
}

fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (ours.get(name), theirs.get(name)) {
                    (Some(ours), Some(theirs)) => differences(&path, ours, theirs, found),
                    (ours, theirs) => {
                        found.push(format!("{path}: ours {ours:?}, theirs {theirs:?}"))
                    }
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                differences(&format!("{path}[{index}]"), ours, theirs, found);
            }
        }
        (ours, theirs) if ours != theirs => {
            found.push(format!("{path}: ours {ours}, theirs {theirs}"))
        }
        _ => {}
    }
}

#[test]
fn created_objects_are_what_upstream_answers() {
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../testdata/created.json")).unwrap();
    let mut found = Vec::new();
    for case in &corpus {
        let ours = without_random_names(&created(case["sent"].clone(), &case["answer"]));
        let theirs = without_random_names(&case["answer"]);
        differences(text(&ours, "kind"), &ours, &theirs, &mut found);
    }
    assert!(corpus.len() > 50);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
