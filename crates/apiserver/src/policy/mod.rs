//! Admission policies: rules in CEL that cluster administrators write about requests.
//!
//! Mirrors `apiserver/pkg/admission/plugin/policy` and `plugin/cel`. [`source`] keeps the policies that have bindings,
//! compiled once per generation. For each request, [`criteria`] tells which are about it, [`definition`] finds their
//! parameters, [`conditions`] may say that they have nothing to say, and [`validating`] or [`mutating`] evaluates them.
//! Everything is evaluated outside of the store's writes, and within the budgets of [`expression`].
//!
//! Webhooks are matched by the same criteria and conditions.

pub(crate) mod conditions;
pub(crate) mod criteria;
mod definition;
pub(crate) mod expression;
mod mutating;
mod patches;
mod source;
mod validating;
pub(crate) mod view;

use serde_json::Value;

pub(crate) use source::Cache;
pub use source::Policies;

use crate::admission::{Context, Request, Verdict};
use crate::status::Status;

/// Lets validating policies refuse a request, or warn about it. Null stands for no object.
pub(crate) fn validate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &Value,
    old: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), Status> {
    let policies = context.cluster.policies();
    if policies.validating.is_empty() || is_exempt(request) {
        return Ok(());
    }
    let object = Some(object).filter(|object| !object.is_null());
    let policies = &policies.validating;
    validating::validate(context, request, object, old, policies, verdict)
}

/// Lets mutating policies change an object. What they say about a request, they may have to say again after `rerun` has
/// let the plugins before them see what they did.
pub(crate) fn mutate(
    context: &Context<'_>,
    request: &Request<'_>,
    object: &mut Value,
    old: Option<&Value>,
    rerun: impl FnOnce(&mut Value) -> Result<(), Status>,
) -> Result<(), Status> {
    let policies = context.cluster.policies();
    let policies = &policies.mutating;
    if policies.is_empty() || object.is_null() || is_exempt(request) {
        return Ok(());
    }
    let outcome = mutating::mutate(context, request, object, old, policies, None)?;
    if !outcome.mutated {
        return Ok(());
    }
    rerun(object)?;
    let again = Some(&outcome.invoked);
    mutating::mutate(context, request, object, old, policies, again)?;
    Ok(())
}

fn is_exempt(request: &Request<'_>) -> bool {
    request.is_admitted || source::is_exempt(request.kind)
}
