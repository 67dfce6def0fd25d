//! `steersman controller-manager`, and the binary under the name kube-controller-manager.

use std::ffi::OsString;
use std::process::ExitCode;

use client::config::Environment;
use manager::logging::Logging;
use manager::{Command, Errors, Options, Process, descriptors, process};
use runtime::Stop;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// The name under which the binary is this command without being told.
pub(crate) const UPSTREAM_NAME: &str = "kube-controller-manager";

pub(crate) fn main(arguments: Vec<OsString>, program: &str) -> ExitCode {
    let arguments = arguments
        .into_iter()
        .map(|argument| argument.to_string_lossy().into_owned());
    let options = match Options::parse(arguments, program, descriptors::is_built) {
        Ok(Command::Run(options)) => *options,
        Ok(Command::Print(text)) => return crate::print(&text),
        Err(errors) => return crate::fail(&errors.to_string()),
    };
    let clock = runtime::clock::wall();
    let logging = Logging::install(&options.logging, clock.clone());
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return crate::fail(&format!("cannot start threads: {error}")),
    };
    let ended = runtime.block_on(run(options, clock, logging.clone()));
    logging.writer.flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => crate::fail(&errors.to_string()),
    }
}

async fn run(options: Options, clock: api::Clock, logging: Logging) -> Result<(), Errors> {
    let (stopper, stop) = Stop::new();
    let signals = runtime::spawn(handle_signals(stopper));
    let rng = api::Rng::from_seed(process::random_seed());
    let environment = Environment::of_process();
    let started = stop
        .or(Process::start(options, &environment, clock, rng, logging))
        .await;
    let Some(process) = started.transpose()? else {
        return Ok(());
    };
    manager::run(process, stop).await?;
    drop(signals);
    Ok(())
}

/// The first SIGTERM or SIGINT asks for an orderly stop, the second ends the process at once. SIGHUP, which a
/// closing terminal sends, does not end it.
async fn handle_signals(stopper: runtime::stop::Stopper) {
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
        info!("Stopping; a second signal ends the process at once");
        stopper.stop();
    }
}
