//! The patterns of a definition: each compiled once, and all of them within a budget.
//!
//! A few letters of pattern can compile to megabytes, and whoever may write a definition writes as many as fit.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What one pattern may compile to. The largest that is known from the field, an IPv6 address, needs a tenth.
const LARGEST_BYTES: usize = 1 << 20;

/// What those of one definition may compile to in all.
const TOTAL_BYTES: usize = 8 << 20;

/// A pattern costs at least this; what needs more is tried with twice as much until it fits.
const SMALLEST_BYTES: usize = 16 << 10;

/// What a search may remember of a pattern, in each thread that searches.
const SEARCH_BYTES: usize = 256 << 10;

/// Why a pattern is not taken, in upstream's words where it has any.
pub(super) const INVALID: &str = "must be a valid regular expression";
const TOO_LARGE: &str =
    "must be a valid regular expression, but isn't: error parsing regexp: expression too large";

/// The patterns of one definition, as far as they were looked at.
#[derive(Default)]
pub(super) struct Patterns {
    compiled: BTreeMap<String, Result<Regex, &'static str>>,
    bytes: usize,
}

impl Patterns {
    /// Those of a definition's schemas, without what cannot be compiled.
    pub(super) fn of<'a>(schemas: impl Iterator<Item = &'a Value>) -> BTreeMap<String, Regex> {
        let mut all = Patterns::default();
        schemas.for_each(|schema| all.collect(schema));
        let compiled = all.compiled.into_iter();
        compiled
            .filter_map(|(pattern, regex)| Some((pattern, regex.ok()?)))
            .collect()
    }

    /// Compiles a pattern unless it is known already; an error says why it is not taken.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), &'static str> {
        if !self.compiled.contains_key(pattern) {
            let compiled = self.compile(pattern);
            self.compiled.insert(pattern.to_owned(), compiled);
        }
        match self.compiled.get(pattern) {
            Some(Err(why)) => Err(why),
            _ => Ok(()),
        }
    }

    fn compile(&mut self, pattern: &str) -> Result<Regex, &'static str> {
        let mut size = SMALLEST_BYTES;
        loop {
            if self.bytes + size > TOTAL_BYTES {
                return Err(TOO_LARGE);
            }
            let built = RegexBuilder::new(pattern)
                .size_limit(size)
                .dfa_size_limit(SEARCH_BYTES)
                .build();
            match built {
                Ok(regex) => {
                    self.bytes += size;
                    return Ok(regex);
                }
                Err(regex::Error::CompiledTooBig(_)) if size < LARGEST_BYTES => size *= 2,
                Err(regex::Error::CompiledTooBig(_)) => {
                    // What it took to find out counts as well: the next one would take as long.
                    self.bytes += size;
                    return Err(TOO_LARGE);
                }
                Err(_) => return Err(INVALID),
            }
        }
    }

    fn collect(&mut self, schema: &Value) {
        let members = |value: &'static str| schema.get(value);
        if let Some(pattern) = schema["pattern"].as_str() {
            // Whoever wrote it was told.
            let _ = self.add(pattern);
        }
        let properties = schema["properties"].as_object();
        let nested = properties
            .into_iter()
            .flat_map(Map::values)
            .chain(
                ["items", "additionalProperties", "not"]
                    .into_iter()
                    .filter_map(members),
            )
            .chain(
                ["allOf", "anyOf", "oneOf"]
                    .into_iter()
                    .filter_map(|member| schema[member].as_array())
                    .flatten(),
            );
        nested.for_each(|schema| self.collect(schema));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_patterns_of_a_schema_are_found() {
        let pattern = |text: &str| json!({"type": "string", "pattern": text});
        let schema = json!({
            "properties": {"a": pattern("a"), "b": {"items": pattern("b")}},
            "additionalProperties": pattern("c"), "not": pattern("d"),
            "allOf": [pattern("e")], "anyOf": [pattern("f")], "oneOf": [pattern("("), pattern("g")],
        });
        let found = Patterns::of([&schema, &schema].into_iter());
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e", "f", "g"]);
    }

    #[test]
    fn patterns_share_a_budget() {
        let mut patterns = Patterns::default();
        assert_eq!(patterns.add("("), Err(INVALID));
        for number in 0..200 {
            // As definitions have them.
            let usual = format!("^[a-z0-9]([-a-z0-9]{{0,{number}}}[a-z0-9])?$");
            assert_eq!(patterns.add(&usual), Ok(()), "{usual}");
        }
        let spent = patterns.bytes;
        patterns.add("^[a-z0-9]([-a-z0-9]{0,7}[a-z0-9])?$").unwrap();
        assert_eq!(patterns.bytes, spent, "it is known");
        let huge = |number: usize| format!(r"(\w{{1,40}}){{{number}}}");
        let refused = (20..60)
            .filter(|number| patterns.add(&huge(*number)).is_err())
            .count();
        assert!(refused > 30, "{refused}");
        assert!(patterns.bytes <= TOTAL_BYTES);
    }
}
