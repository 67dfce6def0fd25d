//! Test programs: built by one cargo, run two at a time, and not again while nothing has changed that they are
//! built from or read.
//!
//! `cargo test` runs one program after the other, and many of ours mostly wait. What a program is built from is known
//! by the program itself: cargo leaves it alone while its sources are the same. What it reads beside that (documents,
//! scenarios, tables) is every file of the tree that is not Rust.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::steps::shown;
use crate::workspace;

/// Many tests wait for servers and clocks; the others have threads of their own.
const AT_A_TIME: usize = 2;

/// A program with tests.
#[derive(Debug)]
pub(crate) struct Suite {
    /// As cargo is told: the package, and the target where that is not the package itself.
    pub(crate) name: String,
    program: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
    /// When the program and those of its package that it starts were built.
    built: u64,
}

impl Suite {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// Whether everything is run, whatever passed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    All,
    Changed,
}

/// Builds test programs; `arguments` are those of `cargo test`.
pub(crate) fn build(arguments: &[&str]) -> Result<Vec<Suite>> {
    let mut command = workspace::cargo();
    command
        .arg("test")
        .args(arguments)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped());
    println!("$ {}", shown(&command));
    let ran = command.stderr(Stdio::inherit()).output()?;
    let artifacts = programs(&String::from_utf8_lossy(&ran.stdout));
    if !ran.status.success() {
        bail!("`{}` ended with {}", shown(&command), ran.status);
    }
    let mut suites = Vec::new();
    for artifact in artifacts.iter().filter(|artifact| artifact.test) {
        let mut hasher = DefaultHasher::new();
        let started = artifacts.iter().filter(|other| {
            !other.test && artifact.is_integration && other.folder == artifact.folder
        });
        for program in started.chain([artifact]) {
            let metadata = std::fs::metadata(&program.executable)?;
            (metadata.len(), metadata.modified()?).hash(&mut hasher);
        }
        suites.push(Suite {
            name: artifact.name.clone(),
            program: artifact.executable.clone(),
            folder: artifact.folder.clone(),
            built: hasher.finish(),
        });
    }
    Ok(suites)
}

/// Runs suites two at a time, those that took longest first, and says of each how it went. What passed before and
/// has not changed is left out, with a line that says so.
pub(crate) fn run(suites: &[Suite], choice: Choice) -> Result<()> {
    let memory = workspace::target().join("xtask/passed.json");
    run_changed(suites, choice, &memory, other_files()?).map(drop)
}

/// Returns how many suites ran. What passed is remembered in a file, with what it depended on.
fn run_changed(suites: &[Suite], choice: Choice, memory: &Path, files: u64) -> Result<usize> {
    let mut passed: BTreeMap<String, Passed> = std::fs::read_to_string(memory)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let mut waiting: Vec<(&Suite, u64)> = Vec::new();
    for suite in suites {
        let stamp = stamp(suite, files);
        let before = passed.get(&suite.name);
        if choice == Choice::Changed && before.is_some_and(|before| before.stamp == stamp) {
            println!("  unchanged       {}", suite.name);
        } else {
            waiting.push((suite, stamp));
        }
    }
    // What has never run may take long; the last one is taken first.
    waiting.sort_by_key(|(suite, _)| {
        passed
            .get(&suite.name)
            .map_or(u64::MAX, |before| before.milliseconds)
    });
    let (waiting, ended) = (Mutex::new(waiting), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((suite, stamp)) = take(&waiting) {
                    let outcome = run_one(suite, stamp);
                    {
                        let mut ended = ended.lock();
                        ended.push((suite.name.clone(), outcome));
                    }
                }
            });
        }
    });
    let mut failed = Vec::new();
    let ended = ended.into_inner();
    let ran = ended.len();
    for (name, outcome) in ended {
        match outcome {
            Ok(outcome) => drop(passed.insert(name, outcome)),
            Err(error) => {
                passed.remove(&name);
                failed.push(format!("{error:#}"));
            }
        }
    }
    if let Some(folder) = memory.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(memory, serde_json::to_string_pretty(&passed)?)?;
    if failed.is_empty() {
        return Ok(ran);
    }
    bail!("{}", failed.join("; "))
}

/// What is remembered of a suite that passed.
#[derive(Debug, Deserialize, Serialize)]
struct Passed {
    stamp: u64,
    milliseconds: u64,
}

fn take<T>(waiting: &Mutex<Vec<T>>) -> Option<T> {
    waiting.lock().pop()
}

