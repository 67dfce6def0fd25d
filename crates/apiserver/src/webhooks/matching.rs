//! Which requests a webhook is called for.

use super::configuration::{Rule, Webhook};
use super::{Attributes, is_exempt};
use crate::admission::Operation;
use crate::kinds::Kind;
use crate::rest::Context;
use crate::status::{Status, Subject};
use serde_json::Value;
use std::sync::Arc;

/// How a webhook is called: with objects of this kind, which may be another version than the request's.
pub(super) struct Invocation {
    pub(super) kind: Arc<Kind>,
}

impl Operation {
    /// As rules and reviews spell it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

impl Context {
    /// Whether a rule of a webhook names what the request is about, at any version.
    pub(super) fn may_concern(&self, hook: &Webhook, operations: &[Operation]) -> bool {
        let mut rules = hook.spec.rules.iter();
        rules.any(|rule| {
            operations.iter().any(|operation| rule.has(*operation))
                && self
                    .equivalents()
                    .chain([&self.kind])
                    .any(|kind| rule.has_resource(kind, &self.info.subresource))
        })
    }

    /// The kinds at other versions and in other groups under which the same objects can be reached.
    fn equivalents(&self) -> impl Iterator<Item = &Arc<Kind>> {
        let own = &self.kind;
        self.registry.iter().filter(move |kind| {
            kind.storage == own.storage && !Arc::ptr_eq(kind, own) && !is_exempt(kind)
        })
    }

    /// Whether and how a webhook is called. UPSTREAM: selectors are asked first, and what is wrong with them only
    /// matters if a rule matches.
    pub(super) fn invocation(
        &self,
        hook: &Webhook,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Option<Invocation>, Status> {
        let by_namespace = self.selects_namespace(hook, attributes, object);
        if matches!(by_namespace, Ok(false)) {
            return Ok(None);
        }
        let by_object = selects_object(hook, object, old);
        if matches!(by_object, Ok(false)) {
            return Ok(None);
        }
        let Some(kind) = self.matching_kind(hook, attributes.operation) else {
            return Ok(None);
        };
        by_namespace?;
        by_object?;
        Ok(Some(Invocation { kind: kind.clone() }))
    }

    /// The kind by which the rules match: the request's own if possible.
    fn matching_kind(&self, hook: &Webhook, operation: Operation) -> Option<&Arc<Kind>> {
        let rules = &hook.spec.rules;
        if rules
            .iter()
            .any(|rule| self.matches(rule, &self.kind, operation))
        {
            return Some(&self.kind);
        }
        if !hook.spec.matches_equivalents() {
            return None;
        }
        rules.iter().find_map(|rule| {
            self.equivalents()
                .find(|kind| self.matches(rule, kind, operation))
        })
    }

    fn matches(&self, rule: &Rule, kind: &Kind, operation: Operation) -> bool {
        rule.has(operation)
            && has(&rule.api_versions, &kind.version)
            && rule.has_resource(kind, &self.info.subresource)
            && self.in_scope(rule, kind)
    }

    fn in_scope(&self, rule: &Rule, kind: &Kind) -> bool {
        // A request for a namespace has its name as namespace, and is about something cluster-scoped all the same.
        let is_cluster = kind.is("", "Namespace") || self.info.namespace.is_empty();
        match rule.scope.as_deref() {
            None | Some("*") => true,
            Some("Namespaced") => !is_cluster,
            Some("Cluster") => is_cluster,
            Some(_) => false,
        }
    }

    fn selects_namespace(
        &self,
        hook: &Webhook,
        attributes: &Attributes,
        object: &Value,
    ) -> Result<bool, Status> {
        let namespace = self.info.namespace.as_str();
        let is_namespace = self.kind.plural == "namespaces";
        if namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = match &hook.namespaces {
            Ok(selector) => selector,
            Err(why) => return Err(Status::internal(why.to_string())),
        };
        if selector.is_empty() {
            return Ok(true);
        }
        let is_written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && self.info.subresource.is_empty() && is_written {
            return Ok(selector.matches_by(|key| label(object, key)));
        }
        let kind = crate::admission::namespaces();
        let found = self.shared.store.get(kind, namespace);
        let found = found.ok_or_else(|| {
            Status::not_found(Subject {
                group: "",
                plural: "namespaces",
                name: namespace,
            })
        })?;
        Ok(selector.matches_by(|key| found.label(key)))
    }
}

fn selects_object(hook: &Webhook, object: &Value, old: Option<&Value>) -> Result<bool, Status> {
    let selector = match &hook.objects {
        Ok(selector) => selector,
        Err(why) => return Err(Status::internal(why.to_string())),
    };
    if selector.is_empty() {
        return Ok(true);
    }
    // UPSTREAM: what has no metadata has no labels to be selected by.
    let mut shown = [Some(object), old].into_iter().flatten();
    Ok(shown.any(|object| {
        object.get("metadata").is_some() && selector.matches_by(|key| label(object, key))
    }))
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    crate::fields::entry(object, "metadata.labels", key)
}

impl Rule {
    fn has(&self, operation: Operation) -> bool {
        has(&self.operations, operation.name())
    }

    fn has_resource(&self, kind: &Kind, subresource: &str) -> bool {
        let mut resources = self.resources.iter();
        has(&self.api_groups, &kind.group)
            && resources.any(|named| {
                let (resource, sub) = named.split_once('/').unwrap_or((named, ""));
                (resource == "*" || resource == kind.plural) && (sub == "*" || sub == subresource)
            })
    }
}

fn has(items: &[String], wanted: &str) -> bool {
    items.iter().any(|item| item == "*" || item == wanted)
}
