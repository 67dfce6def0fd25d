//! Words of a shell: quotes, variables, and the one or two commands that are put in their place.

use std::iter::Peekable;
use std::str::Chars;

use api::MicroTime;

use super::run::LONGEST;
use super::{Surroundings, Target, parse::NotUnderstood};

/// A word, made of parts that are put together when it is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Variable(String),
    Date,
    Hostname,
}

/// What a script is cut into.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(Word),
    /// `;` and the end of a line.
    Then,
    And,
    Or,
    To(Target),
}

impl Word {
    pub(super) fn literal(text: &str) -> Word {
        Word(vec![Part::Text(text.to_owned())])
    }

    /// The word itself, where nothing has to be put into it.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(super) fn expand(&self, around: &Surroundings, at: MicroTime) -> String {
        let mut expanded = String::new();
        for part in &self.0 {
            let dated;
            let text = match part {
                Part::Text(text) => text,
                Part::Variable(name) => around.environment.get(name).map_or("", String::as_str),
                Part::Date => {
                    dated = date(at);
                    &dated
                }
                Part::Hostname => &around.hostname,
            };
            if expanded.len() + text.len() > LONGEST {
                break;
            }
            expanded.push_str(text);
        }
        expanded
    }

    /// `NAME=value`, cut in two.
    pub(super) fn assignment(&self) -> Option<(String, Word)> {
        let [Part::Text(first), rest @ ..] = self.0.as_slice() else {
            return None;
        };
        let (name, value) = first.split_once('=')?;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(is_name_char);
        let mut parts = vec![Part::Text(value.to_owned())];
        parts.extend_from_slice(rest);
        is_name.then(|| (name.to_owned(), Word(parts)))
    }

    fn push(&mut self, char: char) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => text.push(char),
            _ => self.0.push(Part::Text(char.to_string())),
        }
    }
}

/// As `date` prints it.
pub(super) fn date(at: MicroTime) -> String {
    // "Sun, 06 Nov 1994 08:49:37 GMT" has all that is needed, in another order.
    let http = at.time().to_http_date();
    let parts: Vec<&str> = http
        .split([' ', ','])
        .filter(|one| !one.is_empty())
        .collect();
    match parts.as_slice() {
        [weekday, day, month, year, time, _] => {
            let day = day.strip_prefix('0').unwrap_or(day);
            format!("{weekday} {month} {day:>2} {time} UTC {year}")
        }
        _ => http,
    }
}

fn is_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Cuts a script into tokens.
pub(super) fn tokens(script: &str) -> Result<Vec<Token>, NotUnderstood> {
    let mut found = Vec::new();
    let mut chars = script.chars().peekable();
    while let Some(&char) = chars.peek() {
        match char {
            ' ' | '\t' | '\r' => drop(chars.next()),
            '\n' | ';' => {
                chars.next();
                found.push(Token::Then);
            }
            '#' => while chars.next_if(|char| *char != '\n').is_some() {},
            '&' | '|' | '<' | '(' | ')' | '>' => found.push(operator(&mut chars)?),
            _ => {
                let word = word(&mut chars)?;
                match word.as_literal() {
                    // `1>&2` is `>&2`.
                    Some("1") if chars.peek() == Some(&'>') => {}
                    Some(other @ ("0" | "2")) if chars.peek() == Some(&'>') => {
                        return Err(NotUnderstood(format!("{other}>")));
                    }
                    _ => found.push(Token::Word(word)),
                }
            }
        }
    }
    Ok(found)
}

fn operator(chars: &mut Peekable<Chars<'_>>) -> Result<Token, NotUnderstood> {
    let rest: String = chars.clone().take(3).collect();
    let (token, length) = match rest.as_str() {
        text if text.starts_with("&&") => (Token::And, 2),
        text if text.starts_with("||") => (Token::Or, 2),
        ">&2" => (Token::To(Target::Stderr), 3),
        text if text.starts_with('>') => return to_file(chars).map(Token::To),
        text => {
            let first: String = text.chars().take(1).collect();
            return Err(NotUnderstood(first));
        }
    };
    chars.by_ref().take(length).for_each(drop);
    Ok(token)
}

