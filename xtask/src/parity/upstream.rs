//! Upstream's test functions, read from the Go module cache where it is.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace;

/// Test functions of a package of k8s.io/kubernetes and of the packages below it, which are named
/// `<folder>.<function>`; `None` if the source is not on this machine.
pub(crate) fn tests_of(package: &str) -> Result<Option<Vec<String>>> {
    let Some(cache) = module_cache() else {
        return Ok(None);
    };
    let folder = cache.join(module_folder(package, &pinned_version()?));
    if !folder.is_dir() {
        return Ok(None);
    }
    let mut found = Vec::new();
    // `pkg/controller` holds all controllers below it: each has a ledger of its own.
    collect(&folder, "", package != "pkg/controller", &mut found)?;
    found.sort();
    found.dedup();
    Ok(Some(found))
}

/// Where the source of a package is in the module cache. What is staged in k8s.io/kubernetes is a module of its own, with
/// v0 for v1.
fn module_folder(package: &str, version: &str) -> PathBuf {
    let staged = package.strip_prefix("staging/src/");
    let library = staged.zip(version.strip_prefix("v1."));
    PathBuf::from(match library {
        Some((module, release)) => format!("{module}@v0.{release}"),
        None => format!("k8s.io/kubernetes@{version}/{package}"),
    })
}

fn collect(folder: &Path, prefix: &str, descend: bool, found: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("")
            .to_owned();
        if path.is_dir() && descend {
            collect(&path, &format!("{prefix}{name}."), true, found)?;
        } else if name.ends_with("_test.go") {
            let text =
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            found.extend(test_functions(&text).map(|function| format!("{prefix}{function}")));
        }
    }
    Ok(())
}

fn test_functions(text: &str) -> impl Iterator<Item = &str> {
    let functions = text.lines().filter_map(|line| line.strip_prefix("func "));
    let names =
        functions.filter_map(|rest| rest.split_once("(t *testing.T)").map(|(name, _)| name));
    names.filter(|name| name.starts_with("Test"))
}

/// The version that `tests/real/servers` requires: the one we are measured against.
fn pinned_version() -> Result<String> {
    let module = workspace::read("tests/real/servers/go.mod".as_ref())?;
    let line = module
        .lines()
        .find_map(|line| line.strip_prefix("require k8s.io/kubernetes "));
    line.map(|version| version.trim().to_owned())
        .context("tests/real/servers/go.mod requires no Kubernetes")
}

fn module_cache() -> Option<PathBuf> {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    from("GOMODCACHE")
        .or_else(|| from("GOPATH").map(|path| path.join("pkg/mod")))
        .or_else(|| from("HOME").map(|home| home.join("go/pkg/mod")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_libraries_are_modules_of_their_own() {
        let folder = |package| module_folder(package, "v1.36.3").display().to_string();
        assert_eq!(
            folder("staging/src/k8s.io/endpointslice"),
            "k8s.io/endpointslice@v0.36.3"
        );
        assert_eq!(
            folder("pkg/controller/job"),
            "k8s.io/kubernetes@v1.36.3/pkg/controller/job"
        );
    }

    #[test]
    fn only_functions_that_go_would_run_count() {
        let text = "func TestA(t *testing.T) {\nfunc testB(t *testing.T) {\nfunc (s *S) TestC(t *testing.T) {\nfunc BenchmarkD(b *testing.B) {\n";
        assert_eq!(test_functions(text).collect::<Vec<_>>(), ["TestA"]);
    }
}
