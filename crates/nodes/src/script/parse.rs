//! From a command to the statements that it is made of.

use super::words::{Token, Word, tokens};
use super::{Run, Script, Statement, Target, When};
use crate::behaviour::parse_duration;

/// A command, or a part of one, that simulated containers do not understand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: not among the commands that a simulated container understands")]
pub struct NotUnderstood(pub String);

/// How deep loops may nest.
const DEEPEST: usize = 4;

impl Script {
    /// Reads a command as a container runtime gets it: a program and its arguments.
    pub fn parse<S: AsRef<str>>(command: &[S]) -> Result<Script, NotUnderstood> {
        let words: Vec<&str> = command.iter().map(AsRef::as_ref).collect();
        match words.as_slice() {
            [shell, flag, script, ..] if is_shell(shell) && is_script_flag(flag) => {
                let tokens = tokens(script)?;
                let mut rest = tokens.as_slice();
                let statements = statements(&mut rest, DEEPEST)?;
                match rest.first() {
                    None => Ok(Script(statements)),
                    Some(token) => Err(unexpected(token)),
                }
            }
            [] => Err(NotUnderstood("an empty command".to_owned())),
            words => {
                let words: Vec<Word> = words.iter().map(|word| Word::literal(word)).collect();
                let statement = statement(&words, When::Always, Target::Stdout)?;
                Ok(Script(vec![statement]))
            }
        }
    }
}

fn is_shell(word: &str) -> bool {
    matches!(word.rsplit('/').next(), Some("sh" | "bash" | "ash"))
}

fn is_script_flag(word: &str) -> bool {
    matches!(word, "-c" | "-ec" | "-exc" | "-xc")
}

fn unexpected(token: &Token) -> NotUnderstood {
    NotUnderstood(match token {
        Token::Word(word) => word.as_literal().unwrap_or("$").to_owned(),
        Token::Then => ";".to_owned(),
        Token::And => "&&".to_owned(),
        Token::Or => "||".to_owned(),
        Token::To(Target::Stderr) => ">&2".to_owned(),
        Token::To(_) => ">".to_owned(),
    })
}

/// Statements up to the end or to a `done`, which is left.
fn statements(rest: &mut &[Token], depth: usize) -> Result<Vec<Statement>, NotUnderstood> {
    let mut found = Vec::new();
    let mut when = When::Always;
    while let Some((first, more)) = rest.split_first() {
        match first {
            Token::Then => when = When::Always,
            Token::And => when = When::Succeeded,
            Token::Or => when = When::Failed,
            Token::Word(word) if word.as_literal() == Some("done") => break,
            Token::Word(word) if word.as_literal() == Some("while") => {
                *rest = more;
                let run = endless_loop(rest, depth)?;
                found.push(Statement {
                    when,
                    to: Target::Stdout,
                    run,
                });
                continue;
            }
            Token::Word(_) | Token::To(_) => {
                let end = rest.iter().position(is_end).unwrap_or(rest.len());
                let (line, after) = rest.split_at(end);
                *rest = after;
                found.extend(line_statement(line, when)?);
                continue;
            }
        }
        *rest = more;
    }
    Ok(found)
}

fn is_end(token: &Token) -> bool {
    matches!(token, Token::Then | Token::And | Token::Or)
}

/// `while true; do …; done`, after the `while`.
fn endless_loop(rest: &mut &[Token], depth: usize) -> Result<Run, NotUnderstood> {
    let literal = |token: Option<&Token>, expected: &[&str]| match token {
        Some(Token::Word(word)) => word
            .as_literal()
            .is_some_and(|text| expected.contains(&text)),
        _ => false,
    };
    let is_endless = literal(rest.first(), &["true", ":"])
        && rest.get(1) == Some(&Token::Then)
        && literal(rest.get(2), &["do"]);
    if !is_endless || depth == 0 {
        return Err(NotUnderstood("while".to_owned()));
    }
    *rest = &rest[3..];
    let body = statements(rest, depth - 1)?;
    if !literal(rest.first(), &["done"]) {
        return Err(NotUnderstood("while".to_owned()));
    }
    *rest = &rest[1..];
    match rest.first() {
        // What the loop prints as a whole would go there.
        Some(token @ Token::To(_)) => Err(unexpected(token)),
        _ => Ok(Run::Loop(body)),
    }
}

