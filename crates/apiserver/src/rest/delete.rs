//! Delete and deletecollection: grace, finalizers, propagation, preconditions.

mod options;

pub(crate) use options::DeleteOptions;

use super::list::is_long;
use super::metadata::{finalizers, is_deleting, metadata_mut, text};
use super::negotiate::Shape;
use super::{Context, body, response, type_meta};
use crate::admission::Operation;
use crate::kinds::Kind;
use crate::semantics::Admission;
use crate::status::{Details, Status, Subject};
use crate::storage::{Draft, Stored, Transaction};
use crate::webhooks::Hooks;
use crate::{Body, opaque, schema, semantics};
use api::Time;
use http::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// The kind of the body of a deletion.
pub(super) const DELETE_OPTIONS: &str = "DeleteOptions";

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// UPSTREAM: grace of a pod that does not say.
const DEFAULT_POD_GRACE_SECONDS: i64 = 30;

pub(crate) enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Stored>),
    /// It will go when its grace or its finalizers are over.
    Pending(Arc<Stored>),
}

impl Context {
    pub(super) async fn delete(&mut self) -> Result<Response<Body>, Status> {
        let options = self.delete_options()?;
        let key = self.object_key()?;
        let hooks = self.webhooks(&[Operation::Delete]);
        let (deleted, revision) = self.delete_key(hooks.as_ref(), &key, &options).await?;
        self.wait_durable(revision).await?;
        let deleted = match deleted {
            Deleted::Pending(object) => Deleted::Pending(self.requested(object).await?),
            Deleted::Gone(object) => Deleted::Gone(self.requested(object).await?),
        };
        match deleted {
            Deleted::Pending(object) => {
                // UPSTREAM: 202 only when the caller explicitly did not want orphans.
                let code = if options.orphan_dependents == Some(false) {
                    202
                } else {
                    200
                };
                self.show(code, &object)
            }
            Deleted::Gone(object) if returns_object(&self.kind) => self.show(200, &object),
            Deleted::Gone(object) => Ok(response::value(200, &self.success(&object))),
        }
    }

    pub(super) async fn delete_collection(&mut self) -> Result<Response<Body>, Status> {
        let options = self.delete_options()?;
        let selector = self.selector()?;
        let hooks = self.webhooks(&[Operation::Delete]);
        let (page, metadata) = self.page(&selector)?;
        let (mut objects, mut last) = (Vec::new(), 0);
        // UPSTREAM: each is a deletion of its own; what was deleted before an error stays so.
        for object in page.items {
            match self.delete_key(hooks.as_ref(), &object.key, &options).await {
                // UPSTREAM: the answer shows what was there before.
                Ok((_, revision)) => {
                    last = revision;
                    objects.push(object);
                }
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        self.wait_durable(last).await?;
        let objects = self.requested_all(objects).await?;
        Ok(match is_long(&objects) {
            true => self.streamed(Shape::Object, objects, &metadata),
            false => response::json(200, self.whole_list(&objects, &metadata)),
        })
    }

    async fn delete_key(
        &mut self,
        hooks: Option<&Hooks>,
        key: &str,
        options: &DeleteOptions,
    ) -> Result<(Deleted, u64), Status> {
        if let Some(hooks) = hooks {
            return Box::pin(self.delete_admitted(hooks, key, options)).await;
        }
        let shared = self.shared.clone();
        if shared.policies.are_there(&shared.store) {
            self.review_before(key, options)?;
        }
        shared
            .store
            .write(|transaction| self.delete_in(transaction, key, options))
    }

    /// From the body or, if it is empty, from the query.
    pub(crate) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        if self.body.is_empty() {
            return DeleteOptions::from_query(&self.info.query);
        }
        DeleteOptions::from_body(&self.delete_body()?)
    }

    /// The body of a deletion, unless it is empty.
    pub(crate) fn delete_body(&self) -> Result<Value, Status> {
        let mut body = body::parse(&self.headers, &self.body, DELETE_OPTIONS)?;
        let wrong = |why: String| Err(Status::bad_request(why));
        let given = |member: &str| body[member].as_str().unwrap_or_default();
        match given("kind") {
            "" | DELETE_OPTIONS => {}
            "Status" => {
                return wrong(
                    "converting (v1.Status) to (v1.DeleteOptions): unknown conversion".into(),
                );
            }
            kind => {
                let version = match given("apiVersion") {
                    "" => "meta.k8s.io/v1",
                    version => version,
                };
                return wrong(type_meta::unregistered(version, kind));
            }
        }
        if let Some(ty) = schema::type_named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions") {
            match schema::decode(ty, body) {
                Ok(decoded) => body = decoded.object,
                Err(why) => return wrong(why.to_string()),
            }
        }
        Ok(body)
    }

