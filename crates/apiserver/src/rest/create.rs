//! Create.

use super::Context;
use super::metadata::{generate_name, is_deleting, metadata_mut, stamp, text};
use crate::admission::Operation;
use crate::semantics::Admission;
use crate::status::{Cause, Status};
use crate::storage::{Stored, Transaction};
use crate::{Body, convert, semantics};
use http::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// UPSTREAM: how often a generated name that is taken is tried again.
const NAME_ATTEMPTS: usize = 8;

impl Context {
    pub(super) async fn create(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.info.query.dry_run("CreateOptions")?;
        let decoded = self.decode_object()?;
        let shared = self.shared.clone();
        let (object, revision) = shared.store.write(|transaction| {
            self.create_in(transaction, decoded.value, decoded.opaque, dry_run)
        })?;
        self.settle(revision).await?;
        self.show(201, &object)
    }

    /// Creates an object from a decoded body.
    pub(crate) fn create_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        mut value: Value,
        opaque: Option<String>,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Status> {
        self.settle_namespace(&mut value)?;
        let kind = self.stored_kind.clone();
        semantics::default(&self.kind, &mut value);
        if !text(&value, "resourceVersion").is_empty() {
            return Err(Status::unexpected(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.name_new(transaction, &mut value)?;
        for member in [
            "uid",
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            metadata_mut(&mut value).remove(member);
        }
        if kind.generation || kind.custom().is_some() {
            metadata_mut(&mut value).remove("generation");
        }
        self.manage_fields(&self.kind, &mut value, None);
        convert::to_storage(&self.kind, &mut value);
        retype(&kind, &mut value);
        let name = text(&value, "name").to_owned();
        let admission = Admission {
            operation: Operation::Create,
            kind: &kind,
            name: &name,
            dry_run,
        };
        self.mutate(transaction, &admission, &mut value, None)?;
        stamp(&self.shared, &mut value);
        semantics::prepare_create(&self.shared, &kind, &mut value);
        let causes = semantics::validate_create(&kind, &value);
        if !causes.is_empty() {
            return Err(self.invalid(&name, causes));
        }
        let key = self.key(&name);
        if let Some(existing) = transaction.get(&kind, &key) {
            let mut status = Status::already_exists(self.subject_named(&name));
            if is_deleting(&existing.value(&kind)) {
                status.message = format!("object is being deleted: {}", status.message);
            }
            return Err(status);
        }
        self.admit(transaction, &admission, &value, None)?;
        Ok(self.store(transaction, &key, &mut value, opaque.as_deref(), dry_run))
    }

    /// Writes the object, or, for a dry run, just says what would have been written.
    pub(crate) fn store(
        &self,
        transaction: &mut Transaction<'_>,
        key: &str,
        value: &mut Value,
        opaque: Option<&str>,
        dry_run: bool,
    ) -> Arc<Stored> {
        let kind = &self.stored_kind;
        if !dry_run {
            let object = transaction.put(kind, key, value, opaque);
            if kind.is("", "Event") {
                self.shared
                    .expiry
                    .written(&self.shared, transaction, &object.key, object.revision);
            }
            return object;
        }
        let body = crate::storage::encode_body(value, opaque);
        Arc::new(Stored::new(kind, key.into(), 0, value, body))
    }

    /// A name from `generateName` if none is given.
    fn name_new(&self, transaction: &Transaction<'_>, value: &mut Value) -> Result<(), Status> {
        if !text(value, "name").is_empty() {
            return Ok(());
        }
        let prefix = text(value, "generateName").to_owned();
        if prefix.is_empty() {
            let cause = Cause::new(
                "metadata.name",
                "FieldValueRequired",
                "Required value: name or generateName is required",
            );
            return Err(self.invalid("", vec![cause]));
        }
        let free = (0..NAME_ATTEMPTS)
            .map(|_| generate_name(&self.shared, &prefix))
            .find(|name| {
                transaction
                    .get(&self.stored_kind, &self.key(name))
                    .is_none()
            });
        let name = free.ok_or_else(|| Status::already_exists(self.subject_named(&prefix)))?;
        metadata_mut(value).insert("name".into(), json!(name));
        Ok(())
    }
}

/// Gives a value the type under which it is stored.
pub(crate) fn retype(kind: &crate::kinds::Kind, value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), json!(kind.api_version()));
        map.insert("kind".into(), json!(kind.kind));
    }
}
