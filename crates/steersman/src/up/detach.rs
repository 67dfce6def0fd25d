//! `up --detach`: the same command again, in the background.
//!
//! The child is this program with the same arguments. It says one line on its standard output when it is up;
//! its standard error is a log file. Should the parent be gone by then, the child stops: nobody would know of
//! it. Should the child fail, the parent shows what it said and ends as it did.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use api::decision::counted;

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
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    match serde_json::from_str::<Facts>(&line) {
        Ok(facts) => {
            tell(arguments, &line, &facts);
            Ok(())
        }
        Err(_) => {
            let status = child.wait()?;
            let mut said = String::new();
            log.seek(SeekFrom::Start(begin))?;
            log.read_to_string(&mut said)?;
            let said = said.trim_end().trim_start_matches("error: ");
            match said {
                "" => bail!("the cluster's process ended before it was up ({status})"),
                said => bail!("{said}"),
            }
        }
    }
}

fn tell(arguments: &Arguments, line: &str, facts: &Facts) {
    let mut out = std::io::stdout();
    let _ = match (arguments.output, arguments.quiet) {
        (Output::Json, _) => write!(out, "{line}"),
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
            Ok(dir.join("up.log"))
        }
        (Place::Memory, Some(name)) => {
            let dir = places::dir_of(name)?;
            files::create_private_dir(&dir)?;
            Ok(dir.join("up.log"))
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
    let line = serde_json::to_string(facts)?;
    writeln!(std::io::stdout(), "{line}").context("whoever started this cluster is gone; it stops")
}
