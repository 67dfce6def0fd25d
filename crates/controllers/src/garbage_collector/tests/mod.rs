//! Behaviour of the collector, weakest test that suffices first.

mod changes;
mod conflicts;
mod decide;
mod dot;
mod faults;
mod forest;
mod odd;
mod sync;

use api::{Istr, Meta, OwnerRef, Time};

use super::ToEnqueue;
use super::graph::{Graph, KindNumber};

/// `ns/name`, then facts: `<ns/name` an owner (uid is the name; `!` blocks, `=Kind` its kind,
/// `@name` another name), `deleting`, `+finalizer`. The uid of an object is its name.
fn meta(text: &str) -> Meta {
    let mut words = text.split_whitespace();
    let place = words.next().unwrap();
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let mut meta = Meta {
        name: name.into(),
        namespace: Istr::new(namespace),
        uid: name.into(),
        ..Meta::default()
    };
    let (mut owners, mut finalizers) = (Vec::new(), Vec::new());
    for word in words {
        if let Some(owner) = word.strip_prefix('<') {
            owners.push(owner_ref(owner));
        } else if let Some(finalizer) = word.strip_prefix('+') {
            finalizers.push(Istr::new(finalizer));
        } else if word == "deleting" {
            meta.deleted_at = Some(Time::from_unix(1));
        } else {
            panic!("{word} is no fact");
        }
    }
    meta.owners = api::meta::intern_owners(owners);
    meta.finalizers = api::meta::intern_names(finalizers);
    meta
}

/// `uid`, `uid!` (blocks), `uid=Kind`, `uid@name`, in this order.
fn owner_ref(text: &str) -> OwnerRef {
    let (text, name) = match text.split_once('@') {
        Some((text, name)) => (text, Some(name)),
        None => (text, None),
    };
    let (text, kind) = text.split_once('=').unwrap_or((text, "Thing"));
    let blocks = text.ends_with('!');
    let uid = text.trim_end_matches('!');
    OwnerRef {
        api_version: "v1".into(),
        kind: kind.into(),
        name: name.unwrap_or(uid).into(),
        uid: uid.into(),
        controller: None,
        block_owner_deletion: blocks.then_some(true),
    }
}

fn thing(graph: &mut Graph) -> KindNumber {
    graph.kind(&Istr::new("v1"), &Istr::new("Thing"))
}

/// Shows the graph some objects; gives what the last one led to.
fn observe(graph: &mut Graph, texts: &[&str]) -> String {
    let kind = thing(graph);
    let mut last = ToEnqueue::default();
    for text in texts {
        last = graph.observe(kind, None, &meta(text));
    }
    describe(&last)
}

fn gone(graph: &mut Graph, text: &str) -> String {
    let kind = thing(graph);
    describe(&graph.gone(kind, &meta(text)))
}

/// `delete a b; later c; orphan d; warn e`.
fn describe(to_enqueue: &ToEnqueue) -> String {
    let mut parts = Vec::new();
    for (what, uids) in [
        ("delete", &to_enqueue.delete),
        ("later", &to_enqueue.delete_later),
        ("orphan", &to_enqueue.orphan),
    ] {
        if !uids.is_empty() {
            let uids: Vec<String> = uids.iter().map(ToString::to_string).collect();
            parts.push(format!("{what} {}", uids.join(" ")));
        }
    }
    for warning in &to_enqueue.warnings {
        parts.push(format!("warn {} {}", warning.dependent.name, warning.owner));
    }
    parts.join("; ")
}
