//! Where clusters are kept, and what they are called.
//!
//! The one without a name is in the data folder itself; named ones are side by side in a folder of their own; clusters
//! in memory have places for their kubeconfigs. What was started with `--data-dir` can be anywhere, so those folders are
//! on record, one to a line: `status` and `down` find them again.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::files;

/// What the cluster is called that nobody named.
pub(crate) const DEFAULT: &str = "default";

/// Clusters in memory beside each other; nobody has more, and a search has to end.
pub(super) const IN_MEMORY_AT_ONCE: usize = 16;

/// Among the named clusters; no name begins with a dot.
const ELSEWHERE: &str = ".elsewhere";

/// As long as a label of DNS may be: it becomes part of a context's name and of a folder's.
const LONGEST_NAME: usize = 63;

/// The value of `--name`.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    let is_inner = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
    };
    let is_good = !text.is_empty()
        && text.len() <= LONGEST_NAME
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    match is_good {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a name has lower case letters, digits and '-' between them, {LONGEST_NAME} at most"
        )),
    }
}

/// Where the cluster of this name is kept.
pub(crate) fn dir_of(name: &str) -> Result<PathBuf> {
    match name {
        DEFAULT => files::default_data_dir(),
        name => Ok(files::named_dirs()?.join(name)),
    }
}

/// What a cluster is called that is kept here and was given no name.
pub(crate) fn name_of(dir: &Path) -> String {
    let usual = files::default_data_dir().ok();
    if usual.as_deref() == Some(dir) {
        return DEFAULT.to_owned();
    }
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    let is_beside = usual.is_some_and(|usual| usual.parent() == dir.parent());
    match name.strip_prefix("steersman-").filter(|_| is_beside) {
        Some(rest) => rest.to_owned(),
        None => name.into_owned(),
    }
}

/// The name of the cluster, user and context in the user's own kubeconfig.
pub(crate) fn context_of(name: &str) -> String {
    match name {
        DEFAULT => "steersman".to_owned(),
        name => format!("steersman-{name}"),
    }
}

/// Every folder that a cluster may be in.
pub(crate) fn all() -> Result<Vec<PathBuf>> {
    let mut dirs = vec![files::default_data_dir()?];
    dirs.extend(in_memory()?);
    let named = std::fs::read_dir(files::named_dirs()?);
    let named = named
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut named: Vec<PathBuf> = named.filter(|path| path.is_dir()).collect();
    named.sort();
    dirs.extend(named);
    for dir in elsewhere()? {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    Ok(dirs)
}

/// The places of clusters in memory that nobody named.
pub(super) fn in_memory() -> Result<Vec<PathBuf>> {
    let base = files::default_data_dir()?;
    let place = |number: usize| match number {
        0 => base.with_file_name("steersman-in-memory"),
        number => base.with_file_name(format!("steersman-in-memory-{}", number + 1)),
    };
    Ok((0..IN_MEMORY_AT_ONCE).map(place).collect())
}

/// The folders on record.
fn elsewhere() -> Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string(files::named_dirs()?.join(ELSEWHERE));
    Ok(lines(&text.unwrap_or_default()))
}

fn lines(text: &str) -> Vec<PathBuf> {
    text.lines().map(PathBuf::from).collect()
}

/// Puts a folder on record, unless it is in one of the usual places.
pub(super) fn remember(dir: &Path) -> Result<()> {
    let usual = dir == files::default_data_dir()? || dir.parent() == Some(&files::named_dirs()?);
    match usual {
        true => Ok(()),
        false => rewrite(|dirs| {
            if !dirs.iter().any(|one| one == dir) {
                dirs.push(dir.to_owned());
            }
        }),
    }
}

/// Takes a folder off the record.
pub(crate) fn forget(dir: &Path) -> Result<()> {
    match elsewhere()?.iter().any(|one| one == dir) {
        true => rewrite(|dirs| dirs.retain(|one| one != dir)),
        false => Ok(()),
    }
}

/// Changes the record; folders that are gone go from it as well. Others who do the same wait for each other.
fn rewrite(change: impl FnOnce(&mut Vec<PathBuf>)) -> Result<()> {
    let folder = files::named_dirs()?;
    files::create_private_dir(&folder)?;
    let path = folder.join(ELSEWHERE);
    let cannot = || format!("cannot write {}", path.display());
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).with_context(cannot)?;
    file.lock().with_context(cannot)?;
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(cannot)?;
    let mut dirs = lines(&text);
    dirs.retain(|dir| dir.is_dir());
    change(&mut dirs);
    // A path that is no text, or more than a line, cannot be told from another: `--data-dir` still finds it.
    let kept = dirs.iter().filter_map(|dir| dir.to_str());
    let text: String = kept
        .filter(|dir| !dir.contains('\n'))
        .map(|dir| format!("{dir}\n"))
        .collect();
    file.set_len(0).with_context(cannot)?;
    file.rewind().with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels() {
        let longest = "a".repeat(LONGEST_NAME);
        for good in ["dev", "a", "ci-7", &longest] {
            assert_eq!(parse_name(good).as_deref(), Ok(good));
        }
        let longer = "a".repeat(LONGEST_NAME + 1);
        for bad in ["", "Dev", "-a", "a-", "a/b", "..", ".elsewhere", &longer] {
            assert!(parse_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn contexts_of_several_clusters_differ() {
        assert_eq!(context_of(DEFAULT), "steersman");
        assert_eq!(context_of("dev"), "steersman-dev");
        assert_eq!(name_of(Path::new("/srv/clusters/blue")), "blue");
    }
}
