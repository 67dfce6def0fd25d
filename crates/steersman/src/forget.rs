//! `steersman down --forget`: the data of a cluster is deleted, and nothing that is not ours.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::up::instance::{self, Instance};
use crate::up::places;

/// Asks the person at the terminal; an error where there is none.
pub(crate) fn is_wanted(dirs: &[PathBuf]) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!(
            "cannot ask whether to delete the data, because standard input is not a terminal; --yes deletes without asking. Nothing was stopped"
        );
    }
    for dir in dirs {
        println!("{}: {}", instance::name_of(dir), dir.display());
    }
    print!("Delete this with everything in it? [y/N] ");
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Deletes a data folder, and says so. What somebody else has put into it stays, and is named.
pub(crate) fn delete(dir: &Path) -> Result<()> {
    let name = instance::name_of(dir);
    let left = empty(dir)?;
    match left.is_empty() {
        true => println!("Forgot {name}; {} is gone", dir.display()),
        false => println!(
            "Forgot {name}; {} stays, because it holds other files: {}",
            dir.display(),
            left.join(", ")
        ),
    }
    Ok(())
}

/// Deletes what is ours in a data folder, and the folder if nothing else is in it; gives what else there is.
pub(crate) fn empty(dir: &Path) -> Result<Vec<String>> {
    if !dir.join("pki").is_dir() {
        bail!(
            "{} is not a data folder of Steersman; nothing was deleted",
            dir.display()
        );
    }
    // Nobody starts a cluster in it meanwhile.
    let claim = Instance::claim(dir)?;
    let mut left = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| cannot(dir))? {
        let path = entry.with_context(|| cannot(dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match apiserver::is_ours(&name) {
            true => remove(&path).with_context(|| cannot(&path))?,
            false => left.push(name.into_owned()),
        }
    }
    places::forget(dir)?;
    if left.is_empty() {
        std::fs::remove_dir(dir).with_context(|| cannot(dir))?;
    }
    drop(claim);
    Ok(left)
}

/// Deletes what a cluster in memory has on the disk (its kubeconfig and keys), but for the files that are kept.
pub(crate) fn clear_in_memory(claim: &Instance, kept: &[&str]) -> Result<()> {
    let dir = &claim.dir;
    let mut is_empty = true;
    for entry in std::fs::read_dir(dir).with_context(|| cannot(dir))? {
        let path = entry.with_context(|| cannot(dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match apiserver::is_ours(&name) && !kept.contains(&&*name) {
            true => remove(&path).with_context(|| cannot(&path))?,
            false => is_empty = false,
        }
    }
    if is_empty {
        std::fs::remove_dir(dir).with_context(|| cannot(dir))?;
    }
    Ok(())
}

fn remove(path: &Path) -> std::io::Result<()> {
    match path.symlink_metadata()?.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    }
}

fn cannot(path: &Path) -> String {
    format!("cannot delete {}", path.display())
}
