//! Something that happens once, and those who wait for it.
//!
//! Waiters wake in the order in which they began to wait. `tokio::sync::watch` would do the same job but
//! wakes them in an order drawn by chance, and then two runs of one seed would differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Clones share it.
#[derive(Clone, Default)]
pub struct Latch(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_set: AtomicBool,
    changed: Notify,
}

impl Latch {
    /// It has happened.
    pub fn set(&self) {
        self.0.is_set.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    pub async fn wait(&self) {
        let changed = self.0.changed.notified();
        tokio::pin!(changed);
        // From here on no change is missed; only then is it safe to look.
        changed.as_mut().enable();
        if !self.is_set() {
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[tokio::test]
    async fn waiters_wake_in_the_order_in_which_they_came() {
        let latch = Latch::default();
        let woken: Arc<Mutex<Vec<usize>>> = Arc::default();
        let waiting: Vec<_> = (0..50)
            .map(|number| {
                let (latch, woken) = (latch.clone(), woken.clone());
                crate::spawn(async move {
                    latch.wait().await;
                    woken.lock().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        latch.set();
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock(), (0..50).collect::<Vec<_>>());
        latch.wait().await;
    }
}
