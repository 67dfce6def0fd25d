//! The binary under the name etcd: the stand-in beside kube-apiserver's.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

use std::process::ExitCode;

use anyhow::Result;
use envtest::etcd::{Command, Options, run};

use crate::signals;

pub(crate) fn main(program: &str, arguments: impl Iterator<Item = String>) -> ExitCode {
    match start(program, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {}", client::sentence(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn start(program: &str, arguments: impl Iterator<Item = String>) -> Result<()> {
    let options = match Options::parse(arguments, program)? {
        Command::Run(options) => options,
        Command::Print(text) => {
            println!("{}", text.trim_end());
            return Ok(());
        }
    };
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(async {
        let (stop, _signals) = signals::stop_on_signal();
        Ok(run(options, stop).await?)
    })
}
