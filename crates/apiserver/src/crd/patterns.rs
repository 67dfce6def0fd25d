//! The patterns of a definition: each compiled once, and all of them within a budget.
//!
//! A few letters of pattern can compile to megabytes, and whoever may write a definition writes as many as fit.

use regex::{Regex, RegexBuilder};
use std::collections::BTreeMap;

/// What one pattern may compile to. A name of up to 63 letters of any script needs half of it.
const LARGEST_BYTES: usize = 4 << 20;

/// What those of one definition may compile to in all, while it is checked or in use.
const TOTAL_BYTES: usize = 16 << 20;

/// A pattern costs at least this; what needs more is tried with twice as much until it fits.
const SMALLEST_BYTES: usize = 16 << 10;

/// What a search may remember of a pattern, in each thread that searches.
const SEARCH_BYTES: usize = 256 << 10;

/// The patterns of one definition, as far as they were looked at.
#[derive(Default)]
pub(super) struct Patterns {
    compiled: BTreeMap<String, Result<Regex, String>>,
    bytes: usize,
}

impl Patterns {
    /// The compiled form of a pattern; none if it is not taken.
    pub(super) fn compiled(&mut self, pattern: &str) -> Option<Regex> {
        self.add(pattern).ok()?;
        self.compiled.get(pattern)?.clone().ok()
    }

    /// Compiles a pattern unless it is known already; an error says why it is not taken.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), String> {
        if !self.compiled.contains_key(pattern) {
            let compiled = self.compile(pattern);
            self.compiled.insert(pattern.to_owned(), compiled);
        }
        match self.compiled.get(pattern) {
            Some(Err(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    fn compile(&mut self, pattern: &str) -> Result<Regex, String> {
        if let Some(why) = cel::repeats_too_often(pattern) {
            return Err(refusal(&why));
        }
        let translated = cel::translate_pattern(pattern);
        let mut size = SMALLEST_BYTES;
        loop {
            if self.bytes + size > TOTAL_BYTES {
                return Err(refusal("expression too large"));
            }
            let built = RegexBuilder::new(&translated)
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
                    return Err(refusal("expression too large"));
                }
                Err(_) => return Err(refusal(&cel::pattern_complaint(pattern))),
            }
        }
    }
}

/// Why a pattern is not taken, in upstream's words.
fn refusal(why: &str) -> String {
    format!("must be a valid regular expression, but isn't: error parsing regexp: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_share_a_budget() {
        let mut patterns = Patterns::default();
        let why = "must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`";
        assert_eq!(patterns.add("("), Err(why.to_owned()));
        for number in 0..200 {
            // As definitions have them.
            let usual = format!("^[a-z0-9]([-a-z0-9]{{0,{number}}}[a-z0-9])?$");
            assert_eq!(patterns.add(&usual), Ok(()), "{usual}");
        }
        let spent = patterns.bytes;
        patterns.add("^[a-z0-9]([-a-z0-9]{0,7}[a-z0-9])?$").unwrap();
        assert_eq!(patterns.bytes, spent, "it is known");
        let huge = |number: usize| format!(r"(\pL{{1,40}}){{{number}}}");
        let refused = (20..60)
            .filter(|number| patterns.add(&huge(*number)).is_err())
            .count();
        assert!(refused > 30, "{refused}");
        assert!(patterns.bytes <= TOTAL_BYTES);
    }
}
