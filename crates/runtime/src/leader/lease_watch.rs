//! LeaseWatch of the lease: a standby that watches it knows at once when it is given back, and to the moment
//! when it was last renewed.
//!
//! The election does not rest on it: a candidate without watch events tries again after the retry period, as
//! client-go does.

use std::time::Duration;

use client::{WatchEvent, WatchStream};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::lease::{Lock, Record};

/// A watch that could not be opened, or ended, is opened again after this long; meanwhile the retry
/// period serves.
const REOPEN: Duration = Duration::from_secs(10);

pub(super) struct LeaseWatch {
    stream: Option<WatchStream>,
    open_at: Instant,
}

impl LeaseWatch {
    pub(super) fn new() -> LeaseWatch {
        LeaseWatch {
            stream: None,
            open_at: Instant::now(),
        }
    }

    /// What the lease says next. Dropping the future loses no news.
    pub(super) async fn next(&mut self, lock: &Lock) -> Record {
        loop {
            let Some(stream) = &mut self.stream else {
                tokio::time::sleep_until(self.open_at).await;
                self.open_at = Instant::now() + REOPEN;
                self.stream = lock.watch().await.ok();
                continue;
            };
            match stream.next().await {
                Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                    if let Ok(record) = Record::read(&lease) {
                        return record;
                    }
                }
                Some(Ok(WatchEvent::Deleted(_))) => return Record::free(),
                Some(Ok(WatchEvent::Bookmark { .. })) => {}
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => self.stream = None,
            }
        }
    }
}
