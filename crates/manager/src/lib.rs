//! The process around the controllers: which of them run and how.
//!
//! Everything that makes Steersman a drop-in for kube-controller-manager lives here: its flags and what they
//! mean (`flags`, `options`), feature gates and emulated versions (`gates`), what `--controllers` means
//! (`selection`), log formats (`logging`), the secure port (`serving`, `auth`), and which identity each
//! controller acts under (`identity`). It must not know how any single controller decides.

pub mod auth;
#[cfg(test)]
mod bad_input;
pub mod config;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod descriptor_checks;
mod error;
pub mod files;
pub mod flags;
pub mod gates;
pub mod identity;
pub mod lead;
pub mod leader_migration;
pub mod logging;
pub mod metrics;
pub mod options;
pub mod process;
pub mod run;
pub mod selection;
pub mod serving;
pub mod term;
pub mod tls_names;
pub mod validate;
pub mod version;

pub use error::{Error, Errors};
pub use lead::run;
pub use options::{Command, Options};
pub use process::Process;
