//! PATCH: the stored object at the version asked for, changed, then updated.

use super::Context;
use super::applying::APPLY_PATCH;
use super::body::{content_type, parse_patch};
use super::metadata::{settle_fields, text};
use super::prepared::Proposed;
use super::strict::{MAX_DEPTH, Read, is_shallow};
use crate::status::{Cause, Status, UNSUPPORTED_PATCH};
use crate::{Body, convert, patch, schema, semantics};
use http::Response;
use serde_json::Value;

impl Context {
    pub(super) async fn patch(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.info.query.dry_run("PatchOptions")?;
        if content_type(&self.headers) == APPLY_PATCH {
            return self.apply(dry_run).await;
        }
        if self.info.query.has("force") {
            let message = "Forbidden: may not be specified for non-apply patch";
            let cause = Cause::new("force", "FieldValueForbidden", message);
            return Err(Status::invalid_options("PatchOptions", cause));
        }
        let mut parsed = Some(parse_patch(&self.body)?);
        let write = self.write_prepared(dry_run, |context| {
            let changes = match parsed.take() {
                Some(changes) => changes,
                None => parse_patch(&context.body)?,
            };
            context.propose_patch(changes, dry_run)
        });
        let (outcome, revision) = write.await?;
        self.settle(revision).await?;
        self.show(outcome.0, &outcome.1)
    }

    pub(super) fn propose_patch(
        &mut self,
        changes: Read,
        dry_run: bool,
    ) -> Result<Proposed, Status> {
        let key = self.key(&self.info.name);
        let stored = self.current(&key);
        let old = stored.ok_or_else(|| Status::not_found(self.subject()))?;
        let names_fields = names_managed_fields(&changes.value);
        let before = if names_fields {
            old.value(&self.stored_kind)
        } else {
            old.working(&self.stored_kind)
        };
        let mut value = self.at_version(before.clone());
        let untouched = self.take_untouched(&mut value, &changes.value);
        self.change(&mut value, changes.value)?;
        if names_fields {
            settle_fields(&mut value, None)?;
        }
        // What is stored has its name and its namespace.
        let touches_metadata = untouched.iter().all(|(name, _)| name != "metadata");
        if touches_metadata {
            self.require_name(&value)?;
            self.settle_name(&mut value)?;
            self.settle_namespace(&mut value)?;
        }
        let (api_version, kind) = (self.kind.api_version(), &self.kind.kind);
        super::body::settle_type(&mut value, api_version, kind).map_err(unusable)?;
        let mut value = self
            .read_typed(value, changes.duplicates)
            .map_err(unusable)?;
        if let Some(members) = value.as_object_mut() {
            members.extend(untouched);
        }
        semantics::default(&self.kind, &mut value);
        convert::to_storage(&self.kind, &mut value);
        if touches_metadata {
            self.check_uid(&before, &value)?;
        }
        let change = self.propose_change(old, before, value, None, dry_run)?;
        Ok(Proposed::Change(Box::new(change)))
    }

    /// Takes away what a patch leaves as it is: it need not be read again.
    fn take_untouched(&self, value: &mut Value, changes: &Value) -> Vec<(String, Value)> {
        let (Some(members), Some(changes)) = (value.as_object_mut(), changes.as_object()) else {
            // The operations of a JSON patch can reach everything.
            return Vec::new();
        };
        if self.kind.custom().is_some() || changes.keys().any(|name| name.starts_with('$')) {
            return Vec::new();
        }
        let is_touched =
            |name: &str| changes.contains_key(name) || matches!(name, "kind" | "apiVersion");
        let names = members.keys().filter(|name| !is_touched(name));
        let names: Vec<String> = names.cloned().collect();
        let taken = names.iter().filter_map(|name| members.remove_entry(name));
        taken.collect()
    }

    /// UPSTREAM: a patch that changes the uid is invalid, where an update is in conflict.
    fn check_uid(&self, old: &Value, new: &Value) -> Result<(), Status> {
        let (before, after) = (text(old, "uid"), text(new, "uid"));
        if after.is_empty() || before == after {
            return Ok(());
        }
        let message = format!("Invalid value: \"{after}\": field is immutable");
        let cause = Cause::new("metadata.uid", "FieldValueInvalid", message);
        Err(self.invalid(&self.info.name, vec![cause]))
    }

    fn unrestorable(&self, why: &str) -> Status {
        // Read again, because the patch has become part of the object.
        let changes = parse_patch(&self.body).map(|read| read.value);
        let printed = api::syntax::go_quote(&patch::go_print(&changes.unwrap_or_default()));
        let message = format!("Invalid value: {printed}: {why}");
        let cause = Cause::new("patch", "FieldValueInvalid", message);
        let message = format!(" \"\" is invalid: patch: {}", cause.message);
        let mut status = Status::new(422, "Invalid", message);
        status.details.causes.push(cause);
        status
    }

    /// Applies a patch of the request's type to a value.
    pub(crate) fn change(&self, value: &mut Value, changes: Value) -> Result<(), Status> {
        match content_type(&self.headers) {
            "application/json-patch+json" => {
                patch::check_depth(value, &changes)?;
                patch::json(value, &changes)?;
            }
            "application/merge-patch+json" => patch::merge(value, changes),
            "application/strategic-merge-patch+json" if self.kind.custom().is_none() => {
                let ty = schema::type_for(&self.kind.group, &self.kind.version, &self.kind.kind);
                patch::strategic(value, changes, ty)?;
                if let Some(why) = ty.and_then(|ty| patch::check_shapes(value, ty).err()) {
                    return Err(self.unrestorable(&why));
                }
            }
            "application/strategic-merge-patch+json" => {
                let message = "the body of the request was in an unknown format - accepted media types include: \
                    application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
                return Err(Status::new(415, "UnsupportedMediaType", message));
            }
            _ => return Err(Status::new(415, "UnsupportedMediaType", UNSUPPORTED_PATCH)),
        }
        if !value.is_object() {
            return Err(Status::bad_request(
                "the patched object is not a JSON object",
            ));
        }
        if !is_shallow(value, MAX_DEPTH) {
            return Err(Status::bad_request(
                "the patched object is nested too deeply",
            ));
        }
        Ok(())
    }
}

/// Whether a patch may read or change managed fields.
fn names_managed_fields(changes: &Value) -> bool {
    match changes {
        Value::Object(changes) => changes
            .get("metadata")
            .and_then(Value::as_object)
            // With a directive in front of it, too.
            .is_some_and(|metadata| metadata.keys().any(|name| name.ends_with("managedFields"))),
        Value::Array(operations) => operations.iter().any(|operation| {
            let reaches = |member: &str| match operation[member].as_str() {
                None => !operation[member].is_null(),
                Some(path) => {
                    matches!(path, "" | "/metadata") || path.starts_with("/metadata/managedFields")
                }
            };
            reaches("path") || reaches("from")
        }),
        _ => false,
    }
}

/// UPSTREAM: an object that a patch makes unreadable is the patch's fault.
fn unusable(status: Status) -> Status {
    if status.code != 400 || status.message.contains("strict decoding error") {
        return status;
    }
    let cause = Cause::new(
        "patch",
        "FieldValueInvalid",
        format!("Invalid value: {}", status.message),
    );
    let message = format!(" \"\" is invalid: patch: {}", cause.message);
    let mut status = Status::new(422, "Invalid", message);
    status.details.causes.push(cause);
    status
}
