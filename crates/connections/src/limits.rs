//! How many connections there may be.

use rustix::process::{Resource, getrlimit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all.
    pub total: usize,
    /// From one address.
    pub per_peer: usize,
}

/// Files that the process needs besides: the store, logs, pipes, its own connections, those that are kept for health.
const FILES_APART: u64 = 64;

impl Limits {
    /// At most `most`, and no more than the process may open files for. One address gets half of them.
    pub fn of_process(most: usize) -> Limits {
        Limits::within(most, getrlimit(Resource::Nofile).current)
    }

    fn within(most: usize, files: Option<u64>) -> Limits {
        let files = files.map_or(u64::MAX, |files| files.saturating_sub(FILES_APART));
        let total = usize::try_from(files)
            .unwrap_or(usize::MAX)
            .min(most)
            .max(2);
        Limits {
            total,
            per_peer: total / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_files_left_for_the_server_itself() {
        let check = |most, files, total, per_peer| {
            assert_eq!(Limits::within(most, files), Limits { total, per_peer });
        };
        check(8192, Some(220), 156, 78);
        check(8192, Some(1 << 20), 8192, 4096);
        check(8192, None, 8192, 4096);
        check(8192, Some(3), 2, 1);
    }
}
