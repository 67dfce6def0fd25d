//! Which nodes a pod may or would rather run on: node selectors, and the affinity that holds them.
//!
//! The views are as the API has them. [`RequiredNodeAffinity`] and [`PreferredNodes`] are the compiled
//! forms: the DaemonSet controller and the scheduler ask them about many nodes.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::meta::or_default;
use crate::pod_affinity::PodAffinity;
use crate::selector::{
    FieldRequirement, FieldSelector, Operator, Requirement, Selector, SelectorError, aggregate,
    json_list,
};
use crate::syntax::go_quote;
use crate::text_enum::text_enum;
use crate::{Istr, LabelSet};

/// All that a pod says about where it wants to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<Arc<PodAffinity>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<Arc<PodAffinity>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<NodeSelector>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub preferred: Arc<[PreferredSchedulingTerm]>,
}

/// Terms of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    #[serde(deserialize_with = "or_default")]
    pub node_selector_terms: Arc<[NodeSelectorTerm]>,
}

/// Requirements that must all hold; without any, no node matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub match_expressions: Arc<[NodeSelectorRequirement]>,
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub match_fields: Arc<[NodeSelectorRequirement]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorRequirement {
    pub key: Istr,
    pub operator: NodeSelectorOperator,
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub values: Arc<[Istr]>,
}

/// A term that adds `weight` to the score of the nodes it matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredSchedulingTerm {
    pub weight: i32,
    #[serde(deserialize_with = "or_default")]
    pub preference: NodeSelectorTerm,
}

text_enum! {
    /// How a node's label or field must relate to a requirement's values.
    pub enum NodeSelectorOperator {
        In = "In",
        NotIn = "NotIn",
        Exists = "Exists",
        DoesNotExist = "DoesNotExist",
        Gt = "Gt",
        Lt = "Lt",
    }
    default ""
}

/// What is wrong with a node selector, one message for each fault. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", aggregate(.0))]
pub struct NodeSelectorError(Vec<String>);

/// A pod's hard demands on its node: its `nodeSelector` and its required node affinity.
#[derive(Clone, Debug)]
pub struct RequiredNodeAffinity {
    labels: Selector,
    nodes: Option<CompiledNodeSelector>,
}

/// A node selector that is ready to match.
#[derive(Clone, Debug)]
pub struct CompiledNodeSelector {
    terms: Vec<Result<CompiledTerm, NodeSelectorError>>,
}

/// Preferred node affinity that is ready to score nodes.
#[derive(Clone, Debug)]
pub struct PreferredNodes {
    terms: Vec<(i64, CompiledTerm)>,
}

#[derive(Clone, Debug)]
struct CompiledTerm {
    labels: Selector,
    fields: FieldSelector,
}

impl RequiredNodeAffinity {
    pub fn new(node_selector: &LabelSet, affinity: Option<&Affinity>) -> Self {
        let required = affinity
            .and_then(|affinity| affinity.node_affinity.as_ref())
            .and_then(|nodes| nodes.required.as_ref());
        Self {
            labels: Selector::from_labels(node_selector),
            nodes: required.map(NodeSelector::compile),
        }
    }

    /// Whether the pod may run on a node. Fails if no term matches and some term is malformed.
    pub fn matches(&self, node: &str, labels: &LabelSet) -> Result<bool, NodeSelectorError> {
        if !self.labels.matches(labels) {
            return Ok(false);
        }
        match &self.nodes {
            Some(nodes) => nodes.matches(node, labels),
            None => Ok(true),
        }
    }
}

impl NodeSelector {
    /// The form that matches. Malformed terms are reported only when no other term matches.
    pub fn compile(&self) -> CompiledNodeSelector {
        let terms = self.node_selector_terms.iter().enumerate();
        CompiledNodeSelector {
            terms: terms
                .filter(|(_, term)| !term.is_empty())
                .map(|(index, term)| term.compile(&format!("nodeSelectorTerms[{index}]")))
                .collect(),
        }
    }

    /// Everything that is malformed, as the API server refuses it.
    pub fn validate(&self) -> Result<(), NodeSelectorError> {
        let compiled = self.compile().terms.into_iter();
        let faults: Vec<String> = compiled
            .filter_map(Result::err)
            .flat_map(|error| error.0)
            .collect();
        match faults.is_empty() {
            true => Ok(()),
            false => Err(NodeSelectorError(faults)),
        }
    }
}

