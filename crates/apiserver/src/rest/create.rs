//! Create.

use super::Context;
use super::body::Decoded;
use super::metadata::{
    generate_name, is_deleting, metadata_mut, normalize_managed_fields, stamp, text,
};
use crate::admission::{self, Operation, Verdict};
use crate::kinds::Kind;
use crate::semantics::Admission;
use crate::status::{Cause, Status};
use crate::storage::{Draft, Stored, Transaction};
use crate::{Body, convert, semantics};
use http::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// UPSTREAM: how often a generated name that is taken is tried again.
const NAME_ATTEMPTS: usize = 8;

/// A new object as its author and the admission plugins want it: admission webhooks have their say about this.
pub(crate) struct NewObject {
    pub(super) value: Value,
    pub(super) opaque: Option<String>,
    /// The last change of any namespace that the plugins saw.
    namespaces: u64,
}

/// A new object that has passed every check that can be made before the write has its turn.
pub(crate) struct Checked {
    pub(super) name: String,
    pub(super) value: Value,
    opaque: Option<String>,
    /// What is to be stored; a dry run stores nothing.
    pub(super) draft: Option<Draft>,
    verdict: Verdict,
    namespaces: u64,
    /// The last change of anything that its addresses and ports were chosen by.
    pub(super) allocated: Option<u64>,
}

impl Context {
    pub(super) async fn create(&mut self) -> Result<Response<Body>, Status> {
        let dry_run = self.create_options()?;
        let Decoded { value, opaque } = self.decode_object()?;
        self.provision_namespace(dry_run);
        let (object, revision) = match self.webhooks(&[Operation::Create]) {
            None if !self.has_to_wait() => self.create_at_once(value, opaque, dry_run)?,
            hooks => {
                let create = self.create_admitted(hooks.as_ref(), value, opaque, dry_run);
                Box::pin(create).await?
            }
        };
        self.wait_durable(revision).await?;
        self.show(201, &object)
    }

    /// NamespaceAutoProvision: the namespace of a new object is made if it is missing, whatever becomes of the object.
    pub(super) fn provision_namespace(&self, dry_run: bool) {
        let is_on = (self.shared.settings.plugins).has(admission::Plugin::NamespaceAutoProvision);
        let (kind, name) = (admission::namespaces(), &self.info.namespace);
        let is_there = || self.shared.store.get(kind, name).is_some();
        if is_on && !dry_run && self.kind.namespaced && !name.is_empty() && !is_there() {
            semantics::make_namespace(&self.shared, name);
        }
    }

    fn create_at_once(
        &mut self,
        value: Value,
        opaque: Option<String>,
        dry_run: bool,
    ) -> Result<(Arc<Stored>, u64), Status> {
        let shared = self.shared.clone();
        if admission::allocates(&self.stored_kind) {
            return shared.store.write(|transaction| {
                let mut checked = self.check_new(value, opaque, dry_run)?;
                self.keep_new(transaction, &mut checked, dry_run)
            });
        }
        // Dropping the object takes as long as storing it: nobody should wait for that either.
        let mut checked = self.check_new(value, opaque, dry_run)?;
        shared
            .store
            .write(|transaction| self.keep_new(transaction, &mut checked, dry_run))
    }

    /// Completes and checks a new object. Others may write meanwhile, as upstream's admission has it, too.
    fn check_new(
        &mut self,
        value: Value,
        opaque: Option<String>,
        dry_run: bool,
    ) -> Result<Checked, Status> {
        let proposed = self.propose_new(value, opaque, dry_run)?;
        self.complete_new(proposed, dry_run)
    }

    /// A new object, up to where admission webhooks see it.
    pub(super) fn propose_new(
        &mut self,
        mut value: Value,
        opaque: Option<String>,
        dry_run: bool,
    ) -> Result<NewObject, Status> {
        self.match_namespace(&mut value)?;
        if !self.applying {
            normalize_managed_fields(&mut value, None)?;
        }
        let kind = self.stored_kind.clone();
        semantics::default(&self.kind, &mut value);
        remove_server_metadata(&kind, &mut value);
        convert::to_storage(&self.kind, &mut value);
        retype(&kind, &mut value);
        self.manage_new(&mut value);
        let namespaces = self.shared.store.last_change(admission::namespaces());
        let asked = asked_name(&value).to_owned();
        self.mutate(&creation(&kind, &asked, dry_run), &mut value, None)?;
        Ok(NewObject {
            value,
            opaque,
            namespaces,
        })
    }

