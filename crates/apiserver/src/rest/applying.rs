//! Server-side apply as a request: PATCH with `application/apply-patch+yaml`.

use super::Context;
use super::body::{MAX_MANAGER_NAME, faults, read_yaml};
use super::go_json;
use super::metadata::{metadata_mut, text};
use super::prepared::Proposed;
use super::strict::{Read, Source};
use crate::apply::{self, Manager, Operation, Versions};
use crate::kinds::{Kind, Subresource};
use crate::status::Status;
use crate::{Body, convert, semantics};
use http::Response;
use serde_json::Value;

pub(super) const APPLY_PATCH: &str = "application/apply-patch+yaml";

impl Context {
    pub(super) async fn apply(&mut self, dry_run: bool) -> Result<Response<Body>, Status> {
        let (api_version, kind) = (
            self.kind.api_version().to_owned(),
            self.kind.kind.to_string(),
        );
        let read = self.configuration(&api_version, &kind)?;
        let (mut config, duplicates) = (read.value, read.duplicates);
        self.check_declared(&config)?;
        let named = self.require_name(&config);
        self.match_name(&mut config)?;
        self.match_namespace(&mut config)?;
        let write = self.write_prepared(dry_run, |context| {
            context.propose_apply(&config, &named, &duplicates, dry_run)
        });
        let (outcome, revision) = write.await?;
        self.wait_durable(revision).await?;
        self.show(outcome.0, &outcome.1)
    }