impl CompiledNodeSelector {
    /// Whether some term matches a node.
    pub fn matches(&self, node: &str, labels: &LabelSet) -> Result<bool, NodeSelectorError> {
        let mut faults = Vec::new();
        for term in &self.terms {
            match term {
                Ok(term) if term.matches(node, labels) => return Ok(true),
                Ok(_) => {}
                Err(error) => faults.extend(error.0.iter().cloned()),
            }
        }
        match faults.is_empty() {
            true => Ok(false),
            false => Err(NodeSelectorError(faults)),
        }
    }
}

impl PreferredNodes {
    /// Compiles preferred terms; those that weigh nothing or select nothing are left out.
    pub fn new(terms: &[PreferredSchedulingTerm]) -> Result<Self, NodeSelectorError> {
        let mut compiled = Vec::with_capacity(terms.len());
        let mut faults = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            if term.weight == 0 || term.preference.is_empty() {
                continue;
            }
            match term.preference.compile(&format!("[{index}]")) {
                Ok(preference) => compiled.push((i64::from(term.weight), preference)),
                Err(error) => faults.extend(error.0),
            }
        }
        match faults.is_empty() {
            true => Ok(Self { terms: compiled }),
            false => Err(NodeSelectorError(faults)),
        }
    }

    /// The sum of the weights of all terms that match a node.
    pub fn score(&self, node: &str, labels: &LabelSet) -> i64 {
        let matching = self
            .terms
            .iter()
            .filter(|(_, term)| term.matches(node, labels));
        matching.map(|(weight, _)| weight).sum()
    }
}

impl NodeSelectorTerm {
    pub fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }

    fn compile(&self, path: &str) -> Result<CompiledTerm, NodeSelectorError> {
        let mut faults = Vec::new();
        let mut labels = Vec::with_capacity(self.match_expressions.len());
        for (index, requirement) in self.match_expressions.iter().enumerate() {
            match requirement.as_label(&format!("{path}.matchExpressions[{index}]")) {
                Ok(label) => labels.push(label),
                Err(more) => faults.extend(more),
            }
        }
        let mut fields = Vec::with_capacity(self.match_fields.len());
        for (index, requirement) in self.match_fields.iter().enumerate() {
            match requirement.as_field(&format!("{path}.matchFields[{index}]")) {
                Ok(field) => fields.push(field),
                Err(fault) => faults.push(fault),
            }
        }
        match faults.is_empty() {
            true => Ok(CompiledTerm {
                labels: Selector::from_requirements(labels),
                fields: FieldSelector::from_requirements(fields),
            }),
            false => Err(NodeSelectorError(faults)),
        }
    }
}

impl NodeSelectorRequirement {
    fn as_label(&self, path: &str) -> Result<Requirement, Vec<String>> {
        let operator = match self.operator {
            NodeSelectorOperator::In => Operator::In,
            NodeSelectorOperator::NotIn => Operator::NotIn,
            NodeSelectorOperator::Exists => Operator::Exists,
            NodeSelectorOperator::DoesNotExist => Operator::DoesNotExist,
            NodeSelectorOperator::Gt => Operator::GreaterThan,
            NodeSelectorOperator::Lt => Operator::LessThan,
            NodeSelectorOperator::Other(_) => {
                let known = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
                return Err(vec![self.unsupported_operator(path, &known)]);
            }
        };
        let values: Box<[Istr]> = self.values.iter().cloned().collect();
        Requirement::new_at(path, self.key.clone(), operator, values).map_err(|error| match error {
            SelectorError::Invalid(faults) => faults,
            other => vec![other.to_string()],
        })
    }

    fn as_field(&self, path: &str) -> Result<FieldRequirement, String> {
        let negated = match self.operator {
            NodeSelectorOperator::In => false,
            NodeSelectorOperator::NotIn => true,
            _ => return Err(self.unsupported_operator(path, &["In", "NotIn"])),
        };
        let [value] = &*self.values else {
            let values = json_list(&self.values);
            return Err(format!(
                "{path}.values: Invalid value: {values}: must have one element"
            ));
        };
        Ok(FieldRequirement {
            field: self.key.to_string(),
            value: value.to_string(),
            negated,
        })
    }

