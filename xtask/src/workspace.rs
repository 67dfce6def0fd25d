//! Where things are in the source tree, and how to run cargo in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result};

/// The root of the source tree.
pub(crate) fn root() -> &'static Path {
    // Cargo takes two checkouts that share a target folder for one: the one that runs us says where it is, the one that
    // built us may be another.
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here = std::env::var_os("CARGO_MANIFEST_DIR");
        let here = here.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        here.join("..").canonicalize().unwrap_or(here)
    });
    &ROOT
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    // A relative one counts from where cargo runs, which is the root.
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    root().join(named.map_or_else(|| "target".into(), PathBuf::from))
}

/// The cargo that runs us, in the root of the source tree.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// All files that git tracks or would track, relative to the root, sorted.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot run git, which knows the files of this tree")?;
    anyhow::ensure!(
        listed.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let text = String::from_utf8_lossy(&listed.stdout);
    // A file that is deleted but not yet staged is still listed.
    let mut files: Vec<PathBuf> = text
        .lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// Reads a file of the tree; the error names it.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(root().join(path))
        .with_context(|| format!("cannot read {}", path.display()))
}
