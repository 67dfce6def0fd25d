//! Something that happens now and then to everyone at once.
//!
//! Listeners wake in the order in which they began to listen; `tokio::sync::watch` would wake them in an
//! order drawn by chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<Inner>);

#[derive(Default)]
struct Inner {
    count: AtomicU64,
    rung: Notify,
}

/// Hears what is rung after it was made.
pub(crate) struct Listener {
    bell: Bell,
    seen: u64,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.rung.notify_waiters();
    }

    pub(crate) fn listen(&self) -> Listener {
        Listener {
            seen: self.0.count.load(Ordering::Relaxed),
            bell: self.clone(),
        }
    }
}

impl Listener {
    pub(crate) async fn heard(&mut self) {
        loop {
            let rung = self.bell.0.rung.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            let count = self.bell.0.count.load(Ordering::Relaxed);
            if count != self.seen {
                self.seen = count;
                return;
            }
            rung.await;
        }
    }
}
