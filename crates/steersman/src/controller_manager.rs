//! `steersman controller-manager`, and the binary under the name kube-controller-manager.

#![expect(
    clippy::print_stderr,
    reason = "there is no log before the options are read"
)]

use std::process::ExitCode;

use client::config::Environment;
use dashboard::Feed;
use manager::logging::Logging;
use manager::{Command, Errors, Options, Process, process};
use runtime::Decisions;

use crate::{manager_dashboard, signals};

pub(crate) fn main(program: &str, arguments: impl Iterator<Item = String>) -> ExitCode {
    api::collections::key_hashes(process::random_seed());
    let options = match Options::parse(arguments, program) {
        Ok(Command::Run(options)) => *options,
        Ok(Command::Print(text)) => {
            println!("{}", text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(errors) => return fail(&errors),
    };
    let clock = runtime::clock::wall();
    let logging = Logging::install(&options.logging, clock.clone());
    // Decoding and planning are quick: one thread keeps up with an API server, and a second one only costs
    // memory and the CPU for waking each other.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("Error: cannot wait for the network: {error}");
            return ExitCode::FAILURE;
        }
    };
    // A task of its own: what `block_on` itself runs is woken through a system call.
    let running = run(options, clock, logging.clone());
    let ended = runtime.block_on(async { runtime::spawn(running).await });
    logging.writer.flush();
    match ended {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(errors)) => fail(&errors),
        Err(panicked) => {
            eprintln!("Error: the controller manager broke, which is a bug: {panicked}");
            ExitCode::FAILURE
        }
    }
}

fn fail(errors: &Errors) -> ExitCode {
    eprintln!("Error: {}", client::without_numbers(&errors.to_string()));
    ExitCode::FAILURE
}

async fn run(options: Options, clock: api::Clock, logging: Logging) -> Result<(), Errors> {
    let (stop, _signals) = signals::stop_on_signal();
    let rng = api::Rng::from_seed(process::random_seed());
    let environment = Environment::of_process();
    let feed = Feed::new();
    let decisions = Decisions::new().heard_by(feed.listener());
    let started = Process::start(options, &environment, clock, rng, logging, decisions);
    match stop.or(started).await.transpose()? {
        Some(process) => {
            manager_dashboard::mount(&process, feed);
            manager::run(process, stop).await
        }
        // Told to stop while starting.
        None => Ok(()),
    }
}
