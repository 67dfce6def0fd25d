//! `up --detach`: the same command again, in the background.
//!
//! The child is this program with the same arguments. It says one line on its standard output when it is up, and others
//! before if that takes long; its standard error is a log file. Should the parent be gone by then, the child stops: nobody
//! would know of it. Should the child fail, the parent shows what it said and ends as it did.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use api::decision::counted;
use serde::{Deserialize, Serialize};

use super::instance::Facts;
use super::{Arguments, Output, log, places, screen};
use crate::apiserver::Place;
use crate::files;
use crate::terminal::Terminal;

/// The hidden flag that the child is started with.
const CHILD: &str = "--detached";

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    let log_path = log_path(arguments)?;
    let mut log = log::open(&log_path)?;
    let begin = log.seek(SeekFrom::End(0))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let passed = std::env::args_os()
        .skip(1)
        .filter(|argument| argument != "-d" && argument != "--detach");
    let mut child = Command::new(program)
        .args(passed)
        .arg(CHILD)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?)
        // Ctrl-C at this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .context("cannot start the cluster's process")?;
    let output = child.stdout.take().map(BufReader::new);
    for line in output.into_iter().flat_map(BufRead::lines) {
        let line = line?;
        match serde_json::from_str(&line) {
            Ok(Said::Up(facts)) => {
                tell(arguments, &line, &facts);
                return Ok(());
            }
            Ok(Said::Waits { waits }) if !arguments.quiet => eprintln!("{waits}"),
            Ok(Said::Waits { .. }) | Err(_) => {}
        }
    }
    let status = child.wait()?;
    let mut said = String::new();
    log.seek(SeekFrom::Start(begin))?;
    log.read_to_string(&mut said)?;
    match complaint(&said) {
        "" => bail!("the cluster's process ended before it was up ({status})"),
        said => bail!("{said}"),
    }
}

/// One line of the child.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Said {
    Waits { waits: String },
    Up(Box<Facts>),
}

/// Why it ended, without what it said before; all of it where it does not say.
fn complaint(said: &str) -> &str {
    const ERROR: &str = "error: ";
    let said = said.trim_end();
    let last = said.rfind(&format!("\n{ERROR}")).map_or(0, |at| at + 1);
    said[last..].trim_start_matches(ERROR)
}

fn tell(arguments: &Arguments, line: &str, facts: &Facts) {
    let mut out = std::io::stdout();
    let _ = match (arguments.output, arguments.quiet) {
        (Output::Json, _) => writeln!(out, "{line}"),
        (Output::Text, true) => Ok(()),
        (Output::Text, false) => {
            let text = format!(
                "A Kubernetes cluster is up at {} with {} (process {})\n{}",
                facts.server,
                counted(facts.nodes, "simulated node"),
                facts.pid,
                screen::greeting(facts, &stopping(facts)),
            );
            writeln!(out, "{}", Terminal::of_stdout().wrap(&text))
        }
    };
}

fn stopping(facts: &Facts) -> String {
    match facts.name.as_str() {
        places::DEFAULT => "`steersman down` stops it".to_owned(),
        name => format!("`steersman down --name {name}` stops it"),
    }
}

pub(super) fn log_path(arguments: &Arguments) -> Result<PathBuf> {
    match (arguments.place()?, &arguments.name) {
        (Place::Dir(dir), _) => {
            files::refuse_foreign_dir(&dir)?;
            files::create_private_dir(&dir)?;
            Ok(dir.join(super::LOG))
        }
        (Place::Memory, Some(name)) => {
            let dir = places::dir_of(name)?;
            files::create_private_dir(&dir)?;
            Ok(dir.join(super::LOG))
        }
        (Place::Memory, None) => {
            let dir = files::default_data_dir()?;
            if let Some(parent) = dir.parent() {
                files::create_private_dir(parent)?;
            }
            Ok(dir.with_file_name("steersman-in-memory.log"))
        }
    }
}

/// The child's one line; an error when nobody reads it any more.
pub(crate) fn report(facts: &Facts) -> Result<()> {
    say(&serde_json::to_string(facts)?)
}

/// What is waited for; an error when nobody reads it any more.
pub(super) fn tell_progress(waits: &str) -> Result<()> {
    let waits = waits.to_owned();
    say(&serde_json::to_string(&Said::Waits { waits })?)
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("whoever started this cluster is gone; it stops")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_why_it_ended() {
        for (said, expected) in [
            ("WARN a\nerror: no\n", "no"),
            ("error: no\n\nCaused by:\n  b\n", "no\n\nCaused by:\n  b"),
            ("WARN an error: passing\n", "WARN an error: passing"),
            ("", ""),
        ] {
            assert_eq!(complaint(said), expected);
        }
    }

    #[test]
    fn a_line_of_progress_is_not_the_one_that_says_that_it_is_up() {
        let waits = Said::Waits {
            waits: "w".to_owned(),
        };
        let line = serde_json::to_string(&waits).unwrap();
        let read = serde_json::from_str(&line).unwrap();
        assert!(matches!(read, Said::Waits { waits } if waits == "w"));
        let line = serde_json::to_string(&Facts::of_this_process()).unwrap();
        let read = serde_json::from_str(&line).unwrap();
        assert!(matches!(read, Said::Up(_)));
    }
}
