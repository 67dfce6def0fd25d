//! `steersman controller-manager`: the drop-in.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is where users are spoken to"
)]

use std::process::ExitCode;

use api::Rng;
use manager::logging::Logging;
use manager::{Command, Errors, Options, built, process};

use crate::signals;

pub(crate) fn main(program: &str, arguments: impl Iterator<Item = String>) -> ExitCode {
    match Options::parse(arguments, program, built::has) {
        Ok(Command::Print(text)) => {
            println!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Ok(Command::Run(options)) => match run(*options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(errors) => fail(&errors),
        },
        Err(errors) => fail(&errors),
    }
}

fn fail(errors: &Errors) -> ExitCode {
    eprintln!("Error: {errors}");
    ExitCode::FAILURE
}

fn run(options: Options) -> Result<(), Errors> {
    let clock = runtime::clock::wall();
    let logging = Logging::install(&options.logging, clock.clone());
    let rng = Rng::from_seed(random_seed(&clock));
    let workers =
        std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(1, WORKERS_MAX));
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("a runtime needs threads, and a process that cannot have any cannot run");
    let result = tokio.block_on(async {
        let (stop, _signals) = signals::stop_on_signal().expect("a runtime listens to signals");
        process::run(options, logging.clone(), clock, rng, stop).await
    });
    logging.writer.flush();
    result.map_err(Errors::from)
}

/// Decoding and planning are quick: more threads than this only cost memory.
const WORKERS_MAX: usize = 4;

/// Differs between processes and starts: time and process id.
pub(crate) fn random_seed(clock: &api::Clock) -> u64 {
    let micros = clock.now().unix_micros().unsigned_abs();
    Rng::from_seed(micros ^ (u64::from(std::process::id()) << 40)).next_u64()
}
