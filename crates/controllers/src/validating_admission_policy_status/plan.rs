//! Which types a policy is about, and which of its expressions do not fit them. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::kinds::{ExpressionWarning, ResourceRule, ValidatingAdmissionPolicy};
use cel::admission::{self, Scope, Types};
use cel::{Decl, Type};

use crate::discovery::Discovery;

/// UPSTREAM: the most types that one rule adds.
const TYPES_MAX: usize = 10;

/// Group, version and kind, in the order in which types are checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A type with its schema.
#[derive(Clone, Debug)]
pub struct Checked {
    pub gvk: Gvk,
    pub decl: Arc<Decl>,
}

impl Gvk {
    pub fn new(api_version: &str, kind: &str) -> Gvk {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// Where its schema is found.
    pub(super) fn document(&self) -> String {
        match &*self.group {
            "" => format!("/openapi/v3/api/{}", self.version),
            group => format!("/openapi/v3/apis/{group}/{}", self.version),
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// The types that the rules of a policy name. Rules with wildcards say nothing of types, nor do subresources.
pub fn types_to_check(policy: &ValidatingAdmissionPolicy, served: &Discovery) -> Vec<Gvk> {
    let mut found = BTreeSet::new();
    let constraints = policy.spec.match_constraints.iter();
    for rule in constraints.flat_map(|constraints| &constraints.resource_rules) {
        if !add_types(rule, served, &mut found) {
            break;
        }
    }
    found.into_iter().collect()
}

/// False if a rule names so many that the rest is left out.
fn add_types(rule: &ResourceRule, served: &Discovery, found: &mut BTreeSet<Gvk>) -> bool {
    let wild = |names: &[String]| names.iter().any(|name| name.contains('*'));
    if wild(&rule.api_groups) || wild(&rule.api_versions) {
        return true;
    }
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    let resources = rule.resources.iter();
    let resources: BTreeSet<&String> = resources
        .filter(|name| !name.contains(['*', '/']))
        .collect();
    let mut count = 0;
    for group in sorted(&rule.api_groups) {
        for version in sorted(&rule.api_versions) {
            for resource in &resources {
                for kind in kinds_for(&group, &version, resource, served) {
                    found.insert(kind);
                    count += 1;
                    if count == TYPES_MAX {
                        return false;
                    }
                }
            }
        }
    }
    true
}

/// UPSTREAM: no group means any group, and the singular is as good as the plural.
fn kinds_for<'a>(
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    served: &'a Discovery,
) -> impl Iterator<Item = Gvk> + 'a {
    let resources = served.resources.iter().map(|served| &served.resource);
    let named = resources.filter(move |known| {
        (group.is_empty() || known.group == group)
            && known.version == version
            && (known.plural == resource || known.kind.to_lowercase() == resource)
    });
    named.map(|known| Gvk {
        group: known.group.to_string(),
        version: known.version.to_string(),
        kind: known.kind.to_string(),
    })
}

/// What is wrong with the expressions of a policy, given the types that it is about.
pub fn check(
    policy: &ValidatingAdmissionPolicy,
    types: &[Checked],
    params: Option<&Arc<Decl>>,
) -> Vec<ExpressionWarning> {
    let environments: Vec<_> = types
        .iter()
        .map(|checked| (&checked.gvk, environment(policy, checked, params)))
        .collect();
    let mut warnings = Vec::new();
    let mut look_at = |field_ref: String, expression: &str| {
        let issues = environments.iter().filter_map(|(gvk, env)| {
            let issues = cel::compile(expression, env).err()?;
            Some(format!("{gvk}: {issues}\n"))
        });
        let issues: Vec<String> = issues.collect();
        if !issues.is_empty() {
            let warning = issues.join("\n");
            warnings.push(ExpressionWarning { field_ref, warning });
        }
    };
    for (index, validation) in policy.spec.validations.iter().enumerate() {
        let field = |name: &str| format!("spec.validations[{index}].{name}");
        look_at(field("expression"), &validation.expression);
        if !validation.message_expression.is_empty() {
            look_at(field("messageExpression"), &validation.message_expression);
        }
    }
    warnings
}

fn environment(
    policy: &ValidatingAdmissionPolicy,
    checked: &Checked,
    params: Option<&Arc<Decl>>,
) -> cel::Env {
    let scope = Scope {
        params: policy.spec.param_kind.is_some(),
        ..Scope::default()
    };
    let types = Types {
        object: Some(checked.decl.clone()),
        params: params.cloned(),
    };
    let mut env = admission::environment(scope, &types);
    // UPSTREAM: `authorizer.requestResource` is not known here.
    env.variable("authorizer", admission::authorization("Authorizer"));
    admission::allow_variables(&mut env);
    for variable in &policy.spec.variables {
        let of = cel::compile(&variable.expression, &env);
        let of = of.map_or(Type::Dyn, |checked| checked.output().clone());
        admission::declare_variable(&mut env, &variable.name, &of);
    }
    env
}
