//! The files of `parity/`: reading, checking and extending them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::ours::OurTests;
use super::page::Tally;
use crate::workspace;

/// The state of a test nobody has looked at yet.
const UNSEEN: &str = "no test of ours is named yet";

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) controller: String,
    pub(crate) package: String,
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    package: String,
    #[serde(default)]
    test: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    upstream: String,
    #[serde(default)]
    ours: Vec<String>,
    not_applicable: Option<String>,
    open: Option<String>,
    /// How many rows upstream's table has, where each was compared with ours.
    rows: Option<usize>,
}

impl Ledger {
    pub(crate) fn paths() -> Result<Vec<PathBuf>> {
        let files = workspace::files()?;
        let is_ledger = |path: &PathBuf| {
            path.starts_with("parity") && path.extension().is_some_and(|e| e == "toml")
        };
        Ok(files.into_iter().filter(is_ledger).collect())
    }

    pub(crate) fn read(path: &Path) -> Result<Ledger> {
        Ledger::parse(path, &workspace::read(path)?)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Ledger> {
        let file: File =
            toml::from_str(text).with_context(|| format!("{} is not a ledger", path.display()))?;
        let controller = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or("")
            .to_owned();
        Ok(Ledger {
            controller,
            package: file.package,
            path: path.to_owned(),
            entries: file.test,
        })
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for entry in &self.entries {
            let count = match entry {
                entry if entry.not_applicable.is_some() => &mut tally.not_applicable,
                entry if entry.open.is_none() => &mut tally.covered,
                entry if entry.ours.is_empty() => &mut tally.open,
                _ => &mut tally.partial,
            };
            *count += 1;
            tally.rows += entry.rows.unwrap_or(0);
        }
        tally
    }

    /// What is missing: the test, whether a part of it is covered, and the words.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&str, bool, &str)> {
        self.entries.iter().filter_map(|entry| {
            let open = entry.open.as_deref()?;
            Some((&*entry.upstream, !entry.ours.is_empty(), open))
        })
    }

    /// What is wrong with the ledger in itself and with the tests it names.
    pub(crate) fn check(&self, tests: &OurTests) -> Vec<String> {
        let mut findings = Vec::new();
        let mut seen = BTreeSet::new();
        for entry in &self.entries {
            let mut found = |what: String| {
                findings.push(format!(
                    "{}: {}: {what}",
                    self.path.display(),
                    entry.upstream
                ));
            };
            if !seen.insert(&entry.upstream) {
                found("is listed twice".to_owned());
            }
            // An entry may name tests and say what they leave open; it cannot be covered and not apply.
            let says = usize::from(!entry.ours.is_empty() || entry.open.is_some())
                + usize::from(entry.not_applicable.is_some());
            if says != 1 {
                found("say exactly one: `ours`, `not_applicable` or `open` (`open` may go with `ours`)".to_owned());
            }
            let reasons = [&entry.not_applicable, &entry.open];
            if reasons
                .into_iter()
                .flatten()
                .any(|reason| reason.trim().is_empty())
            {
                found("the reason is empty".to_owned());
            }
            if entry
                .rows
                .is_some_and(|rows| rows == 0 || entry.ours.is_empty())
            {
                found(
                    "`rows` counts the rows that were compared with the tests of `ours`".to_owned(),
                );
            }
            for name in &entry.ours {
                if let Err(reason) = tests.find(name) {
                    found(reason);
                }
            }
        }
        findings
    }

    /// What is listed here but not upstream, and the other way round.
    pub(crate) fn compare(&self, upstream: &[String]) -> Vec<String> {
        let here: BTreeSet<&str> = self
            .entries
            .iter()
            .map(|entry| entry.upstream.as_str())
            .collect();
        let there: BTreeSet<&str> = upstream.iter().map(String::as_str).collect();
        let path = self.path.display();
        let gone = here
            .difference(&there)
            .map(|name| format!("{path}: {name}: upstream has no such test"));
        let missing = there.difference(&here).map(|name| {
            format!("{path}: {name}: not listed; `cargo xtask parity --write` adds it as open")
        });
        gone.chain(missing).collect()
    }

    /// Appends what the ledger lacks as open. What people wrote stays as it is, byte for byte.
    pub(crate) fn add_missing(&mut self, upstream: &[String]) -> Result<()> {
        let here: BTreeSet<String> = self
            .entries
            .iter()
            .map(|entry| entry.upstream.clone())
            .collect();
        let mut text = workspace::read(&self.path)?;
        let before = text.len();
        for name in upstream.iter().filter(|name| !here.contains(*name)) {
            text += &format!("\n[[test]]\nupstream = \"{name}\"\nopen = \"{UNSEEN}\"\n");
        }
        if text.len() != before {
            std::fs::write(workspace::root().join(&self.path), &text)?;
            *self = Ledger::parse(&self.path, &text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(entries: &str) -> Ledger {
        Ledger::parse(
            Path::new("parity/x.toml"),
            &format!("package = \"pkg/x\"\n{entries}"),
        )
        .unwrap()
    }

    #[test]
    fn the_tally_tells_covered_partial_open_and_not_applicable_apart() {
        let ledger = ledger(
            "[[test]]\nupstream='A'\nours=['c::t']\n[[test]]\nupstream='B'\nnot_applicable='a Go fake'\n\
             [[test]]\nupstream='C'\nours=['c::t']\nopen='half of it'\nrows=4\n\
             [[test]]\nupstream='D'\nours=['c::t']\nrows=3\n",
        );
        let expected = Tally {
            covered: 2,
            partial: 1,
            open: 0,
            not_applicable: 1,
            rows: 7,
        };
        assert_eq!(ledger.tally(), expected);
    }

    #[test]
    fn finds_entries_that_say_nothing_too_much_or_name_no_test() {
        let tests = OurTests::default();
        let cases = [
            ("[[test]]\nupstream='A'\n", 1),
            ("[[test]]\nupstream='A'\nopen='x'\nnot_applicable='y'\n", 1),
            ("[[test]]\nupstream='A'\nopen=' '\n", 1),
            (
                "[[test]]\nupstream='A'\nours=['steersman-api::no_such_test']\n",
                1,
            ),
            (
                "[[test]]\nupstream='A'\nopen='x'\n[[test]]\nupstream='A'\nopen='x'\n",
                1,
            ),
            ("[[test]]\nupstream='A'\nopen='x'\nrows=2\n", 1),
            ("[[test]]\nupstream='A'\nopen='x'\n", 0),
        ];
        for (text, expected) in cases {
            let found = ledger(text).check(&tests);
            assert_eq!(found.len(), expected, "{text}: {found:?}");
        }
    }

    #[test]
    fn lists_must_agree_with_upstream() {
        let found = ledger("[[test]]\nupstream='A'\nopen='x'\n").compare(&["B".to_owned()]);
        assert_eq!(
            found,
            [
                "parity/x.toml: A: upstream has no such test",
                "parity/x.toml: B: not listed; `cargo xtask parity --write` adds it as open",
            ]
        );
    }
}