    fn unsupported_operator(&self, path: &str, known: &[&str]) -> String {
        let known: Vec<String> = known.iter().map(|word| go_quote(word)).collect();
        format!(
            "{path}.operator: Unsupported value: {}: supported values: {}",
            go_quote(self.operator.as_str()),
            known.join(", ")
        )
    }
}

impl CompiledTerm {
    fn matches(&self, node: &str, labels: &LabelSet) -> bool {
        let get = |field: &str| (field == "metadata.name").then_some(Cow::Borrowed(node));
        // UPSTREAM: a node without a name has no fields, and no fields match any field selector.
        self.labels.matches(labels) && (node.is_empty() || self.fields.matches(get))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> LabelSet {
        text.split(',')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap())
            .collect()
    }

    fn selector(json: &str) -> NodeSelector {
        serde_json::from_str(json).unwrap()
    }

    fn check(json: &str, node: &str, node_labels: &str) -> Result<bool, String> {
        selector(json)
            .compile()
            .matches(node, &labels(node_labels))
            .map_err(|error| error.to_string())
    }

    fn expressions(list: &str) -> String {
        format!(r#"{{"nodeSelectorTerms":[{{"matchExpressions":[{list}]}}]}}"#)
    }

    // TestNodeSelectorMatch
    #[test]
    fn empty_selectors_and_terms_match_nothing() {
        assert_eq!(check("{}", "a", "x=1"), Ok(false));
        assert_eq!(
            check(r#"{"nodeSelectorTerms":null}"#, "a", "x=1"),
            Ok(false)
        );
        assert_eq!(
            check(r#"{"nodeSelectorTerms":[{}]}"#, "a", "x=1"),
            Ok(false)
        );
        assert_eq!(
            check(
                r#"{"nodeSelectorTerms":[{"matchExpressions":null,"matchFields":[]}]}"#,
                "a",
                ""
            ),
            Ok(false)
        );
    }

    #[test]
    fn every_operator_on_labels() {
        let check = |requirement: &str, node_labels: &str| {
            check(&expressions(requirement), "a", node_labels).unwrap()
        };
        assert!(check(
            r#"{"key":"x","operator":"In","values":["1","2"]}"#,
            "x=2"
        ));
        assert!(!check(
            r#"{"key":"x","operator":"In","values":["1","2"]}"#,
            ""
        ));
        assert!(check(
            r#"{"key":"x","operator":"NotIn","values":["1"]}"#,
            ""
        ));
        assert!(!check(
            r#"{"key":"x","operator":"NotIn","values":["1"]}"#,
            "x=1"
        ));
        assert!(check(r#"{"key":"x","operator":"Exists"}"#, "x="));
        assert!(check(r#"{"key":"x","operator":"DoesNotExist"}"#, "y=1"));
        assert!(check(
            r#"{"key":"x","operator":"Gt","values":["0204"]}"#,
            "x=0206"
        ));
        assert!(!check(
            r#"{"key":"x","operator":"Lt","values":["5"]}"#,
            "x=5"
        ));
    }

    #[test]
    fn terms_are_alternatives_and_their_requirements_are_not() {
        let both =
            expressions(r#"{"key":"x","operator":"Exists"},{"key":"y","operator":"Exists"}"#);
        assert_eq!(check(&both, "a", "x=1"), Ok(false));
        assert_eq!(check(&both, "a", "x=1,y=1"), Ok(true));
        let either = r#"{"nodeSelectorTerms":[{"matchExpressions":[{"key":"x","operator":"Exists"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["b"]}]}]}"#;
        assert_eq!(check(either, "a", "x=1"), Ok(true));
        assert_eq!(check(either, "b", ""), Ok(true));
        assert_eq!(check(either, "a", ""), Ok(false));
    }

    #[test]
    fn fields_match_the_name() {
        let with = |operator: &str| {
            format!(
                r#"{{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"{operator}","values":["a"]}}],"matchExpressions":[{{"key":"x","operator":"Exists"}}]}}]}}"#
            )
        };
        assert_eq!(check(&with("In"), "a", "x=1"), Ok(true));
        assert_eq!(check(&with("In"), "a", ""), Ok(false));
        assert_eq!(check(&with("In"), "b", "x=1"), Ok(false));
        assert_eq!(check(&with("NotIn"), "b", "x=1"), Ok(true));
        assert_eq!(check(&with("In"), "", "x=1"), Ok(true));
    }

    #[test]
    fn malformed_terms_matter_only_when_no_other_matches() {
        let json = r#"{"nodeSelectorTerms":[
            {"matchExpressions":[{"key":"x","operator":"Odd"},{"key":"x","operator":"In"}],
             "matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]},{"key":"f","operator":"Exists"}]},
            {"matchExpressions":[{"key":"x","operator":"Exists"}]}]}"#;
        assert_eq!(check(json, "a", "x=1"), Ok(true));
        let error = check(json, "a", "").unwrap_err();
        expect_test::expect![[r#"[nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Odd": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", nodeSelectorTerms[0].matchExpressions[1].values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty, nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: must have one element, nodeSelectorTerms[0].matchFields[1].operator: Unsupported value: "Exists": supported values: "In", "NotIn"]"#]]
        .assert_eq(&error);
        assert_eq!(selector(json).validate().unwrap_err().to_string(), error);
        assert_eq!(
            selector(&expressions(r#"{"key":"x","operator":"Exists"}"#)).validate(),
            Ok(())
        );
    }

    // TestPreferredSchedulingTermsScore
    #[test]
    fn preferred_terms_add_their_weights() {
        let terms =
            |json: &str| serde_json::from_str::<Vec<PreferredSchedulingTerm>>(json).unwrap();
        let exists = |weight: i32, key: &str| {
            format!(
                r#"{{"weight":{weight},"preference":{{"matchExpressions":[{{"key":"{key}","operator":"Exists"}}]}}}}"#
            )
        };
        let list = format!(
            r#"[{},{},{},{{"weight":7,"preference":{{}}}}]"#,
            exists(5, "x"),
            exists(2, "y"),
            exists(1, "z")
        );
        let preferred = PreferredNodes::new(&terms(&list)).unwrap();
        assert_eq!(preferred.score("a", &labels("x=1,y=1")), 7);
        assert_eq!(preferred.score("a", &labels("")), 0);
        let odd = r#"{"matchExpressions":[{"key":"x","operator":"Odd"}]}"#;
        let ignored = format!(r#"[{{"weight":0,"preference":{odd}}}]"#);
        assert!(PreferredNodes::new(&terms(&ignored)).is_ok());
        let error = PreferredNodes::new(&terms(&format!(r#"[{{"weight":1,"preference":{odd}}}]"#)))
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("[0].matchExpressions[0].operator: Unsupported value"),
            "{error}"
        );
    }

    // TestPodMatchesNodeSelectorAndAffinityTerms
    #[test]
    fn required_affinity_needs_both_selector_and_terms() {
        let affinity: Affinity = serde_json::from_str(
            r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}}}"#,
        )
        .unwrap();
        let both = RequiredNodeAffinity::new(&labels("disk=ssd"), Some(&affinity));
        assert_eq!(both.matches("n", &labels("disk=ssd,zone=a")), Ok(true));
        assert_eq!(both.matches("n", &labels("disk=ssd,zone=b")), Ok(false));
        assert_eq!(both.matches("n", &labels("zone=a")), Ok(false));
        let none = RequiredNodeAffinity::new(&LabelSet::default(), Some(&Affinity::default()));
        assert_eq!(none.matches("n", &labels("")), Ok(true));
        let nothing: Affinity =
            serde_json::from_str(r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}"#)
                .unwrap();
        let nowhere = RequiredNodeAffinity::new(&LabelSet::default(), Some(&nothing));
        assert_eq!(nowhere.matches("n", &labels("")), Ok(false));
    }

    #[test]
    fn round_trips() {
        let json = r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"x","operator":"In","values":["b","a"]}],"matchFields":[{"key":"metadata.name","operator":"New","values":["n"]}]}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"x","operator":"Exists"}]}}]},"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"a":"b"}},"topologyKey":"zone"}]}}"#;
        let affinity: Affinity = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&affinity).unwrap(), json);
    }
}
