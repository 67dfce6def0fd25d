//! Calling the webhooks that may change an object.

use super::Attributes;
use super::call::{self, CallFailure};
use super::configuration::Webhook;
use super::matching::Invocation;
use super::review::{self, Answer, Question};
use crate::kinds::Kind;
use crate::metrics::admission::{Call, Outcome};
use crate::patch;
use crate::rest::Context;
use crate::rest::body::parse_error;
use crate::rest::go_json::mismatch;
use crate::rest::metadata::{metadata_mut, normalize_managed_fields};
use crate::rest::strict::excess;
use crate::semantics;
use crate::status::Status;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;

/// Why a webhook did not let a request through.
pub(super) enum Failure {
    /// It could not be asked, or what it said makes no sense: its failure policy decides.
    Call(u16, String),
    /// It said no.
    Denied(Status),
    /// What it wants cannot be done.
    Refused(Status),
}

/// Which webhooks are called a second time. UPSTREAM: those that ask for it and were called before something changed.
#[derive(Default)]
struct Reinvocation {
    is_second: bool,
    required: bool,
    invoked: BTreeSet<String>,
    again: BTreeSet<String>,
}

impl Reinvocation {
    fn changed(&mut self) {
        self.again.append(&mut self.invoked);
    }
}

impl Context {
    /// Calls the webhooks that may change an object at the stored version; null where there is none. `plugins` runs
    /// the plugins of the server again, which see what webhooks have changed.
    pub(crate) async fn call_mutating(
        &mut self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
        plugins: impl Fn(&mut Context, &mut Value) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut rounds = Reinvocation::default();
        self.mutating_round(attributes, object, old, &mut rounds)
            .await?;
        if !rounds.required {
            return Ok(());
        }
        let output = object.clone();
        plugins(self, object)?;
        if *object != output {
            rounds.changed();
        }
        rounds.is_second = true;
        self.mutating_round(attributes, object, old, &mut rounds)
            .await
    }

    async fn mutating_round(
        &mut self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
        rounds: &mut Reinvocation,
    ) -> Result<(), Status> {
        for hook in &attributes.configured.mutating {
            let Some(invocation) = self.invocation(hook, attributes, object, old)? else {
                continue;
            };
            // UPSTREAM: nobody is called for the first time in the second round.
            if rounds.is_second && !rounds.again.contains(&hook.id) {
                continue;
            }
            let begun = Instant::now();
            let called = self.mutate_by(hook, &invocation, attributes, object, old);
            let called = called.await;
            let outcome = match &called {
                Ok(_) => Outcome::Allowed,
                Err(failure) => failure.outcome(hook),
            };
            let call = Call {
                webhook: &hook.spec.name,
                step: "admit",
                operation: attributes.operation.name(),
                took: begun.elapsed(),
            };
            self.shared.metrics.admission.called(&call, outcome);
            if let Ok(true) = called {
                rounds.changed();
                rounds.required = true;
            }
            if hook.spec.is_reinvoked() {
                rounds.invoked.insert(hook.id.clone());
            }
            match called {
                Ok(_) => {}
                Err(failure) => failed(hook, failure)?,
            }
        }
        Ok(())
    }

