//! Where the generic machinery asks what it must know about a kind: defaults, strategy, validation, admission.

use crate::kinds::{Kind, Subresource};
use crate::rest::Context;
use crate::server::Shared;
use crate::status::{Cause, Status, Subject};
use crate::storage::Transaction;
use serde_json::{Value, json};
use std::sync::Arc;

/// Fills in what the user left out.
pub(crate) fn default(kind: &Kind, value: &mut Value) {
    if kind.is("", "Namespace") {
        let name = value["metadata"]["name"].clone();
        if name.is_string() {
            let labels = crate::rest::metadata_mut(value)
                .entry("labels")
                .or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".into(), name);
            }
        }
    }
}

pub(crate) fn prepare_create(kind: &Kind, new: &mut Value) {
    if kind.has(Subresource::Status)
        && let Some(map) = new.as_object_mut()
    {
        map.remove("status");
    }
    if kind.generation || kind.custom().is_some() {
        new["metadata"]["generation"] = json!(1);
    }
    if kind.is("", "Namespace") {
        if !new["spec"].is_object() {
            new["spec"] = json!({});
        }
        new["spec"]["finalizers"] = json!(["kubernetes"]);
        new["status"] = json!({"phase": "Active"});
    }
    if kind.is("", "Pod") {
        new["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
    }
}

pub(crate) fn prepare_update(
    kind: &Kind,
    subresource: Option<Subresource>,
    new: &mut Value,
    old: &Value,
) {
    match subresource {
        Some(Subresource::Status | Subresource::Approval) => {
            return prepare_status_update(kind, new, old);
        }
        Some(Subresource::Finalize) => return prepare_finalize(new, old),
        _ => {}
    }
    if kind.has(Subresource::Status) {
        copy_member(new, old, "status");
    }
    let spec_changed = new["spec"] != old["spec"];
    let annotations_changed = kind.is("apps", "Deployment")
        && new["metadata"]["annotations"] != old["metadata"]["annotations"];
    if (kind.generation || kind.custom().is_some()) && (spec_changed || annotations_changed) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = json!(generation + 1);
    }
}

fn prepare_status_update(_kind: &Kind, new: &mut Value, old: &Value) {
    let status = new.get("status").cloned();
    let resource_version = new["metadata"]["resourceVersion"].clone();
    *new = old.clone();
    new["metadata"]["resourceVersion"] = resource_version;
    match status {
        Some(status) => new["status"] = status,
        None => {
            if let Some(map) = new.as_object_mut() {
                map.remove("status");
            }
        }
    }
}

/// Only the finalizers of a namespace's spec can be changed through `finalize`.
fn prepare_finalize(new: &mut Value, old: &Value) {
    let finalizers = new["spec"].get("finalizers").cloned();
    *new = old.clone();
    if let Some(spec) = new
        .as_object_mut()
        .and_then(|map| map.get_mut("spec"))
        .and_then(Value::as_object_mut)
    {
        match finalizers {
            Some(finalizers) => spec.insert("finalizers".into(), finalizers),
            None => spec.remove("finalizers"),
        };
    }
}

/// Admission of a create or update.
pub(crate) fn admit(
    context: &mut Context,
    transaction: &mut Transaction<'_>,
    operation: &str,
    _name: &str,
    _new: &mut Value,
    _old: Option<&Value>,
    _dry_run: bool,
) -> Result<(), Status> {
    if operation != "CREATE" || !context.kind.namespaced {
        return Ok(());
    }
    let Some(kind) = crate::kinds::find("", "Namespace") else {
        return Ok(());
    };
    let namespace = &context.info.namespace;
    let missing = || {
        Status::not_found(Subject {
            group: "",
            plural: "namespaces",
            name: namespace,
        })
    };
    let stored = transaction.get(kind, namespace).ok_or_else(missing)?;
    if stored.value(kind)["metadata"]["deletionTimestamp"].is_string() {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let status = Status::forbidden(context.subject_named(_name), &why);
        return Err(status.with_cause(
            "NamespaceTerminating",
            format!("namespace {namespace} is being terminated"),
        ));
    }
    Ok(())
}

pub(crate) fn admit_delete(
    context: &mut Context,
    _transaction: &mut Transaction<'_>,
    name: &str,
    _old: &Value,
) -> Result<(), Status> {
    let immortal = ["default", "kube-system", "kube-public"];
    if context.kind.is("", "Namespace") && immortal.contains(&name) {
        return Err(Status::forbidden(
            context.subject_named(name),
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

pub(crate) fn manage_fields(_context: &Context, _new: &mut Value, _old: Option<&Value>) {}

pub(crate) fn validate_create(_kind: &Kind, _value: &Value) -> Vec<Cause> {
    Vec::new()
}

pub(crate) fn validate_update(
    _kind: &Kind,
    _subresource: Option<Subresource>,
    _new: &Value,
    _old: &Value,
) -> Vec<Cause> {
    Vec::new()
}

/// What follows from a write within the same transaction.
pub(crate) fn after_write(
    _context: &mut Context,
    _transaction: &mut Transaction<'_>,
    _new: &Value,
    _old: Option<&Value>,
    _dry_run: bool,
) -> Result<(), Status> {
    Ok(())
}

/// What follows from a deletion within the same transaction.
pub(crate) fn after_delete(
    _context: &mut Context,
    _transaction: &mut Transaction<'_>,
    _old: &Value,
) -> Result<(), Status> {
    Ok(())
}

/// `columnDefinitions` of a table.
pub(crate) fn columns(_kind: &Kind) -> Value {
    json!([
        {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
        {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
    ])
}

pub(crate) fn cells(_kind: &Kind, value: &Value, _now: i64) -> Value {
    json!([
        value["metadata"]["name"],
        value["metadata"]["creationTimestamp"]
    ])
}

fn copy_member(new: &mut Value, old: &Value, member: &str) {
    if let Some(map) = new.as_object_mut() {
        match old.get(member) {
            Some(value) => map.insert(member.to_owned(), value.clone()),
            None => map.remove(member),
        };
    }
}

/// Objects that exist from the start.
pub(crate) fn boot(shared: &Arc<Shared>) {
    let Some(kind) = crate::kinds::find("", "Namespace") else {
        return;
    };
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let mut value = json!({"metadata": {"name": name}});
        default(kind, &mut value);
        prepare_create(kind, &mut value);
        let created: Result<_, Status> = shared.store.write(|transaction| {
            crate::rest::stamp(shared, &mut value);
            transaction.put(kind, name, &mut value, None);
            Ok(())
        });
        debug_assert!(created.is_ok());
    }
}
