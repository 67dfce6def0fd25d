//! Mutating admission policies on requests.
//!
//! Mirrors `apiserver/pkg/admission/plugin/policy/mutating` and the dispatcher of `policy/generic`. Which policies are
//! about a request is decided before any of them changes its object; match conditions see what those before have made
//! of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::conditions::Match;
use super::definition::{Definition, params};
use super::expression::{Facts, Input};
use super::patches::{Failure, Mutation};
use super::source::{Binding, Bound};
use super::view::{Authorizer, View, namespace_object, target};
use crate::admission::{Context, Operation, Request};
use crate::fields::text;
use crate::kinds::{Head, Kind, Origin};
use crate::rest::{metadata_mut, retype};
use crate::status::{Cause, Status};
use crate::{convert, semantics};

#[derive(Debug)]
pub(super) struct Policy {
    definition: Definition,
    mutations: Vec<Mutation>,
    /// `reinvocationPolicy: IfNeeded`
    reinvoked: bool,
}

/// Policy, binding and parameters that were evaluated and are to be evaluated again when something has changed after
/// them.
pub(crate) type Invoked = BTreeSet<(String, String, String)>;

/// What policies have made of a request.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whether any mutation was evaluated: then everything that may is invoked a second time.
    pub mutated: bool,
    pub invoked: Invoked,
}

impl Policy {
    pub(super) fn compile(policy: &Value) -> Policy {
        let definition = Definition::read(policy);
        let spec = &policy["spec"];
        let mutations = spec["mutations"].as_array().into_iter().flatten();
        let scope = definition.scope();
        Policy {
            mutations: mutations
                .map(|mutation| Mutation::compile(mutation, scope, &definition.variables))
                .collect(),
            reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            definition,
        }
    }
}

/// A policy that is about a request, with one set of parameters.
struct Invocation<'p> {
    policy: &'p Policy,
    binding: &'p Binding,
    params: Value,
    /// The resource at the version that was matched.
    matched: Arc<Kind>,
}

impl Invocation<'_> {
    fn key(&self) -> (String, String, String) {
        let part = |member: &str| text(&self.params, member);
        let params = format!("{}/{}", part("metadata.namespace"), part("metadata.name"));
        let policy = &self.policy.definition.name;
        (policy.clone(), self.binding.name.clone(), params)
    }
}

/// Lets policies change an object, which is at the stored version. `again` holds the ones to be invoked a second time;
/// all are if there is none.
pub(super) fn mutate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &mut Value,
    old: Option<&Value>,
    policies: &[Bound<Policy>],
    again: Option<&Invoked>,
) -> Result<Outcome, Status> {
    let mut run = Run {
        context,
        request,
        errors: Vec::new(),
    };
    let invocations = run.invocations(object, old, policies);
    let mut outcome = Outcome::default();
    if !invocations.is_empty() {
        // A name that was made up is not there yet, and managed fields are nobody's to change.
        let is_new = request.operation == Operation::Create && request.subresource.is_none();
        let generated = is_new && text(object, "metadata.name") != request.name;
        let generated = generated.then(|| {
            let metadata = metadata_mut(object);
            metadata.remove("name").unwrap_or_default()
        });
        let managed = metadata_mut(object).get("managedFields").cloned();
        let result = run.invoke(invocations, object, old, again, &mut outcome);
        let metadata = metadata_mut(object);
        if let Some(name) = generated.filter(|_| !metadata.contains_key("name")) {
            metadata.insert("name".into(), name);
        }
        match managed {
            Some(managed) => metadata.insert("managedFields".into(), managed),
            None => metadata.remove("managedFields"),
        };
        result?;
    }
    match run.errors.is_empty() {
        true => Ok(outcome),
        false => Err(refuse(request, run.errors)),
    }
}

struct Run<'a> {
    context: &'a Context<'a>,
    request: &'a Request<'a>,
    /// Messages, and whether they are about what an expression did.
    errors: Vec<(String, bool)>,
}

