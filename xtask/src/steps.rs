//! A sequence of steps that says what it runs, how long each took, and what it left out and why.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What became of a step.
enum Outcome {
    Passed,
    Skipped(String),
}

/// How a step that ran to its end may report.
#[derive(Clone)]
pub(crate) enum Done {
    Passed,
    Skipped(String),
}

#[derive(Default)]
pub(crate) struct Steps {
    finished: Vec<(String, Duration, Outcome)>,
}

impl Steps {
    /// Runs a step; an error ends the sequence with a summary that names it.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<Done>) -> Result<()> {
        println!("\n=== {name}");
        let started = Instant::now();
        match step() {
            Ok(done) => {
                let outcome = match done {
                    Done::Passed => Outcome::Passed,
                    Done::Skipped(reason) => {
                        println!("skipped: {reason}");
                        Outcome::Skipped(reason)
                    }
                };
                self.finished
                    .push((name.to_owned(), started.elapsed(), outcome));
                Ok(())
            }
            Err(error) => {
                self.print();
                println!("  FAILED  {:>6}  {name}", seconds(started.elapsed()));
                bail!("the step \"{name}\" failed: {error:#}")
            }
        }
    }

    /// A step that is one command.
    pub(crate) fn command(&mut self, name: &str, mut command: Command) -> Result<()> {
        self.run(name, || succeed(&mut command).map(|()| Done::Passed))
    }

    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("\n=== {name}\nskipped: {reason}");
        self.finished.push((
            name.to_owned(),
            Duration::ZERO,
            Outcome::Skipped(reason.to_owned()),
        ));
    }

    pub(crate) fn print(&self) {
        println!("\n=== summary");
        for (name, took, outcome) in &self.finished {
            match outcome {
                Outcome::Passed => println!("  passed  {:>6}  {name}", seconds(*took)),
                Outcome::Skipped(reason) => println!("  skipped {:>6}  {name}: {reason}", ""),
            }
        }
    }
}

/// Runs a command with its output on the terminal; the error shows how to run it alone.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("`{shown}` ended with {status}"),
        Err(error) => bail!("`{shown}` cannot be run: {error}"),
    }
}

pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    let arguments = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program)
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}s", duration.as_secs_f64())
}
