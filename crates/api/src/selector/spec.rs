//! The struct form of label selectors, as object specs carry it.

use std::fmt::Write;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Operator, Requirement, Selector, SelectorError};
use crate::meta::or_default;
use crate::text_enum::text_enum;
use crate::{Istr, LabelSet};

/// `matchLabels` and `matchExpressions`; all must hold, and without any every object matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "LabelSet::is_empty")]
    pub match_labels: LabelSet,
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub match_expressions: Arc<[LabelSelectorRequirement]>,
}

/// One of a label selector's expressions, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorRequirement {
    pub key: Istr,
    pub operator: LabelSelectorOperator,
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        deserialize_with = "or_default"
    )]
    pub values: Arc<[Istr]>,
}

text_enum! {
    /// The operators that the struct form knows; others are refused on compiling.
    pub enum LabelSelectorOperator {
        In = "In",
        NotIn = "NotIn",
        Exists = "Exists",
        DoesNotExist = "DoesNotExist",
    }
    default ""
}

impl LabelSelector {
    /// The selector as Go prints the struct: some of upstream's messages have it.
    pub fn in_go(selector: Option<&LabelSelector>) -> String {
        let Some(selector) = selector else {
            return "nil".to_owned();
        };
        let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
        for (key, value) in selector.match_labels.iter() {
            let _ = write!(text, "{key}: {value},");
        }
        text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
        for expression in selector.match_expressions.iter() {
            let (key, operator) = (&expression.key, &expression.operator);
            let values: Vec<&str> = expression.values.iter().map(|value| &**value).collect();
            let values = values.join(" ");
            let _ = write!(
                text,
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
            );
        }
        text.push_str("},}");
        text
    }

    /// The form that matches. Fails on keys, values and operators that break the rules.
    pub fn compile(&self) -> Result<Selector, SelectorError> {
        if self.is_empty() {
            return Ok(Selector::everything());
        }
        let mut requirements =
            Vec::with_capacity(self.match_labels.len() + self.match_expressions.len());
        for (key, value) in self.match_labels.iter() {
            requirements.push(Requirement::new(
                key,
                Operator::Equals,
                [Istr::from(value)],
            )?);
        }
        for expression in self.match_expressions.iter() {
            requirements.push(expression.compile()?);
        }
        Ok(Selector::from_requirements(requirements))
    }

    /// An absent selector matches nothing, an empty one everything.
    pub fn compile_optional(selector: Option<&LabelSelector>) -> Result<Selector, SelectorError> {
        selector.map_or_else(|| Ok(Selector::nothing()), LabelSelector::compile)
    }

    /// Whether nothing is required, so that every object matches.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Compiles and matches at once; an invalid selector matches nothing. Compile once to match often.
    pub fn matches(&self, labels: &LabelSet) -> bool {
        self.compile()
            .is_ok_and(|selector| selector.matches(labels))
    }
}

impl From<LabelSet> for LabelSelector {
    fn from(match_labels: LabelSet) -> Self {
        Self {
            match_labels,
            match_expressions: Arc::default(),
        }
    }
}

impl LabelSelectorRequirement {
    fn compile(&self) -> Result<Requirement, SelectorError> {
        let operator = match &self.operator {
            LabelSelectorOperator::In => Operator::In,
            LabelSelectorOperator::NotIn => Operator::NotIn,
            LabelSelectorOperator::Exists => Operator::Exists,
            LabelSelectorOperator::DoesNotExist => Operator::DoesNotExist,
            LabelSelectorOperator::Other(name) => {
                return Err(SelectorError::UnknownOperator(name.to_string()));
            }
        };
        Requirement::new(self.key.clone(), operator, &*self.values)
    }
}
