//! `cargo xtask simulate-bugs`: puts bugs in on purpose, one at a time, and sees that the simulator finds each.
//!
//! A bug of a controller is a patch in `crates/simulator/bugs`, so that a plan shows its logic and nothing else. It is
//! applied to a copy of the tree under `target/bugs`, built there, and reversed. The head of the patch says what the bug
//! does and which check is meant to find it. Bugs of the runtime are hooks (`runtime::mutation`), for which the test
//! `seeded_bugs` of the simulator looks.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

use crate::steps::succeed;
use crate::workspace;

/// A bug that takes more seeds than this is as good as not found.
const SEEDS_MAX: u64 = 600;

/// A patch: what it does wrong, and phrases of the check that is meant to say so.
struct Bug {
    name: String,
    patch: PathBuf,
    about: String,
    found_by: Vec<String>,
}

/// What became of a bug.
struct Outcome {
    /// The seed, and what was said: first by the check that is meant to, then by another.
    meant: Option<(u64, String)>,
    other: Option<(u64, String)>,
}

/// `[--runtime | --controllers] [name...]`: some bugs, or all.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|it| it.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|given| *given == flag);
    if let Some(unknown) = flags
        .iter()
        .find(|flag| !["--runtime", "--controllers"].contains(&flag.as_str()))
    {
        bail!("there is no flag {unknown}; there are --runtime and --controllers");
    }
    if !has("--controllers") && names.is_empty() {
        look_for_hooks()?;
    }
    if has("--runtime") {
        return Ok(());
    }
    let bugs = bugs()?;
    if let Some(unknown) = names
        .iter()
        .find(|name| !bugs.iter().any(|bug| bug.name == ***name))
    {
        bail!("there is no crates/simulator/bugs/{unknown}.patch");
    }
    let is_wanted = |bug: &&Bug| names.is_empty() || names.iter().any(|name| **name == bug.name);
    look_for_patches(bugs.iter().filter(is_wanted))
}

/// Bugs of the runtime, which are hooks.
fn look_for_hooks() -> Result<()> {
    let mut test = workspace::cargo();
    test.args(["test", "--profile", "sim"]);
    test.args(["--package", "steersman-simulator"]);
    test.args(["--features", "seeded-bugs", "--test", "seeded_bugs"]);
    succeed(test.args(["--", "--nocapture"]))
}

fn look_for_patches<'a>(bugs: impl Iterator<Item = &'a Bug>) -> Result<()> {
    let tree = Tree::copy()?;
    let healthy = tree.build()?;
    let kept = tree.folder.with_file_name("healthy");
    std::fs::copy(&healthy, &kept).context("cannot keep the program without a bug")?;
    let mut rows = Vec::new();
    let (mut missed, mut by_another) = (Vec::new(), Vec::new());
    for bug in bugs {
        let outcome = tree.with(bug, |program| find(program, &kept, bug))?;
        let row = match (&outcome.meant, &outcome.other) {
            (Some((seed, problem)), _) => format!("{} | {problem}", seed + 1),
            (None, Some((seed, problem))) => {
                by_another.push(bug.name.as_str());
                format!("{}, by another check | {problem}", seed + 1)
            }
            (None, None) => {
                missed.push(bug.name.as_str());
                format!("**not in {SEEDS_MAX}** |")
            }
        };
        println!("{}: {row}", bug.name);
        rows.push(format!("| `{}` | {} | {row} |", bug.name, bug.about));
    }
    println!("\n| bug | what it does | seeds | found by |\n|---|---|---|---|");
    println!("{}", rows.join("\n"));
    println!(
        "\n{} bugs, {} found by another check than the one that is meant to: {by_another:?}",
        rows.len(),
        by_another.len()
    );
    ensure!(missed.is_empty(), "not found: {missed:?}");
    Ok(())
}

