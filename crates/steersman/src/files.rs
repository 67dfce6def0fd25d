//! Where things are kept.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The default place for a cluster's data.
pub(crate) fn default_data_dir() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => {
            let home = std::env::var_os("HOME").context(
                "HOME is not set, so there is no data folder; set HOME or XDG_DATA_HOME",
            )?;
            PathBuf::from(home).join(".local/share")
        }
    };
    Ok(base.join("steersman"))
}

/// The folder that named clusters are kept in, each in one of its own.
pub(crate) fn named_dirs() -> Result<PathBuf> {
    Ok(default_data_dir()?.with_file_name("steersman-clusters"))
}

/// Refuses a folder that holds something and was never ours: ours has its keys in it from the start.
pub(crate) fn refuse_foreign_dir(path: &Path) -> Result<()> {
    if path.join("pki").is_dir() {
        return Ok(());
    }
    // If it cannot be read, it does not exist yet, or creating it will say what is wrong with it.
    if let Ok(Some(stranger)) = ::apiserver::stranger(path) {
        let path = path.display();
        bail!(
            "{path} holds {stranger:?}, which is not ours; choose an empty folder with --data-dir"
        );
    }
    Ok(())
}

/// Creates a folder that only its owner can enter.
pub(crate) fn create_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| match path.is_file() {
            true => format!("{} is a file, and a folder is needed", path.display()),
            false => format!(
                "cannot create the folder {}; choose one that you may write to",
                path.display()
            ),
        })
}

/// Writes a file that only its owner can read, all of it or nothing.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot create the folder {}", parent.display()))?;
    }
    ::apiserver::private_file::write(path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}
