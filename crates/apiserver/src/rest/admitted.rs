//! Writes that admission webhooks have a say in: the same steps as of any write, with calls in between.
//!
//! Nothing is held while a webhook is waited for. So what was read may have changed when it answers: then, as
//! upstream does, everything begins again with what is there now, and the webhooks are called again.

use super::Context;
use super::create::{NewObject, asked_name, creation, retype};
use super::delete::{DeleteOptions, Deleted};
use super::metadata::{metadata_mut, text};
use super::prepared::{Prepared, Proposed, Written};
use super::update::{Change, MODIFIED, keep_server_metadata, replacing};
use crate::admission::Operation;
use crate::kinds::{Kind, Subresource};
use crate::semantics::Part;
use crate::status::{Cause, Status};
use crate::storage::{Draft, Stored};
use crate::webhooks::{Attributes, Hooks};
use crate::{convert, opaque};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How often a write begins again because others were faster: more than ever happens by chance, and few enough that
/// webhooks are not called for ever.
pub(super) const ADMITTED_ATTEMPTS: usize = 20;

/// UPSTREAM: how long a request may take altogether.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

impl Context {
    /// Creates an object that webhooks are asked about.
    pub(super) async fn create_admitted(
        &mut self,
        hooks: Option<&Hooks>,
        value: Value,
        opaque: Option<String>,
        dry_run: bool,
    ) -> Result<(Arc<Stored>, u64), Status> {
        let shared = self.shared.clone();
        let warnings = self.warnings.len();
        for _ in 0..ADMITTED_ATTEMPTS {
            let proposed = self.propose_new(value.clone(), opaque.clone(), dry_run)?;
            let proposed = Proposed::New(Box::new(proposed));
            let prepared = in_time(self.admit_by_webhooks(hooks, proposed, dry_run)).await?;
            let Prepared::New(mut checked) = prepared else {
                return Err(Status::internal("a new object became a change"));
            };
            let written = shared.store.write(|transaction| {
                if !self.still_allocated(checked.allocated) {
                    return Ok(None);
                }
                self.keep_new(transaction, &mut checked, dry_run).map(Some)
            })?;
            if let (Some(stored), revision) = written {
                let shown = match dry_run {
                    true => stored,
                    false => self.requested(stored).await?,
                };
                return Ok((shown, revision));
            }
            self.warnings.truncate(warnings);
        }
        Err(Status::conflict(self.subject(), MODIFIED))
    }

    /// Makes a write ready that webhooks are asked about, and stores it.
    pub(super) async fn write_admitted(
        &mut self,
        hooks: Option<&Hooks>,
        dry_run: bool,
        mut propose: impl FnMut(&mut Context) -> Result<Proposed, Status>,
    ) -> Result<Written, Status> {
        let shared = self.shared.clone();
        let warnings = self.warnings.len();
        for _ in 0..ADMITTED_ATTEMPTS {
            self.read_current().await?;
            let proposed = in_time(self.propose_converted(&mut propose)).await?;
            let prepared = in_time(self.admit_by_webhooks(hooks, proposed, dry_run)).await?;
            let is_stored = !dry_run && prepared.is_written();
            let (stored, revision) = shared
                .store
                .write(|transaction| self.swap(transaction, prepared, dry_run))?;
            if let Some((code, stored)) = stored {
                let shown = match is_stored {
                    true => self.requested(stored).await?,
                    false => stored,
                };
                return Ok(((code, shown), revision));
            }
            self.warnings.truncate(warnings);
        }
        Err(Status::conflict(self.subject(), MODIFIED))
    }

    /// From what is wanted to what may be stored.
    pub(super) async fn admit_by_webhooks(
        &mut self,
        hooks: Option<&Hooks>,
        proposed: Proposed,
        dry_run: bool,
    ) -> Result<Prepared, Status> {
        let mut prepared = match hooks {
            Some(hooks) => self.call_for_write(hooks, proposed, dry_run).await?,
            None => {
                let prepared = self.complete(proposed, dry_run)?;
                self.review_prepared_images(&prepared).await?;
                prepared
            }
        };
        if let Some(conversion) = self.conversion() {
            let kind = self.stored_kind.clone();
            if let Some((value, draft)) = prepared.draft_mut() {
                let stored = self.stored_form(&conversion, value.clone()).await?;
                *draft = Draft::new(&kind, &stored, None);
            }
        }
        Ok(prepared)
    }

    /// Whether a write waits for somebody other than the webhooks that users configure for admission.
    pub(super) fn has_to_wait(&self) -> bool {
        self.conversion().is_some() || self.asks_about_images()
    }

    async fn review_prepared_images(&mut self, prepared: &Prepared) -> Result<(), Status> {
        match self.asks_about_images() {
            true => self.review_images(prepared.states().0).await,
            false => Ok(()),
        }
    }

