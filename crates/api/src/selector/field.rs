//! Field selectors: `metadata.name=web,status.phase!=Running`.

use std::borrow::Cow;
use std::fmt;

/// Conditions on fields of an object; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Box<[FieldRequirement]>,
}

/// One field that must, or must not, have a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    pub value: String,
    /// True for `!=`.
    pub negated: bool,
}

/// Why a field selector could not be understood. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    BadEscape { sequence: String },
    // UPSTREAM: the character is printed as its number.
    #[error("invalid field selector: unescaped character in value: {}", *.character as u32)]
    Unescaped { character: char },
}

impl FieldSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Reads `a=b,c==d,e!=f`; a backslash escapes comma, equals sign and backslash in values.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let (field, operator, value) =
                split_term(term).ok_or_else(|| FieldSelectorError::NoOperator {
                    selector: text.to_owned(),
                    term: term.to_owned(),
                })?;
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                value: unescape(value)?,
                negated: operator == "!=",
            });
        }
        // UPSTREAM: a bare operator requires nothing.
        requirements.retain(|one| !(one.field.is_empty() && one.value.is_empty()));
        Ok(Self::from_requirements(requirements))
    }

    pub fn from_requirements(requirements: impl Into<Box<[FieldRequirement]>>) -> Self {
        Self {
            requirements: requirements.into(),
        }
    }

    /// Objects whose `field` has `value`.
    pub fn equals(field: &str, value: &str) -> Self {
        Self::from_requirements([FieldRequirement {
            field: field.to_owned(),
            value: value.to_owned(),
            negated: false,
        }])
    }

    /// Matches the fields that `get` looks up; an absent one counts as empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|one| {
            let value = get(&one.field).unwrap_or_default();
            (value == one.value.as_str()) != one.negated
        })
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The one value that `field` must have, if the selector fixes it: a way into an index.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|one| one.field == field && !one.negated)
            .map(|one| one.value.as_str())
    }
}

/// Splits at commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits at the first operator; a field's name can't hold one.
fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    for (index, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[index..].strip_prefix(operator) {
                return Some((&term[..index], operator, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, FieldSelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                other => {
                    let sequence = "\\".chars().chain(other).collect();
                    return Err(FieldSelectorError::BadEscape { sequence });
                }
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped { character }),
            other => value.push(other),
        }
    }
    Ok(value)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            write!(formatter, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.negated { "!=" } else { "=" };
        write!(formatter, "{}{operator}", self.field)?;
        for character in self.value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                formatter.write_str("\\")?;
            }
            write!(formatter, "{character}")?;
        }
        Ok(())
    }
}
