//! PATCH: the stored object at the version asked for, changed, then updated.

use super::Context;
use super::applying::APPLY_PATCH;
use super::body::{content_type, faults};
use super::metadata::{normalize_managed_fields, text};
use super::patch_body::{self, JSON_PATCH, MERGE_PATCH, Patch, STRATEGIC_PATCH};
use super::prepared::Proposed;
use super::strict::{Source, excess};
use super::type_meta::{match_patched_type, unreadable};
use crate::status::{Cause, Status, UNSUPPORTED_PATCH};
use crate::storage::Stored;
use crate::{Body, convert, patch, schema, semantics};
use http::Response;
use serde_json::Value;

impl Context {
    pub(super) async fn patch(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.patch_options()?;
        if content_type(&self.headers) == APPLY_PATCH {
            return self.apply(dry_run).await;
        }
        let mut parsed = Some(self.parse_patch());
        let write = self.write_prepared(dry_run, |context| {
            let parsed = parsed.take();
            let changes = parsed.unwrap_or_else(|| context.parse_patch());
            context.propose_patch(changes, dry_run)
        });
        let (outcome, revision) = write.await?;
        self.wait_durable(revision).await?;
        self.show(outcome.0, &outcome.1)
    }

    pub(super) fn propose_patch(
        &mut self,
        changes: Result<Patch, Status>,
        dry_run: bool,
    ) -> Result<Proposed, Status> {
        let key = self.object_key()?;
        let stored = self.current(&key);
        let old = stored.ok_or_else(|| Status::not_found(self.subject()))?;
        let changes = changes?;
        let names_fields = names_managed_fields(&changes.value);
        let before = if names_fields {
            old.value(&self.stored_kind)
        } else {
            old.working(&self.stored_kind)
        };
        let mut value = self.at_version(before.clone());
        let what_it_is = ["apiVersion", "kind"].map(|name| (name, value[name].clone()));
        let untouched = self.take_untouched(&mut value, &changes.value);
        self.change(&mut value, changes.value)?;
        if content_type(&self.headers) == STRATEGIC_PATCH {
            // UPSTREAM: what it is stays as it is, whatever the patch says.
            for (name, given) in what_it_is {
                value[name] = given;
            }
        }
        if let Some(why) = unreadable(&value) {
            return Err(self.refuse_patched(&old, &why));
        }
        if names_fields {
            normalize_managed_fields(&mut value, None)?;
        }
        // What is stored has its name and its namespace.
        let touches_metadata = untouched.iter().all(|(name, _)| name != "metadata");
        if touches_metadata {
            self.require_name(&value)?;
            self.match_name(&mut value)?;
            self.match_namespace(&mut value)?;
        }
        let (api_version, kind) = (self.kind.api_version(), &self.kind.kind);
        match_patched_type(&mut value, api_version, kind)
            .map_err(|why| self.refuse_patched(&old, &why))?;
        let decoded = self.decode(value);
        let (mut value, unknown) = decoded.map_err(|why| self.refuse_patched(&old, &why))?;
        let mut noted = changes.faults;
        noted.retain(|fault| !unknown.contains(&fault.path));
        noted.extend(faults(Vec::new(), unknown, Source::Json));
        self.note_faults(noted)
            .map_err(|why| self.refuse_patched(&old, &why))?;
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

    /// UPSTREAM: an object that a patch makes unreadable is the patch's fault, and shown with it.
    fn refuse_patched(&self, old: &Stored, why: &str) -> Status {
        // Read again, because the patch has become part of the object.
        let patch = self.parse_patch().map(|patch| patch.value);
        let patch = patch.unwrap_or_default();
        if content_type(&self.headers) == STRATEGIC_PATCH {
            return patch_fault(&patch::go_print(&patch), why);
        }
        let mut value = self.at_version(old.value(&self.stored_kind));
        match self.change(&mut value, patch.clone()) {
            Err(status) => status,
            Ok(()) => {
                let ty = self.patched_type();
                patch_fault(&patch_body::print_patched(&value, ty, &patch), why)
            }
        }
    }

    fn patched_type(&self) -> Option<&'static schema::Type> {
        schema::type_for(&self.kind.group, &self.kind.version, &self.kind.kind)
    }

    pub(super) fn parse_patch(&self) -> Result<Patch, Status> {
        let is_validated = self.info.query.get("fieldValidation") != "Ignore";
        patch_body::parse(&self.headers, &self.body, is_validated)
    }

    /// The options of a patch of a type that there is; see `write_options`.
    pub(super) fn patch_options(&self) -> Result<bool, Status> {
        let is_custom = self.kind.custom().is_some();
        match content_type(&self.headers) {
            JSON_PATCH | MERGE_PATCH | APPLY_PATCH => {}
            STRATEGIC_PATCH if !is_custom => {}
            _ if is_custom => {
                let accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH];
                return Err(Status::unsupported_media_type(&accepted));
            }
            _ => return Err(Status::new(415, "UnsupportedMediaType", UNSUPPORTED_PATCH)),
        }
        self.write_options()
    }

    /// Applies a patch of the request's type to a value.
    pub(crate) fn change(&self, value: &mut Value, changes: Value) -> Result<(), Status> {
        match content_type(&self.headers) {
            JSON_PATCH => {
                patch::check_depth(value, &changes)?;
                patch::json(value, &changes)?;
            }
            MERGE_PATCH => patch::merge(value, changes),
            _ => {
                let ty = self.patched_type();
                let shown = patch::go_print(&changes);
                patch::strategic(value, changes, ty)?;
                if let Some(why) = ty.and_then(|ty| patch::check_shapes(value, ty).err()) {
                    return Err(patch_fault(&shown, &why));
                }
            }
        }
        match excess(value) {
            Some(why) => Err(Status::bad_request(format!(
                "the patched object cannot be taken: {why}"
            ))),
            None => Ok(()),
        }
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

/// A patch, or what it makes, that cannot be.
fn patch_fault(shown: &str, why: &str) -> Status {
    let shown = api::syntax::go_quote(shown);
    let cause = Cause::new(
        "patch",
        "FieldValueInvalid",
        format!("Invalid value: {shown}: {why}"),
    );
    let message = format!(" \"\" is invalid: patch: {}", cause.message);
    let mut status = Status::new(422, "Invalid", message);
    status.details.causes.push(cause);
    status
}
