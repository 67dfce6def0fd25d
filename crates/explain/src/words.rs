//! Why something is as it is.

use std::fmt;

use serde::{Serialize, Serializer};

/// A reason in full, and as much of it as fits a headline: the detail is said below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    full: String,
    headline: String,
}

impl Reason {
    /// Words of ours and what somebody else says, of whose message a headline has the first sentence.
    pub(crate) fn quoting(words: &str, message: &str) -> Reason {
        // A command that fails without a word leaves nothing after the colon.
        let message = message.trim_end_matches([':', ' ']);
        Reason {
            full: format!("{words}{message}"),
            headline: format!("{words}{}", first_sentence(message)),
        }
    }

    /// More that no headline needs.
    #[must_use]
    pub(crate) fn with_detail(mut self, detail: &str) -> Reason {
        self.full.push_str(detail);
        self
    }

    /// More words, and what somebody else says.
    #[must_use]
    pub(crate) fn and(self, words: &str, message: &str) -> Reason {
        match self.is_short() {
            true => Reason::quoting(&format!("{self}{words}"), message),
            false => self.with_detail(&format!("{words}{message}")),
        }
    }

    /// The same after some words.
    #[must_use]
    pub(crate) fn after(self, words: &str) -> Reason {
        Reason {
            full: format!("{words}{}", self.full),
            headline: format!("{words}{}", self.headline),
        }
    }

    pub(crate) fn headline(&self) -> &str {
        &self.headline
    }

    /// There is no detail.
    pub(crate) fn is_short(&self) -> bool {
        self.full == self.headline
    }
}

impl<T: Into<String>> From<T> for Reason {
    fn from(words: T) -> Reason {
        let full = words.into();
        Reason {
            headline: full.clone(),
            full,
        }
    }
}

/// In full.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.full)
    }
}

/// The first sentence of a message, without what is in brackets; `node(s)` is a word.
pub fn first_sentence(message: &str) -> String {
    let mut kept = String::new();
    let mut left_out = 0;
    for letter in message.chars() {
        match letter {
            '(' if left_out > 0 || kept.ends_with(' ') => left_out += 1,
            ')' if left_out > 0 => left_out -= 1,
            _ if left_out > 0 => {}
            letter => kept.push(letter),
        }
    }
    let end = kept.find(". ").unwrap_or(kept.len());
    kept[..end].replace(" ,", ",").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_has_our_words_in_full_and_the_first_sentence_of_others() {
        let check = |reason: Reason, full: &str, headline: &str| {
            assert_eq!(
                (reason.to_string().as_str(), reason.headline()),
                (full, headline)
            );
        };
        let plain = Reason::from("is on v1. It stays (for good)");
        check(
            plain.clone(),
            "is on v1. It stays (for good)",
            "is on v1. It stays (for good)",
        );
        check(
            plain.with_detail(" [x]"),
            "is on v1. It stays (for good) [x]",
            "is on v1. It stays (for good)",
        );
        let quoted = Reason::quoting("cannot start: ", "no room (3 of 3). preemption: none");
        check(
            quoted.clone().after("it "),
            "it cannot start: no room (3 of 3). preemption: none",
            "it cannot start: no room",
        );
        check(
            Reason::quoting("", "2 node(s) didn't match (of 3). more"),
            "2 node(s) didn't match (of 3). more",
            "2 node(s) didn't match",
        );
        check(
            quoted.and("; ", "more"),
            "cannot start: no room (3 of 3). preemption: none; more",
            "cannot start: no room",
        );
    }
}
