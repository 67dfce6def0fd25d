//! `steersman version`: what this is and where it comes from.

use anyhow::Result;
use clap::{Args, ValueEnum};
use manager::version::{BUILD_DATE, GIT_COMMIT};
use serde_json::json;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Text,
    Json,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The API that is spoken.
const KUBERNETES: &str = "1.36";

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    match arguments.output {
        Output::Text => println!("steersman {VERSION} (Kubernetes API {KUBERNETES})"),
        Output::Json => {
            let (system, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
            let facts = json!({
                "version": VERSION,
                "kubernetes": KUBERNETES,
                "commit": GIT_COMMIT,
                "buildDate": BUILD_DATE,
                "platform": format!("{system}/{architecture}"),
            });
            println!("{facts:#}");
        }
    }
    Ok(())
}
