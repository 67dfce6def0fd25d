//! Types `docs/tour.md`, command by command, and compares what comes back with what it says.
//!
//! What differs between any two runs (ages, random parts of names, addresses) is put out of sight first. With
//! `UPDATE_EXPECT=1` the outputs in the document are replaced by what came back.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on has found something, and one that is left out says so"
)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use real_tests::installation::{Installation, KUBERNETES};
use regex::Regex;

#[test]
fn the_tour_is_true() {
    let kubectl = Installation::of(KUBERNETES).unwrap().command("kubectl");
    if !kubectl.is_file() {
        let remedy = format!(
            "{} is not built; run `cargo xtask real build`",
            kubectl.display()
        );
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{remedy}"
        );
        eprintln!("SKIPPED the tour: {remedy}");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/tour.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let mut terminal = Terminal::open(&root, &kubectl);
    let mut seen = String::new();
    let mut differences = String::new();
    for part in parts(&document) {
        match part {
            Part::Text(text) => seen.push_str(text),
            Part::Command { command, expected } => {
                let came_back = terminal.enter(command);
                if matches(&expected, &came_back) {
                    let _ = write!(seen, "$ {command}\n{expected}");
                } else {
                    let _ = write!(seen, "$ {command}\n{came_back}");
                    let _ = writeln!(
                        differences,
                        "$ {command}\n--- the tour says\n{expected}--- what came back\n{came_back}"
                    );
                }
            }
        }
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, seen).unwrap();
        return;
    }
    assert!(differences.is_empty(), "{differences}");
}

enum Part<'a> {
    Text(&'a str),
    Command { command: &'a str, expected: String },
}

/// The document in pieces: what is not a command passes as it is.
fn parts(document: &str) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut in_console = false;
    for line in document.split_inclusive('\n') {
        if line.starts_with("```") {
            in_console = line.trim_end() == "```console";
            parts.push(Part::Text(line));
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_console) {
            parts.push(Part::Command {
                command: command.trim_end(),
                expected: String::new(),
            });
        } else if let Some(Part::Command { expected, .. }) = parts.last_mut().filter(|_| in_console)
        {
            expected.push_str(line);
        } else {
            parts.push(Part::Text(line));
        }
    }
    parts
}

/// Does the output look as it was said to? Three dots stand for any lines.
fn matches(expected: &str, came_back: &str) -> bool {
    let (expected, found) = (normalized(expected), normalized(came_back));
    let mut found: &[String] = &found;
    let mut gap = false;
    for line in &expected {
        if line == "..." {
            gap = true;
            continue;
        }
        let position = match gap {
            true => found.iter().position(|candidate| candidate == line),
            false => found.first().filter(|first| *first == line).map(|_| 0),
        };
        let Some(position) = position else {
            return false;
        };
        found = &found[position + 1..];
        gap = false;
    }
    gap || found.is_empty()
}

/// Lines without what differs between two runs. Tables come back sorted by random names, so their rows are
/// compared in an order of their own.
fn normalized(text: &str) -> Vec<String> {
    let rules = [
        (r"\b[0-9a-f]{8,10}-[a-z0-9]{5}\b", "RANDOM"),
        (r"-[a-z0-9]{5}\b", "-RANDOM"),
        (
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
            "UID",
        ),
        (r"-(RANDOM|[0-9a-f]{8,10})\b", "-HASH"),
        (r"\b(\d+[smh])+\b", "AGE"),
        (r"https://127\.0\.0\.1:\d+", "URL"),
        (r"\b\d+\.\d+\.\d+\.\d+\b", "IP"),
        (r":3\d{4}/TCP", ":PORT/TCP"),
        (r"process \d+", "process PID"),
        (r"/\S+/\.local/share", "~/.local/share"),
        (r"node-\d\b", "NODE"),
        // One follows the other after two seconds, and again.
        (r"ErrImagePull|ImagePullBackOff", "PULLING"),
        (r" +", " "),
    ]
    .map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead));
    let lines = text.lines().map(|line| {
        rules
            .iter()
            .fold(line.trim_end().to_owned(), |line, (pattern, instead)| {
                pattern.replace_all(&line, *instead).into_owned()
            })
    });
    let mut lines: Vec<String> = lines.collect();
    if lines
        .first()
        .is_some_and(|first| first.starts_with("NAME "))
    {
        lines.sort();
    }
    sort_events(&mut lines);
    lines
}

/// Events of one second are told by kubectl in no order.
fn sort_events(lines: &mut [String]) {
    let is_header = |line: &String| line.starts_with(" Type Reason Age ");
    if let Some(header) = lines.iter().position(is_header) {
        let rows = &mut lines[header + 1..];
        let end = rows.iter().position(String::is_empty);
        let end = end.unwrap_or(rows.len());
        rows[..end].sort();
    }
}

/// A shell of a user who has just installed us, with a home of its own.
struct Terminal {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    home: PathBuf,
}

const PROMPT: &str = "--- that was it";

impl Terminal {
    fn open(root: &Path, kubectl: &Path) -> Terminal {
        let home = std::env::temp_dir().join(format!("steersman-tour-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_steersman"));
        let folders = [binary.parent().unwrap(), kubectl.parent().unwrap()];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = folders.map(Path::to_path_buf).into_iter();
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
        let mut shell = Command::new("sh")
            .current_dir(root)
            .env("HOME", &home)
            .env("PATH", path)
            .env_remove("KUBECONFIG")
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        writeln!(input, "exec 2>&1").unwrap();
        Terminal {
            input,
            output: BufReader::new(shell.stdout.take().unwrap()),
            shell,
            home,
        }
    }

    /// Types a command; what comes back.
    fn enter(&mut self, command: &str) -> String {
        writeln!(self.input, "{command} < /dev/null\necho '{PROMPT}'").unwrap();
        let mut came_back = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the shell ended: {came_back}");
            if line.trim_end() == PROMPT {
                return came_back;
            }
            came_back.push_str(&line);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new(env!("CARGO_BIN_EXE_steersman"))
            .args(["down", "--all"])
            .env("HOME", &self.home)
            .env_remove("XDG_DATA_HOME")
            .output();
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
