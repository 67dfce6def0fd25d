//! Label selectors and field selectors: which objects a controller or a client means.
//!
//! [`Selector`] is the compiled form that matches labels. It comes from the struct form of object
//! specs ([`LabelSelector`]), from the string form of requests ([`Selector::parse`]) or from a plain
//! label set ([`Selector::from_labels`]). [`FieldSelector`] is the string form over object fields.

mod field;
mod parse;
mod spec;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use self::field::{FieldRequirement, FieldSelector, FieldSelectorError};
pub use self::spec::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use crate::syntax::{
    validate_dns1035_label, validate_dns1123_label, validate_dns1123_subdomain, validate_label_key,
    validate_label_value, validate_qualified_name,
};

use crate::Istr;
use crate::LabelSet;
use crate::syntax::go_quote;

/// A compiled label selector: all requirements must hold. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Nothing: matches no labels at all, not even with no requirements.
    requirements: Option<Arc<[Requirement]>>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: Istr,
    operator: Operator,
    values: Box<[Istr]>,
}

/// How a label must relate to a requirement's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Exists,
    DoesNotExist,
    Equals,
    /// `==`: means the same as `=`, but is printed as it was written.
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

/// Why a selector could not be understood. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    // UPSTREAM: this one message lacks the comma.
    #[error("found '{found}' expected: '('")]
    NoParenthesis { found: String },
    #[error("unable to parse requirement: {0}")]
    Requirement(Box<SelectorError>),
    /// Key, operator or values break the rules; one message for each fault, with the path to it.
    #[error("{}", aggregate(.0))]
    Invalid(Vec<String>),
    #[error("{} is not a valid label selector operator", go_quote(.0))]
    UnknownOperator(String),
}

impl Selector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self {
            requirements: Some(Arc::new([])),
        }
    }

    /// Matches no object.
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Reads the string form: `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text).map(Self::from_requirements)
    }

    /// Matches objects that carry all of `labels`; everything if there are none. Nothing is validated.
    pub fn from_labels(labels: &LabelSet) -> Self {
        let equals = |(key, value): (&str, &str)| Requirement {
            key: Istr::from(key),
            operator: Operator::Equals,
            values: Box::new([Istr::from(value)]),
        };
        Self::from_requirements(labels.iter().map(equals).collect())
    }

    /// All of `requirements`, in the order of their keys so that the text is always the same.
    pub fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.as_str().cmp(b.key.as_str()));
        Self {
            requirements: Some(requirements.into()),
        }
    }

    /// This selector with more requirements; nothing stays nothing.
    pub fn and(&self, more: impl IntoIterator<Item = Requirement>) -> Self {
        match &self.requirements {
            None => self.clone(),
            Some(own) => Self::from_requirements(own.iter().cloned().chain(more).collect()),
        }
    }

    pub fn matches(&self, labels: &LabelSet) -> bool {
        self.matches_by(|key| labels.get(key))
    }

    /// Matches labels that are looked up by `get`, for those kept in another form than a label set.
    pub fn matches_by<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|one| one.matches(get(&one.key))))
    }

    /// Whether every object matches, because nothing is required.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.is_empty())
    }

    /// Whether no object can match.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// The one value that `key` must have, if the selector fixes it: a way into an index.
    pub fn required_value(&self, key: &str) -> Option<&str> {
        let found = self.requirements().iter().find(|one| &*one.key == key)?;
        match (found.operator, &*found.values) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl Requirement {
    /// A requirement that obeys the rules of labels and operators.
    pub fn new(
        key: impl Into<Istr>,
        operator: Operator,
        values: impl Into<Box<[Istr]>>,
    ) -> Result<Self, SelectorError> {
        Self::new_at("", key.into(), operator, values.into())
    }

    /// Like `new`; faults name the path of the requirement within its object.
    pub(crate) fn new_at(
        path: &str,
        key: Istr,
        operator: Operator,
        values: Box<[Istr]>,
    ) -> Result<Self, SelectorError> {
        let mut faults = Vec::new();
        let in_path = |child: &str| match path {
            "" => child.to_owned(),
            _ => format!("{path}.{child}"),
        };
        let key_faults = validate_label_key(&key);
        if !key_faults.is_empty() {
            faults.push(invalid(&in_path("key"), &key, &key_faults));
        }
        check_values(&in_path("values"), operator, &values, &mut faults);
        for (index, value) in values.iter().enumerate() {
            let value_faults = validate_label_value(value);
            if !value_faults.is_empty() {
                let at = format!("{}[{index}][{key}]", in_path("values"));
                faults.push(invalid(&at, value, &value_faults));
            }
        }
        if !faults.is_empty() {
            return Err(SelectorError::Invalid(faults));
        }
        Ok(Self {
            key,
            operator,
            values,
        })
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[Istr] {
        &self.values
    }

    /// Whether a label's value (or its absence) fulfils this.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let contains = |value: &str| self.values.iter().any(|one| &**one == value);
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(contains),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(contains),
            Operator::GreaterThan => self.compare(value).is_some_and(|(own, limit)| own > limit),
            Operator::LessThan => self.compare(value).is_some_and(|(own, limit)| own < limit),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        let limit = self.values.first()?.parse().ok()?;
        Some((value?.parse().ok()?, limit))
    }
}

/// Each operator's rule on the number of values, in upstream's words.
fn check_values(path: &str, operator: Operator, values: &[Istr], faults: &mut Vec<String>) {
    let rule = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            "for 'in', 'notin' operators, values set can't be empty"
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            "exact-match compatibility requires one single value"
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            "values set must be empty for exists and does not exist"
        }
        Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
            "for 'Gt', 'Lt' operators, exactly one value is required"
        }
        _ => "",
    };
    if !rule.is_empty() {
        faults.push(format!(
            "{path}: Invalid value: {}: {rule}",
            json_list(values)
        ));
    }
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        for (index, value) in values.iter().enumerate() {
            if value.parse::<i64>().is_err() {
                let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
                faults.push(format!(
                    "{path}[{index}]: Invalid value: {}: {rule}",
                    go_quote(value)
                ));
            }
        }
    }
}

/// Go prints a list that was left out as null.
pub(crate) fn json_list(values: &[Istr]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    let quoted: Vec<String> = values.iter().map(|value| go_quote(value)).collect();
    format!("[{}]", quoted.join(","))
}

fn invalid(path: &str, value: &str, faults: &[String]) -> String {
    format!(
        "{path}: Invalid value: {}: {}",
        go_quote(value),
        faults.join("; ")
    )
}

/// Several messages as Go's aggregate prints them: bracketed, each once.
pub(crate) fn aggregate(messages: &[String]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for message in messages {
        if !unique.contains(&message.as_str()) {
            unique.push(message);
        }
    }
    match unique.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

impl Default for Selector {
    fn default() -> Self {
        Self::everything()
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            write!(formatter, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values.iter().map(|value| &**value).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::Exists => write!(formatter, "{key}"),
            Operator::DoesNotExist => write!(formatter, "!{key}"),
            Operator::Equals => write!(formatter, "{key}={values}"),
            Operator::DoubleEquals => write!(formatter, "{key}=={values}"),
            Operator::NotEquals => write!(formatter, "{key}!={values}"),
            Operator::In => write!(formatter, "{key} in ({values})"),
            Operator::NotIn => write!(formatter, "{key} notin ({values})"),
            Operator::GreaterThan => write!(formatter, "{key}>{values}"),
            Operator::LessThan => write!(formatter, "{key}<{values}"),
        }
    }
}