    /// Calls one webhook; true if it changed the object.
    async fn mutate_by(
        &mut self,
        hook: &Webhook,
        invocation: &Invocation,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<bool, Failure> {
        let shown = self.shown_to_webhook(attributes, &invocation.kind, object);
        let answer = self.ask(hook, invocation, attributes, &shown, old, true);
        let answer = answer.await?;
        self.note_answer(hook, answer.warnings, answer.audit_annotations);
        if !answer.allowed {
            let status = review::denied(&hook.spec.name, answer.result.as_ref());
            return Err(Failure::Denied(status));
        }
        if answer.patch.is_empty() {
            return Ok(false);
        }
        let undecodable = |why: String| {
            let why = format!("received undecodable patch in webhook response: {why}");
            Failure::Call(503, why)
        };
        let changes: Value = serde_json::from_slice(&answer.patch)
            .map_err(|why| undecodable(parse_error(&answer.patch, &why)))?;
        match &changes {
            Value::Null => return Ok(false),
            Value::Array(operations) if operations.is_empty() => return Ok(false),
            Value::Array(_) => {}
            other => return Err(undecodable(mismatch(other, "jsonpatch.Patch"))),
        }
        if shown.is_null() {
            return Err(Failure::Refused(Status::internal(format!(
                "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
                hook.spec.name
            ))));
        }
        if answer.patch_type != "JSONPatch" {
            let patch_type = api::syntax::go_quote(&answer.patch_type);
            let why = format!("unsupported patch type {patch_type}");
            return Err(Failure::Call(503, why));
        }
        let patched = self
            .patched(attributes, &invocation.kind, &shown, &changes)
            .map_err(Failure::Refused)?;
        let is_changed = patched != shown;
        self.take_over(attributes, &invocation.kind, object, &shown, patched);
        Ok(is_changed)
    }

    /// Asks one webhook about an object as it sees it.
    pub(super) async fn ask(
        &self,
        hook: &Webhook,
        invocation: &Invocation,
        attributes: &Attributes,
        shown: &Value,
        old: Option<&Value>,
        is_mutating: bool,
    ) -> Result<Answer, Failure> {
        let spec = &hook.spec;
        if attributes.dry_run && !spec.supports_dry_run() {
            let why = format!(
                "admission webhook \"{}\" does not support dry run",
                spec.name
            );
            return Err(Failure::Refused(Status::bad_request(why)));
        }
        let old = old.map(|old| self.shown_to_webhook(attributes, &invocation.kind, old));
        let old = old.unwrap_or_default();
        let question = Question::new(self, spec, invocation, attributes, shown.clone(), old);
        let question = question.ok_or_else(|| {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            Failure::Call(400, why.to_owned())
        })?;
        let (config, timeout) = (&spec.client_config, spec.timeout());
        let posted = call::post(&self.shared, config, &question.review, timeout).await;
        let review = posted.map_err(|failure| {
            let (code, why) = match failure {
                CallFailure::NoClient(why) => {
                    let name = &spec.name;
                    let why = format!("failed calling webhook \"{name}\": {why}");
                    (500, format!("could not get REST client: {why}"))
                }
                CallFailure::Refused(code, why) => (code, format!("failed to call webhook: {why}")),
                CallFailure::Failed(why) => (503, format!("failed to call webhook: {why}")),
            };
            Failure::Call(code, why)
        })?;
        if let Some(why) = question.unreadable(&review) {
            return Err(Failure::Call(503, format!("failed to call webhook: {why}")));
        }
        question
            .answer(&review, is_mutating)
            .map_err(|why| Failure::Call(503, format!("received invalid webhook response: {why}")))
    }

    /// An object at the stored version as a webhook sees it.
    pub(super) fn shown_to_webhook(
        &self,
        attributes: &Attributes,
        kind: &Arc<Kind>,
        object: &Value,
    ) -> Value {
        let mut shown = object.clone();
        if shown.is_null() || attributes.shown_as.is_some() {
            return shown;
        }
        let entries = crate::fields::list_mut(&mut shown, "metadata.managedFields");
        for entry in entries.into_iter().flatten() {
            if let Some(Value::String(text)) = entry.get("fieldsV1") {
                entry["fieldsV1"] = serde_json::from_str(text).unwrap_or_default();
            }
        }
        self.converted(kind, shown)
    }

    /// What becomes of a shown object by a patch: read by its type, as anything that comes from outside.
    fn patched(
        &self,
        attributes: &Attributes,
        kind: &Arc<Kind>,
        shown: &Value,
        changes: &Value,
    ) -> Result<Value, Status> {
        let internal = |why: String| Status::internal(why);
        let mut value = shown.clone();
        patch::check_depth(&value, changes).map_err(|status| internal(status.message))?;
        patch::json(&mut value, changes).map_err(|status| internal(status.message))?;
        if !value.is_object() || excess(&value).is_some() {
            return Err(internal(
                "the patched object is no object, or is nested too deeply or too large".to_owned(),
            ));
        }
        for member in ["apiVersion", "kind"] {
            if value[member] != shown[member] {
                return Err(internal(format!(
                    "a webhook may not change {member} from {} to {}",
                    shown[member], value[member]
                )));
            }
        }
        if attributes.shown_as.is_some() {
            return Ok(value);
        }
        let (value, _) = semantics::read(kind, value).map_err(internal)?;
        Ok(value)
    }

    /// Makes a patched object the object at the stored version.
    fn take_over(
        &mut self,
        attributes: &Attributes,
        kind: &Arc<Kind>,
        object: &mut Value,
        shown: &Value,
        mut patched: Value,
    ) {
        if attributes.shown_as.is_some() {
            *object = patched;
            return;
        }
        let fields = |value: &Value| value["metadata"].get("managedFields").cloned();
        let before = fields(object);
        let mut keeps_fields = fields(&patched) == fields(shown);
        if !keeps_fields && let Err(why) = check_fields(&mut patched) {
            self.warnings.push(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                 mutating admission controller; please fix your requests: {why}"
            ));
            keeps_fields = true;
        }
        if keeps_fields {
            let metadata = metadata_mut(&mut patched);
            match before {
                Some(before) => drop(metadata.insert("managedFields".to_owned(), before)),
                None => drop(metadata.remove("managedFields")),
            }
        }
        semantics::default(kind, &mut patched);
        *object = self.to_stored(kind, patched);
    }
}

/// UPSTREAM: entries say who did what in which version.
fn check_fields(value: &mut Value) -> Result<(), String> {
    let entries = crate::fields::list(value, "metadata.managedFields");
    for entry in entries {
        let text = |member: &str| entry[member].as_str().unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let quoted = api::syntax::go_quote(text("operation"));
            return Err(format!("invalid operation {quoted}"));
        }
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            let quoted = api::syntax::go_quote(text("fieldsType"));
            return Err(format!("invalid fieldsType {quoted}"));
        }
    }
    normalize_managed_fields(value, None).map_err(|status| status.message)
}

impl Failure {
    /// As it is measured.
    pub(super) fn outcome(&self, hook: &Webhook) -> Outcome {
        match self {
            Failure::Call(code, _) => Outcome::Failed {
                code: *code,
                is_open: hook.spec.fails_open(),
            },
            Failure::Denied(status) => Outcome::Denied(status.code),
            Failure::Refused(_) => Outcome::Internal,
        }
    }
}

/// What the failure of a webhook means for the request.
pub(super) fn failed(hook: &Webhook, failure: Failure) -> Result<(), Status> {
    let name = &hook.spec.name;
    match failure {
        Failure::Denied(status) | Failure::Refused(status) => Err(status),
        Failure::Call(_, why) if hook.spec.fails_open() => {
            tracing::warn!(webhook = %name, %why, "failed calling webhook, failing open");
            Ok(())
        }
        Failure::Call(_, why) => {
            tracing::warn!(webhook = %name, %why, "failed calling webhook, failing closed");
            Err(Status::internal(format!(
                "failed calling webhook \"{name}\": {why}"
            )))
        }
    }
}
