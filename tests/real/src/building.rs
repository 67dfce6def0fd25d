//! Builds the real servers from Go modules into the cache, each binary once and atomically.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::installation::{self, Installation, KUBERNETES, cache_directory};

/// How a build ended.
#[derive(Debug)]
pub enum Built {
    /// Everything is there now.
    Complete(Installation),
    /// Nothing could be built because the Go tool chain is missing.
    NoGo,
}

/// Builds what is missing of the pinned servers, or of the newest release of another minor.
pub fn build(minor: Option<u32>) -> Result<Built> {
    let pinned_minor = minor_of(KUBERNETES);
    if minor.is_none_or(|minor| Some(minor) == pinned_minor) {
        let installation = Installation::of(KUBERNETES)?;
        let module = manifest_directory().join("servers");
        let built = build_missing(installation, &|| Ok(module.clone()))?;
        if let Built::Complete(installation) = &built
            && go_is_installed()
        {
            let helm = installation::helm()?;
            if !helm.is_file() {
                let module = manifest_directory().join("helm");
                go_build(&module, "helm.sh/helm/v3/cmd/helm", "", &helm)?;
            }
            for (package, program) in [
                ("./informers", installation.informers()),
                ("./templates", installation.templates()),
            ] {
                if !program.is_file() {
                    go_build(&module, package, "", &program)?;
                }
            }
        }
        return Ok(built);
    }
    let minor = minor.context("no minor release given")?;
    if let Ok(installation) = Installation::of_minor(minor) {
        return Ok(Built::Complete(installation));
    }
    if !go_is_installed() {
        return Ok(Built::NoGo);
    }
    let version = newest_release(minor)?;
    let installation = Installation::of(&version)?;
    build_missing(installation, &|| derive_module(&version))
}

/// Builds upstream's end-to-end tests and the program that runs them, besides the servers: kubectl is used by some.
pub fn build_conformance() -> Result<Built> {
    let built = build(None)?;
    let Built::Complete(installation) = &built else {
        return Ok(built);
    };
    let module = manifest_directory().join("e2e");
    let ginkgo = installation.command("ginkgo");
    let tests = installation.command("e2e.test");
    if (!ginkgo.is_file() || !tests.is_file()) && !go_is_installed() {
        return Ok(Built::NoGo);
    }
    if !ginkgo.is_file() {
        go_build(&module, "github.com/onsi/ginkgo/v2/ginkgo", "", &ginkgo)?;
    }
    if !tests.is_file() {
        go_compile(
            &["test", "-c", "-vet=off"],
            &module,
            "k8s.io/kubernetes/test/e2e",
            &version_stamps(&installation.kubernetes_version),
            &tests,
        )?;
    }
    Ok(built)
}

fn build_missing(
    installation: Installation,
    module: &dyn Fn() -> Result<PathBuf>,
) -> Result<Built> {
    let missing: Vec<PathBuf> = installation
        .commands()
        .filter(|path| !path.is_file())
        .collect();
    if !missing.is_empty() && !go_is_installed() {
        return Ok(Built::NoGo);
    }
    for path in missing {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("a command has no name")?;
        if name == "etcd" {
            go_build(
                &manifest_directory().join("etcd"),
                "go.etcd.io/etcd/server/v3",
                "",
                &path,
            )?;
        } else {
            let package = format!("k8s.io/kubernetes/cmd/{name}");
            go_build(
                &module()?,
                &package,
                &version_stamps(&installation.kubernetes_version),
                &path,
            )?;
        }
    }
    Ok(Built::Complete(installation))
}

/// Builds what only the tests of kubectl need.
pub fn build_convert(installation: &Installation) -> Result<PathBuf> {
    let path = installation.command("kubectl-convert");
    if !path.is_file() {
        let stamps = version_stamps(&installation.kubernetes_version);
        let package = "k8s.io/kubernetes/cmd/kubectl-convert";
        go_build(
            &manifest_directory().join("servers"),
            package,
            &stamps,
            &path,
        )?;
    }
    Ok(path)
}

/// Where Kubernetes' own repository is, as far as its module has it.
pub fn kubernetes_source(version: &str) -> Result<PathBuf> {
    let wanted = format!("k8s.io/kubernetes@{version}");
    let module = manifest_directory().join("servers");
    let downloaded = go_output(&["mod", "download", "-json", &wanted], &module)?;
    let downloaded: serde_json::Value = serde_json::from_str(&downloaded)?;
    let folder = downloaded["Dir"].as_str();
    Ok(folder.context("go mod download names no folder")?.into())
}

/// Builds one package under a temporary name and renames it: a binary that exists is complete.
pub fn go_build(module: &Path, package: &str, stamps: &str, output: &Path) -> Result<()> {
    go_compile(&["build"], module, package, stamps, output)
}