impl Run<'_> {
    fn invocations<'p>(
        &mut self,
        object: &Value,
        old: Option<&Value>,
        policies: &'p [Bound<Policy>],
    ) -> Vec<Invocation<'p>> {
        let cluster = self.context.cluster;
        let target = target(self.request, Some(object), old);
        let mut found = Vec::new();
        for bound in policies {
            let definition = &bound.policy.definition;
            let matched = match definition.criteria.matches(&target, cluster) {
                Ok(Some(matched)) => matched,
                Ok(None) => continue,
                Err(status) => {
                    self.misconfigured(definition, None, &status.message);
                    continue;
                }
            };
            let param_kind = match definition.served_params(cluster) {
                Ok(kind) => kind,
                Err(why) => {
                    self.misconfigured(definition, None, &why);
                    continue;
                }
            };
            for binding in &bound.bindings {
                let criteria = binding.criteria.as_ref();
                let bound_to = criteria.map(|criteria| criteria.matches(&target, cluster));
                match bound_to {
                    None | Some(Ok(Some(_))) => {}
                    Some(Ok(None)) => continue,
                    Some(Err(status)) => {
                        self.misconfigured(definition, Some(binding), &status.message);
                        continue;
                    }
                }
                let params = params(param_kind.as_ref(), binding, target.namespace, cluster);
                let params = params.unwrap_or_else(|why| {
                    self.misconfigured(definition, Some(binding), &why);
                    Vec::new()
                });
                found.extend(params.into_iter().map(|params| Invocation {
                    policy: &bound.policy,
                    binding,
                    params,
                    matched: matched.clone(),
                }));
            }
        }
        found
    }

    fn invoke(
        &mut self,
        invocations: Vec<Invocation<'_>>,
        object: &mut Value,
        old: Option<&Value>,
        again: Option<&Invoked>,
        outcome: &mut Outcome,
    ) -> Result<(), Status> {
        let (context, request) = (self.context, self.request);
        let namespace = namespace_object(context, request);
        let authorizer = Authorizer::new(context, request);
        for invocation in &invocations {
            let definition = &invocation.policy.definition;
            let key = invocation.key();
            let kind = object_kind(request, &invocation.matched);
            let view = View::new(context, request, &invocation.matched, Some(object), old);
            let facts = Facts {
                params: &invocation.params,
                ..view.facts(&namespace, &authorizer)
            };
            let variables = Some(&definition.variables);
            match definition.conditions.evaluate(&facts, variables) {
                Match::Yes => {}
                Match::No(_) => continue,
                Match::Error(why) => {
                    self.fail(definition, Some(invocation.binding), &why, true);
                    continue;
                }
            }
            if again.is_some_and(|again| !again.contains(&key)) {
                continue;
            }
            let mut current = view.object.clone();
            let mut changed = false;
            for mutation in &invocation.policy.mutations {
                let facts = Facts {
                    object: &current,
                    ..facts
                };
                let input = Input::new(facts, variables);
                match mutation.change(&kind, &current, &input) {
                    Ok(mut new) => {
                        semantics::default(&kind, &mut new);
                        current = new;
                        changed = true;
                    }
                    Err(Failure::Request(status)) => return Err(*status),
                    Err(Failure::Policy(why)) => {
                        self.fail(definition, Some(invocation.binding), &why, true);
                    }
                }
            }
            if changed {
                outcome.mutated = true;
                *object = stored(request, &invocation.matched, current);
            }
            if invocation.policy.reinvoked {
                outcome.invoked.insert(key);
            }
        }
        Ok(())
    }

    fn misconfigured(&mut self, definition: &Definition, binding: Option<&Binding>, why: &str) {
        let what = match binding {
            None => "policy",
            Some(_) => "binding",
        };
        let why = format!("failed to configure {what}: {why}");
        self.fail(definition, binding, &why, false);
    }

    fn fail(
        &mut self,
        definition: &Definition,
        binding: Option<&Binding>,
        why: &str,
        evaluated: bool,
    ) {
        if definition.ignores_errors {
            return;
        }
        let policy = &definition.name;
        let message = match binding {
            Some(binding) => format!(
                "policy '{policy}' with binding '{}' denied request: {why}",
                binding.name
            ),
            None => format!("policy \"{policy}\" denied request: {why}"),
        };
        self.errors.push((message, evaluated));
    }
}

/// The kind of the object that a request carries, at the version that was matched.
fn object_kind(request: &Request<'_>, matched: &Arc<Kind>) -> Arc<Kind> {
    let Some((api_version, kind)) = request.object_type else {
        return matched.clone();
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Arc::new(Kind {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        origin: Origin::BuiltIn,
        head: Head::default(),
        ..(**matched).clone()
    })
}

/// An object at a matched version as it will be stored.
fn stored(request: &Request<'_>, matched: &Kind, mut object: Value) -> Value {
    if request.object_type.is_none() {
        convert::to_storage(matched, &mut object);
        retype(request.kind, &mut object);
    }
    object
}

/// UPSTREAM: the code of what is forbidden, whatever the reason says.
fn refuse(request: &Request<'_>, errors: Vec<(String, bool)>) -> Status {
    let mut status = request.forbidden("");
    if let Some((message, evaluated)) = errors.first() {
        status.message.clone_from(message);
        if *evaluated {
            status.reason = "Invalid";
        }
    }
    let causes = errors.into_iter().map(|(message, _)| Cause {
        message,
        ..Cause::default()
    });
    status.details.causes.extend(causes);
    status
}
