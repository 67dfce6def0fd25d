//! `cargo xtask start-order`: which functions a controller manager runs to start, to do some work and to idle, as
//! the linker script `crates/steersman/start.ld`.
//!
//! The kernel maps text in pieces of 64 KB around what is touched. Functions that run lie all over a binary, so
//! nearly all of it would be in memory; side by side they fill a quarter of it. The script names them without the
//! hashes of the compiler, so it stays true while code changes: what is new or has another name lies elsewhere and
//! costs a page or two until the script is made anew.
//!
//! It takes a release build and a minute under valgrind. That and kubectl have to be installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{steps, workspace};

/// Names are cut here: what differs behind it is generic arguments, mostly.
const NAME_LENGTH: usize = 60;

/// A crate of which more than this share runs is taken as a whole, which needs one line.
const WHOLE: f64 = 0.6;

/// A smaller crate fits beside others in one piece of what the kernel maps.
const SMALL: u64 = 4096;

/// How long a manager under valgrind takes to start and to do its work, on a slow machine.
const START: Duration = Duration::from_secs(45);
const WORK: Duration = Duration::from_secs(10);

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
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| workspace::root().join("target"));
    let calls = folder.join("calls");
    exercise(&target.join("release/steersman"), folder, &calls)?;
    let sections = read_map(&std::fs::read_to_string(map)?);
    let addresses = read_calls(&std::fs::read_to_string(calls)?);
    Ok(script(&sections, &addresses))
}

/// Runs a manager under valgrind on an API server of ours, gives it a Deployment and takes it away again.
fn exercise(binary: &Path, folder: &Path, calls: &Path) -> Result<()> {
    let kubeconfig = folder.join("kubeconfig");
    let server = Command::new(binary)
        .args(["apiserver", "--in-memory", "--port=0", "--kubeconfig"])
        .arg(&kubeconfig)
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start our API server")?;
    let _server = Ended(server);
    for _ in 0..100 {
        if !kubeconfig.exists() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let option = |name: &str| format!("--{name}={}", kubeconfig.display());
    let manager = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--dump-instr=yes"])
        .arg(format!("--callgrind-out-file={}", calls.display()))
        .arg(binary)
        .args([
            "controller-manager",
            "--bind-address=127.0.0.1",
            "--secure-port=10399",
        ])
        .args(
            [
                "kubeconfig",
                "authentication-kubeconfig",
                "authorization-kubeconfig",
            ]
            .map(option),
        )
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run valgrind; install it")?;
    let mut manager = Ended(manager);
    std::thread::sleep(START);
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&kubeconfig).args(arguments);
        steps::succeed(&mut command)
    };
    kubectl(&["create", "deployment", "web", "--image=web", "--replicas=2"])?;
    std::thread::sleep(WORK);
    kubectl(&["delete", "deployment", "web"])?;
    std::thread::sleep(WORK);
    let process = manager.0.id().to_string();
    steps::succeed(Command::new("kill").args(["-TERM", &process]))?;
    if !manager.0.wait()?.success() {
        bail!("the manager did not end well under valgrind");
    }
    Ok(())
}

/// A process that is gone when this is dropped.
struct Ended(Child);

impl Drop for Ended {
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

fn script(sections: &[Section], addresses: &BTreeSet<u64>) -> String {
    let runs = |section: &Section| {
        let end = section.address + section.length;
        addresses.range(section.address..end).next().is_some()
    };
    // Length of all functions and of those that run, and the names of these.
    let mut crates: BTreeMap<&str, (u64, u64, BTreeSet<String>)> = BTreeMap::new();
    for section in sections {
        let Some(origin) = &section.origin else {
            continue;
        };
        let (all, run, names) = crates.entry(origin).or_default();
        *all += section.length;
        if runs(section) {
            *run += section.length;
            names.insert(pattern(&section.name));
        }
    }
    let mut script = String::from(
        "/* Made by `cargo xtask start-order`: what a controller manager runs, side by side. */\n\
         SECTIONS {\n  .text.start : {\n",
    );
    for (name, (all, run, patterns)) in &crates {
        if patterns.is_empty() {
            continue;
        }
        if *run as f64 >= *all as f64 * WHOLE || *all < SMALL {
            script += &format!("    *.{name}.*(.text .text.*)\n");
            continue;
        }
        script += &format!("    *.{name}.*(\n");
        for pattern in patterns {
            script += &format!("      {pattern}\n");
        }
        script += "    )\n";
    }
    script + "  }\n} INSERT BEFORE .text;\n"
}

/// A section's name without what the compiler makes up: hashes of types (`17h` and 16 digits) and of crates (`Cs…_`).
fn pattern(name: &str) -> String {
    let name = match name.rfind("17h") {
        Some(at) => &name[..at + 3],
        None => name,
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
    let whole = pattern == name && !name.ends_with("17h");
    let cut = pattern.len() > NAME_LENGTH || !whole;
    pattern.truncate(NAME_LENGTH);
    let pattern = pattern.trim_end_matches('*').to_owned();
    if cut { pattern + "*" } else { pattern }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
             VMA              LMA     Size Align Out     In      Symbol
            1000             1000       20     4         /t/steersman-08.h2-1f.h2.fe-cgu.0.rcgu.o.rcgu.o:(.text._ZN2h21a17h0123456789abcdefE)
            1020             1020     2000     4         /t/steersman-08.h2-1f.h2.fe-cgu.1.rcgu.o.rcgu.o:(.text._ZN2h21b17h0123456789abcdefE)
            3020             3020       10     4         /t/libring.rlib(x.o):(.text.mul)
            3030             3030       10     4         /t/steersman-08.mio-2a.mio.aa-cgu.0.rcgu.o.rcgu.o:(.text._ZN3mio1c17h0123456789abcdefE)
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
        let script = script(&sections, &addresses);
        let lines: Vec<&str> = script.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "    *.h2.*(",
                "      .text._ZN2h21a17h*",
                "    )",
                "    *.mio.*(.text .text.*)",
                "  }",
                "} INSERT BEFORE .text;",
            ]
        );
    }

    #[test]
    fn names_hold_nothing_that_the_compiler_makes_up() {
        for (name, expected) in [
            (".text.main", ".text.main"),
            (
                ".text._ZN2h21a17h0123456789abcdefE.llvm.123",
                ".text._ZN2h21a17h*",
            ),
            (
                ".text._RNvNtCsjrHSEGnQ3l9_3std2io5print",
                ".text._RNvNtCs*_3std2io5print*",
            ),
        ] {
            assert_eq!(pattern(name), expected);
        }
        let long = format!(".text._ZN{}", "a".repeat(200));
        assert_eq!(pattern(&long).len(), NAME_LENGTH + 1);
    }
}
