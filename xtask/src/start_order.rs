//! `cargo xtask start-order`: which functions a controller manager runs to start, to do some work and to idle, and
//! which ones an API server runs beyond those, as the linker script `crates/steersman/start.ld`.
//!
//! The kernel maps text in pieces of 64 KB around what is touched. Functions that run lie all over a binary, so
//! nearly all of it would be in memory; side by side they fill a quarter of it. The script names them by the compiler's
//! newer names (`.cargo/config.toml`), which tell what a function is made for, and without its hashes, so it stays true
//! while code changes: what is new or has another name lies elsewhere and costs a page or two until the script is made
//! anew.
//!
//! It takes a release build and two minutes under valgrind. That, kubectl and curl have to be installed, and the real
//! servers built.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{steps, workspace};

/// Where the manager listens meanwhile.
const PORT: u16 = 10399;

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
    let binary = workspace::target().join("release/steersman");
    let exercise = Exercise {
        binary: &binary,
        folder,
    };
    let server = exercise.on_our_server()?;
    exercise.on_kube_apiserver()?;
    let sections = read_map(&std::fs::read_to_string(map)?);
    let read = |calls: &str| {
        let calls = std::fs::read_to_string(folder.join(calls))?;
        Ok::<_, anyhow::Error>(read_calls(&calls))
    };
    let mut manager = read("manager-on-ours")?;
    manager.extend(read("manager-on-kube-apiserver")?);
    let orders = [("start", manager), ("serve", read(server)?)];
    Ok(script(&sections, &orders))
}

/// Lets our programs do what they do every day. What each of them calls is left in a file of the folder.
struct Exercise<'a> {
    binary: &'a Path,
    folder: &'a Path,
}

impl Exercise<'_> {
    fn on_our_server(&self) -> Result<&'static str> {
        let kubeconfig = self.folder.join("kubeconfig");
        let arguments = [
            "apiserver".to_owned(),
            "--port=0".to_owned(),
            format!("--data-dir={}", self.folder.join("data").display()),
            format!("--kubeconfig={}", kubeconfig.display()),
        ];
        let server = Watched::start(self.binary, &self.folder.join("server"), &arguments)?;
        for _ in 0..WORK.as_secs() {
            if !kubeconfig.exists() {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        let pki = self.folder.join("data/pki");
        self.work("manager-on-ours", &kubeconfig, &pki, &[])?;
        server.stop()?;
        Ok("server")
    }

    /// With the flags of kubeadm: keys and certificates come from files, and this server speaks protobuf.
    fn on_kube_apiserver(&self) -> Result<()> {
        let mut bed = crate::real::bed()?;
        bed.args(["up", "--manager", "none"]).stdout(Stdio::piped());
        let mut bed = Watched(bed.spawn()?);
        let said = bed.0.stdout.take().context("the bed says where it is")?;
        let mut lines = std::io::BufReader::new(said).lines().map_while(Result::ok);
        let kubeconfig = lines
            .find_map(|line| line.strip_prefix("export KUBECONFIG=").map(PathBuf::from))
            .context("the bed did not come up")?;
        let pki = kubeconfig.with_file_name("pki");
        let file = |flag: &str, name: &str| format!("--{flag}={}", pki.join(name).display());
        let flags = [
            file("tls-cert-file", "apiserver.crt"),
            file("tls-private-key-file", "apiserver.key"),
            file("client-ca-file", "ca.crt"),
            file("root-ca-file", "ca.crt"),
            file("service-account-private-key-file", "service-accounts.key"),
            file("cluster-signing-cert-file", "ca.crt"),
            file("cluster-signing-key-file", "ca.key"),
            "--kube-api-qps=5000".to_owned(),
            "--kube-api-burst=5000".to_owned(),
        ];
        self.work("manager-on-kube-apiserver", &kubeconfig, &pki, &flags)
    }

    /// A manager that starts, makes a Deployment's pods, takes them away again, says how it is, and idles.
    fn work(&self, calls: &str, kubeconfig: &Path, pki: &Path, flags: &[String]) -> Result<()> {
        let option = |name: &str| format!("--{name}={}", kubeconfig.display());
        let mut arguments = vec![
            "controller-manager".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={PORT}"),
            option("kubeconfig"),
            option("authentication-kubeconfig"),
            option("authorization-kubeconfig"),
        ];
        arguments.extend_from_slice(flags);
        let manager = Watched::start(self.binary, &self.folder.join(calls), &arguments)?;
        let kubectl = |arguments: &[&str]| {
            let mut command = Command::new("kubectl");
            command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
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
        for path in ["/healthz", "/metrics"] {
            ask(path, pki)?;
        }
        std::thread::sleep(IDLE);
        manager.stop()
    }
}

/// Asks the manager for one of its pages as the administrator, without a look at the manager's own certificate: as a
/// kubelet asks, and as a Prometheus does.
fn ask(path: &str, pki: &Path) -> Result<()> {
    for version in ["--http1.1", "--http2"] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--insecure", version])
            // The first time, valgrind may take longer over the handshake than the manager waits for one.
            .args([
                "--retry",
                "5",
                "--retry-all-errors",
                "--output",
                "/dev/null",
            ])
            .arg("--cert")
            .arg(pki.join("admin.crt"))
            .arg("--key")
            .arg(pki.join("admin.key"))
            .arg(format!("https://127.0.0.1:{PORT}{path}"));
        steps::succeed(&mut curl)?;
    }
    Ok(())
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
    /// Which file it is in, if another compiler made it: assembly and C.
    foreign: Option<String>,
    /// Without what sections of code begin with; empty for all that is in a file of assembly.
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
        let name = name.strip_suffix(')')?.strip_prefix(".text")?;
        let name = name.strip_prefix('.').unwrap_or(name);
        Some(Section {
            address,
            length,
            foreign: (!file.contains("-cgu.")).then(|| file_pattern(file)),
            name: name.strip_prefix("unlikely.").unwrap_or(name).to_owned(),
        })
    };
    let mut sections: Vec<Section> = map.lines().filter_map(section).collect();
    sections.sort_by_key(|section| section.address);
    sections
}

