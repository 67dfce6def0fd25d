//! Room on the disk that is kept for deletions.
//!
//! A database that copies before it writes needs room even to delete. So a file holds some back; it is given up when a
//! write that takes no more room than it gives back could not be made, and made again once there is enough.

use crate::private_file;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const FILE: &str = "steersman.reserve";

/// Some thousand deletions: each copies a few pages of 4 KiB, and frees as many.
const BYTES: u64 = 4 * 1024 * 1024;

/// What one write may add to an object on a full disk: a time of deletion, and who set it.
const MARGIN: usize = 4096;

#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

/// Whether a write takes hardly more room than it gives back.
pub(crate) fn is_modest(before: usize, after: usize) -> bool {
    after <= before.saturating_add(MARGIN)
}

/// Whether a file in the data folder is the reserve.
pub(super) fn is_reserve(name: &str) -> bool {
    name == FILE
}

impl Reserve {
    pub(super) fn beside(database: &Path) -> Reserve {
        Reserve {
            path: database.with_file_name(FILE),
        }
    }

    /// Gives the room up. False if there is none to give.
    pub(super) fn release(&self) -> bool {
        std::fs::remove_file(&self.path).is_ok()
    }

    /// Makes sure that the room is held.
    pub(super) fn hold(&self) -> io::Result<()> {
        let held = self.path.symlink_metadata();
        if held.is_ok_and(|found| found.is_file() && found.len() == BYTES) {
            return Ok(());
        }
        let file = private_file::create(&self.path)?;
        // Twice as much must be there: what takes the last room would be refused with the next write.
        let made = take(&file, 2 * BYTES).and_then(|()| file.set_len(BYTES));
        if made.is_err() {
            let _ = std::fs::remove_file(&self.path);
        }
        made
    }

    /// Why nothing can be written, as far as the file system tells. Quotas it does not tell.
    pub(super) fn shortage(&self) -> Option<String> {
        let dir = self.path.parent()?;
        let found = statvfs(dir).ok()?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        (free < BYTES).then(|| format!("{free} bytes are free on the disk of {}", dir.display()))
    }
}

/// Has the file system give room to a file, not just a length.
fn take(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        result => return result.map_err(io::Error::from),
    }
    let (zeros, mut file) = ([0; 64 * 1024], file);
    for _ in 0..bytes / 65_536 {
        file.write_all(&zeros)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_really_taken_and_given_back_once() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::beside(&dir.path().join("steersman.redb"));
        assert!(!reserve.release());
        reserve.hold().unwrap();
        reserve.hold().unwrap();
        let found = std::fs::metadata(dir.path().join(FILE)).unwrap();
        assert_eq!(found.len(), BYTES);
        assert!(found.blocks() * 512 >= BYTES, "no hole");
        assert_eq!(found.mode() & 0o777, 0o600);
        assert!(reserve.release());
        assert!(!reserve.release());
        let nowhere = Reserve::beside(Path::new("/nonexistent/steersman.redb"));
        assert!(nowhere.hold().is_err());
        assert_eq!(nowhere.shortage(), None);
    }

    #[test]
    fn what_gives_back_as_much_as_it_takes_is_modest() {
        assert!(is_modest(1000, 0));
        assert!(is_modest(1000, 1200));
        assert!(!is_modest(0, 10_000));
    }
}
