//! The text of an expression, and what is wrong with it, printed as cel-go prints it.

use std::fmt;

/// Expressions are bounded by code points, as cel-go bounds them.
pub const SOURCE_MAX: usize = 100_000;

/// More than this is counted, not kept.
const ISSUES_MAX: usize = 100;
/// Longer lines are not repeated under an issue.
const SNIPPET_MAX: usize = 16_384;

/// Where no place can be named: cel-go prints line -1, column 0.
pub const NOWHERE: u32 = u32::MAX;

/// An expression's text by code points, and where its lines begin.
#[derive(Debug, Clone)]
pub struct Source {
    pub text: Vec<char>,
    lines: Vec<u32>,
}

impl Source {
    pub fn new(text: &str) -> Source {
        let text: Vec<char> = text.chars().take(SOURCE_MAX + 1).collect();
        let ends = text.iter().enumerate().filter(|(_, c)| **c == '\n');
        let lines = std::iter::once(0)
            .chain(ends.map(|(at, _)| at as u32 + 1))
            .collect();
        Source { text, lines }
    }

    /// Line from one and column from nought of an offset.
    fn place(&self, offset: u32) -> (i64, i64) {
        if offset == NOWHERE {
            return (-1, -1);
        }
        let line = self.lines.partition_point(|begin| *begin <= offset).max(1);
        (line as i64, i64::from(offset - self.lines[line - 1]))
    }

    fn line(&self, number: i64) -> Option<String> {
        let index = usize::try_from(number - 1).ok()?;
        let begin = *self.lines.get(index)? as usize;
        let end = self.lines.get(index + 1);
        let end = end.map_or(self.text.len(), |next| *next as usize - 1);
        let kept = self.text.get(begin..end)?;
        Some(kept.iter().collect())
    }
}

/// One thing that is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub at: u32,
    pub message: String,
}

/// All that is wrong with an expression, in the order in which it was found.
#[derive(Debug, Clone, Default)]
pub struct Issues {
    kept: Vec<Issue>,
    found: usize,
}

impl Issues {
    pub fn report(&mut self, at: u32, message: impl Into<String>) {
        self.found += 1;
        if self.kept.len() < ISSUES_MAX {
            let message = message.into();
            self.kept.push(Issue { at, message });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    pub fn as_slice(&self) -> &[Issue] {
        &self.kept
    }

    /// Sorted by place, each with its line and a caret under it.
    pub fn display(&self, source: &Source) -> String {
        let mut sorted: Vec<&Issue> = self.kept.iter().collect();
        sorted.sort_by_key(|issue| source.place(issue.at));
        let mut shown: Vec<String> = sorted
            .iter()
            .map(|issue| Shown { issue, source }.to_string())
            .collect();
        if self.found > self.kept.len() {
            shown.push(format!(
                "{} more errors were truncated",
                self.found - self.kept.len()
            ));
        }
        shown.join("\n")
    }
}

struct Shown<'a> {
    issue: &'a Issue,
    source: &'a Source,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, mut column) = self.source.place(self.issue.at);
        if self.source.text.is_empty() {
            // UPSTREAM: nothing has no first column.
            column = -1;
        }
        write!(
            f,
            "ERROR: <input>:{line}:{}: {}",
            column + 1,
            self.issue.message
        )?;
        let Some(text) = self.source.line(line).filter(|_| column >= 0) else {
            return Ok(());
        };
        if text.len() > SNIPPET_MAX {
            return Ok(());
        }
        let text = text.replace('\t', " ");
        write!(f, "\n | {text}\n | ")?;
        let mut after = text.chars();
        for _ in 0..column {
            match after.next() {
                Some(c) if c.len_utf8() > 1 => f.write_str("\u{ff0e}")?,
                Some(_) => f.write_str(".")?,
                None => break,
            }
        }
        let wide = after.next().is_some_and(|c| c.len_utf8() > 1);
        f.write_str(if wide { "\u{ff3e}" } else { "^" })
    }
}