/// Seeds that break without the bug, too, say nothing.
fn find(program: &Path, healthy: &Path, bug: &Bug) -> Result<Outcome> {
    let mut found = Outcome {
        meant: None,
        other: None,
    };
    let mut from = 0;
    while from < SEEDS_MAX && found.meant.is_none() {
        let mut command = Command::new(program);
        command.arg(from.to_string()).arg(SEEDS_MAX.to_string());
        let said = text(&command.args(&bug.found_by).output()?)?;
        let lines: Vec<(u64, &str)> = said.lines().filter_map(numbered).collect();
        let Some((last, _)) = lines.last() else {
            break;
        };
        for (seed, problem) in &lines {
            if !breaks(healthy, *seed)? {
                let is_meant = bug.found_by.iter().any(|phrase| problem.contains(phrase));
                let slot = match is_meant {
                    true => &mut found.meant,
                    false => &mut found.other,
                };
                slot.get_or_insert((*seed, (*problem).to_owned()));
            }
        }
        if found.other.is_some() {
            break;
        }
        from = last + 1;
    }
    Ok(found)
}

fn breaks(program: &Path, seed: u64) -> Result<bool> {
    let mut command = Command::new(program);
    command.arg(seed.to_string()).arg((seed + 1).to_string());
    Ok(!text(&command.output()?)?.is_empty())
}

fn numbered(line: &str) -> Option<(u64, &str)> {
    let (seed, problem) = line.split_once(' ')?;
    Some((seed.parse().ok()?, problem))
}

fn text(output: &Output) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The patches, by name.
fn bugs() -> Result<Vec<Bug>> {
    let mut bugs = Vec::new();
    for path in workspace::files()? {
        if path.starts_with("crates/simulator/bugs")
            && path.extension().is_some_and(|it| it == "patch")
        {
            bugs.push(Bug::read(&path)?);
        }
    }
    Ok(bugs)
}

impl Bug {
    fn read(path: &Path) -> Result<Bug> {
        let text = workspace::read(path)?;
        let line = |start: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(start));
            found.with_context(|| format!("{} has no line {start:?}", path.display()))
        };
        let phrases = line("Found by: ")?.split(" | ");
        Ok(Bug {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            patch: workspace::root().join(path),
            about: line("Bug: ")?.to_owned(),
            found_by: phrases.map(str::to_owned).collect(),
        })
    }
}

/// A copy of the tree, to put bugs into.
struct Tree {
    folder: PathBuf,
}

impl Tree {
    /// Copies what has changed since the last time, so that only that is built again.
    fn copy() -> Result<Tree> {
        let folder = workspace::target().join("bugs/tree");
        for path in workspace::files()? {
            let (from, to) = (workspace::root().join(&path), folder.join(&path));
            let wanted = std::fs::read(&from)?;
            if std::fs::read(&to).is_ok_and(|held| held == wanted) {
                continue;
            }
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&to, wanted)
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
        Ok(Tree { folder })
    }

    /// Puts the bug in, looks for it, and takes it out again.
    fn with<T>(&self, bug: &Bug, look: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        self.apply(bug, &[])?;
        let outcome = self.build().and_then(|program| look(&program));
        self.apply(bug, &["--reverse"])?;
        outcome.with_context(|| bug.name.clone())
    }

    fn apply(&self, bug: &Bug, flags: &[&str]) -> Result<()> {
        let mut apply = Command::new("git");
        apply.arg("apply").args(flags).arg(&bug.patch);
        // Else git takes the copy for a part of the tree that it was copied from.
        let above = self.folder.parent().unwrap_or(&self.folder);
        apply.env("GIT_CEILING_DIRECTORIES", above);
        let applied = apply.current_dir(&self.folder).output()?;
        text(&applied).with_context(|| format!("{} does not apply", bug.patch.display()))?;
        Ok(())
    }

    /// The program that looks for bugs.
    fn build(&self) -> Result<PathBuf> {
        let target = self.folder.with_file_name("target");
        let mut build = workspace::cargo();
        build.current_dir(&self.folder);
        build.env("CARGO_TARGET_DIR", &target);
        build.args(["build", "--quiet", "--profile", "sim"]);
        build.args(["--package", "steersman-simulator", "--example", "find_bug"]);
        let built = build.output()?;
        text(&built).context("it does not build")?;
        Ok(target.join("sim/examples/find_bug"))
    }
}
