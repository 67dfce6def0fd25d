//! Signals: the first one asks us to stop, the second one does not ask.

use runtime::stop::Stopper;
use runtime::{Stop, Task, spawn};
use tokio::signal::unix::{SignalKind, signal};

/// Becomes stopped on SIGINT or SIGTERM. Call it inside a runtime and keep the task.
pub(crate) fn stop_on_signal() -> (Stop, Task<()>) {
    let (stopper, stop) = Stop::new();
    (stop, spawn(listen(stopper)))
}

/// SIGHUP, which a closing terminal sends, does not end us.
async fn listen(stopper: Stopper) {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hang_up)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) else {
        // Without handlers the system's default is in force: signals end the process.
        return std::future::pending().await;
    };
    let mut asked = false;
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => continue,
        }
        if asked {
            std::process::exit(1);
        }
        asked = true;
        tracing::info!("Stopping; a second signal ends the process at once");
        stopper.stop();
    }
}