    /// Reads what a write is about to change at the version asked for, if a webhook has to be waited for.
    pub(super) async fn read_current(&mut self) -> Result<(), Status> {
        if self.conversion().is_some() {
            let key = self.key(&self.info.name);
            let stored = self.shared.store.get(&self.stored_kind, &key);
            self.converted = Some(match stored {
                Some(stored) => Some(self.requested(stored).await?),
                None => None,
            });
        }
        Ok(())
    }

    async fn call_for_write(
        &mut self,
        hooks: &Hooks,
        mut proposed: Proposed,
        dry_run: bool,
    ) -> Result<Prepared, Status> {
        let attributes = match &mut proposed {
            Proposed::New(new) => {
                let attributes = self.attributes(hooks, Operation::Create, dry_run);
                let name = text(&new.value, "name");
                let namespace = match self.kind.is("", "Namespace") {
                    true => name,
                    false => &self.info.namespace,
                };
                let attributes = attributes.named(namespace, name);
                self.mutate_new(&attributes, new, dry_run).await?;
                attributes
            }
            Proposed::Change(change) => {
                let attributes = self.attributes(hooks, Operation::Update, dry_run);
                self.mutate_change(&attributes, change, dry_run).await?;
                attributes
            }
        };
        let prepared = self.complete(proposed, dry_run)?;
        self.review_prepared_images(&prepared).await?;
        let (new, old) = prepared.states();
        // UPSTREAM: a name that was made up meanwhile is told to those who validate.
        let attributes = match &prepared {
            Prepared::New(checked) if attributes.name.is_empty() => {
                let namespace = attributes.namespace.clone();
                attributes.named(&namespace, &checked.name)
            }
            _ => attributes,
        };
        self.call_validating(&attributes, Some(new), old).await?;
        Ok(prepared)
    }

    async fn mutate_new(
        &mut self,
        attributes: &Attributes,
        new: &mut NewObject,
        dry_run: bool,
    ) -> Result<(), Status> {
        let kind = self.stored_kind.clone();
        let data = new.value.get("data").cloned();
        self.call_mutating(attributes, &mut new.value, None, |context, value| {
            let name = asked_name(value).to_owned();
            context.mutate(&creation(&kind, &name, dry_run), value, None)
        })
        .await?;
        follow_opaque(&kind, &new.value, data, &mut new.opaque);
        self.match_namespace(&mut new.value)?;
        if !self.info.name.is_empty() {
            self.match_name(&mut new.value)?;
        }
        // UPSTREAM: whatever else webhooks say of the metadata stays: the server has had its say before them.
        metadata_mut(&mut new.value).remove("selfLink");
        Ok(())
    }

    async fn mutate_change(
        &mut self,
        attributes: &Attributes,
        change: &mut Change,
        dry_run: bool,
    ) -> Result<(), Status> {
        let kind = self.stored_kind.clone();
        let data = change.new.get("data").cloned();
        let (old, before) = (change.old.clone(), &change.before);
        self.call_mutating(
            attributes,
            &mut change.new,
            Some(before),
            |context, value| {
                let admission = replacing(&kind, &old, dry_run);
                context.mutate(&admission, value, Some(before))
            },
        )
        .await?;
        follow_opaque(&kind, &change.new, data, &mut change.opaque);
        change.changes_metadata = change.new["metadata"] != change.before["metadata"];
        if !change.changes_metadata {
            return Ok(());
        }
        self.match_namespace(&mut change.new)?;
        let name = text(&change.new, "name");
        if name != change.old.name() {
            let quoted = api::syntax::go_quote(name);
            let message = format!("Invalid value: {quoted}: field is immutable");
            let cause = Cause::new("metadata.name", "FieldValueInvalid", message);
            return Err(self.invalid(change.old.name(), vec![cause]));
        }
        keep_server_metadata(&mut change.new, &change.before, self.applying);
        Ok(())
    }

    /// Deletes an object that webhooks are asked about.
    pub(super) async fn delete_admitted(
        &mut self,
        hooks: &Hooks,
        key: &str,
        options: &DeleteOptions,
    ) -> Result<(Deleted, u64), Status> {
        let shared = self.shared.clone();
        let kind = self.stored_kind.clone();
        let warnings = self.warnings.len();
        let name = crate::storage::split_key(key).1.to_owned();
        // UPSTREAM: the deletions of a collection have no name.
        let attributes = self.attributes(hooks, Operation::Delete, options.dry_run);
        for _ in 0..ADMITTED_ATTEMPTS {
            let old = shared.store.get(&kind, key);
            let old = old.ok_or_else(|| Status::not_found(self.subject_named(&name)))?;
            let value = self.requested(old.clone()).await?.working(&kind);
            // UPSTREAM: the plugins of the server come first.
            self.review_before(key, options)?;
            in_time(self.call_both(&attributes, Value::Null, Some(&value), None)).await?;
            let written = shared.store.write(|transaction| {
                let current = transaction.get(&kind, key);
                match current.is_some_and(|current| current.revision == old.revision) {
                    true => self.delete_in(transaction, key, options).map(Some),
                    false => Ok(None),
                }
            })?;
            if let (Some(deleted), revision) = written {
                return Ok((deleted, revision));
            }
            self.warnings.truncate(warnings);
        }
        Err(Status::conflict(self.subject_named(&name), MODIFIED))
    }

