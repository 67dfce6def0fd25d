//! Where `up` logs to: standard error, or a file once there is a live line that log lines would run into.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
pub(super) struct Log(Arc<Inner>);

#[derive(Default)]
struct Inner {
    file: Mutex<Option<File>>,
    lines: AtomicU64,
}

impl Log {
    /// From now on to this file, after what is in it.
    pub(super) fn to_file(&self, path: &Path) -> Result<()> {
        *self.0.file.lock() = Some(open(path)?);
        Ok(())
    }

    /// How many lines were logged so far.
    pub(super) fn lines(&self) -> u64 {
        self.0.lines.load(Ordering::Relaxed)
    }
}

/// Another cluster may be writing to it: what is there stays.
pub(super) fn open(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    let options = options.read(true).append(true).create(true).mode(0o600);
    options
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A writer for one line.
pub(super) struct Line(Arc<Inner>);

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        self.0.lines.fetch_add(1, Ordering::Relaxed);
        Line(self.0.clone())
    }
}

impl Write for Line {
    /// Never fails: a line that finds no room on the disk is lost. An error would be reported on standard error, which is
    /// the same file where a cluster is detached, and the second failure is a panic: requests that are worth a line would
    /// end without an answer.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let written = match &mut *self.0.file.lock() {
            Some(file) => file.write_all(text),
            None => io::stderr().write_all(text),
        };
        drop(written);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_to_the_file_and_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("up.log");
        std::fs::write(&path, "before\n").unwrap();
        let log = Log::default();
        log.to_file(&path).unwrap();
        log.make_writer().write_all(b"after\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nafter\n");
        assert_eq!(log.lines(), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_line_that_finds_no_room_is_lost_and_nothing_fails() {
        let log = Log::default();
        log.to_file(Path::new("/dev/full")).unwrap();
        log.make_writer().write_all(b"lost\n").unwrap();
        assert_eq!(log.lines(), 1);
    }
}
