//! `cargo xtask mutants`: changes the controllers and the runtime at random, one place at a time, and sees that a test fails.
//!
//! `cargo-mutants` makes the changes; each takes a minute or two, so a sample of them is drawn. Judges are the unit tests of
//! both packages and fifty seeds of the simulator. A change that does not compile says nothing. What an oracle or a user action
//! of the simulator is made of is left out: it judges, and its own tests are the seeded bugs (`cargo xtask simulate-bugs`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::steps::shown;
use crate::workspace;

/// A release that was tried. Its options and the names of its results are what is used here.
const VERSION: &str = "27.1.0";

const SAMPLE: usize = 100;

/// How many seeds of the simulator judge a mutant.
const SEEDS: &str = "50";

const PACKAGES: [&str; 2] = ["steersman-controllers", "steersman-runtime"];

/// What judges, and what only stands where a mistake could be.
const LEFT_OUT: [&str; 5] = [
    "**/oracle/**",
    "**/oracle.rs",
    "**/invariants/**",
    "**/{invariants,actions}.rs",
    "**/mutation.rs",
];

/// What is asked for on the command line.
#[derive(Debug, PartialEq)]
struct Choice {
    sample: usize,
    /// The number of a part, from 0, and of how many.
    shard: (usize, usize),
    /// Another number draws another sample.
    seed: u64,
}

/// `[--shard N/M] [--sample K] [--seed S]`
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let choice = Choice::parse(arguments)?;
    let version = command().arg("--version").output()?;
    if !version.status.success() {
        bail!(
            "cargo-mutants is missing; `cargo install --locked cargo-mutants@{VERSION}` installs it"
        );
    }
    let listed = mutants().arg("--list").output()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    ensure!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let all: Vec<&str> = text.lines().collect();
    let chosen = choice.draw(&all);
    println!("{} mutants, of which {} are tried", all.len(), chosen.len());
    let output = workspace::target().join("mutants");
    std::fs::create_dir_all(&output)?;
    let mut tried = mutants();
    tried.args(["--profile", "sim", "--no-times"]);
    for package in PACKAGES.iter().chain(&["steersman-simulator"]) {
        tried.args(["--test-package", package]);
    }
    for argument in ["--lib", "--test=seeds"] {
        tried.args(["--cargo-test-arg", argument]);
    }
    tried.arg("--output").arg(&output);
    // It builds a copy elsewhere; what comes from registries is the same in every run.
    tried.env("CARGO_TARGET_DIR", output.join("target"));
    tried.env("STEERSMAN_SEEDS", SEEDS);
    println!("$ {} --re ...", shown(&tried));
    for name in &chosen {
        tried.args(["--re", &format!("^{}$", escaped(name))]);
    }
    let status = tried.status()?;
    // 2 and 3 say that some were missed, or ran into a timeout.
    ensure!(
        matches!(status.code(), Some(0 | 2 | 3)),
        "cargo-mutants ended with {status}"
    );
    summarize(&output.join("mutants.out"))
}

/// A mutant that never ends is caught: its tests would not pass.
fn summarize(results: &Path) -> Result<()> {
    let read = |name: &str| {
        let path = results.join(format!("{name}.txt"));
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let count = |name: &str| Ok::<usize, anyhow::Error>(read(name)?.lines().count());
    let (caught, unviable) = (count("caught")? + count("timeout")?, count("unviable")?);
    let missed = read("missed")?;
    let viable = caught + missed.lines().count();
    println!(
        "\n{viable} viable mutants: {caught} caught ({} %), {} missed; {unviable} unviable",
        caught * 100 / viable.max(1),
        viable - caught
    );
    println!("missed:\n{missed}");
    Ok(())
}

fn command() -> Command {
    let mut command = workspace::cargo();
    command.arg("mutants");
    command
}

/// All that there are.
fn mutants() -> Command {
    let mut command = command();
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    for glob in LEFT_OUT {
        command.args(["--exclude", glob]);
    }
    command.args(["--colors", "never"]);
    command
}

/// A name as a regular expression that matches nothing else.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

impl Choice {
    fn parse(arguments: &[String]) -> Result<Choice> {
        let mut choice = Choice {
            sample: SAMPLE,
            shard: (0, 1),
            seed: 0,
        };
        let mut arguments = arguments.iter();
        while let Some(flag) = arguments.next() {
            let value = arguments.next();
            let value = value.with_context(|| format!("{flag} needs a value"))?;
            let number = || value.parse::<usize>();
            match flag.as_str() {
                "--sample" => choice.sample = number()?,
                "--seed" => choice.seed = value.parse()?,
                "--shard" => {
                    let parts = value.split_once('/');
                    let (part, all) = parts.context("a shard is written as 0/4")?;
                    choice.shard = (part.parse()?, all.parse()?);
                    ensure!(
                        choice.shard.0 < choice.shard.1,
                        "there is no part {value}: the first is 0"
                    );
                }
                unknown => {
                    bail!("there is no flag {unknown}; there are --shard, --sample and --seed")
                }
            }
        }
        Ok(choice)
    }

    /// A part of a sample of all of them: the same for the same names and the same seed.
    fn draw<'a>(&self, all: &[&'a str]) -> Vec<&'a str> {
        let lot = |name: &&str| {
            let mut hasher = DefaultHasher::new();
            (self.seed, name).hash(&mut hasher);
            hasher.finish()
        };
        let mut drawn = all.to_vec();
        drawn.sort_by_cached_key(lot);
        drawn.truncate(self.sample);
        let (part, parts) = self.shard;
        drawn.into_iter().skip(part).step_by(parts).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn choice(text: &str) -> Result<Choice> {
        let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Choice::parse(&arguments)
    }

    #[test]
    fn shards_share_out_one_sample() {
        let names: Vec<String> = (0..500).map(|number| format!("mutant {number}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let draw = |text: &str| choice(text).expect("it makes sense").draw(&all);
        let whole = draw("--sample 31");
        assert_eq!(whole.len(), 31);
        assert_ne!(whole, draw("--sample 31 --seed 1"));
        let mut shared = draw("--sample 31 --shard 0/2");
        assert_eq!(shared.len(), 16);
        shared.extend(draw("--shard 1/2 --sample 31"));
        let as_set = |names: Vec<&'_ str>| -> BTreeSet<String> {
            names.into_iter().map(str::to_owned).collect()
        };
        assert_eq!(as_set(shared), as_set(whole));
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        for text in ["--shard 2/2", "--shard 1", "--sample", "--jobs 2"] {
            assert!(choice(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_matches_itself_alone() {
        let name = "a.rs:1:2: replace + with - in f(x) -> Vec<u8>";
        assert_eq!(
            escaped(name),
            r"a\.rs:1:2: replace \+ with \- in f\(x\) \-> Vec<u8>"
        );
    }
}