fn run_one(suite: &Suite, stamp: u64) -> Result<Passed> {
    let started = Instant::now();
    let ran = suite
        .command()
        .output()
        .with_context(|| format!("{} cannot be run", suite.program.display()))?;
    let milliseconds = started.elapsed().as_millis() as u64;
    let output = String::from_utf8_lossy(&ran.stdout);
    let seconds = milliseconds as f64 / 1000.0;
    if ran.status.success() {
        println!(
            "  passed {seconds:>7.1}s {}: {}",
            suite.name,
            tests_in(&output)
        );
        return Ok(Passed {
            stamp,
            milliseconds,
        });
    }
    let errors = String::from_utf8_lossy(&ran.stderr);
    println!("  FAILED {seconds:>7.1}s {}\n{output}{errors}", suite.name);
    bail!("`cargo test -p {}` ended with {}", suite.name, ran.status)
}

/// The number of tests, from the last line of the test harness.
fn tests_in(output: &str) -> String {
    let words = output.split("test result: ok. ").nth(1);
    let count = words.and_then(|rest| rest.split(' ').next()).unwrap_or("?");
    format!("{count} tests")
}

fn stamp(suite: &Suite, files: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (suite.built, files).hash(&mut hasher);
    hasher.finish()
}

/// All files of the tree that no compiler reads.
fn other_files() -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in workspace::files()? {
        if path.extension().is_none_or(|extension| extension != "rs") {
            path.hash(&mut hasher);
            std::fs::read(workspace::root().join(&path))?.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// A program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: String,
    executable: PathBuf,
    folder: PathBuf,
    test: bool,
    is_integration: bool,
}

/// The programs in what cargo says about a build, a JSON object a line.
fn programs(messages: &str) -> Vec<Program> {
    let program = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let executable = message["executable"].as_str()?;
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let package = message["package_id"].as_str()?;
        // `path+file:///folder/name#0.1.0` where the folder is called like the package, else `…#name@0.1.0`.
        let (place, rest) = package.rsplit_once('#')?;
        let package = match rest.split_once('@') {
            Some((name, _)) => name,
            None => place.rsplit('/').next()?,
        };
        let kind = message["target"]["kind"][0].as_str()?;
        let is_integration = kind == "test";
        let name = match is_integration {
            true => format!("{package} --test {}", message["target"]["name"].as_str()?),
            false => format!("{package} --{kind}{}", if kind == "bin" { "s" } else { "" }),
        };
        Some(Program {
            name,
            executable: executable.into(),
            folder: folder.to_owned(),
            test: message["profile"]["test"].as_bool()?,
            is_integration,
        })
    };
    messages.lines().filter_map(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(package: &str, kind: &str, name: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{package}","manifest_path":"/w/a/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/w/target/{name}"}}"#
        )
    }

    #[test]
    fn programs_are_named_as_cargo_is_told() {
        let messages = [
            message(
                "path+file:///w/a#steersman-a@0.1.0",
                "lib",
                "steersman_a",
                true,
            ),
            message("path+file:///w/a#steersman-a@0.1.0", "test", "up", true),
            message("path+file:///w/xtask#0.1.0", "bin", "xtask", false),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = programs(&messages.join("\n"));
        let names: Vec<&str> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(
            names,
            ["steersman-a --lib", "steersman-a --test up", "xtask --bins"]
        );
        let tests: Vec<bool> = found.iter().map(|program| program.test).collect();
        assert_eq!(tests, [true, true, false]);
        assert_eq!(found[0].folder, Path::new("/w/a"));
    }

    #[test]
    fn what_passed_runs_again_when_it_or_a_file_has_changed() {
        let suite = |program: &str, built: u64| Suite {
            name: "a --lib".to_owned(),
            program: program.into(),
            folder: "/".into(),
            built,
        };
        let folder = std::env::temp_dir().join(format!("steersman-suites-{}", std::process::id()));
        let memory = folder.join("passed.json");
        let ran = |suite: Suite, choice: Choice, files: u64| {
            run_changed(&[suite], choice, &memory, files).map_err(|error| error.to_string())
        };
        assert_eq!(ran(suite("true", 1), Choice::Changed, 1), Ok(1));
        assert_eq!(ran(suite("true", 1), Choice::Changed, 1), Ok(0));
        assert_eq!(ran(suite("true", 1), Choice::All, 1), Ok(1));
        assert_eq!(ran(suite("true", 2), Choice::Changed, 1), Ok(1));
        assert_eq!(ran(suite("true", 2), Choice::Changed, 2), Ok(1));
        let failed = Err("`cargo test -p a --lib` ended with exit status: 1".to_owned());
        assert_eq!(ran(suite("false", 3), Choice::Changed, 2), failed);
        // What failed is not remembered as anything.
        assert_eq!(ran(suite("true", 2), Choice::Changed, 2), Ok(1));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_number_of_tests_is_the_harness_s() {
        let output = "test a ... ok\n\ntest result: ok. 12 passed; 0 failed; finished in 0.1s\n";
        assert_eq!(tests_in(output), "12 tests");
    }
}
