//! Tasks. Everything that runs beside the caller starts here.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{JoinError, JoinHandle};

/// Starts a task. It ends when it is done or when its [`Task`] is dropped.
///
/// Boxed here, because the machinery around a task is compiled for each type of future that is not: with boxes
/// it is compiled once, and what is not there need not be in memory. Tasks are few and live long.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    let handle = tokio::spawn(Box::pin(future) as Pin<Box<dyn Future<Output = T> + Send>>);
    Task(Some(handle))
}

/// A running task; dropping it stops it, so nothing outlives its owner by accident.
#[must_use = "dropping a task stops it"]
pub struct Task<T>(Option<JoinHandle<T>>);

impl<T> Task<T> {
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Lets the task run to its own end: for tasks that something else bounds, as a connection is
    /// by its peer.
    pub fn detach(mut self) {
        self.0 = None;
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self
            .0
            .as_mut()
            .expect("only a task that is given up has no handle");
        Pin::new(handle).poll(cx)
    }
}
