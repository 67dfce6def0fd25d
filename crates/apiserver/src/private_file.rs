//! Files that only their owner can read: keys, kubeconfigs, the database.
//!
//! A symbolic link in the place of such a file would have us write secrets to where somebody else chose, and a file
//! that is already there may belong to somebody else: both are refused, never followed or written into.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const OWNER_ONLY: u32 = 0o600;
const OWNER_ONLY_FOLDER: u32 = 0o700;

/// Writes a file, all of it or nothing, in place of what was there.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.is_symlink() {
        return Err(is_link());
    }
    let partial = beside(path, ".partial");
    let mut file = create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    replace(&partial, path)
}

/// Makes a folder that only its owner can enter. One that is there stays as it is.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(OWNER_ONLY_FOLDER).create(path)
}

/// A new file to write to. What a process left that was killed is removed first, not written into.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    // Not if it is there after all: somebody else was quicker.
    let options = options.read(true).write(true).create_new(true);
    options.mode(OWNER_ONLY).open(path)
}

/// Opens a file to read and write it, and takes the permissions of others away.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if path.is_symlink() {
        return Err(is_link());
    }
    let mut options = OpenOptions::new();
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let options = options.read(true).write(true).custom_flags(no_link);
    let file = options.open(path)?;
    if file.metadata()?.permissions().mode() & 0o777 != OWNER_ONLY {
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    }
    Ok(file)
}

/// Gives a complete file its name, for good.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    match to.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => File::open(dir)?.sync_all(),
        _ => Ok(()),
    }
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn is_link() -> io::Error {
    io::Error::other("it is a symbolic link; name the file itself")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn links_are_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        assert!(write(&link, b"secret").is_err());
        assert!(open(&link).is_err());
        // A link in the place of the file that is written first.
        let path = dir.path().join("key");
        symlink(&target, beside(&path, ".partial")).unwrap();
        write(&path, b"secret").unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "theirs");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret");
        assert!(!path.is_symlink());
    }

    #[test]
    fn folders_that_are_made_are_their_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a/b");
        create_dir(&made).unwrap();
        for folder in [dir.path().join("a"), made] {
            let mode = std::fs::metadata(folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }

    #[test]
    fn nothing_is_written_into_a_file_that_was_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let partial = beside(&path, ".partial");
        std::fs::write(&partial, "left behind").unwrap();
        std::fs::set_permissions(&partial, Permissions::from_mode(0o644)).unwrap();
        let opened_by_others = File::open(&partial).unwrap();
        write(&path, b"secret").unwrap();
        assert_eq!(io::read_to_string(opened_by_others).unwrap(), "left behind");
        assert_eq!(mode(&path), 0o600);
        assert!(!partial.exists());
    }

    #[test]
    fn others_lose_their_permissions_when_a_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("database");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        open(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}