    /// Asks plugins and policies about a deletion before it has its turn; in its turn it only makes sure that the object is the one
    /// that they were asked about.
    pub(super) fn review_before(
        &mut self,
        key: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let kind = self.stored_kind.clone();
        let Some(old) = self.shared.store.get(&kind, key) else {
            return Ok(());
        };
        let value = old.working(&kind);
        self.check_delete_preconditions(&value, old.name(), options)?;
        let admission = deletion(&kind, old.name(), options);
        self.mutate(&admission, &mut Value::Null, Some(&value))?;
        self.review_deletion(&admission, &value)?;
        self.reviewed = Some((old.key.clone(), old.revision));
        Ok(())
    }

    /// Deletes the object under a key, as far as it can be deleted now.
    pub(crate) fn delete_in(
        &mut self,
        transaction: &mut Transaction<'_>,
        key: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let kind = self.stored_kind.clone();
        self.warn_about_orphans(&kind, options);
        let name = crate::storage::split_key(key).1.to_owned();
        let missing = || Status::not_found(self.subject_named(&name));
        let old = transaction.get(&kind, key).ok_or_else(missing)?;
        let mut value = old.working(&kind);
        self.check_delete_preconditions(&value, &name, options)?;
        let admission = deletion(&kind, &name, options);
        self.mutate(&admission, &mut Value::Null, Some(&value))?;
        let is_reviewed = self.reviewed == Some((old.key.clone(), old.revision));
        if !is_reviewed {
            self.review_deletion(&admission, &value)?;
        }
        if kind.is("", "Namespace") {
            return self.delete_namespace(transaction, &old, value, options);
        }
        let now = self.shared.now_seconds();
        let graceful = match grace(&kind, &mut value, options, now) {
            Grace::Pending => return Ok(Deleted::Pending(old)),
            Grace::Set(seconds) => Some(seconds),
            Grace::None => None,
        };
        let finalizers_changed = propagate(&kind, &mut value, options);
        let held = !finalizers(&value).is_empty();
        if graceful.is_none() && held {
            mark_deleting(&mut value, now);
        }
        let mut last = old.clone();
        if graceful.is_some() || held || finalizers_changed {
            last = self.write_if_changed(transaction, &old, &mut value, options.dry_run);
        }
        if held || graceful.is_some_and(|seconds| seconds > 0) {
            if semantics::is_definition(&kind) && !options.dry_run {
                crate::crd::lifecycle::clean_up(&self.shared, transaction, &name);
            }
            return Ok(Deleted::Pending(last));
        }
        if !options.dry_run {
            last = transaction.remove(&kind, key).unwrap_or(last);
            self.after_delete(transaction, &value);
        }
        Ok(Deleted::Gone(last))
    }

    fn write_if_changed(
        &self,
        transaction: &mut Transaction<'_>,
        old: &Arc<Stored>,
        value: &mut Value,
        dry_run: bool,
    ) -> Arc<Stored> {
        let old_body = old.body();
        let opaque = opaque::text_of(&self.stored_kind, &old_body);
        let draft = Draft::new(&self.stored_kind, value, opaque.as_deref());
        if draft.is(&old_body, old.revision) {
            return old.clone();
        }
        if dry_run {
            return self.store(transaction, &old.key, value, opaque.as_deref(), dry_run);
        }
        self.keep(transaction, &old.key, draft)
    }

