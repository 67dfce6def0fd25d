//! Runs the process until it is told to stop.

use runtime::Stop;
use tracing::info;

use crate::error::Errors;
use crate::process::Process;

/// Serves, and runs the selected controllers, until `stop`.
pub async fn run(mut process: Process, stop: Stop) -> Result<(), Errors> {
    let server = process
        .take_server()
        .map(|server| runtime::spawn(server.run()));
    let writer = std::sync::Arc::clone(&process.logging.writer);
    let flush = runtime::spawn(async move { writer.flush_forever().await });
    let selected = process.selected();
    info!(controllers = selected.len(), "Running");
    stop.stopped().await;
    drop((server, flush));
    Ok(())
}
