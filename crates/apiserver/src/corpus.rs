//! Objects sent to kube-apiserver 1.36 as dry runs, with its answers: ours must be the same.

use api::Gates;
use serde_json::{Value, json};

use crate::admission::{self, Networks, Operation, Request, Verdict, store::Store};
use crate::auth::Identity;
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
        asked: kind,
        object_type: None,
        is_admitted: false,
        dry_run: true,
        options: &Value::Null,
    };
    let now = text(answer, "metadata.creationTimestamp");
    let prepare = |context: &admission::Context<'_>| {
        admission::mutate(context, &request, &mut object, None).unwrap();
        admission::allocate(context, &request, &mut object, None).unwrap();
        strategy::prepare_create(kind, &mut object, now);
        assert_eq!(
            crate::validation::create(kind, &object, Gates::default()),
            [],
            "{name}"
        );
        let mut verdict = Verdict::default();
        admission::review(context, &request, &object, None, &mut verdict).unwrap();
        admission::charge(context, &request, &object, None, &mut verdict).unwrap();
    };
    in_cluster(prepare);
    object
}

/// Runs as an administrator in a cluster with what the dry runs found there.
fn in_cluster(run: impl FnOnce(&admission::Context<'_>)) {
    let cluster = Store::of(&[
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}, "status": {"phase": "Active"}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "u"}, "status": {"phase": "Active"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": "default"}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "grows"}, "allowVolumeExpansion": true}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": ["10.0.0.0/24"]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    ]);
    let context = admission::Context {
        cluster: &cluster,
        user: &Identity {
            user: "admin".to_owned(),
            uid: "1".to_owned(),
            groups: vec![
                "system:masters".to_owned(),
                "system:authenticated".to_owned(),
            ],
            ..Identity::default()
        },
        random: &api::Rng::from_seed(1),
        networks: &Networks::default(),
        settings: &crate::Settings::default(),
        now: api::MicroTime::default(),
    };
    run(&context);
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

/// What came of an update: the object, or what is wrong with it.
fn updated(case: &Value) -> Result<Value, Vec<String>> {
    let (old, sent) = (&case["old"], case["sent"].clone());
    let registry = kinds::Registry::default();
    let kind = registry
        .kind(text(old, "apiVersion"), text(old, "kind"))
        .expect("a built-in kind");
    let ty = schema::type_for(&kind.group, &kind.version, &kind.kind).unwrap();
    let mut new = schema::decode(ty, sent).unwrap().object;
    defaults::apply(kind, &mut new);
    let (name, namespace) = (text(old, "metadata.name"), text(old, "metadata.namespace"));
    let subresource = case["subresource"]
        .as_str()
        .and_then(kinds::Subresource::parse);
    let request = Request {
        operation: Operation::Update,
        kind,
        namespace,
        name,
        subresource,
        asked: kind,
        object_type: None,
        is_admitted: false,
        dry_run: true,
        options: &Value::Null,
    };
    let mut causes = Vec::new();
    let now = text(&case["answer"], "status.lastPhaseTransitionTime");
    in_cluster(|context| {
        let mutated = admission::mutate(context, &request, &mut new, Some(old));
        let admitted =
            mutated.and_then(|()| admission::allocate(context, &request, &mut new, Some(old)));
        if let Err(status) = admitted {
            causes.extend(status.details.causes);
            return;
        }
        if subresource.is_some() {
            strategy::prepare_status_update(kind, &mut new, old, now);
            causes = crate::validation::status_update(kind, &new, old, 0);
        } else {
            strategy::prepare_update(kind, &mut new, old, now);
            causes = crate::validation::update(kind, &new, old, Gates::default());
        }
    });
    if causes.is_empty() {
        Ok(new)
    } else {
        Err(causes
            .into_iter()
            .map(|cause| describe(&cause.field, &cause.message))
            .collect())
    }
}

/// A cause without the Go structs and differences that upstream shows in some.
fn describe(field: &str, message: &str) -> String {
    let shown = message.split("\n@@").next().unwrap_or_default();
    let shown = if shown.starts_with("Invalid value: {") {
        shown.rsplit("}: ").next().unwrap_or_default()
    } else {
        shown
    };
    format!("{field}: {shown}")
}

#[test]
fn updates_come_out_as_upstream_answers() {
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../testdata/updated.json")).unwrap();
    let mut found = Vec::new();
    for case in corpus.iter().filter(|case| case["code"] != 409) {
        let kind = text(&case["old"], "kind");
        match (updated(case), case["causes"].as_array()) {
            (Ok(mut ours), None) => {
                let mut theirs = case["answer"].clone();
                crate::fields::remove(&mut ours, "metadata.resourceVersion");
                // A new node port is any free one.
                for object in [&mut ours, &mut theirs] {
                    for port in crate::fields::list_mut(object, "spec.ports")
                        .into_iter()
                        .flatten()
                    {
                        crate::fields::remove(port, "nodePort");
                    }
                }
                differences(kind, &ours, &theirs, &mut found);
            }
            (Err(ours), Some(theirs)) => {
                let theirs: Vec<_> = theirs
                    .iter()
                    .map(|cause| describe(text(cause, "field"), text(cause, "message")))
                    .collect();
                if ours != theirs {
                    found.push(format!("{kind}: ours {ours:?}, theirs {theirs:?}"));
                }
            }
            (ours, theirs) => found.push(format!(
                "{kind}: ours {:?}, theirs {theirs:?}",
                ours.map(|_| "accepted")
            )),
        }
    }
    assert!(corpus.len() > 100);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
