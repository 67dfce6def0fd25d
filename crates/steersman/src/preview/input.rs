//! Files, folders and standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use preview::Manifest;

/// All objects, in the order given; files of a folder by name.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read standard input")?;
            found.extend(Manifest::parse("standard input", &text)?);
        } else if path.is_dir() {
            let files = files_of(path)?;
            if files.is_empty() {
                bail!("{} has no .yaml, .yml or .json file", path.display());
            }
            for file in files {
                found.extend(read_file(&file)?);
            }
        } else {
            found.extend(read_file(path)?);
        }
    }
    Ok(found)
}

fn read_file(path: &Path) -> Result<Vec<Manifest>> {
    let name = path.display().to_string();
    if name.starts_with("https://") || name.starts_with("http://") {
        bail!("-f reads files, not addresses; write `curl -sL {name} | steersman preview -f -`");
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{name} is not text"))?;
    Ok(Manifest::parse(&name, &text)?)
}

/// A folder's own files: what is below it may be another environment's.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            // A link that leads nowhere is for the reader to name.
            let is_readable = path.is_file() || !path.exists();
            is_readable && matches!(extension, Some("yaml" | "yml" | "json"))
        })
        .collect();
    files.sort();
    Ok(files)
}
