//! `cargo xtask start-order`: which functions a controller manager runs to start, to do some work and to idle, and
//! which ones an API server runs beyond those, as the linker script `crates/steersman/start.ld`.
//!
//! The kernel maps text in pieces of 64 KB around what is touched. Functions that run lie all over a binary, so
//! nearly all of it would be in memory; side by side they fill a quarter of it. The script names them by the compiler's
//! newer names (`.cargo/config.toml`), which tell what a function is made for, and without its hashes, so it stays true
//! while code changes: what is new or has another name lies elsewhere and costs a page or two until the script is made
//! anew.
//!
//! It takes a release build and a minute under valgrind. That and kubectl have to be installed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{steps, workspace};

/// A crate of which more than this share runs is taken as a whole, which needs one line.
const WHOLE: f64 = 0.9;

/// A smaller crate fits beside others in one piece of what the kernel maps.
const SMALL: u64 = 4096;

/// How much of a name is written beyond what tells it from those that do not run: so much the longer until a new
/// function is taken for it.
const SURE: usize = 12;

/// How long a manager under valgrind may take to do some work, on a slow machine.
const WORK: Duration = Duration::from_secs(300);

/// What an idle manager does comes round within this time.
const IDLE: Duration = Duration::from_secs(35);

pub(crate) fn run(_: &[String]) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("steersman-start-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let made = make(&folder);
    std::fs::remove_dir_all(&folder)?;
    let path = workspace::root().join("crates/steersman/start.ld");
    std::fs::write(&path, made?)?;
    println!("wrote {}; build again to use it", path.display());
    Ok(())
}

fn make(folder: &Path) -> Result<String> {
    let map = folder.join("map");
    // Every function has an address of its own here, and none has moved.
    let mut link = workspace::cargo();
    link.env("STEERSMAN_LINK", "plain")
        .args([
            "rustc",
            "--release",
            "--package",
            "steersman",
            "--bin",
            "steersman",
            "--",
        ])
        .args(["-C", "strip=none", "-C"])
        .arg(format!("link-arg=-Wl,-Map={}", map.display()));
    steps::succeed(&mut link)?;
    let (manager, server) = (folder.join("manager"), folder.join("server"));
    let binary = workspace::target().join("release/steersman");
    exercise(&binary, folder, &manager, &server)?;
    let sections = read_map(&std::fs::read_to_string(map)?);
    let read = |calls| Ok::<_, anyhow::Error>(read_calls(&std::fs::read_to_string(calls)?));
    let orders = [("start", read(manager)?), ("serve", read(server)?)];
    Ok(script(&sections, &orders))
}