/// A file in the linker's words, without hashes: `*libring-*:*-p256.o` for `/t/libring-1f.rlib(08-p256.o)`.
fn file_pattern(file: &str) -> String {
    let file = file.rsplit('/').next().unwrap_or(file);
    let Some((archive, member)) = file.split_once('(') else {
        return format!("*{file}");
    };
    let archive = archive.split('-').next().unwrap_or(archive);
    let member = member.strip_suffix(')').unwrap_or(member);
    let member = member.find('-').map_or(member, |hash| &member[hash..]);
    format!("*{archive}-*:*{member}")
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

/// The lines that put together what runs, whichever crate it was compiled into: another build may choose another.
fn place(sections: &[&Section], addresses: &BTreeSet<u64>) -> String {
    let mut functions = Functions::default();
    let mut foreign = BTreeSet::new();
    for section in sections {
        if let Some(file) = &section.foreign {
            if section.runs(addresses) || runs_on_newer_machines(file) {
                let name = match section.name.as_str() {
                    "" => String::new(),
                    name => format!(".{}", without_version(name)),
                };
                foreign.insert(format!("    {file}(.text{name})\n"));
            }
            continue;
        }
        let runs = section.runs(addresses) || runs_on_newer_machines(&section.name);
        let names = match runs {
            true => &mut functions.run,
            false => &mut functions.rest,
        };
        names.insert(pattern(&section.name));
    }
    let mut lines = String::from("    *(\n");
    for pattern in functions.patterns() {
        // Functions that are called cold have a section of another name, hence the star.
        lines += &format!("      .text*.{pattern}\n");
    }
    lines += "    )\n";
    lines.extend(foreign);
    lines
}

/// `ring_core_0_17_14__mul` is another function in the next version, but has the same name else.
fn without_version(name: &str) -> String {
    match name
        .strip_prefix("ring_core_")
        .and_then(|it| it.split_once("__"))
    {
        Some((_, name)) => format!("ring_core_*__{name}"),
        None => name.to_owned(),
    }
}

/// Valgrind has no such instructions, so it sees what older machines run in their place.
fn runs_on_newer_machines(name: &str) -> bool {
    let newer = ["vaesclmulavx2", "aes-gcm-avx2", "_adx"];
    newer.iter().any(|what| name.contains(what))
}

/// Functions by pattern: those that run, and the rest.
#[derive(Default)]
struct Functions {
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
            1020             1020     2000     4         /t/steersman-08.h2-1f.h2.fe-cgu.1.rcgu.o.rcgu.o:(.text.unlikely._RNvCs1a_2h21b)
            3020             3020        8     4         /t/libring-9c.rlib(5e-x.o):(.text.ring_core_0_17_14__mul)
            3028             3028        8     4         /t/libring-9c.rlib(5e-x-asm.o):(.text)
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
0x3028 1 1
cob=(1)
calls=1 0x1000 3
0x3034 1 9
";

    #[test]
    fn what_runs_lies_side_by_side() {
        let (sections, addresses) = (read_map(MAP), read_calls(CALLS));
        assert_eq!(sections.len(), 5);
        assert_eq!(addresses, BTreeSet::from([0xff0, 0x1010, 0x3028, 0x3034]));
        let orders = [
            ("start", addresses),
            ("serve", BTreeSet::from([0x1010, 0x1800, 0x3020])),
        ];
        let script = script(&sections, &orders);
        let lines: Vec<&str> = script.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "  .text.start : {",
                "    *(",
                "      .text*._RNvCs*_2h21a*",
                "      .text*._RNvCs*_3mio1c",
                "    )",
                "    *libring-*:*-x-asm.o(.text)",
                "  }",
                "  .text.serve : {",
                "    *(",
                "      .text*._RNvCs*_2h21*",
                "    )",
                "    *libring-*:*-x.o(.text.ring_core_*__mul)",
                "  }",
                "} INSERT BEFORE .text;",
            ]
        );
    }

    #[test]
    fn names_hold_nothing_that_the_compiler_makes_up() {
        for (name, expected) in [
            ("main", "main"),
            ("_RNvCs1a_2h21a.llvm.123", "_RNvCs*_2h21a*"),
            (
                "_RNvNtCsjrHSEGnQ3l9_3std2io5print",
                "_RNvNtCs*_3std2io5print",
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