/// One statement; none for what has no effect here.
fn line_statement(line: &[Token], when: When) -> Result<Option<Statement>, NotUnderstood> {
    let mut targets = line.iter().filter_map(|token| match token {
        Token::To(target) => Some(target.clone()),
        _ => None,
    });
    let to = targets.next().unwrap_or(Target::Stdout);
    if targets.next().is_some() {
        return Err(NotUnderstood(">".to_owned()));
    }
    let words: Vec<Word> = line
        .iter()
        .filter_map(|token| match token {
            Token::Word(word) => Some(word.clone()),
            _ => None,
        })
        .collect();
    match words.first().and_then(Word::as_literal) {
        // `> file` alone empties it.
        None if words.is_empty() => Ok(Some(Statement {
            when,
            to,
            run: Run::Status(0),
        })),
        Some("set") => Ok(None),
        // No signal is ever sent: a container that is deleted stops by itself.
        Some("trap") if !words.iter().any(is_own_end) => Ok(None),
        Some("exec") => statement(&words[1..], when, to).map(Some),
        _ => statement(&words, when, to).map(Some),
    }
}

/// What a shell sends to itself, other than signals.
fn is_own_end(word: &Word) -> bool {
    matches!(
        word.as_literal(),
        Some("0" | "EXIT" | "ERR" | "DEBUG" | "RETURN")
    )
}

fn statement(words: &[Word], when: When, to: Target) -> Result<Statement, NotUnderstood> {
    let first = words.first().cloned().unwrap_or_default();
    let is_alone = words.len() == 1;
    if first.assignment().is_some() && !is_alone {
        // `NAME=value command`: for the command alone, of which few look at their variables.
        let inner = statement(&words[1..], when, to)?;
        return match inner.run {
            Run::Environment(_) => Err(NotUnderstood(first.as_literal().unwrap_or("$").to_owned())),
            _ => Ok(inner),
        };
    }
    let run = command(words)?;
    Ok(Statement { when, to, run })
}

/// What one command does.
fn command(words: &[Word]) -> Result<Run, NotUnderstood> {
    let first = words.first().cloned().unwrap_or_default();
    if let Some((name, value)) = first.assignment() {
        return Ok(Run::Assign(name, value));
    }
    let said = first.as_literal().unwrap_or("$").to_owned();
    let not_understood = || {
        let shown: Vec<&str> = words
            .iter()
            .map(|word| word.as_literal().unwrap_or("$…"))
            .collect();
        Err(NotUnderstood(shown.join(" ")))
    };
    let name = said.rsplit('/').next().unwrap_or_default();
    let arguments = &words[1.min(words.len())..];
    let literals: Vec<&str> = arguments.iter().filter_map(Word::as_literal).collect();
    let all_literal = literals.len() == arguments.len();
    match (name, literals.as_slice()) {
        ("sleep", ["infinity" | "inf"]) | ("pause", []) => Ok(Run::Forever),
        ("tail", ["-f" | "-F", ..]) => Ok(Run::Forever),
        ("sleep", [time]) => match parse_duration(time) {
            Some(time) => Ok(Run::Sleep(time)),
            None => not_understood(),
        },
        ("true" | ":", _) => Ok(Run::Status(0)),
        ("false", _) => Ok(Run::Status(1)),
        ("exit", []) if all_literal => Ok(Run::Exit(None)),
        ("exit", [code]) => match code.parse::<i32>() {
            Ok(code) => Ok(Run::Exit(Some(code & 0xff))),
            Err(_) => not_understood(),
        },
        ("echo", ["-n", ..]) => Ok(Run::Echo {
            words: arguments[1..].to_vec(),
            newline: false,
        }),
        ("echo", ["-e", ..]) => Ok(Run::Echo {
            words: arguments[1..].to_vec(),
            newline: true,
        }),
        ("echo", _) => Ok(Run::Echo {
            words: arguments.to_vec(),
            newline: true,
        }),
        ("date", []) if all_literal => Ok(Run::Date(None)),
        ("date", ["-u"]) => Ok(Run::Date(None)),
        ("date", [format]) if format.starts_with('+') => Ok(Run::Date(arguments.first().cloned())),
        ("hostname", []) => Ok(Run::Hostname),
        ("pwd", []) => Ok(Run::WorkingDirectory),
        ("whoami", []) => Ok(Run::User),
        ("env", []) if all_literal => Ok(Run::Environment(Vec::new())),
        ("printenv", _) => Ok(Run::Environment(arguments.to_vec())),
        ("cat", [_, ..]) => Ok(Run::Cat(arguments.to_vec())),
        ("ls", _) => Ok(Run::List(
            arguments
                .iter()
                .filter(|word| !word.as_literal().is_some_and(|text| text.starts_with('-')))
                .cloned()
                .collect(),
        )),
        _ => not_understood(),
    }
}
