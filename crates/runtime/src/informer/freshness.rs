//! Is a cache at least as new as the moment from which a reader relies on it?
//!
//! A standby's caches are warm, but a watch can stand still without a sign: a connection that is dead, or
//! an API server that lags behind. Whoever takes the lease from another must know what that one did last,
//! or it does it again. So a term begins with a demand ([`Freshness::demand`]), and the reflector answers
//! it: by a listing that began later, or by a revision that the stream has reached.
//! docs/adr/0005-fresh-caches.md has the reasons.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Clones share it.
#[derive(Clone, Default)]
pub(super) struct Freshness(Arc<Inner>);

#[derive(Default)]
struct Inner {
    held: Mutex<Held>,
    demanded: Notify,
    proven: Notify,
}

#[derive(Default)]
struct Held {
    /// The cache has to hold what the server held then.
    needed: Option<Instant>,
    /// It does hold what the server held then.
    proven: Option<Instant>,
}

impl Freshness {
    /// From here on the cache must be as new as this moment.
    pub(super) fn demand(&self, since: Instant) {
        if crate::mutation::on("trust-warm-caches") {
            return;
        }
        self.lock().needed = Some(since);
        // The reflector keeps one wake-up if it is not listening now.
        self.0.demanded.notify_one();
    }

    /// The cache holds all that the server held at this moment.
    pub(super) fn prove(&self, at: Instant) {
        {
            let mut held = self.lock();
            held.proven = held.proven.max(Some(at));
        }
        self.0.proven.notify_waiters();
    }

    pub(super) fn is_met(&self) -> bool {
        let held = self.lock();
        held.needed <= held.proven
    }

    /// Waits until something is demanded that is not there.
    pub(super) async fn lacking(&self) {
        loop {
            self.0.demanded.notified().await;
            if !self.is_met() {
                return;
            }
        }
    }

    /// Waits until the cache is as new as it has to be.
    pub(super) async fn met(&self) {
        loop {
            let proven = self.0.proven.notified();
            tokio::pin!(proven);
            // From here on nothing is missed; only then is it safe to look.
            proven.as_mut().enable();
            if self.is_met() {
                return;
            }
            proven.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock()
    }
}