    /// A namespace ends when the namespace controller has emptied it.
    fn delete_namespace(
        &mut self,
        transaction: &mut Transaction<'_>,
        old: &Arc<Stored>,
        mut value: Value,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let now = self.shared.now_seconds();
        let spec_finalizers = value["spec"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        propagate(&self.stored_kind.clone(), &mut value, options);
        let held = spec_finalizers || !finalizers(&value).is_empty();
        if is_deleting(&value) && held {
            return Ok(Deleted::Pending(old.clone()));
        }
        if held {
            metadata_mut(&mut value).insert(
                "deletionTimestamp".into(),
                json!(Time::from_unix(now).to_string()),
            );
            if let Some(map) = value.as_object_mut() {
                let status = map.entry("status").or_insert_with(|| json!({}));
                if let Some(status) = status.as_object_mut() {
                    status.insert("phase".into(), json!("Terminating"));
                }
            }
            return Ok(Deleted::Pending(self.write_if_changed(
                transaction,
                old,
                &mut value,
                options.dry_run,
            )));
        }
        if options.dry_run {
            return Ok(Deleted::Gone(old.clone()));
        }
        let last = transaction
            .remove(&self.stored_kind, &old.key)
            .unwrap_or_else(|| old.clone());
        Ok(Deleted::Gone(last))
    }

    pub(crate) fn check_delete_preconditions(
        &self,
        value: &Value,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        // UPSTREAM: here, and only here, the message names the stored kind instead of the resource,
        // and for namespaces not even that.
        let is_namespace = self.kind.is("", "Namespace");
        let subject = Subject {
            group: &self.stored_kind.group,
            plural: if is_namespace {
                &self.kind.plural
            } else {
                &self.kind.kind
            },
            name,
        };
        let check = |what: &str, wanted: &Option<String>, actual: &str| match wanted {
            Some(wanted) if wanted != actual => {
                let (label, fate) = if what == "uid" {
                    ("UID", "deleted and then recreated")
                } else {
                    ("ResourceVersion", "modified")
                };
                let why = if is_namespace {
                    format!(
                        "Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {actual}"
                    )
                } else {
                    format!(
                        "the {label} in the precondition ({wanted}) does not match the {label} in record ({actual}). \
                     The object might have been {fate}"
                    )
                };
                Err(Status::conflict(subject, &why))
            }
            _ => Ok(()),
        };
        check("uid", &options.uid, text(value, "uid"))?;
        check(
            "resourceVersion",
            &options.resource_version,
            text(value, "resourceVersion"),
        )
    }

    fn warn_about_orphans(&mut self, kind: &Kind, options: &DeleteOptions) {
        let silent = options.propagation.is_some() || options.orphan_dependents.is_some();
        if kind.is("batch", "Job") && !silent {
            self.warnings.push(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
                 them or set propagationPolicy=Orphan to suppress this warning"
                    .to_owned(),
            );
        }
    }

    /// The Status that says that an object is gone.
    fn success(&self, object: &Stored) -> Value {
        let value = object.value(&self.kind);
        let details = Details {
            name: object.name().to_owned(),
            group: self.kind.group.to_string(),
            kind: self.kind.plural.to_string(),
            uid: text(&value, "uid").to_owned(),
            ..Details::default()
        };
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details.to_value()})
    }
}

fn deletion<'a>(kind: &'a Kind, name: &'a str, options: &DeleteOptions) -> Admission<'a> {
    Admission {
        operation: Operation::Delete,
        kind,
        name,
        dry_run: options.dry_run,
    }
}

enum Grace {
    /// The kind knows no grace.
    None,
    /// The object was marked, with so many seconds to go.
    Set(i64),
    /// It was already marked, and not for longer than asked.
    Pending,
}

