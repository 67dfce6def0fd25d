//! Noticing that a file has changed without reading it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What a file looked like from outside when it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified_at: Option<SystemTime>,
    length: u64,
    /// A mounted secret is replaced by swapping a link, perhaps within the same second and at the same length.
    inode: u64,
}

/// A set of files that are read together.
pub(super) struct Watched {
    files: Vec<(PathBuf, Option<Stamp>)>,
}

impl Watched {
    pub(super) fn new<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Watched {
        Watched {
            files: paths
                .into_iter()
                .map(|path| (path.to_owned(), stamp(path)))
                .collect(),
        }
    }

    /// Whether any of them changed since this was last asked.
    pub(super) fn changed(&mut self) -> bool {
        let mut changed = false;
        for (path, known) in &mut self.files {
            let now = stamp(path);
            changed |= now != *known;
            *known = now;
        }
        changed
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some(Stamp {
        modified_at: metadata.modified().ok(),
        length: metadata.len(),
        inode,
    })
}
