//! `steersman envtest`: a folder with what KUBEBUILDER_ASSETS expects.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder to fill; it is created if it is not there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Replace programs of the same names that are there already
    #[arg(long)]
    force: bool,
    /// Copy this program instead of linking to it, for folders that go elsewhere
    #[arg(long)]
    copy: bool,
    /// Where kubectl is [default: the first one in PATH]
    #[arg(long, value_name = "FILE")]
    kubectl: Option<PathBuf>,
}

/// What this program is under each name.
const OURS: [&str; 2] = ["kube-apiserver", "etcd"];
const KUBECTL: &str = "kubectl";

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    let folder = std::path::absolute(&arguments.folder)
        .with_context(|| format!("cannot use {}", arguments.folder.display()))?;
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let kubectl = find_kubectl(arguments)?;
    let mut wanted: Vec<(&str, &Path)> = OURS.map(|name| (name, program.as_path())).to_vec();
    wanted.extend(kubectl.iter().map(|kubectl| (KUBECTL, kubectl.as_path())));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    // All of it is looked at before anything is replaced.
    let mut missing = Vec::new();
    for (name, source) in wanted {
        let target = folder.join(name);
        if is_in_place(&target, source, arguments.copy) {
            continue;
        }
        let found = std::fs::symlink_metadata(&target).ok();
        match found {
            Some(found) if found.is_dir() => bail!("{} is a folder", target.display()),
            Some(_) if !arguments.force => bail!(
                "{} is there already and is not this program; --force replaces it",
                target.display()
            ),
            _ => missing.push((target, source)),
        }
    }
    for (target, source) in missing {
        put(source, &target, arguments.copy)?;
    }
    if kubectl.is_none() {
        eprintln!("kubectl was not found in PATH; tests that call it need it: give --kubectl");
    }
    println!("{}", folder.display());
    Ok(())
}

fn find_kubectl(arguments: &Arguments) -> Result<Option<PathBuf>> {
    if let Some(given) = &arguments.kubectl {
        if !given.is_file() {
            bail!("--kubectl: {} is no file", given.display());
        }
        let given = std::path::absolute(given);
        return Ok(Some(given.context("--kubectl: cannot be used")?));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|place| place.join(KUBECTL));
    Ok(places.find(|place| place.is_file()))
}

/// Whether a run before this one put it there. A copy is made again: it may be of an older build.
fn is_in_place(target: &Path, source: &Path, copy: bool) -> bool {
    let same =
        |path: PathBuf| path == source || path.canonicalize().ok() == source.canonicalize().ok();
    !copy && std::fs::read_link(target).is_ok_and(same)
}

/// Whoever runs what was there goes on with it: the new one takes its name.
fn put(source: &Path, target: &Path, copy: bool) -> Result<()> {
    let cannot = || format!("cannot put {} in place", target.display());
    let partial = target.with_extension(format!("partial-{}", std::process::id()));
    let made = match copy {
        true => std::fs::copy(source, &partial).map(drop),
        false => std::os::unix::fs::symlink(source, &partial),
    };
    let placed = made.and_then(|()| std::fs::rename(&partial, target));
    if placed.is_err() {
        // What was begun is nobody's.
        let _ = std::fs::remove_file(&partial);
    }
    placed.with_context(cannot)
}
