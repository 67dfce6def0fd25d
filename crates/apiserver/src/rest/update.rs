//! Update, and the part of it that every other change of an existing object shares.

use super::create::retype;
use super::metadata::{finalizers, is_deleting, metadata_mut, normalize_managed_fields, text};
use super::prepared::{Outcome, Proposed, Replacement};
use super::{Context, body::Decoded};
use crate::admission::Operation;
use crate::kinds::{Kind, Subresource};
use crate::semantics::Admission;
use crate::status::{Cause, Status};
use crate::storage::{Draft, Stored, Transaction};
use crate::{Body, convert, opaque, semantics};
use http::Response;
use serde_json::Value;
use std::sync::Arc;

pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Metadata that only the server writes: an update keeps what is there.
const SERVER_METADATA: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// A new state of an object as its author and the admission plugins want it: admission webhooks have their say about
/// this.
pub(crate) struct Change {
    pub(super) old: Arc<Stored>,
    pub(super) before: Value,
    pub(super) new: Value,
    pub(super) opaque: Option<String>,
    pub(super) changes_metadata: bool,
}

impl Context {
    pub(super) async fn update(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.write_options()?;
        let warnings = self.warnings.len();
        let mut decoded = Some(self.decode_object()?);
        let write = self.write_prepared(dry_run, |context| {
            let decoded = match decoded.take() {
                Some(decoded) => decoded,
                None => {
                    // It warns about the same again.
                    context.warnings.truncate(warnings);
                    context.decode_object()?
                }
            };
            context.propose_update(decoded, dry_run)
        });
        let (outcome, revision) = write.await?;
        self.wait_durable(revision).await?;
        self.show(outcome.0, &outcome.1)
    }

    fn propose_update(&mut self, decoded: Decoded, dry_run: bool) -> Result<Proposed, Status> {
        let Decoded { mut value, opaque } = decoded;
        self.require_name(&value)?;
        self.match_name(&mut value)?;
        self.match_namespace(&mut value)?;
        let key = self.object_key()?;
        let Some(old) = self.current(&key) else {
            let creates = self.stored_kind.create_on_update && self.subresource.is_none();
            if !creates {
                return Err(Status::not_found(self.subject()));
            }
            metadata_mut(&mut value).remove("resourceVersion");
            let uid = text(&value, "uid").to_owned();
            if !uid.is_empty() {
                let why = format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: "
                );
                return Err(Status::conflict(self.subject(), &why));
            }
            let proposed = self.propose_new(value, opaque, dry_run)?;
            return Ok(Proposed::New(Box::new(proposed)));
        };
        let before = old.working(&self.stored_kind);
        normalize_managed_fields(&mut value, Some(&before))?;
        semantics::default(&self.kind, &mut value);
        convert::to_storage(&self.kind, &mut value);
        if text(&value, "resourceVersion").is_empty() && !self.stored_kind.unconditional_update {
            let message = "Invalid value: 0: must be specified for an update";
            let cause = Cause::new("metadata.resourceVersion", "FieldValueInvalid", message);
            // UPSTREAM: here the message names the resource instead of the kind.
            return Err(Status::invalid(
                &self.kind.group,
                &self.kind.plural,
                &self.info.name,
                vec![cause],
            ));
        }
        let change = self.propose_change(old, before, value, opaque, dry_run)?;
        Ok(Proposed::Change(Box::new(change)))
    }

    /// A new state of an object at the stored version, up to where admission webhooks see it. Others may write
    /// meanwhile.
    pub(super) fn propose_change(
        &mut self,
        old: Arc<Stored>,
        before: Value,
        mut new: Value,
        opaque: Option<String>,
        dry_run: bool,
    ) -> Result<Change, Status> {
        let kind = self.stored_kind.clone();
        retype(&kind, &mut new);
        // Most writes leave all metadata as it is: then there is nothing to check or to keep.
        let changes_metadata = new["metadata"] != before["metadata"];
        if changes_metadata {
            self.check_preconditions(&before, &new)?;
            keep_server_metadata(&mut new, &before, self.applying);
        }
        // UPSTREAM: what admission and the strategy change after this belongs to nobody.
        self.manage_fields(&kind, &mut new, Some(&before))?;
        let admission = replacing(&kind, &old, dry_run);
        self.mutate(&admission, &mut new, Some(&before))?;
        Ok(Change {
            old,
            before,
            new,
            opaque,
            changes_metadata,
        })
    }

    /// UPSTREAM: events are held against the rules of the version asked for, all others against those of the stored one.
    pub(super) fn validated_kind(&self) -> &Kind {
        match self.kind.is("events.k8s.io", "Event") {
            true => &self.kind,
            false => &self.stored_kind,
        }
    }

    /// The rest: what the kind's strategy does, validation, and the plugins that only refuse.
    pub(super) fn complete_change(
        &mut self,
        change: Change,
        dry_run: bool,
    ) -> Result<Replacement, Status> {
        let Change {
            old,
            before,
            mut new,
            opaque,
            changes_metadata,
        } = change;
        let kind = self.stored_kind.clone();
        let admission = replacing(&kind, &old, dry_run);
        let allocated = self.allocate(&admission, &mut new, Some(&before))?;
        semantics::prepare_update(&self.shared, &kind, self.subresource, &mut new, &before);
        let validated = self.validated_kind();
        let causes =
            semantics::validate_update(&self.shared, validated, self.subresource, &new, &before);
        if !causes.is_empty() {
            return Err(self.invalid(old.name(), causes));
        }
        if changes_metadata {
            let revision = &before["metadata"]["resourceVersion"];
            metadata_mut(&mut new).insert("resourceVersion".into(), revision.clone());
        }
        // UPSTREAM: also what changes nothing, or what ends the object, can be refused.
        let mut verdict = self.verdict(&admission, &new, Some(&before))?;
        convert::normalize_custom(&self.kind, &mut new);
        let old_body = old.body();
        let opaque = opaque.or_else(|| opaque::text_of(&kind, &old_body));
        if is_finished(&kind, &new) {
            self.note(&mut verdict);
            let outcome = Outcome::Finished {
                before,
                new,
                opaque,
            };
            return Ok(Replacement {
                old,
                outcome,
                allocated,
            });
        }
        if !dry_run {
            self.check_size(&mut new, old_body.len())?;
        }
        let draft = Draft::new(&kind, &new, opaque.as_deref());
        let outcome = if draft.is(&old_body, old.revision) {
            self.note(&mut verdict);
            Outcome::Same { before, new }
        } else {
            Outcome::Changed {
                before,
                new,
                opaque,
                draft,
                verdict,
            }
        };
        Ok(Replacement {
            old,
            outcome,
            allocated,
        })
    }

    /// resourceVersion and uid in the body, if given, must be those of the stored object.
    fn check_preconditions(&self, old: &Value, new: &Value) -> Result<(), Status> {
        let (wanted, actual) = (text(new, "uid"), text(old, "uid"));
        if !wanted.is_empty() && wanted != actual {
            let why = format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
            );
            return Err(Status::conflict(self.subject(), &why));
        }
        let wanted = text(new, "resourceVersion");
        if !wanted.is_empty() && wanted.parse::<u64>().is_err() {
            let quoted = api::syntax::go_quote(wanted);
            let why = format!("strconv.ParseUint: parsing {quoted}: invalid syntax");
            return Err(Status::unexpected(why));
        }
        if !wanted.is_empty() && wanted != "0" && wanted != text(old, "resourceVersion") {
            return Err(Status::conflict(self.subject(), MODIFIED));
        }
        Ok(())
    }

    /// The last finalizer went away: the object goes too, and the caller sees its last state.
    pub(super) fn finish_deletion(
        &mut self,
        transaction: &mut Transaction<'_>,
        old: &Stored,
        new: Value,
        opaque: Option<&str>,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Status> {
        let kind = self.stored_kind.clone();
        // UPSTREAM: this state is never stored, so it carries the revision of the one before it.
        let body = crate::storage::encode_body(&new, opaque);
        let updated = Stored::new(&kind, old.key.clone(), old.revision, &new, body);
        if !dry_run {
            transaction.remove(&kind, &old.key);
            self.after_delete(transaction, &new);
        }
        Ok(Arc::new(updated))
    }
}