/// Marks a pod as ending: it is the only kind whose deletion waits for someone (its kubelet).
fn grace(kind: &Kind, value: &mut Value, options: &DeleteOptions, now: i64) -> Grace {
    if !kind.is("", "Pod") {
        return Grace::None;
    }
    if is_deleting(value) {
        let current = value["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0);
        let Some(wanted) = options
            .grace_seconds
            .map(|seconds| if seconds < 0 { 1 } else { seconds })
        else {
            return if current == 0 {
                Grace::None
            } else {
                Grace::Pending
            };
        };
        if current == 0 {
            return Grace::None;
        }
        if wanted >= current {
            return Grace::Pending;
        }
        let end = Time::parse(text(value, "deletionTimestamp")).map_or(now, Time::unix);
        // An end that was cut off does not say when it began.
        let start = match end {
            Time::LAST_UNIX => now,
            end => end.saturating_sub(current),
        };
        set_deletion(value, start.saturating_add(wanted), wanted);
        return Grace::Set(wanted);
    }
    let default = value["spec"]["terminationGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(DEFAULT_POD_GRACE_SECONDS);
    let mut seconds = options.grace_seconds.unwrap_or(default);
    let unscheduled = value["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    let terminal = matches!(
        value["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if unscheduled || terminal {
        seconds = 0;
    }
    if seconds < 0 {
        // UPSTREAM: a negative grace means one second.
        seconds = 1;
    }
    set_deletion(value, now.saturating_add(seconds), seconds);
    bump_generation(value);
    Grace::Set(seconds)
}

/// Marks an object that waits for its finalizers.
fn mark_deleting(value: &mut Value, now: i64) {
    if !is_deleting(value) {
        bump_generation(value);
        set_deletion(value, now, 0);
    } else {
        metadata_mut(value).insert("deletionGracePeriodSeconds".into(), json!(0));
    }
}

fn set_deletion(value: &mut Value, at: i64, grace: i64) {
    let metadata = metadata_mut(value);
    metadata.insert(
        "deletionTimestamp".into(),
        json!(Time::from_unix(at).to_string()),
    );
    metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
}

fn bump_generation(value: &mut Value) {
    if let Some(generation) = value["metadata"]["generation"]
        .as_i64()
        .filter(|generation| *generation > 0)
    {
        metadata_mut(value).insert("generation".into(), json!(generation.saturating_add(1)));
    }
}

/// Sets the finalizers that the garbage collector acts on; true if they changed.
fn propagate(kind: &Kind, value: &mut Value, options: &DeleteOptions) -> bool {
    let before = finalizers(value);
    let has = |name: &str| before.iter().any(|finalizer| finalizer == name);
    let policy = options.propagation.as_deref();
    let orphan = match (options.orphan_dependents, policy) {
        (Some(orphan), _) => orphan,
        (None, Some(policy)) => policy == "Orphan",
        (None, None) if has(ORPHAN) => true,
        (None, None) if has(FOREGROUND) => false,
        // UPSTREAM: these two orphaned their dependents before there was a garbage collector.
        (None, None) => kind.is("batch", "Job") || kind.is("", "ReplicationController"),
    };
    let foreground = match (options.orphan_dependents, policy) {
        (Some(_), _) => false,
        (None, Some(policy)) => policy == "Foreground",
        (None, None) => has(FOREGROUND) && !has(ORPHAN),
    };
    let mut after: Vec<String> = before
        .iter()
        .filter(|name| *name != ORPHAN && *name != FOREGROUND)
        .cloned()
        .collect();
    if orphan {
        after.push(ORPHAN.to_owned());
    }
    if foreground {
        after.push(FOREGROUND.to_owned());
    }
    let mut sorted = (before.clone(), after.clone());
    sorted.0.sort();
    sorted.1.sort();
    if kind.storage.1 == "events" || sorted.0 == sorted.1 {
        return false;
    }
    let metadata = metadata_mut(value);
    if after.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(after));
    }
    true
}

/// UPSTREAM: kinds whose deletion answers with the object instead of a Status.
fn returns_object(kind: &Kind) -> bool {
    const KINDS: [&str; 18] = [
        "Pod",
        "Service",
        "PodTemplate",
        "ResourceQuota",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ServiceAccount",
        "Namespace",
        "CSIDriver",
        "CSINode",
        "StorageClass",
        "VolumeAttachment",
        "VolumeAttributesClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
        "DeviceClass",
        "DeviceTaintRule",
    ];
    kind.custom().is_none() && KINDS.contains(&&*kind.kind)
}
