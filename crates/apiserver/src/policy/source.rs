//! The policies in force: those with bindings, compiled once per generation.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::criteria::Criteria;
use super::{mutating, validating};
use crate::kinds::{self, Kind};
use crate::storage::Store;

const GROUP: &str = "admissionregistration.k8s.io";
const KINDS: [&str; 4] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Policies with their bindings, in the order of their names.
#[derive(Debug, Default)]
pub struct Policies {
    pub(super) validating: Vec<Bound<validating::Policy>>,
    pub(super) mutating: Vec<Bound<mutating::Policy>>,
}

/// A policy and what binds it.
#[derive(Debug)]
pub(super) struct Bound<P> {
    /// The uid and generation that it was compiled of.
    of: (String, i64),
    pub policy: Arc<P>,
    pub bindings: Vec<Binding>,
}

#[derive(Debug)]
pub(super) struct Binding {
    pub name: String,
    /// Null without parameters.
    pub param_ref: Value,
    pub criteria: Option<Criteria>,
    pub actions: Vec<String>,
}

/// What was compiled last, and the revisions of policies and bindings that it is made of.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Option<([u64; 4], Arc<Policies>)>>);

/// The kinds that policies never apply to: they could lock themselves in.
pub(super) fn is_exempt(kind: &Kind) -> bool {
    kind.group == GROUP && KINDS.contains(&&*kind.kind)
}

impl Cache {
    /// Whether any request has to be looked at more closely.
    pub(crate) fn are_there(&self, store: &Store) -> bool {
        let policies = self.current(store);
        !policies.validating.is_empty() || !policies.mutating.is_empty()
    }

    pub(crate) fn current(&self, store: &Store) -> Arc<Policies> {
        let versions =
            KINDS.map(|kind| kinds::find(GROUP, kind).map_or(0, |kind| store.last_change(kind)));
        let mut held = self.0.lock();
        match &*held {
            Some((of, policies)) if *of == versions => return policies.clone(),
            _ => {}
        }
        let before = held
            .take()
            .map(|(_, policies)| policies)
            .unwrap_or_default();
        let policies = Arc::new(Policies {
            validating: bound(
                store,
                [KINDS[0], KINDS[1]],
                &before.validating,
                validating::Policy::compile,
            ),
            mutating: bound(
                store,
                [KINDS[2], KINDS[3]],
                &before.mutating,
                mutating::Policy::compile,
            ),
        });
        *held = Some((versions, policies.clone()));
        policies
    }
}

/// Policies of a kind that have bindings; bindings of what is not there wait for it.
fn bound<P>(
    store: &Store,
    [policy_kind, binding_kind]: [&str; 2],
    before: &[Bound<P>],
    compile: fn(&Value) -> P,
) -> Vec<Bound<P>> {
    let bindings: Vec<Value> = all(store, binding_kind);
    let mut found = Vec::new();
    for policy in all(store, policy_kind) {
        let text = |member: &str| policy["metadata"][member].as_str().unwrap_or_default();
        let name = text("name");
        let own: Vec<Binding> = bindings
            .iter()
            .filter(|binding| binding["spec"]["policyName"] == name)
            .map(Binding::read)
            .collect();
        if own.is_empty() {
            continue;
        }
        let generation = policy["metadata"]["generation"].as_i64().unwrap_or(0);
        let of = (text("uid").to_owned(), generation);
        let known = before.iter().find(|known| known.of == of);
        found.push(Bound {
            policy: known.map_or_else(|| Arc::new(compile(&policy)), |known| known.policy.clone()),
            of,
            bindings: own,
        });
    }
    found
}

fn all(store: &Store, kind: &str) -> Vec<Value> {
    let Some(kind) = kinds::find(GROUP, kind) else {
        return Vec::new();
    };
    let stored = store.list_newest(kind, "");
    stored.iter().map(|object| object.value(kind)).collect()
}

impl Binding {
    fn read(binding: &Value) -> Binding {
        let spec = &binding["spec"];
        let resources = &spec["matchResources"];
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        Binding {
            name: crate::fields::text(binding, "metadata.name").to_owned(),
            param_ref: spec["paramRef"].clone(),
            criteria: (!resources.is_null()).then(|| Criteria::of_policy(resources)),
            actions: actions
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        }
    }
}
