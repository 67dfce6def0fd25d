//! The tests of this workspace, found by reading the sources: no build is needed to check a name.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace;

/// Test functions by full name: package, modules, function, joined by `::`.
#[derive(Debug, Default)]
pub(crate) struct OurTests {
    names: BTreeSet<String>,
}

impl OurTests {
    pub(crate) fn scan() -> Result<OurTests> {
        let mut names = BTreeSet::new();
        let files = workspace::files()?;
        let manifests = files
            .iter()
            .filter(|path| path.ends_with("Cargo.toml") && path.iter().count() > 1);
        for manifest in manifests {
            let folder = manifest.parent().context("a manifest lies in a folder")?;
            let table: toml::Table = workspace::read(manifest)?.parse()?;
            let package = table["package"]["name"]
                .as_str()
                .context("a package has a name")?
                .to_owned();
            for file in files
                .iter()
                .filter(|path| path.extension().is_some_and(|e| e == "rs"))
            {
                if let Some(modules) = modules_of(folder, file) {
                    let prefix = std::iter::once(package.clone())
                        .chain(modules)
                        .collect::<Vec<_>>()
                        .join("::");
                    names.extend(tests_in(&prefix, &workspace::read(file)?));
                }
            }
        }
        Ok(OurTests { names })
    }

    /// Whether a test of this full name exists; the error suggests the one that was perhaps meant.
    pub(crate) fn find(&self, name: &str) -> Result<(), String> {
        if self.names.contains(name) {
            return Ok(());
        }
        let last = name.rsplit("::").next().unwrap_or(name);
        let similar = self
            .names
            .iter()
            .find(|known| known.rsplit("::").next() == Some(last));
        Err(match similar {
            Some(known) => format!("there is no test {name}; perhaps {known} is meant"),
            None => format!("there is no test {name}"),
        })
    }
}

/// Module names of a source file of the crate in `folder`; `None` if it belongs to another crate.
fn modules_of(folder: &Path, file: &Path) -> Option<Vec<String>> {
    let inner = file.strip_prefix(folder).ok()?;
    let mut parts: Vec<String> = inner
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let root = parts.remove(0);
    let last = parts.pop()?.strip_suffix(".rs")?.to_owned();
    match root.as_str() {
        "src" if matches!(last.as_str(), "mod" | "lib" | "main") => {}
        "src" | "tests" => parts.push(last),
        _ => return None,
    }
    Some(parts)
}

/// Full names of the test functions in a file. Indentation tells inline modules from each other,
/// because rustfmt guarantees it.
fn tests_in(prefix: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inline: Vec<(usize, String)> = Vec::new();
    let mut is_test = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if code.starts_with('}') {
            inline.retain(|(depth, _)| *depth < indent);
            continue;
        }
        if let Some(name) = code
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(" {"))
        {
            inline.push((indent, name.to_owned()));
        }
        // `#[test]`, `#[tokio::test(…)]` and the like.
        if code.starts_with("#[")
            && (code.contains("test]") || code.contains("test("))
            && !code.contains("cfg(")
        {
            is_test = true;
        }
        let signature = code.strip_prefix("async ").unwrap_or(code);
        // `#[test] fn name()` on one line is fine too.
        let signature = signature
            .rsplit_once("] fn ")
            .map_or(signature, |(_, rest)| rest);
        let function = signature.strip_prefix("fn ").unwrap_or(signature);
        if (signature.starts_with("fn ") || code.contains("] fn ")) && is_test {
            let name: String = function
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let modules = inline
                .iter()
                .map(|(_, module)| format!("{module}::"))
                .collect::<String>();
            found.push(format!("{prefix}::{modules}{name}"));
            is_test = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_files_and_inline_modules() {
        let cases = [
            ("crates/api/src/lib.rs", Some("")),
            ("crates/api/src/a/mod.rs", Some("a")),
            ("crates/api/src/a/b.rs", Some("a::b")),
            ("crates/api/tests/all.rs", Some("all")),
            ("crates/client/src/a.rs", None),
            ("crates/api/build.rs", None),
        ];
        for (file, expected) in cases {
            let modules = modules_of(Path::new("crates/api"), Path::new(file));
            assert_eq!(
                modules.map(|parts| parts.join("::")).as_deref(),
                expected,
                "{file}"
            );
        }
    }

    #[test]
    fn finds_tests_and_only_tests() {
        let text = "#[cfg(test)]\nmod tests {\n    fn fixture() {}\n\n    #[test]\n    fn first() {\n    }\n\n    \
                    #[tokio::test(start_paused = true)]\n    async fn second() {}\n}\n\n#[test]\nfn last() {}\n";
        assert_eq!(
            tests_in("steersman-api::x", text),
            [
                "steersman-api::x::tests::first",
                "steersman-api::x::tests::second",
                "steersman-api::x::last"
            ]
        );
    }
}
