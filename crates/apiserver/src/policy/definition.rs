//! What validating and mutating policies have in common: what they are about, their parameters, their variables.

use std::sync::Arc;

use serde_json::Value;

use super::conditions::Conditions;
use super::criteria::{Criteria, selector, selects};
use super::expression::{Compiler, Scope, Variables};
use super::source::Binding;
use super::view::at_version;
use crate::admission::Cluster;
use crate::convert;
use crate::fields::text;
use crate::kinds::Kind;

#[derive(Debug)]
pub(super) struct Definition {
    pub name: String,
    pub criteria: Criteria,
    /// apiVersion and kind of the parameters.
    pub param_kind: Option<(String, String)>,
    /// `failurePolicy: Ignore`
    pub ignores_errors: bool,
    pub variables: Variables,
    pub conditions: Conditions,
}

impl Definition {
    /// Variables and conditions of a policy; the variables are the compiler's until everything is compiled.
    pub(super) fn read(policy: &Value, compiler: &mut Compiler) -> Definition {
        let spec = &policy["spec"];
        let param_kind = &spec["paramKind"];
        let param_kind = param_kind.is_object().then(|| {
            let part = |member: &str| text(param_kind, member).to_owned();
            (part("apiVersion"), part("kind"))
        });
        let scope = Scope {
            params: param_kind.is_some(),
            authorizer: true,
            patches: false,
        };
        let ignores_errors = spec["failurePolicy"] == "Ignore";
        for variable in spec["variables"].as_array().into_iter().flatten() {
            // What is wrong with one is said when it is used.
            let (name, expression) = (text(variable, "name"), text(variable, "expression"));
            let _ = compiler.declare(name, expression, scope);
        }
        let conditions = &spec["matchConditions"];
        let conditions = Conditions::read(conditions, scope.params, compiler, ignores_errors);
        Definition {
            name: text(policy, "metadata.name").to_owned(),
            criteria: Criteria::of_policy(&spec["matchConstraints"]),
            param_kind,
            ignores_errors,
            variables: Variables::default(),
            conditions,
        }
    }

    pub(super) fn scope(&self) -> Scope {
        Scope {
            params: self.param_kind.is_some(),
            authorizer: true,
            patches: false,
        }
    }

    /// The kind of the parameters, if there are any. The error says that it is not served.
    pub(super) fn served_params(&self, cluster: &dyn Cluster) -> Result<Option<Arc<Kind>>, String> {
        let Some((api_version, kind)) = &self.param_kind else {
            return Ok(None);
        };
        let served = cluster.registry().kind(api_version, kind).cloned();
        served.map(Some).ok_or_else(|| {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
            )
        })
    }
}

/// The parameters that a binding evaluates its policy with, one after the other: null where there are none to be had.
/// Nothing at all means that the policy is not evaluated.
pub(super) fn params(
    kind: Option<&Arc<Kind>>,
    binding: &Binding,
    namespace: &str,
    cluster: &dyn Cluster,
) -> Result<Vec<Value>, String> {
    let reference = &binding.param_ref;
    let Some(kind) = kind.filter(|_| reference.is_object()) else {
        return Ok(vec![Value::Null]);
    };
    let named = text(reference, "namespace");
    let namespace = match (kind.namespaced, named) {
        (true, "") if namespace.is_empty() => {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
        }
        (true, "") => namespace,
        (true, named) => named,
        (false, "") => "",
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                    .to_owned(),
            );
        }
    };
    let stored = convert::storage_kind(&cluster.registry(), kind);
    let name = text(reference, "name");
    let found = if !name.is_empty() {
        cluster.get(&stored, namespace, name).into_iter().collect()
    } else {
        let selector = selector(&reference["selector"])?;
        let mut all = cluster.list(&stored, namespace);
        all.retain(|object| selects(&selector, object));
        all
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
        );
    }
    let found = found.iter().map(|object| at_version(object, kind));
    Ok(found.collect())
}