    /// Asks webhooks about what is not stored as it is: an Eviction, a Binding, a review, the options of a stream.
    /// Returns it as they left it.
    pub(super) async fn admit_unstored(
        &mut self,
        operation: Operation,
        shown_as: Option<(&'static str, &'static str)>,
        object: Value,
        dry_run: bool,
    ) -> Result<Value, Status> {
        let mut object = object;
        let part = shown_as.map(|object_type| Part {
            operation,
            object_type,
            dry_run,
        });
        if let Some(part) = part {
            self.mutate_part(part, &mut object, None)?;
        }
        let Some(hooks) = self.webhooks(&[operation]) else {
            if let Some(part) = part {
                self.validate_part(part, &object, None)?;
            }
            return Ok(object);
        };
        let mut attributes = self.attributes(&hooks, operation, dry_run);
        if let Some((api_version, kind)) = shown_as {
            attributes = attributes.shown_as(api_version, kind);
        }
        Box::pin(in_time(self.call_both(&attributes, object, None, part))).await
    }

    /// All webhooks, one kind after the other, for an object with nothing but policies to be asked in between.
    async fn call_both(
        &mut self,
        attributes: &Attributes,
        mut object: Value,
        old: Option<&Value>,
        part: Option<Part>,
    ) -> Result<Value, Status> {
        self.call_mutating(attributes, &mut object, old, |_, _| Ok(()))
            .await?;
        if let Some(part) = part {
            self.validate_part(part, &object, None)?;
        }
        let shown = (!object.is_null()).then_some(&object);
        self.call_validating(attributes, shown, old).await?;
        Ok(object)
    }

    /// The request as webhooks see it.
    pub(super) fn attributes(
        &self,
        hooks: &Hooks,
        operation: Operation,
        dry_run: bool,
    ) -> Attributes {
        let options = self.options(operation);
        Attributes::new(hooks, operation, dry_run, options)
            .named(&self.info.namespace, &self.info.name)
    }

    /// An object at the stored version, at another one.
    pub(crate) fn converted(&self, kind: &Arc<Kind>, mut value: Value) -> Value {
        retype(kind, &mut value);
        convert::from_storage(kind, &mut value);
        value
    }

    /// And back.
    pub(crate) fn to_stored(&self, kind: &Arc<Kind>, mut value: Value) -> Value {
        convert::to_storage(kind, &mut value);
        retype(&self.stored_kind, &mut value);
        value
    }

    /// The kind of the options of a stream, which is what webhooks see of it.
    pub(super) fn connect_options(
        &self,
        subresource: Subresource,
    ) -> Option<(&'static str, Value)> {
        let kind = match (subresource, &*self.kind.kind) {
            (Subresource::Exec, _) => "PodExecOptions",
            (Subresource::Attach, _) => "PodAttachOptions",
            (Subresource::PortForward, _) => "PodPortForwardOptions",
            (Subresource::Proxy, "Node") => "NodeProxyOptions",
            (Subresource::Proxy, "Service") => "ServiceProxyOptions",
            (Subresource::Proxy, _) => "PodProxyOptions",
            _ => return None,
        };
        let mut options = json!({"kind": kind, "apiVersion": "v1"});
        let query = &self.info.query;
        match subresource {
            Subresource::Exec | Subresource::Attach => {
                for member in ["stdin", "stdout", "stderr", "tty"] {
                    if query.flag(member) {
                        options[member] = json!(true);
                    }
                }
                let container = query.get("container");
                if !container.is_empty() {
                    options["container"] = json!(container);
                }
                let command: Vec<&str> = query.all("command").collect();
                if subresource == Subresource::Exec {
                    options["command"] = json!(command);
                }
            }
            Subresource::PortForward => {
                let ports = query
                    .all("ports")
                    .filter_map(|port| port.parse::<i32>().ok());
                let ports: Vec<i32> = ports.collect();
                if !ports.is_empty() {
                    options["ports"] = json!(ports);
                }
            }
            _ if !self.info.rest.is_empty() => options["path"] = json!(self.info.rest),
            _ => {}
        }
        Some((kind, options))
    }
}

/// A raw extension is kept as text beside the object: what a webhook changed in it takes its place.
fn follow_opaque(kind: &Kind, value: &Value, before: Option<Value>, opaque: &mut Option<String>) {
    let data = value.get("data");
    if opaque.is_some() && data != before.as_ref() {
        *opaque = opaque::text_of(kind, value.to_string().as_bytes());
    }
}

/// Ends a request that takes longer than any may.
async fn in_time<T>(work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let waited = tokio::time::timeout(REQUEST_TIMEOUT, work).await;
    waited.unwrap_or_else(|_| {
        let why = "Timeout: request did not complete within requested timeout";
        Err(Status::new(504, "Timeout", why))
    })
}
