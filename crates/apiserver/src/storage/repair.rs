//! Making a damaged database usable again, without what cannot be read.

use super::database::{FILE, claim, create, read_file};
use super::reopen::BUMP;
use crate::private_file;
use crate::server::Error;
use std::path::{Path, PathBuf};

/// What became of a data folder.
#[derive(Debug, Default)]
pub struct Repaired {
    /// How many objects were kept.
    pub kept: usize,
    /// What is lost, in words; nothing if nothing was damaged.
    pub dropped: Vec<String>,
    /// Where the damaged file is now.
    pub saved_as: Option<PathBuf>,
}

/// Drops from a data folder what cannot be read, and keeps the damaged file beside it. Changes nothing if there is no
/// damage.
pub fn repair(dir: &Path) -> Result<Repaired, Error> {
    repair_file(dir).map_err(|why| Error::Storage {
        path: dir.to_owned(),
        why,
    })
}

fn repair_file(dir: &Path) -> Result<Repaired, String> {
    let _lock = claim(dir)?;
    let path = dir.join(FILE);
    if !path.exists() {
        return Ok(Repaired::default());
    }
    let (_, contents) = read_file(&path)?;
    let mut repaired = Repaired {
        kept: contents.rows.len(),
        dropped: contents.damage,
        saved_as: None,
    };
    if repaired.dropped.is_empty() {
        return Ok(repaired);
    }
    let found = contents.rows.iter().map(|row| row.revision).max();
    // Clients may have seen changes that are lost: no revision is used twice.
    let revision = contents.revision.max(found).unwrap_or(1) + BUMP;
    let saved = private_file::beside(&path, ".damaged");
    // Not over what an earlier repair saved.
    std::fs::hard_link(&path, &saved)
        .map_err(|error| format!("{FILE} cannot be saved as {}: {error}", saved.display()))?;
    create(&path, contents.rows, revision)
        .map_err(|error| format!("{FILE} cannot be repaired: {error}"))?;
    repaired.saved_as = Some(saved);
    Ok(repaired)
}
