//! `steersman kube-apiserver`, and the binary under the name kube-apiserver.

#![expect(
    clippy::print_stderr,
    reason = "there is no log before the options are read"
)]

use std::process::ExitCode;

use envtest::kube_apiserver::{Command, Options, run};
use manager::logging::Logging;
use manager::{Errors, process};

use crate::signals;

/// Which controllers run inside, where no flag says so: what starts kube-apiserver need not know.
pub(crate) const CONTROLLERS: &str = "STEERSMAN_CONTROLLERS";

pub(crate) fn main(program: &str, arguments: impl Iterator<Item = String>) -> ExitCode {
    let controllers = std::env::var(CONTROLLERS).ok();
    let options = match Options::parse(arguments, program, controllers) {
        Ok(Command::Run(options)) => *options,
        Ok(Command::Print(text)) => {
            println!("{}", text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(errors) => return fail(&errors),
    };
    let clock = runtime::clock::wall();
    let logging = Logging::install(&options.logging, clock.clone());
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let tokio = match tokio {
        Ok(tokio) => tokio,
        Err(error) => {
            eprintln!("Error: cannot wait for the network: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = tokio.block_on(async {
        let (stop, _signals) = signals::stop_on_signal();
        let rng = api::Rng::from_seed(process::random_seed());
        run(options, clock, rng, stop).await
    });
    // Connections that are still open hold the data.
    drop(tokio);
    logging.writer.flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => fail(&errors),
    }
}

fn fail(errors: &Errors) -> ExitCode {
    eprintln!("Error: {}", client::without_numbers(&errors.to_string()));
    ExitCode::FAILURE
}
