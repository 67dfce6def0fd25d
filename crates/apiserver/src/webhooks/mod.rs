//! Admission webhooks: `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration` in effect.
//!
//! Mirrors upstream's `pkg/admission/plugin/webhook`. The configurations are compiled when they change
//! ([`Webhooks`]); a write asks once whether any of their rules could concern it, and only then takes the path that
//! waits (`rest::admitted`). There, outside every lock, webhooks that change objects are called one after the other
//! in the order of their configurations ([`mutating`]), after the plugins that change objects and before validation;
//! those that only refuse are called all at once ([`validating`]), after validation. A webhook may call this server
//! back: nothing that it could need is held meanwhile.

mod call;
mod configuration;
mod image_policy;
mod matching;
mod mutating;
mod review;
mod service;
mod validating;

pub(crate) use call::{CallFailure, post, read as read_answer};
pub(crate) use configuration::ClientConfig;
pub(crate) use image_policy::ImagePolicy;
pub(crate) use service::resolve as resolve_service;

use crate::admission::{Operation, Plugin, Plugins};
use crate::kinds::{self, Kind};
use crate::rest::Context;
use crate::storage::Store;
use configuration::Webhook;
use parking_lot::RwLock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The webhooks that are configured, as they were when their configurations last changed.
#[derive(Default)]
pub(crate) struct Webhooks(RwLock<Option<Arc<Configured>>>);

/// All webhooks, in the order in which they are called.
pub(crate) struct Configured {
    /// The last changes of the two kinds of configurations.
    revisions: [u64; 2],
    mutating: Vec<Webhook>,
    validating: Vec<Webhook>,
}

/// A request as webhooks see it.
pub(crate) struct Attributes {
    configured: Arc<Configured>,
    operation: Operation,
    /// UPSTREAM: a namespace is in itself.
    pub(crate) namespace: String,
    /// Empty for a new object whose name the server makes up.
    pub(crate) name: String,
    dry_run: bool,
    /// `CreateOptions` and the like, or null.
    options: Value,
    /// The type of what is shown, if it is not the object itself: `autoscaling/v1` Scale.
    shown_as: Option<(&'static str, &'static str)>,
}

impl Attributes {
    pub(crate) fn new(
        hooks: &Hooks,
        operation: Operation,
        dry_run: bool,
        options: Value,
    ) -> Attributes {
        Attributes {
            configured: hooks.clone(),
            operation,
            namespace: String::new(),
            name: String::new(),
            dry_run,
            options,
            shown_as: None,
        }
    }

    pub(crate) fn named(self, namespace: &str, name: &str) -> Attributes {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Attributes {
            namespace,
            name,
            ..self
        }
    }

    /// What is shown has a type of its own.
    pub(crate) fn shown_as(self, api_version: &'static str, kind: &'static str) -> Attributes {
        let shown_as = Some((api_version, kind));
        Attributes { shown_as, ..self }
    }
}

/// The webhooks that may concern a request.
pub(crate) type Hooks = Arc<Configured>;

/// The two kinds of configurations.
fn configurations() -> Option<[&'static Arc<Kind>; 2]> {
    let find = |kind| kinds::find("admissionregistration.k8s.io", kind);
    Some([
        find("MutatingWebhookConfiguration")?,
        find("ValidatingWebhookConfiguration")?,
    ])
}

impl Webhooks {
    /// The webhooks as they are configured now, if there are any.
    fn current(&self, store: &Store, plugins: &Plugins) -> Option<Hooks> {
        let kinds = configurations()?;
        let revisions = kinds.map(|kind| store.last_change(kind));
        let held = self.0.read().clone();
        let current = match held.filter(|held| held.revisions == revisions) {
            Some(held) => held,
            None => {
                let read = |kind, plugin| match plugins.has(plugin) {
                    true => configuration::read(store, kind),
                    false => Vec::new(),
                };
                let mutating = read(kinds[0], Plugin::MutatingAdmissionWebhook);
                let validating = read(kinds[1], Plugin::ValidatingAdmissionWebhook);
                let configured = Arc::new(Configured {
                    revisions,
                    mutating,
                    validating,
                });
                *self.0.write() = Some(configured.clone());
                configured
            }
        };
        let is_empty = current.mutating.is_empty() && current.validating.is_empty();
        (!is_empty).then_some(current)
    }
}

impl Context {
    /// The webhooks, if any of them could concern one of these operations on what the request names. Every write
    /// asks this, so it is no more than a look at two numbers as long as there are none.
    pub(crate) fn webhooks(&self, operations: &[Operation]) -> Option<Hooks> {
        let plugins = &self.shared.settings.plugins;
        let configured = self.shared.webhooks.current(&self.shared.store, plugins)?;
        if is_exempt(&self.kind) {
            return None;
        }
        let kinds = self.registry.iter();
        let kinds = kinds.filter(|kind| kind.storage == self.kind.storage);
        let kinds: Vec<&Arc<Kind>> = kinds.collect();
        let subresource = &self.info.subresource;
        let mut hooks = configured.mutating.iter().chain(&configured.validating);
        let concerned = hooks.any(|hook| hook.criteria.may_match(&kinds, subresource, operations));
        concerned.then_some(configured)
    }
}

impl Context {
    /// Keeps what a webhook says beside its decision. UPSTREAM: keys for the audit log begin with its name.
    fn note_answer(
        &mut self,
        hook: &Webhook,
        warnings: Vec<String>,
        annotations: BTreeMap<String, String>,
    ) {
        self.warnings.extend(warnings);
        let name = &hook.spec.name;
        let annotations = annotations.into_iter();
        let named = annotations.map(|(key, value)| (format!("{name}/{key}"), value));
        self.audit_annotations.extend(named);
    }
}

/// UPSTREAM: what configures admission cannot be locked away by it.
fn is_exempt(kind: &Kind) -> bool {
    const EXEMPT: [&str; 6] = [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ];
    kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&&*kind.kind)
}
