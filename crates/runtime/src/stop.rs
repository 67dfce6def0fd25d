//! The signal to stop, handed down from the top.

use tokio::sync::watch;

/// Becomes stopped once, for good. Clones share the signal.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

/// The other end: stops on [`Stopper::stop`] and when it is dropped.
pub struct Stopper(watch::Sender<bool>);

impl Stop {
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    pub async fn stopped(&self) {
        // An error means that the stopper is gone, which is a stop as well.
        let _ = self.0.clone().wait_for(|stopped| *stopped).await;
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
        self.0.send_replace(true);
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
