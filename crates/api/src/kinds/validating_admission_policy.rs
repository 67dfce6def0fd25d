//! ValidatingAdmissionPolicies: expressions, what they are about, and what is known to be wrong with them.

use serde::{Deserialize, Serialize};

use crate::meta::{Meta, or_default};
use crate::resource::ResourceType;

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct ValidatingAdmissionPolicy {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Status,
}

crate::view!(
    ValidatingAdmissionPolicy,
    ResourceType::cluster(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy"
    )
);

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub param_kind: Option<ParamKind>,
    pub match_constraints: Option<MatchConstraints>,
    #[serde(deserialize_with = "or_default")]
    pub variables: Vec<Variable>,
    #[serde(deserialize_with = "or_default")]
    pub validations: Vec<Validation>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamKind {
    pub api_version: String,
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchConstraints {
    #[serde(deserialize_with = "or_default")]
    pub resource_rules: Vec<ResourceRule>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRule {
    #[serde(deserialize_with = "or_default")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub api_versions: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub resources: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
pub struct Variable {
    pub name: String,
    pub expression: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Validation {
    pub expression: String,
    pub message_expression: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: i64,
    pub type_checking: Option<TypeChecking>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct TypeChecking {
    #[serde(deserialize_with = "or_default")]
    pub expression_warnings: Vec<ExpressionWarning>,
}

/// What does not fit, and in which field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ExpressionWarning {
    pub field_ref: String,
    pub warning: String,
}
