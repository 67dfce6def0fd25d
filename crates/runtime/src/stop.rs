//! The signal to stop, handed down from the top.

use crate::latch::Latch;

/// Becomes stopped once, for good. Clones share the signal.
#[derive(Clone)]
pub struct Stop(Latch);

/// The other end: stops on [`Stopper::stop`] and when it is dropped.
pub struct Stopper(Latch);

impl Stop {
    pub fn new() -> (Stopper, Stop) {
        let latch = Latch::default();
        (Stopper(latch.clone()), Stop(latch))
    }

    pub fn is_stopped(&self) -> bool {
        self.0.is_set()
    }

    pub async fn stopped(&self) {
        self.0.wait().await;
    }

    /// Runs `future` until it is done or the signal comes.
    pub async fn or<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stopped() => None,
            value = future => Some(value),
        }
    }
}

impl Stopper {
    pub fn stop(&self) {
        self.0.set();
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stops_by_call_and_by_drop() {
        let (stopper, stop) = Stop::new();
        assert!(!stop.is_stopped());
        stopper.stop();
        assert!(stop.is_stopped());
        stop.stopped().await;

        let (stopper, stop) = Stop::new();
        drop(stopper);
        assert!(stop.is_stopped());
        assert_eq!(stop.or(std::future::pending::<()>()).await, None);
    }
}
