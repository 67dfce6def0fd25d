//! `cargo xtask simulate-bugs`: puts bugs in on purpose, one at a time, and sees that the simulator finds each.
//!
//! A bug of a controller is a patch in `crates/simulator/bugs`, so that a plan shows its logic and nothing else. All of them
//! are put into one copy of the tree under `target/bugs`, which is built once: a function that patches change asks first which
//! bug is chosen, and has a body for each. The head of a patch says what the bug does and which check is meant to find it.
//! Bugs of the runtime are hooks (`api::mutation`), for which the test `seeded_bugs` of the simulator looks.

use std::collections::BTreeMap;
use std::ops::Range;
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
    /// Files, relative to the root.
    changes: Vec<PathBuf>,
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
    let bugs = bugs()?;
    if let Some(unknown) = names
        .iter()
        .find(|name| !bugs.iter().any(|bug| bug.name == ***name))
    {
        bail!("there is no crates/simulator/bugs/{unknown}.patch");
    }
    let tree = Tree::seeded(&bugs)?;
    if !has("--controllers") && names.is_empty() {
        look_for_hooks(&tree)?;
    }
    if has("--runtime") {
        return Ok(());
    }
    let is_wanted = |bug: &&Bug| names.is_empty() || names.iter().any(|name| **name == bug.name);
    look_for_patches(&tree, bugs.iter().filter(is_wanted))
}

/// Bugs of the runtime, which are hooks.
fn look_for_hooks(tree: &Tree) -> Result<()> {
    let mut test = tree.cargo();
    test.args(["test", "--profile", "sim", "--features", "seeded-bugs"]);
    test.args(["--package", "steersman-simulator", "--test", "seeded_bugs"]);
    succeed(test.args(["--", "--nocapture"]))
}

