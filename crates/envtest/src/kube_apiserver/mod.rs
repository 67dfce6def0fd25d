//! kube-apiserver's command line over the embedded API server.
//!
//! `table.txt` has every flag of upstream's 1.36: acted upon, without effect (which is said once), or refused. What differs
//! from upstream: objects are kept by this process, in memory unless `--data-dir` names a folder, so `--etcd-servers` has no
//! effect and is not required; `--service-account-*` may be left out; and `--controllers` runs controllers inside.

mod admission;
mod options;
mod run;
mod token_file;

use std::sync::LazyLock;

use manager::flags::{self, Help, Table};

pub use options::{Command, Options};
pub use run::run;

/// kube-apiserver's flags.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("table.txt")));
    &TABLE
}

/// `--help`. 100 columns fit a terminal and a page of documentation.
fn help(program: &str) -> String {
    let (emulation, compatibility) = manager::gates::EffectiveVersions::help();
    let plugins: Vec<&str> = apiserver::admission::plugin_names().collect();
    let about = Help {
        program,
        introduction: INTRODUCTION,
        facts: vec![
            ("gates", manager::gates::FeatureGates::help()),
            ("emulation", emulation),
            ("compatibility", compatibility),
            ("ciphers", manager::tls_names::supported_suites().join(", ")),
            ("plugins", plugins.join(", ")),
        ],
        closing: String::new(),
    };
    flags::help(table(), &about, 100)
}

const INTRODUCTION: &str = "Steersman's API server under kube-apiserver's name: it takes the same flags, needs no etcd, and \
    keeps objects in memory unless it is given a folder. Made for tests of operators, as controller-runtime's envtest runs \
    them.";

/// `docs/kube-apiserver-flags.md`.
pub fn markdown() -> String {
    flags::page(PAGE, table())
}

const PAGE: &str = "\
# Flags of `steersman kube-apiserver`

Names, types and defaults are those of kube-apiserver 1.36, and every flag of it is here: acted upon, *without effect* (which is \
said once in the log when it is given), or *refused* where going on without it would mislead. `-` and `_` are the same in names. \
Durations are written as in Go (`30s`, `1m30s`), lists with commas; a list given twice is joined. Made from the table of flags \
by a test: run it with `UPDATE_EXPECT=1` after a change.
";

#[cfg(test)]
mod tests;