/// `> file` and `>> file`.
fn to_file(chars: &mut Peekable<Chars<'_>>) -> Result<Target, NotUnderstood> {
    chars.next();
    let append = chars.next_if_eq(&'>').is_some();
    while chars.next_if(|char| matches!(char, ' ' | '\t')).is_some() {}
    let path = word(chars)?;
    Ok(match path.as_literal() {
        Some("") => return Err(NotUnderstood(">".to_owned())),
        Some("/dev/stdout" | "/proc/1/fd/1" | "/proc/self/fd/1") => Target::Stdout,
        Some("/dev/stderr" | "/proc/1/fd/2" | "/proc/self/fd/2") => Target::Stderr,
        Some("/dev/null") => Target::Nowhere,
        _ => Target::File { path, append },
    })
}

fn word(chars: &mut Peekable<Chars<'_>>) -> Result<Word, NotUnderstood> {
    let mut word = Word::default();
    while let Some(&char) = chars.peek() {
        match char {
            ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
            '\'' => {
                chars.next();
                word.0.push(Part::Text(
                    chars.by_ref().take_while(|char| *char != '\'').collect(),
                ));
            }
            '"' => {
                chars.next();
                // An empty pair of quotes is a word too.
                word.0.push(Part::Text(String::new()));
                while let Some(&char) = chars.peek() {
                    match char {
                        '"' => break,
                        '$' => dollar(chars, &mut word)?,
                        '`' => return Err(NotUnderstood("`".to_owned())),
                        '\\' => {
                            chars.next();
                            match chars.next() {
                                Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                                Some(other) => {
                                    word.push('\\');
                                    word.push(other);
                                }
                                None => word.push('\\'),
                            }
                        }
                        _ => word.push(chars.next().unwrap_or_default()),
                    }
                }
                chars.next();
            }
            '$' => dollar(chars, &mut word)?,
            '`' => return Err(NotUnderstood("`".to_owned())),
            '\\' => {
                chars.next();
                word.push(chars.next().unwrap_or('\\'));
            }
            _ => word.push(chars.next().unwrap_or_default()),
        }
    }
    // Adjacent texts are one, so that a word without variables is a literal.
    let mut merged: Vec<Part> = Vec::new();
    for part in word.0 {
        match (merged.last_mut(), part) {
            (Some(Part::Text(held)), Part::Text(more)) => held.push_str(&more),
            (_, part) => merged.push(part),
        }
    }
    Ok(Word(merged))
}

fn dollar(chars: &mut Peekable<Chars<'_>>, word: &mut Word) -> Result<(), NotUnderstood> {
    chars.next();
    let part = match chars.peek().copied() {
        Some('(') => {
            let inner = until(chars, ')');
            match inner.trim_start_matches('(').trim() {
                "date" => Part::Date,
                "hostname" => Part::Hostname,
                other => return Err(NotUnderstood(format!("$({other})"))),
            }
        }
        Some('{') => {
            let name = until(chars, '}').trim_start_matches('{').to_owned();
            match !name.is_empty() && name.chars().all(is_name_char) {
                true => Part::Variable(name),
                false => return Err(NotUnderstood(format!("${{{name}}}"))),
            }
        }
        Some(char) if char.is_ascii_alphabetic() || char == '_' => {
            let mut name = String::new();
            while let Some(char) = chars.next_if(|char| is_name_char(*char)) {
                name.push(char);
            }
            Part::Variable(name)
        }
        Some(other @ ('$' | '?' | '!' | '@' | '*' | '#' | '0'..='9')) => {
            return Err(NotUnderstood(format!("${other}")));
        }
        _ => Part::Text("$".to_owned()),
    };
    word.0.push(part);
    Ok(())
}

fn until(chars: &mut Peekable<Chars<'_>>, end: char) -> String {
    chars.take_while(|char| *char != end).collect()
}