/// Runs a manager on an API server of ours, gives it a Deployment and takes it away again. What each of them calls
/// is left in a file.
fn exercise(binary: &Path, folder: &Path, manager: &Path, server: &Path) -> Result<()> {
    let kubeconfig = folder.join("kubeconfig");
    let option = |name: &str| format!("--{name}={}", kubeconfig.display());
    let server = Watched::start(
        binary,
        server,
        &[
            "apiserver".to_owned(),
            "--port=0".to_owned(),
            format!("--data-dir={}", folder.join("data").display()),
            option("kubeconfig"),
        ],
    )?;
    for _ in 0..WORK.as_secs() {
        if !kubeconfig.exists() {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let manager = Watched::start(
        binary,
        manager,
        &[
            "controller-manager".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=10399".to_owned(),
            option("kubeconfig"),
            option("authentication-kubeconfig"),
            option("authorization-kubeconfig"),
        ],
    )?;
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&kubeconfig).args(arguments);
        command
    };
    let pods = |wanted: usize| -> Result<()> {
        for _ in 0..WORK.as_secs() {
            let output = kubectl(&["get", "pods", "--output=name"]).output()?;
            if output.stdout.lines().count() == wanted {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        bail!("the manager under valgrind did not bring {wanted} pods about in {WORK:?}")
    };
    let create = ["create", "deployment", "web", "--image=web", "--replicas=2"];
    steps::succeed(&mut kubectl(&create))?;
    pods(2)?;
    steps::succeed(&mut kubectl(&["delete", "deployment", "web"]))?;
    pods(0)?;
    std::thread::sleep(IDLE);
    manager.stop()?;
    server.stop()
}

/// A process of ours under valgrind, gone when this is dropped.
struct Watched(Child);

impl Watched {
    fn start(binary: &Path, calls: &Path, arguments: &[String]) -> Result<Watched> {
        let process = Command::new("valgrind")
            .args(["--quiet", "--tool=callgrind", "--dump-instr=yes"])
            .arg(format!("--callgrind-out-file={}", calls.display()))
            .arg(binary)
            .args(arguments)
            .stderr(Stdio::null())
            .spawn();
        process
            .map(Watched)
            .context("cannot run valgrind; install it")
    }

    fn stop(mut self) -> Result<()> {
        let process = self.0.id().to_string();
        steps::succeed(Command::new("kill").args(["-TERM", &process]))?;
        if !self.0.wait()?.success() {
            bail!("a process did not end well under valgrind");
        }
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A function, where the linker put it.
#[derive(Debug, PartialEq)]
struct Section {
    address: u64,
    length: u64,
    /// The crate whose object file it is in; none for what is not ours to place.
    origin: Option<String>,
    name: String,
}

impl Section {
    fn runs(&self, addresses: &BTreeSet<u64>) -> bool {
        let end = self.address + self.length;
        addresses.range(self.address..end).next().is_some()
    }
}

/// The functions in LLD's map: `VMA LMA Size Align file:(.text.name)`.
fn read_map(map: &str) -> Vec<Section> {
    let section = |line: &str| {
        let mut words = line.split_whitespace();
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (address, _, length) = (number()?, number()?, number()?);
        let (file, name) = line.split_once(":(")?;
        let name = name.strip_suffix(')')?;
        name.starts_with(".text").then(|| Section {
            address,
            length,
            origin: origin(file),
            name: name.to_owned(),
        })
    };
    let mut sections: Vec<Section> = map.lines().filter_map(section).collect();
    sections.sort_by_key(|section| section.address);
    sections
}

/// `…/steersman-0830.tokio-54ab.tokio.d9f7-cgu.0.rcgu.o` is of tokio.
fn origin(file: &str) -> Option<String> {
    let (before, _) = file.split_once("-cgu.")?;
    let mut words = before.rsplit('.');
    words.nth(1).map(str::to_owned)
}

/// The addresses that were run in our binary, from what callgrind wrote.
fn read_calls(calls: &str) -> BTreeSet<u64> {
    let mut objects: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut ours, mut address) = (false, 0_u64);
    let mut run = BTreeSet::new();
    for line in calls.lines() {
        if let Some(object) = line.strip_prefix("ob=").or(line.strip_prefix("cob=")) {
            // `(3) /path`, or `(3)` for one that was named before.
            let (number, path) = object.split_once(' ').unwrap_or((object, ""));
            if !path.is_empty() {
                objects.insert(number, path);
            }
            if line.starts_with("ob=") {
                let path = objects.get(number).copied().unwrap_or_default();
                ours = path.ends_with("/steersman");
            }
            continue;
        }
        let Some(place) = line.split(' ').next().filter(|_| line.contains(' ')) else {
            continue;
        };
        let moved = match place.as_bytes() {
            [b'0', b'x', ..] => u64::from_str_radix(&place[2..], 16).ok(),
            [b'+', ..] => place[1..].parse().ok().map(|by: u64| address + by),
            [b'-', ..] => place[1..]
                .parse()
                .ok()
                .and_then(|by| address.checked_sub(by)),
            b"*" => Some(address),
            _ => None,
        };
        if let Some(moved) = moved {
            address = moved;
            if ours {
                run.insert(address);
            }
        }
    }
    run
}

/// A place for each order, by name, with what runs in it and in none before it.
fn script(sections: &[Section], orders: &[(&str, BTreeSet<u64>)]) -> String {
    let mut script = String::from(
        "/* Made by `cargo xtask start-order`: what a controller manager runs, side by side, and what an API server does. */\n\
         SECTIONS {\n",
    );
    for (at, (name, addresses)) in orders.iter().enumerate() {
        let placed: Vec<&BTreeSet<u64>> = orders[..at].iter().map(|(_, earlier)| earlier).collect();
        let free: Vec<&Section> = sections
            .iter()
            .filter(|section| !placed.iter().any(|earlier| section.runs(earlier)))
            .collect();
        script += &format!("  .text.{name} : {{\n{}  }}\n", place(&free, addresses));
    }
    script + "} INSERT BEFORE .text;\n"
}

/// The lines that put together what runs.
fn place(sections: &[&Section], addresses: &BTreeSet<u64>) -> String {
    let mut crates: BTreeMap<&str, Functions> = BTreeMap::new();
    for section in sections {
        let Some(origin) = &section.origin else {
            continue;
        };
        let functions = crates.entry(origin).or_default();
        functions.length += section.length;
        if section.runs(addresses) {
            functions.length_run += section.length;
            functions.run.insert(pattern(&section.name));
        } else {
            functions.rest.insert(pattern(&section.name));
        }
    }
    let mut script = String::new();
    for (name, functions) in &crates {
        if functions.run.is_empty() {
            continue;
        }
        let whole = functions.length_run as f64 >= functions.length as f64 * WHOLE;
        if whole || functions.length < SMALL {
            script += &format!("    *.{name}.*(.text .text.*)\n");
            continue;
        }
        script += &format!("    *.{name}.*(\n");
        for pattern in functions.patterns() {
            script += &format!("      {pattern}\n");
        }
        script += "    )\n";
    }
    script
}

/// The functions of one crate, by pattern: those that run, and the rest.
#[derive(Default)]
struct Functions {
    length: u64,
    length_run: u64,
    run: BTreeSet<String>,
    rest: BTreeSet<String>,
}

impl Functions {
    /// What matches those that run and as few others as can be, in few words.
    fn patterns(&self) -> BTreeSet<String> {
        let mut patterns: BTreeSet<String> = BTreeSet::new();
        for name in &self.run {
            // Sorted, so that who has most in common with it is next to it.
            let before = self
                .rest
                .range::<String, _>((Unbounded, Included(name)))
                .next_back();
            let after = self
                .rest
                .range::<String, _>((Included(name), Unbounded))
                .next();
            let neighbours = before.into_iter().chain(after);
            let shared = neighbours.map(|other| in_common(name, other)).max();
            let length = shared.unwrap_or(0) + SURE;
            let pattern = match name.get(..length) {
                Some(start) => format!("{}*", start.trim_end_matches('*')),
                None => name.clone(),
            };
            // One that was cut shorter covers it.
            let covered = patterns
                .range::<String, _>((Unbounded, Excluded(&pattern)))
                .next_back();
            let covers = |shorter: &String| {
                let start = shorter.strip_suffix('*');
                start.is_some_and(|start| pattern.starts_with(start))
            };
            if !covered.is_some_and(covers) {
                patterns.insert(pattern);
            }
        }
        patterns
    }
}

fn in_common(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes());
    same.take_while(|(a, b)| a == b).count()
}

/// A section's name without what the compiler makes up: hashes of crates (`Cs…_`) and numbers of its own (`.llvm.…`).
/// Types and generic arguments are part of a name, so that it is the same after a change of anything else.
fn pattern(name: &str) -> String {
    let (name, numbered) = match name.find(".llvm.") {
        Some(at) => (&name[..at], true),
        None => (name, false),
    };
    let mut pattern = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("Cs") {
        let hash = after.bytes().take_while(u8::is_ascii_alphanumeric).count();
        pattern += before;
        if after[hash..].starts_with('_') && hash > 0 {
            pattern += "Cs*_";
            rest = &after[hash + 1..];
        } else {
            pattern += "Cs";
            rest = after;
        }
    }
    pattern += rest;
    if numbered {
        pattern += "*";
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
             VMA              LMA     Size Align Out     In      Symbol
            1000             1000       20     4         /t/steersman-08.h2-1f.h2.fe-cgu.0.rcgu.o.rcgu.o:(.text._RNvCs1a_2h21a.llvm.77)
            1020             1020     2000     4         /t/steersman-08.h2-1f.h2.fe-cgu.1.rcgu.o.rcgu.o:(.text._RNvCs1a_2h21b)
            3020             3020       10     4         /t/libring.rlib(x.o):(.text.mul)
            3030             3030       10     4         /t/steersman-08.mio-2a.mio.aa-cgu.0.rcgu.o.rcgu.o:(.text._RNvCs2b_3mio1c)
            3040             3040       10     4         /t/steersman-08.mio-2a.mio.aa-cgu.0.rcgu.o.rcgu.o:(.rodata.x)
";

    const CALLS: &str = "\
ob=(1) /lib/libc.so.6
fn=(1) memcpy
0x1000 3 1
ob=(2) /t/release/steersman
fn=(2) main
0xff0 1 1
+32 * 1
* * 4
cob=(1)
calls=1 0x1000 3
0x3034 1 9
";

    #[test]
    fn what_runs_lies_side_by_side() {
        let (sections, addresses) = (read_map(MAP), read_calls(CALLS));
        assert_eq!(sections.len(), 4);
        assert_eq!(addresses, BTreeSet::from([0xff0, 0x1010, 0x3034]));
        let orders = [
            ("start", addresses),
            ("serve", BTreeSet::from([0x1010, 0x1800])),
        ];
        let script = script(&sections, &orders);
        let lines: Vec<&str> = script.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "  .text.start : {",
                "    *.h2.*(",
                "      .text._RNvCs*_2h21a*",
                "    )",
                "    *.mio.*(.text .text.*)",
                "  }",
                "  .text.serve : {",
                "    *.h2.*(.text .text.*)",
                "  }",
                "} INSERT BEFORE .text;",
            ]
        );
    }

    #[test]
    fn names_hold_nothing_that_the_compiler_makes_up() {
        for (name, expected) in [
            (".text.main", ".text.main"),
            (".text._RNvCs1a_2h21a.llvm.123", ".text._RNvCs*_2h21a*"),
            (
                ".text._RNvNtCsjrHSEGnQ3l9_3std2io5print",
                ".text._RNvNtCs*_3std2io5print",
            ),
        ] {
            assert_eq!(pattern(name), expected);
        }
    }

    #[test]
    fn names_are_as_long_as_it_takes_to_tell_them_apart() {
        let long = "z".repeat(40);
        let set = |names: &[&str]| names.iter().map(|name| format!("{name}{long}")).collect();
        let functions = Functions {
            run: set(&["ab", "ac", "xyz"]),
            rest: set(&["acd", "xya"]),
            ..Functions::default()
        };
        let patterns: Vec<String> = functions.patterns().into_iter().collect();
        // Those that are cut stand for all that begin like them; what is one of them already is not said twice.
        assert_eq!(patterns.len(), 3);
        for (pattern, name) in patterns.iter().zip(&functions.run) {
            let start = pattern.trim_end_matches('*');
            assert!(name.starts_with(start) && start.len() < name.len());
            assert!(!functions.rest.iter().any(|name| name.starts_with(start)));
        }
    }
}