    /// The rest: what the kind's strategy does, validation, and the plugins that only refuse.
    pub(super) fn complete_new(
        &mut self,
        proposed: NewObject,
        dry_run: bool,
    ) -> Result<Checked, Status> {
        let NewObject {
            mut value,
            opaque,
            namespaces,
        } = proposed;
        let kind = self.stored_kind.clone();
        let revision = text(&value, "resourceVersion").to_owned();
        let mut allocated = None;
        if admission::allocates(&kind) {
            let asked = asked_name(&value).to_owned();
            allocated = self.allocate(&creation(&kind, &asked, dry_run), &mut value, None)?;
        }
        // UPSTREAM: names are made up after mutating admission, which speaks of the prefix.
        self.name_new(&mut value)?;
        let name = text(&value, "name").to_owned();
        let admission = creation(&kind, &name, dry_run);
        stamp(&self.shared, &mut value);
        semantics::prepare_create(&self.shared, &kind, &mut value);
        let causes = semantics::validate_create(&self.shared, self.validated_kind(), &value);
        if !causes.is_empty() {
            return Err(self.invalid(&name, causes));
        }
        if self.info.verb != "create" {
            // An update or an apply of what is not there.
            let Context { shared, info, .. } = &*self;
            let rbac = &shared.rbac;
            rbac.check_verb(shared, &self.identity, info, "create")?;
        }
        let verdict = self.verdict(&admission, &value, None)?;
        if self.shared.mounts.kubelets.read().is_some() {
            let idle = crate::warnings::in_a_box(&kind);
            self.warnings.extend(idle);
        }
        convert::normalize_custom(&self.kind, &mut value);
        if !dry_run {
            // UPSTREAM: its storage says so, and a dry run does not get there.
            if revision.parse::<u64>().is_ok_and(|revision| revision > 0) {
                let why = "resourceVersion should not be set on objects to be created";
                return Err(Status::unexpected(why));
            }
            metadata_mut(&mut value).remove("resourceVersion");
            self.check_size(&mut value, 0)?;
        }
        Ok(Checked {
            draft: (!dry_run).then(|| Draft::new(&kind, &value, opaque.as_deref())),
            name,
            value,
            opaque,
            verdict,
            namespaces,
            allocated,
        })
    }

    /// Stores a new object if nothing is there and its namespace still takes it.
    pub(super) fn keep_new(
        &mut self,
        transaction: &mut Transaction<'_>,
        checked: &mut Checked,
        dry_run: bool,
    ) -> Result<Arc<Stored>, Status> {
        let kind = self.stored_kind.clone();
        let key = self.key(&checked.name);
        let admission = creation(&kind, &checked.name, dry_run);
        if self.shared.store.last_change(admission::namespaces()) != checked.namespaces {
            self.check_lifecycle(&admission)?;
        }
        if let Some(existing) = transaction.get(&kind, &key) {
            let mut status = Status::already_exists(self.subject_named(&checked.name));
            if is_deleting(&existing.value(&kind)) {
                status.message = format!("object is being deleted: {}", status.message);
            }
            return Err(status);
        }
        let verdict = std::mem::take(&mut checked.verdict);
        self.charge(transaction, &admission, &checked.value, None, verdict)?;
        Ok(match checked.draft.take() {
            Some(draft) => self.keep(transaction, &key, draft),
            None => {
                let opaque = checked.opaque.as_deref();
                self.store(transaction, &key, &checked.value, opaque, dry_run)
            }
        })
    }

    /// Writes the object, or, for a dry run, just says what would have been written.
    pub(crate) fn store(
        &self,
        transaction: &mut Transaction<'_>,
        key: &str,
        value: &Value,
        opaque: Option<&str>,
        dry_run: bool,
    ) -> Arc<Stored> {
        let kind = &self.stored_kind;
        if dry_run {
            let body = crate::storage::encode_body(value, opaque);
            return Arc::new(Stored::new(kind, key.into(), 0, value, body));
        }
        self.keep(transaction, key, Draft::new(kind, value, opaque))
    }

    pub(crate) fn keep(
        &self,
        transaction: &mut Transaction<'_>,
        key: &str,
        draft: Draft,
    ) -> Arc<Stored> {
        let object = transaction.put_draft(&self.stored_kind, key, draft);
        if self.stored_kind.is("", "Event") {
            self.shared
                .expiry
                .written(&self.shared, transaction, &object.key, object.revision);
        }
        object
    }

    /// A name from `generateName` if none is given.
    fn name_new(&self, value: &mut Value) -> Result<(), Status> {
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
                let key = self.key(name);
                self.shared.store.get(&self.stored_kind, &key).is_none()
            });
        let name = free.ok_or_else(|| Status::already_exists(self.subject_named(&prefix)))?;
        metadata_mut(value).insert("name".into(), json!(name));
        Ok(())
    }
}

/// Takes away what only the server says of a new object.
fn remove_server_metadata(kind: &Kind, value: &mut Value) {
    for member in [
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata_mut(value).remove(member);
    }
    if kind.generation || kind.custom().is_some() {
        metadata_mut(value).remove("generation");
    }
}

/// The name that a new object asks for, or what its name shall begin with.
pub(super) fn asked_name(value: &Value) -> &str {
    match text(value, "name") {
        "" => text(value, "generateName"),
        name => name,
    }
}

pub(super) fn creation<'a>(kind: &'a Kind, name: &'a str, dry_run: bool) -> Admission<'a> {
    Admission {
        operation: Operation::Create,
        kind,
        name,
        dry_run,
    }
}

/// Gives a value the type under which it is stored.
pub(crate) fn retype(kind: &Kind, value: &mut Value) {
    let api_version = kind.api_version();
    if value["apiVersion"] == api_version && value["kind"] == *kind.kind {
        return;
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), json!(api_version));
        map.insert("kind".into(), json!(kind.kind));
    }
}