fn look_for_patches<'a>(tree: &Tree, bugs: impl Iterator<Item = &'a Bug>) -> Result<()> {
    let program = tree.build()?;
    let mut rows = Vec::new();
    let (mut missed, mut by_another) = (Vec::new(), Vec::new());
    for bug in bugs {
        let outcome = find(&program, bug).with_context(|| bug.name.clone())?;
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
fn find(program: &Path, bug: &Bug) -> Result<Outcome> {
    let mut found = Outcome {
        meant: None,
        other: None,
    };
    let mut from = 0;
    while from < SEEDS_MAX && found.meant.is_none() {
        let said = break_seeds(program, &bug.name, from..SEEDS_MAX, &bug.found_by)?;
        let lines: Vec<(u64, &str)> = said.lines().filter_map(numbered).collect();
        let Some((last, _)) = lines.last() else {
            break;
        };
        for (seed, problem) in &lines {
            if break_seeds(program, "", *seed..seed + 1, &[])?.is_empty() {
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

/// What the simulator says of seeds with a bug; an empty name is none.
fn break_seeds(program: &Path, bug: &str, seeds: Range<u64>, phrases: &[String]) -> Result<String> {
    let mut command = Command::new(program);
    command.args([bug, &seeds.start.to_string(), &seeds.end.to_string()]);
    text(&command.args(phrases).output()?)
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
        let changed = text.lines().filter_map(|line| line.strip_prefix("+++ b/"));
        Ok(Bug {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            patch: workspace::root().join(path),
            changes: changed.map(PathBuf::from).collect(),
            about: line("Bug: ")?.to_owned(),
            found_by: phrases.map(str::to_owned).collect(),
        })
    }

    /// The files that it changes, with the bug in them.
    fn patched(&self, scratch: &Path) -> Result<Vec<(PathBuf, String)>> {
        for path in &self.changes {
            write(&scratch.join(path), workspace::read(path)?.as_bytes())?;
        }
        let mut apply = Command::new("git");
        apply.arg("apply").arg(&self.patch).current_dir(scratch);
        // Else git takes the folder for a part of the tree that it is in.
        apply.env(
            "GIT_CEILING_DIRECTORIES",
            scratch.parent().unwrap_or(scratch),
        );
        text(&apply.output()?)
            .with_context(|| format!("{} does not apply", self.patch.display()))?;
        let read = |path: &PathBuf| {
            let patched = std::fs::read_to_string(scratch.join(path))?;
            Ok((path.clone(), patched))
        };
        self.changes.iter().map(read).collect()
    }
}

/// A copy of the tree with all bugs in it, each behind a switch.
struct Tree {
    folder: PathBuf,
}

impl Tree {
    /// Writes what has changed since the last time, so that only that is built again.
    fn seeded(bugs: &[Bug]) -> Result<Tree> {
        let folder = workspace::target().join("bugs");
        let tree = Tree {
            folder: folder.join("tree"),
        };
        let mut seeded: BTreeMap<PathBuf, Seeded> = BTreeMap::new();
        for bug in bugs {
            let patched = bug.patched(&folder.join("patched"));
            for (path, patched) in patched.with_context(|| bug.name.clone())? {
                let whole = workspace::read(&path)?;
                let file = seeded.entry(path).or_insert_with(|| Seeded::new(&whole));
                file.add(&bug.name, &patched)
                    .with_context(|| bug.name.clone())?;
            }
        }
        for path in workspace::files()? {
            let wanted = match seeded.get(&path) {
                Some(file) => file.text(&path).into_bytes(),
                None => std::fs::read(workspace::root().join(&path))?,
            };
            let to = tree.folder.join(&path);
            if std::fs::read(&to).is_ok_and(|held| held == wanted) {
                continue;
            }
            write(&to, &wanted)?;
        }
        Ok(tree)
    }

    /// A cargo that builds this tree. What it takes from elsewhere is shared with other builds.
    fn cargo(&self) -> Command {
        let mut cargo = workspace::cargo();
        cargo.current_dir(&self.folder);
        cargo.env("CARGO_TARGET_DIR", workspace::target());
        cargo
    }

    /// The program that looks for bugs.
    fn build(&self) -> Result<PathBuf> {
        let mut build = self.cargo();
        build.args(["build", "--quiet", "--profile", "sim"]);
        build.args(["--package", "steersman-simulator", "--example", "find_bug"]);
        let built = build.args(["--features", "seeded-bugs"]).output()?;
        text(&built).context("it does not build")?;
        let kept = self.folder.with_file_name("find_bug");
        std::fs::copy(workspace::target().join("sim/examples/find_bug"), &kept)
            .context("cannot keep the program")?;
        Ok(kept)
    }
}

/// A file, and what bugs make of the bodies of its functions.
struct Seeded {
    source: Source,
    /// By the number of the function: names of bugs, and its body with each.
    bodies: BTreeMap<usize, Vec<(String, String)>>,
}

impl Seeded {
    fn new(text: &str) -> Seeded {
        Seeded {
            source: Source::parse(text),
            bodies: BTreeMap::new(),
        }
    }

    /// Notes the functions that this bug changes. It may change nothing else: a switch needs a place to be.
    fn add(&mut self, bug: &str, patched: &str) -> Result<()> {
        let patched = Source::parse(patched);
        ensure!(
            patched.between == self.source.between,
            "it changes what is not in the body of a function, so that it cannot be switched on and off"
        );
        let bodies = patched.bodies.into_iter().zip(&self.source.bodies);
        for (number, (body, healthy)) in bodies.enumerate() {
            if body != *healthy {
                let variants = self.bodies.entry(number).or_default();
                variants.push((bug.to_owned(), body));
            }
        }
        Ok(())
    }

    /// The file with all bugs, each of which is in force when it is chosen (`api::mutation`, which
    /// every crate can ask).
    fn text(&self, path: &Path) -> String {
        let api = match path.starts_with("crates/api") {
            true => "crate",
            false => "::api",
        };
        let mut text = String::new();
        for (number, between) in self.source.between.iter().enumerate() {
            text += between;
            let variants = self.bodies.get(&number).into_iter().flatten();
            for (bug, body) in variants {
                text += &format!("if {api}::mutation::on(\"{bug}\") {{\n{body}}} else ");
            }
            let Some(body) = self.source.bodies.get(number) else {
                continue;
            };
            match self.bodies.contains_key(&number) {
                true => text += &format!("{{\n{body}}}\n"),
                false => text += body,
            }
        }
        text
    }
}

/// A formatted file: the bodies of its functions, and what stands between them, which is one piece more.
#[derive(Default)]
struct Source {
    between: Vec<String>,
    bodies: Vec<String>,
}

impl Source {
    /// Functions within functions are part of these.
    fn parse(text: &str) -> Source {
        let mut source = Source::default();
        let (mut between, mut lines) = (String::new(), text.split_inclusive('\n'));
        while let Some(line) = lines.next() {
            between += line;
            let code = line.trim_start();
            if !is_function(code) {
                continue;
            }
            let mut end = line.trim_end();
            while !end.ends_with(['{', ';', '}'])
                && let Some(line) = lines.next()
            {
                between += line;
                end = line.trim_end();
            }
            if !end.ends_with('{') {
                continue;
            }
            let closing = format!("{}}}\n", " ".repeat(line.len() - code.len()));
            let mut body = String::new();
            for line in lines.by_ref() {
                if line == closing {
                    source.bodies.push(std::mem::take(&mut body));
                    source
                        .between
                        .push(std::mem::replace(&mut between, closing));
                    break;
                }
                body += line;
            }
        }
        source.between.push(between);
        source
    }
}

/// Does a function begin in this line? One that is `const` cannot ask for a switch.
fn is_function(code: &str) -> bool {
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, rest)| rest),
        Some(rest) => rest,
        None => code,
    };
    let code = code.trim_start();
    code.strip_prefix("async ")
        .unwrap_or(code)
        .starts_with("fn ")
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTHY: &str = "\
/// What it gives.
const ONE: i32 = 1;

impl Thing {
    pub(super) async fn take(
        &self,
        from: i32,
    ) -> i32 {
        fn nested() -> i32 {
            0
        }
        from + ONE
    }

    fn other(&self) {}
}
";

    fn seeded(bugs: &[(&str, &str, &str)]) -> Result<String> {
        let mut file = Seeded::new(HEALTHY);
        for (bug, from, to) in bugs {
            file.add(bug, &HEALTHY.replace(from, to))?;
        }
        Ok(file.text(Path::new("crates/controllers/src/thing.rs")))
    }

    #[test]
    fn a_file_without_bugs_stays_as_it_is() {
        assert_eq!(seeded(&[]).expect("nothing changes"), HEALTHY);
    }

    #[test]
    fn each_bug_of_a_function_is_behind_its_own_switch() {
        let bugs = [("less", "from + ONE", "from"), ("more", "from + ", "2 + ")];
        let body = |sum: &str| {
            format!("        fn nested() -> i32 {{\n            0\n        }}\n        {sum}\n")
        };
        let (healthy, less, more) = (body("from + ONE"), body("from"), body("2 + ONE"));
        let switched = format!(
            "if ::api::mutation::on(\"less\") {{\n{less}}} else \
             if ::api::mutation::on(\"more\") {{\n{more}}} else {{\n{healthy}}}\n"
        );
        let expected = HEALTHY.replace(&healthy, &switched);
        assert_eq!(seeded(&bugs).expect("they are in a body"), expected);
    }

    #[test]
    fn a_bug_outside_of_functions_is_refused() {
        let refused = seeded(&[("two", "ONE: i32 = 1", "ONE: i32 = 2")]).unwrap_err();
        assert!(
            refused.to_string().contains("cannot be switched"),
            "{refused}"
        );
    }
}