fn go_compile(
    verb: &[&str],
    module: &Path,
    package: &str,
    stamps: &str,
    output: &Path,
) -> Result<()> {
    let started = Instant::now();
    eprintln!(
        "building {} (minutes the first time, never again)",
        output.display()
    );
    let folder = output.parent().context("a binary needs a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let partial = output.with_extension(format!("partial-{}", std::process::id()));
    let status = Command::new("go")
        .args(verb)
        .args([
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            &format!("-s -w {stamps}"),
            "-o",
        ])
        .arg(&partial)
        .arg(package)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .status()
        .context("cannot run go")?;
    if !status.success() {
        let _ = fs::remove_file(&partial);
        bail!(
            "go {} of {package} in {} failed ({status}); its messages are above",
            verb.join(" "),
            module.display()
        );
    }
    fs::rename(&partial, output)
        .with_context(|| format!("cannot move a binary to {}", output.display()))?;
    eprintln!(
        "built {} in {} s",
        output.display(),
        started.elapsed().as_secs()
    );
    Ok(())
}

/// What a released binary carries, so that `/version` answers like one.
fn version_stamps(version: &str) -> String {
    let package = "k8s.io/component-base/version";
    let minor = minor_of(version).unwrap_or_default();
    format!(
        "-X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean"
    )
}

/// The newest release `v1.<minor>.x` that the module proxy knows; a pre-release if there is no other.
fn newest_release(minor: u32) -> Result<String> {
    let listed = go_output(
        &["list", "-m", "-versions", "k8s.io/kubernetes"],
        &manifest_directory().join("servers"),
    )?;
    pick_release(&listed, minor)
        .with_context(|| format!("the module proxy has no Kubernetes release 1.{minor}"))
}

fn pick_release(listed: &str, minor: u32) -> Option<String> {
    let prefix = format!("v1.{minor}.");
    // Go lists versions in ascending order, pre-releases before their release.
    let of_minor: Vec<&str> = listed
        .split_whitespace()
        .filter(|word| word.starts_with(&prefix))
        .collect();
    let released = of_minor.iter().rfind(|version| !version.contains('-'));
    released
        .or(of_minor.last())
        .map(|version| (*version).to_owned())
}

/// A module like `tests/real/servers`, for another version: Kubernetes replaces its staging modules
/// by folders that only its own repository has, so each becomes the published module of that release.
fn derive_module(version: &str) -> Result<PathBuf> {
    let folder = cache_directory()?
        .join("real/modules")
        .join(format!("kubernetes-{version}"));
    if folder.join("go.sum").is_file() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder)?;
    let wanted = format!("k8s.io/kubernetes@{version}");
    let downloaded = go_output(
        &["mod", "download", "-json", &wanted],
        &manifest_directory().join("servers"),
    )?;
    let downloaded: serde_json::Value = serde_json::from_str(&downloaded)?;
    let path = downloaded["GoMod"]
        .as_str()
        .context("go mod download names no go.mod")?;
    fs::write(
        folder.join("go.mod"),
        module_text(&fs::read_to_string(path)?, version),
    )?;
    fs::copy(
        manifest_directory().join("servers/tools.go"),
        folder.join("tools.go"),
    )?;
    go_output(&["mod", "tidy"], &folder)?;
    Ok(folder)
}

fn module_text(upstream: &str, version: &str) -> String {
    let staging = version.replacen("v1.", "v0.", 1);
    let go = upstream
        .lines()
        .find(|line| line.starts_with("go "))
        .unwrap_or("go 1.24.0");
    let mut text = format!(
        "module steersman.dev/tests/servers\n\n{go}\n\nrequire k8s.io/kubernetes {version}\n\nreplace (\n"
    );
    for line in upstream.lines() {
        if let Some((name, _)) = line.trim().split_once(" => ./staging/") {
            text += &format!("\t{name} => {name} {staging}\n");
        }
    }
    text + ")\n"
}

fn go_output(arguments: &[&str], folder: &Path) -> Result<String> {
    let ran = Command::new("go")
        .args(arguments)
        .current_dir(folder)
        .output()
        .context("cannot run go")?;
    if !ran.status.success() {
        bail!(
            "go {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&ran.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

fn go_is_installed() -> bool {
    Command::new("go")
        .arg("version")
        .output()
        .is_ok_and(|ran| ran.status.success())
}

/// This crate's folder: the Go modules lie in it.
fn manifest_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn minor_of(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_release_wins_over_later_pre_releases() {
        let listed = "k8s.io/kubernetes v1.35.0 v1.35.9 v1.35.10 v1.36.0-alpha.1 v1.36.0 v1.37.0-alpha.1 v1.37.0-alpha.2";
        let cases = [
            (35, Some("v1.35.10")),
            (36, Some("v1.36.0")),
            (37, Some("v1.37.0-alpha.2")),
            (38, None),
        ];
        for (minor, expected) in cases {
            assert_eq!(
                pick_release(listed, minor).as_deref(),
                expected,
                "1.{minor}"
            );
        }
    }

    #[test]
    fn staging_folders_become_published_modules() {
        let upstream = "module k8s.io/kubernetes\n\ngo 1.24.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        assert_eq!(
            module_text(upstream, "v1.33.5"),
            "module steersman.dev/tests/servers\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v1.33.5\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.33.5\n)\n"
        );
    }
}