/// Whether an object being deleted has nothing left that holds it.
pub(crate) fn is_finished(kind: &Kind, value: &Value) -> bool {
    if !is_deleting(value) {
        return false;
    }
    let grace = value["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    let held_by_spec = kind.is("", "Namespace")
        && value["spec"]["finalizers"]
            .as_array()
            .is_some_and(|l| !l.is_empty());
    grace == 0 && finalizers(value).is_empty() && !held_by_spec
}

/// The replacement of an object as admission sees it.
pub(super) fn replacing<'a>(kind: &'a Kind, old: &'a Stored, dry_run: bool) -> Admission<'a> {
    Admission {
        operation: Operation::Update,
        kind,
        name: old.name(),
        dry_run,
    }
}

pub(super) fn keep_server_metadata(new: &mut Value, old: &Value, applying: bool) {
    let (metadata, before) = (metadata_mut(new), &old["metadata"]);
    metadata.remove("selfLink");
    for member in SERVER_METADATA {
        match before.get(member) {
            // Most writes leave it as it is.
            Some(value) if metadata.get(member) == Some(value) => {}
            Some(value) => {
                metadata.insert(member.to_owned(), value.clone());
            }
            None => {
                metadata.remove(member);
            }
        }
    }
    // UPSTREAM: leaving managedFields out keeps them; an empty list clears them. An apply says who manages what.
    if !applying
        && !metadata.contains_key("managedFields")
        && let Some(fields) = before.get("managedFields")
    {
        metadata.insert("managedFields".into(), fields.clone());
    }
}

impl Context {
    /// True for the subresources that show the object itself.
    pub(crate) fn is_object_subresource(subresource: Subresource) -> bool {
        matches!(
            subresource,
            Subresource::Status
                | Subresource::Approval
                | Subresource::Finalize
                | Subresource::EphemeralContainers
                | Subresource::Resize
        )
    }
}
