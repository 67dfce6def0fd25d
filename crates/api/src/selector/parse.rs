//! The string form of label selectors: `environment=production,tier notin (cache,web),!canary`.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError};
use crate::Istr;
use crate::syntax::{go_quote, validate_label_key};

/// Reads all requirements, in the order in which they were written.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser {
        tokens: Tokens { text, position: 0 }.collect(),
        position: 0,
    };
    let mut requirements = Vec::new();
    loop {
        let token = parser.peek();
        match token.as_value() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Symbol("!") => {}
            other => return other.unexpected("!, identifier, or 'end of string'"),
        }
        let requirement = parser
            .requirement()
            .map_err(|error| SelectorError::Requirement(Box::new(error)))?;
        requirements.push(requirement);
        match parser.next().as_value() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => match parser.peek().as_value() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return other.unexpected("identifier after ','"),
            },
            other => return other.unexpected("',' or 'end of string'"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// `in` or `notin`: an operator after a key, a word anywhere else.
    Keyword(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    /// What the token is where a key or a value is expected.
    fn as_value(self) -> Token<'a> {
        match self {
            Token::Keyword(word) => Token::Word(word),
            other => other,
        }
    }

    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Keyword(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }

    fn unexpected<T>(self, expected: &'static str) -> Result<T, SelectorError> {
        Err(SelectorError::Unexpected {
            found: self.text().to_owned(),
            expected,
        })
    }
}

/// The lexer. It works on bytes: all that it looks for is ASCII, so it never cuts a character.
struct Tokens<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.text[self.position..].trim_start_matches([' ', '\t', '\r', '\n']);
        let start = self.text.len() - rest.len();
        let first = rest.chars().next()?;
        let token = if is_symbol(first) {
            let length = if rest.starts_with("==") || rest.starts_with("!=") {
                2
            } else {
                1
            };
            Token::Symbol(&rest[..length])
        } else {
            let end = rest
                .find(|c| is_symbol(c) || matches!(c, ' ' | '\t' | '\r' | '\n'))
                .unwrap_or(rest.len());
            match &rest[..end] {
                keyword @ ("in" | "notin") => Token::Keyword(keyword),
                word => Token::Word(word),
            }
        };
        self.position = start + token.text().len();
        Some(token)
    }
}

fn is_symbol(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens
            .get(self.position)
            .copied()
            .unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.next();
        }
        let key = match self.next().as_value() {
            Token::Word(key) => key,
            other => return other.unexpected("identifier"),
        };
        let faults = validate_label_key(key);
        if !faults.is_empty() {
            // UPSTREAM: the path is missing here, and prints like this.
            let message = format!(
                "<nil>: Invalid value: {}: {}",
                go_quote(key),
                faults.join("; ")
            );
            return Err(SelectorError::Invalid(vec![message]));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, []);
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Requirement::new(key, Operator::Exists, []);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        let values: Vec<Istr> = values.into_iter().map(Istr::from).collect();
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        Ok(match self.next() {
            Token::Keyword("in") => Operator::In,
            Token::Keyword("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => return other.unexpected("in, notin, =, ==, !=, gt, lt"),
        })
    }

    /// The value of `=` and its like; it may be left out.
    fn exact_value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok("");
        }
        match self.next().as_value() {
            Token::Word(value) => Ok(value),
            other => other.unexpected("identifier"),
        }
    }

    /// The parenthesised list of `in` and `notin`; values in it may be empty: `(,a)`, `()`.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, SelectorError> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(SelectorError::NoParenthesis {
                found: open.text().to_owned(),
            });
        }
        match self.peek().as_value() {
            Token::Word(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.next();
                return Ok(BTreeSet::from([""]));
            }
            other => return other.unexpected("',', ')' or identifier"),
        }
        let mut values = BTreeSet::new();
        loop {
            match self.next().as_value() {
                Token::Word(value) => {
                    values.insert(value);
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => break,
                        other => return other.as_value().unexpected("',' or ')'"),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.insert("");
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            values.insert("");
                            break;
                        }
                        Token::Symbol(",") => {
                            values.insert("");
                        }
                        _ => {}
                    }
                }
                other => return other.unexpected("',', or identifier"),
            }
        }
        self.next();
        Ok(values)
    }
}
