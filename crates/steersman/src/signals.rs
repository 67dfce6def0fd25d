//! Signals: the first one asks us to stop, the second one does not ask.

use runtime::{Stop, Task, spawn};
use tokio::signal::unix::{SignalKind, signal};

/// Becomes stopped on SIGINT or SIGTERM. Call it inside a runtime and keep the task.
pub(crate) fn stop_on_signal() -> std::io::Result<(Stop, Task<()>)> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A terminal that goes away is no reason to end a service.
    let mut hang_up = signal(SignalKind::hangup())?;
    let (stopper, stop) = Stop::new();
    let task = spawn(async move {
        let mut asked = false;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => continue,
            }
            if asked {
                // 130: ended by an interrupt, as shells count.
                std::process::exit(130);
            }
            asked = true;
            stopper.stop();
        }
    });
    Ok((stop, task))
}
