//! Rules about single source files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::glossary;
use crate::workspace;

/// Past 600 lines a file is due to be split by concept; a hundred more is the mercy.
const LINES_AT_MOST: usize = 700;
/// An essay says at least what converges, what triggers it, what it writes and what it mirrors.
const ESSAY_LINES_AT_LEAST: usize = 5;
/// Modules of the controllers crate that are no controllers but what controllers share.
const SHARED: &[&str] = &[
    "all",
    "bootstrap_token",
    "certificates",
    "config",
    "descriptor",
    "discovery",
    "oracle",
    "scale",
    "service_endpoints",
    "storage",
    "sync_metrics",
    "workload",
];
/// Those that know all controllers.
const REGISTRY: [&str; 2] = ["all", "descriptor"];
/// Kinds of files that people read and edit.
const TEXT: [&str; 12] = [
    "rs", "md", "toml", "yaml", "yml", "sh", "go", "mod", "json", "html", "css", "js",
];

pub(crate) fn check(findings: &mut Vec<String>) -> Result<()> {
    let files = workspace::files()?;
    let controllers = controllers(&files);
    for path in &files {
        let extension = path
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or("");
        let name = path.to_string_lossy();
        if !TEXT.contains(&extension) && !name.starts_with(".ci/") {
            continue;
        }
        let text = workspace::read(path)?;
        check_machine_paths(&name, &text, findings);
        if !name.starts_with("docs/adr/") && name != "CHANGELOG.md" {
            glossary::check(&name, &text, findings);
        }
        if extension == "rs" {
            check_rust(&name, &text, findings);
            check_controller(&name, &text, &controllers, findings);
        }
    }
    check_listed(&files, findings)
}

/// A controller whose folder is there and that no list knows would never run.
fn check_listed(files: &[PathBuf], findings: &mut Vec<String>) -> Result<()> {
    let read = |path: &str| workspace::read(Path::new(path));
    let (all, modules) = (
        read("crates/controllers/src/all.rs")?,
        read("crates/controllers/src/lib.rs")?,
    );
    let mut ledger = String::new();
    for path in files.iter().filter(|path| path.starts_with("parity")) {
        ledger += &workspace::read(path)?;
    }
    for module in controllers(files) {
        let path = format!("crates/controllers/src/{module}/mod.rs");
        if !files.contains(&PathBuf::from(&path)) || !has_descriptor(&read(&path)?) {
            continue;
        }
        findings.extend(unlisted(&module, &all, &modules, &ledger));
    }
    Ok(())
}

fn has_descriptor(text: &str) -> bool {
    text.contains(": Descriptor = ")
}

fn unlisted(module: &str, all: &str, modules: &str, ledger: &str) -> Vec<String> {
    let lists = [
        (
            all,
            format!("crate::{module}::"),
            "crates/controllers/src/all.rs",
        ),
        (
            modules,
            format!("mod {module};"),
            "crates/controllers/src/lib.rs",
        ),
        (
            ledger,
            format!("steersman-controllers::{module}::"),
            "parity: no test of upstream's is covered by it",
        ),
    ];
    let missing = lists
        .into_iter()
        .filter(|(list, entry, _)| !list.contains(entry));
    missing
        .map(|(_, entry, name)| format!("{name}: `{entry}` is missing"))
        .collect()
}

fn check_rust(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_AT_MOST {
        findings.push(format!(
            "{name}: {lines} lines; split it by concept (at most {LINES_AT_MOST})"
        ));
    }
    let is_test = name.contains("/tests/") || name.ends_with("/tests.rs");
    if name.starts_with("crates/")
        && !is_test
        && !name.ends_with("main.rs")
        && !text.starts_with("//!")
    {
        findings.push(format!(
            "{name}: start with a `//!` comment on what the module is for and why"
        ));
    }
    for number in examples(text) {
        findings.push(format!(
            "{name}:{number}: an example that nobody compiles; make it a test (each would be linked as a program of \
             its own), or say that it is ```text"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = forbidden_word(line) {
            findings.push(format!(
                "{name}:{}: {word}; finish it, or open an issue and say so in the docs",
                number + 1
            ));
        }
    }
}

/// The lines on which an example in Rust begins within a comment.
fn examples(text: &str) -> Vec<usize> {
    let mut begins = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let Some(fence) = comment.and_then(|comment| comment.trim().strip_prefix("```")) else {
            continue;
        };
        open = !open;
        if open && (fence.is_empty() || fence.starts_with("rust")) {
            begins.push(number + 1);
        }
    }
    begins
}

fn forbidden_word(line: &str) -> Option<&'static str> {
    // Written in two parts, so that this file does not find itself.
    let words = [
        (concat!("todo", "!("), "an unfinished macro"),
        (concat!("unimplemented", "!("), "an unfinished macro"),
        (concat!("FIX", "ME"), "a note of something broken"),
        (concat!("XX", "X"), "a note of something doubtful"),
    ];
    if let Some((_, what)) = words.iter().find(|(word, _)| line.contains(word)) {
        return Some(what);
    }
    let ignored = line.trim_start().starts_with(concat!("#[ign", "ore"));
    (ignored && !line.contains("issue")).then_some("an ignored test without an issue")
}