    /// The body of an apply: an object of that type.
    pub(super) fn configuration(&self, api_version: &str, kind: &str) -> Result<Read, Status> {
        let read = read_yaml(&self.body)?;
        let config = &read.value;
        if !config.is_object() && !config.is_null() {
            let why = go_json::mismatch(config, "map[string]interface {}");
            return Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}"
            )));
        }
        if config["apiVersion"] != api_version || config["kind"] != kind {
            let given = |member: &str| config[member].as_str().unwrap_or_default();
            let message = format!(
                "invalid object type: {}, Kind={}",
                slashed(given("apiVersion")),
                given("kind")
            );
            return Err(Status::bad_request(message));
        }
        if apply::has_managed_fields(config) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        Ok(read)
    }

    /// UPSTREAM: what does not fit its type cannot be owned, whatever fieldValidation says.
    fn check_declared(&self, config: &Value) -> Result<(), Status> {
        match apply::faults(&self.kind, config) {
            Some(fault) => Err(untyped(config, &fault)),
            None => Ok(()),
        }
    }

    /// UPSTREAM: what stands twice is refused or warned of by itself, before the fields that nobody knows.
    fn report_repetitions(&mut self, duplicates: &[String]) -> Result<(), Status> {
        // Of YAML there is one sentence for all.
        let Some(sentence) = duplicates.first() else {
            return Ok(());
        };
        let why = format!("error converting YAML to JSON: {sentence}");
        match self.info.query.get("fieldValidation") {
            "Ignore" => {}
            "Strict" => {
                let message = format!("error strict decoding YAML: {why}");
                return Err(Status::bad_request(message));
            }
            _ => self.warnings.push(why),
        }
        Ok(())
    }

    fn propose_apply(
        &mut self,
        config: &Value,
        named: &Result<(), Status>,
        duplicates: &[String],
        dry_run: bool,
    ) -> Result<Proposed, Status> {
        let key = self.object_key()?;
        let old = self.current(&key);
        let before = old.as_ref().map(|old| old.working(&self.stored_kind));
        let live = before.clone().map(|before| self.at_version(before));
        if live.is_none() && self.subresource.is_some() {
            return Err(Status::not_found(self.subject()));
        }
        let manager = self.manager(Operation::Apply);
        let force = self.info.query.flag("force");
        let merged = self.merge(live.as_ref(), config, &manager, force)?;
        let unconverted = match (&before, &live) {
            (Some(before), Some(live)) if convert::has_versions(&self.kind) => {
                apply::unless_changed(before, live, &merged)
            }
            _ => None,
        };
        self.applying = true;
        self.report_repetitions(duplicates)?;
        let nulls = self.kind.custom().is_some().then(|| merged.clone());
        let decoded = self.decode(merged);
        let (kind, version) = (&self.kind.kind, &self.kind.version);
        let (mut value, unknown) =
            decoded.map_err(|why| semantics::cannot_be_handled(kind, version, &why))?;
        self.report(faults(Vec::new(), unknown, Source::Yaml))?;
        if let Some(applied) = nulls {
            // UPSTREAM: an applied null is a value, which stays unless a default takes its place.
            keep_nulls(&mut value, &applied);
        }
        let (Some(old), Some(before)) = (old, before) else {
            // What is there has its name.
            named.clone()?;
            let uid = text(config, "uid");
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(Status::conflict(self.subject(), &why));
            }
            self.provision_namespace(dry_run);
            let proposed = self.propose_new(value, None, dry_run)?;
            return Ok(Proposed::New(Box::new(proposed)));
        };
        let value = unconverted.unwrap_or_else(|| {
            semantics::default(&self.kind, &mut value);
            convert::to_storage(&self.kind, &mut value);
            value
        });
        let change = self.propose_change(old, before, value, None, dry_run)?;
        Ok(Proposed::Change(Box::new(change)))
    }

    fn merge(
        &mut self,
        live: Option<&Value>,
        config: &Value,
        manager: &Manager,
        force: bool,
    ) -> Result<Value, Status> {
        let (kind, reset) = (self.kind.clone(), self.unwritten());
        self.with_versions(|versions| {
            apply::apply(&kind, live, config, manager, force, reset, versions)
        })
    }

    /// Does something that may have to know an object at other versions, if its kind has any.
    fn with_versions<T>(
        &mut self,
        work: impl FnOnce(Option<&mut Versions<'_>>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        if let Some(conversion) = self.conversion() {
            return work(Some(&mut |object, version| {
                self.conversions.at(&conversion, object, version)
            }));
        }
        match convert::has_versions(&self.kind) {
            true => work(Some(&mut |object, version| {
                Ok(convert::at_version(&self.registry, object, version))
            })),
            false => work(None),
        }
    }

    /// Who this request's changes belong to.
    pub(crate) fn manager(&self, operation: Operation) -> Manager {
        let given = self.info.query.get("fieldManager");
        let agent = self
            .headers
            .get(http::header::USER_AGENT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let name = if given.is_empty() {
            agent.split('/').next().unwrap_or_default()
        } else {
            given
        };
        let name: String = name.chars().take(MAX_MANAGER_NAME).collect();
        Manager {
            name: if name.is_empty() {
                "unknown".to_owned()
            } else {
                name
            },
            operation,
            api_version: self.kind.api_version().to_owned(),
            subresource: self.info.subresource.clone(),
            now: self.shared.now(),
        }
    }

    /// Fields that this endpoint does not write, whatever a request says of them.
    fn unwritten(&self) -> &'static [&'static [&'static str]] {
        let request = self
            .kind
            .is("certificates.k8s.io", "CertificateSigningRequest");
        let pod_request = self.kind.is("certificates.k8s.io", "PodCertificateRequest");
        match self.subresource {
            None if request => &[&["f:spec"], &["f:status"]],
            Some(Subresource::Approval) => &[&["f:spec"], &["f:status", "f:certificate"]],
            // UPSTREAM: of these, nothing is said to be reset.
            None if pod_request => &[],
            Some(Subresource::Status) if pod_request => &[&["f:spec"]],
            None if self.kind.has(Subresource::Status) => &[&["f:status"]],
            Some(Subresource::Finalize) => &[&["f:status"]],
            Some(Subresource::Status) if request => &[&["f:spec"], &["f:status", "f:conditions"]],
            Some(Subresource::Status) => match (&*self.kind.group, &*self.kind.kind) {
                ("", "Pod") => &[
                    &["f:spec"],
                    &["f:metadata", "f:deletionTimestamp"],
                    &["f:metadata", "f:ownerReferences"],
                ],
                ("apps", "Deployment") => &[&["f:spec"], &["f:metadata", "f:labels"]],
                ("" | "apps" | "autoscaling" | "batch" | "policy", _) | (_, "Ingress") => {
                    &[&["f:spec"]]
                }
                _ => &[&["f:spec"], &["f:metadata"]],
            },
            _ => &[],
        }
    }

    /// The managedFields of a new object.
    pub(crate) fn manage_new(&self, new: &mut Value) {
        if !self.shared.track_fields || self.applying {
            return;
        }
        let (manager, reset) = (self.manager(Operation::Update), self.unwritten());
        let shapes = &self.shared.shapes;
        if !self.names_differ() {
            return shapes.record(&self.kind, new, &manager, reset);
        }
        let mut shown = self.at_version(new.clone());
        shapes.record(&self.kind, &mut shown, &manager, reset);
        take_fields(&mut shown, new);
    }

    /// Whether fields have other names at the version of the request than where they are stored. They are managed by
    /// the former.
    fn names_differ(&self) -> bool {
        self.kind.custom().is_none() && convert::differs(&self.kind)
    }

    /// Keeps managedFields true through a write that is not an apply.
    pub(crate) fn manage_fields(
        &mut self,
        kind: &Kind,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !self.shared.track_fields || self.applying {
            return Ok(());
        }
        if !self.names_differ() {
            return self.record_fields(kind, new, old);
        }
        let asked = self.kind.clone();
        let mut shown = self.at_version(new.clone());
        let before = old.map(|old| self.at_version(old.clone()));
        self.record_fields(&asked, &mut shown, before.as_ref())?;
        take_fields(&mut shown, new);
        Ok(())
    }

    fn record_fields(
        &mut self,
        kind: &Kind,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (manager, reset) = (self.manager(Operation::Update), self.unwritten());
        let recorded = self.with_versions(|versions| {
            apply::update_across(kind, new, old, &manager, reset, versions)
        });
        match recorded {
            Err(status) if self.conversions.are_awaited() => Err(status),
            // UPSTREAM: what cannot be converted is not written about, and the write goes on.
            Err(_) => {
                metadata_mut(new).remove("managedFields");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Moves managed fields from one to the other.
fn take_fields(from: &mut Value, to: &mut Value) {
    match metadata_mut(from).remove("managedFields") {
        Some(fields) => metadata_mut(to).insert("managedFields".into(), fields),
        None => metadata_mut(to).remove("managedFields"),
    };
}

/// Puts back the nulls of custom objects that reading dropped.
fn keep_nulls(value: &mut Value, applied: &Value) {
    match (value, applied) {
        (Value::Object(members), Value::Object(applied)) => {
            for (name, applied) in applied {
                match members.get_mut(name) {
                    Some(member) => keep_nulls(member, applied),
                    None if applied.is_null() => {
                        members.insert(name.clone(), Value::Null);
                    }
                    None => {}
                }
            }
        }
        (Value::Array(items), Value::Array(applied)) => {
            for (item, applied) in items.iter_mut().zip(applied) {
                keep_nulls(item, applied);
            }
        }
        _ => {}
    }
}

pub(super) fn undeclared(path: &str) -> String {
    format!(".{path}: field not declared in schema")
}

/// UPSTREAM: a configuration that does not fit its type is answered with a 500.
pub(super) fn untyped(config: &Value, fault: &str) -> Status {
    let given = |member: &str| config[member].as_str().unwrap_or_default();
    Status::unexpected(format!(
        "failed to create typed patch object ({}/{}; {}, Kind={}): {fault}",
        text(config, "namespace"),
        text(config, "name"),
        slashed(given("apiVersion")),
        given("kind")
    ))
}

/// UPSTREAM: here the core group's version is `/v1`.
fn slashed(api_version: &str) -> String {
    if api_version.contains('/') {
        api_version.to_owned()
    } else {
        format!("/{api_version}")
    }
}
