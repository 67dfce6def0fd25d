//! Which crate may know which: design is what is absent from these lists.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::workspace;

/// For each crate (by folder) what it may depend on, and nothing else of ours.
const ALLOWED: &[(&str, &[&str])] = &[
    ("crates/api", &[]),
    ("crates/cel", &["api"]),
    ("crates/client", &["api"]),
    ("crates/connections", &[]),
    ("crates/keys", &[]),
    ("examples/rust-operator", &[]),
    ("crates/explain", &["api"]),
    ("crates/runtime", &["api", "client"]),
    (
        "crates/controllers",
        &["api", "cel", "client", "keys", "runtime"],
    ),
    (
        "crates/manager",
        &["api", "client", "connections", "runtime", "controllers"],
    ),
    ("crates/apiserver", &["api", "cel", "connections", "keys"]),
    ("crates/nodes", &["api", "cel", "client", "runtime"]),
    ("crates/dashboard", &["api", "client", "runtime"]),
    (
        "crates/preview",
        &[
            "api",
            "client",
            "runtime",
            "controllers",
            "manager",
            "apiserver",
            "nodes",
            "explain",
        ],
    ),
    (
        "crates/simulator",
        &[
            "api",
            "client",
            "runtime",
            "controllers",
            "manager",
            "apiserver",
            "nodes",
        ],
    ),
    (
        "crates/envtest",
        &[
            "api",
            "client",
            "connections",
            "controllers",
            "keys",
            "runtime",
            "manager",
            "apiserver",
            "nodes",
        ],
    ),
    (
        "crates/steersman",
        &[
            "envtest",
            "api",
            "client",
            "runtime",
            "controllers",
            "manager",
            "apiserver",
            "nodes",
            "explain",
            "preview",
            "simulator",
            "dashboard",
        ],
    ),
    ("crates/testkit", &["api", "client", "runtime", "apiserver"]),
    (
        "bench",
        &[
            "api",
            "client",
            "runtime",
            "controllers",
            "manager",
            "apiserver",
            "nodes",
            "simulator",
            "real-tests",
        ],
    ),
    // The judge knows nothing of what it judges, and the developer commands compile in seconds.
    ("tests/fuzz", &["api", "apiserver", "client"]),
    ("tests/real", &[]),
    ("tests/kube-rs", &["real-tests"]),
    ("xtask", &[]),
];

pub(crate) fn check(findings: &mut Vec<String>) -> Result<()> {
    let ours = our_crates()?;
    for (folder, allowed) in ALLOWED {
        let path = format!("{folder}/Cargo.toml");
        let manifest: toml::Table = workspace::read(path.as_ref())?
            .parse()
            .with_context(|| format!("{path} is not TOML"))?;
        findings.extend(check_manifest(&path, &manifest, allowed, &ours));
    }
    for path in workspace::files()? {
        let is_manifest = path.ends_with("Cargo.toml") && path.as_os_str() != "Cargo.toml";
        let folder = path
            .parent()
            .map(|folder| folder.to_string_lossy().into_owned())
            .unwrap_or_default();
        if is_manifest && !ALLOWED.iter().any(|(known, _)| *known == folder) {
            findings.push(format!(
                "{folder} is a crate without a place: add it to xtask/src/tidy/arrows.rs"
            ));
        }
    }
    Ok(())
}

/// Names under which crates of ours can be depended on: workspace names and package names.
fn our_crates() -> Result<BTreeMap<String, String>> {
    let root: toml::Table = workspace::read("Cargo.toml".as_ref())?.parse()?;
    let dependencies = root["workspace"]["dependencies"]
        .as_table()
        .context("no workspace.dependencies")?;
    let mut ours = BTreeMap::new();
    for (name, value) in dependencies {
        if value.get("path").is_some() {
            ours.insert(name.clone(), name.clone());
            if let Some(package) = value.get("package").and_then(toml::Value::as_str) {
                ours.insert(package.to_owned(), name.clone());
            }
        }
    }
    for name in ["real-tests", "xtask", "bench", "steersman"] {
        ours.insert(name.to_owned(), name.to_owned());
    }
    Ok(ours)
}

fn check_manifest(
    path: &str,
    manifest: &toml::Table,
    allowed: &[&str],
    ours: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    // Tests may know more than the code they test, so dev-dependencies are free.
    for section in ["dependencies", "build-dependencies"] {
        for name in manifest
            .get(section)
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(toml::Table::keys)
        {
            if let Some(known) = ours.get(name)
                && !allowed.contains(&known.as_str())
            {
                findings.push(format!(
                    "{path}: the arrow to {known} in [{section}] is not in the design; move the code or, if the \
                     design is wrong, write an ADR and change xtask/src/tidy/arrows.rs"
                ));
            }
        }
    }
    if manifest.contains_key("workspace") {
        // A workspace of its own has nothing to inherit.
        return findings;
    }
    let inherits = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"));
    if inherits.and_then(toml::Value::as_bool) != Some(true) {
        findings.push(format!(
            "{path}: add `[lints]` with `workspace = true`, so that its code is linted"
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(manifest: &str, allowed: &[&str]) -> usize {
        let ours =
            ["api", "controllers", "apiserver"].map(|name| (name.to_owned(), name.to_owned()));
        let manifest = format!("[lints]\nworkspace = true\n{manifest}")
            .parse()
            .unwrap();
        check_manifest("Cargo.toml", &manifest, allowed, &ours.into()).len()
    }

    #[test]
    fn only_allowed_arrows_pass_and_tests_are_free() {
        assert_eq!(
            check(
                "[dependencies]\napi.workspace = true\nserde = '1'",
                &["api"]
            ),
            0
        );
        assert_eq!(
            check("[dependencies]\napiserver.workspace = true", &["api"]),
            1
        );
        assert_eq!(
            check("[dev-dependencies]\napiserver.workspace = true", &["api"]),
            0
        );
    }

    #[test]
    fn a_crate_that_does_not_inherit_the_lints_is_found() {
        let manifest = "[package]\nname = 'x'".parse().unwrap();
        assert_eq!(
            check_manifest("Cargo.toml", &manifest, &[], &BTreeMap::new()).len(),
            1
        );
    }
}