fn check_machine_paths(name: &str, text: &str, findings: &mut Vec<String>) {
    let paths = [
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
    ];
    for (number, line) in text.lines().enumerate() {
        if paths.iter().any(|path| line.contains(path)) {
            findings.push(format!(
                "{name}:{}: a path of one machine; make it relative or configurable",
                number + 1
            ));
        }
    }
}

/// Does the first paragraph say which of the two shapes of ARCHITECTURE.md the controller has?
fn says_shape(text: &str) -> bool {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let first: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let first = first.concat().to_lowercase();
    ["small controller", "workload", "plain `reconcile`"]
        .iter()
        .any(|shape| first.contains(shape))
}

/// Modules of the controllers crate that hold a controller: all but what they share.
fn controllers(files: &[PathBuf]) -> BTreeSet<String> {
    let modules = files.iter().filter_map(|path| controller_module(path));
    modules
        .filter(|module| !SHARED.contains(&module.as_str()))
        .collect()
}

/// `replicaset` for `crates/controllers/src/replicaset/plan.rs` and for `…/src/replicaset.rs`.
fn controller_module(path: &Path) -> Option<String> {
    let inner = path.strip_prefix("crates/controllers/src").ok()?;
    let first = inner.iter().next()?.to_str()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (module != "lib").then(|| module.to_owned())
}

fn check_controller(
    name: &str,
    text: &str,
    controllers: &BTreeSet<String>,
    findings: &mut Vec<String>,
) {
    let path = Path::new(name);
    let Some(module) = controller_module(path) else {
        return;
    };
    if path.ends_with("mod.rs") && path.iter().count() == 5 && controllers.contains(&module) {
        let essay = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .count();
        if essay < ESSAY_LINES_AT_LEAST {
            findings.push(format!(
                "{name}: open with an essay (`//!`): what converges, what wakes it, what it writes, which upstream \
                 file it mirrors, deliberate differences"
            ));
        }
        if !says_shape(text) {
            findings.push(format!(
                "{name}: say in the first sentences which shape it has: a small controller, or a workload"
            ));
        }
    }
    if REGISTRY.contains(&module.as_str()) {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        for other in controllers.iter().filter(|other| **other != module) {
            if line.contains(&format!("crate::{other}::")) {
                findings.push(format!(
                    "{name}:{}: a controller imports from {other}; move what they share beside them",
                    number + 1
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_machine_paths(name, text, &mut findings);
        check_rust(name, text, &mut findings);
        check_controller(
            name,
            text,
            &["job", "cronjob"].map(str::to_owned).into(),
            &mut findings,
        );
        findings
    }

    #[test]
    fn a_controller_that_no_list_knows_is_found() {
        let all = "crate::job::DESCRIPTOR,";
        let ledger = "steersman-controllers::job::tests::a";
        assert_eq!(unlisted("job", all, "pub mod job;", ledger), [""; 0]);
        assert_eq!(unlisted("toy", all, "pub mod job;", ledger).len(), 3);
        assert!(has_descriptor(
            "pub const DESCRIPTOR: Descriptor = Descriptor {"
        ));
    }

    #[test]
    fn finds_what_must_not_be_there() {
        let essay = "//! Jobs. A small controller.\n//!\n//! c\n//! d\n//! e\n";
        let shapeless = "//! Jobs.\n//!\n//! A small controller.\n//! d\n//! e\n";
        let cases = [
            ("crates/api/src/a.rs", "//! Why.\n".to_owned(), 0),
            ("crates/api/src/a.rs", "fn f() {}\n".to_owned(), 1),
            ("crates/api/src/a/tests.rs", "fn f() {}\n".to_owned(), 0),
            (
                "crates/api/src/a.rs",
                format!("//! Why.\n{}", "\n".repeat(LINES_AT_MOST)),
                1,
            ),
            ("crates/api/src/a.rs", format!("//! Why.\n{}!()", "todo"), 1),
            (
                "crates/api/src/a.rs",
                format!("//! Why.\n#[{}]", concat!("ign", "ore")),
                1,
            ),
            (
                "crates/api/src/a.rs",
                format!("//! Why.\n#[{} = \"issue #12\"]", concat!("ign", "ore")),
                0,
            ),
            (
                "crates/api/src/a.rs",
                format!("//! Why.\n// {}go/pkg", concat!("/ro", "ot/")),
                1,
            ),
            (
                "crates/api/src/a.rs",
                "//! ```text\n//! a\n//! ```\n".to_owned(),
                0,
            ),
            (
                "crates/api/src/a.rs",
                "//! Why.\n/// ```\n/// f();\n/// ```\n".to_owned(),
                1,
            ),
            ("crates/controllers/src/job/mod.rs", essay.to_owned(), 0),
            ("crates/controllers/src/job/mod.rs", shapeless.to_owned(), 1),
            (
                "crates/controllers/src/job/mod.rs",
                "//! A small controller.\n".to_owned(),
                1,
            ),
            (
                "crates/controllers/src/job/plan.rs",
                "//! Plan.\nuse crate::cronjob::x;".to_owned(),
                1,
            ),
            (
                "crates/controllers/src/job/plan.rs",
                "//! Plan.\nuse crate::job::x;".to_owned(),
                0,
            ),
        ];
        for (name, text, expected) in cases {
            let found = check(name, &text);
            assert_eq!(found.len(), expected, "{name}: {text:?} -> {found:?}");
        }
    }
}
