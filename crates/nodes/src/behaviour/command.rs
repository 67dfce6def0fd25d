//! What a container's command says about how long it runs and how it ends.
//!
//! No process is ever started. But manifests in examples and tests are full of `sleep 5`, `exit 1` and
//! `false`, and whoever writes them expects just that.

use std::time::Duration;

use api::Istr;

use super::{RunFor, parse_duration};

/// How long the command runs; `None` when it is not one of the few that we understand.
pub(super) fn read(command: &[Istr]) -> Option<RunFor> {
    understand(command).map(|(run, _)| run)
}

/// The exit code of a command that [`read`] understands.
pub(super) fn exit_code(command: &[Istr]) -> i32 {
    understand(command).map_or(0, |(_, code)| code)
}

pub(super) fn understand(command: &[Istr]) -> Option<(RunFor, i32)> {
    let words: Vec<&str> = command.iter().map(Istr::as_str).collect();
    match words.as_slice() {
        [shell, flag, script, ..] if is_shell(shell) && is_script_flag(flag) => statements(script),
        [] => None,
        words => statement(words).map(|step| match step {
            Step::Forever => (RunFor::Forever, 0),
            Step::Done { after, code, .. } => (RunFor::Time(after), code),
        }),
    }
}

enum Step {
    Forever,
    Done {
        after: Duration,
        code: i32,
        ends_script: bool,
    },
}

/// A script of statements that are all understood.
fn statements(script: &str) -> Option<(RunFor, i32)> {
    let mut total = Duration::ZERO;
    let mut last_code = 0;
    let lines = script.split([';', '\n']).flat_map(|line| line.split("&&"));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        match statement(&words)? {
            Step::Forever => return Some((RunFor::Forever, 0)),
            Step::Done {
                after,
                code,
                ends_script,
            } => {
                total += after;
                last_code = code;
                if ends_script {
                    break;
                }
            }
        }
    }
    Some((RunFor::Time(total), last_code))
}

fn statement(words: &[&str]) -> Option<Step> {
    let done = |after, code, ends_script| Step::Done {
        after,
        code,
        ends_script,
    };
    let name = words.first()?.rsplit('/').next()?;
    match (name, &words[1..]) {
        ("sleep", ["infinity" | "inf"]) | ("pause", []) | ("tail", ["-f", ..]) => {
            Some(Step::Forever)
        }
        ("sleep", [time]) => Some(done(parse_duration(time)?, 0, false)),
        ("true" | "date" | "hostname" | "echo", _) => Some(done(Duration::ZERO, 0, false)),
        ("false", []) => Some(done(Duration::ZERO, 1, false)),
        ("exit", []) => Some(done(Duration::ZERO, 0, true)),
        ("exit", [code]) => Some(done(Duration::ZERO, code.parse().ok()?, true)),
        _ => None,
    }
}

fn is_shell(word: &str) -> bool {
    matches!(word.rsplit('/').next(), Some("sh" | "bash" | "ash"))
}

fn is_script_flag(word: &str) -> bool {
    matches!(word, "-c" | "-ec" | "-exc" | "-xc")
}
