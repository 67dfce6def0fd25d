//! Text to tokens, by CEL's grammar.

use crate::source::Issues;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    Int,
    Uint,
    Float,
    Text,
    Bytes,
    Name,
    /// `` `a-name` ``
    Quoted,
    True,
    False,
    Null,
    In,
    /// Punctuation, by its text.
    Mark(&'static str),
    End,
}

#[derive(Debug, Clone, Copy)]
pub struct Lexeme {
    pub token: Token,
    pub begin: u32,
    pub end: u32,
}

/// Longest first, so that `<=` is not `<` and `=`.
const MARKS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

pub fn lex(text: &[char], issues: &mut Issues) -> Vec<Lexeme> {
    let mut lexer = Lexer { text, at: 0 };
    let mut lexemes = Vec::new();
    loop {
        lexer.skip_blank();
        let begin = lexer.at;
        if begin >= text.len() {
            break;
        }
        match lexer.next() {
            Some(token) => lexemes.push(Lexeme {
                token,
                begin: begin as u32,
                end: lexer.at as u32,
            }),
            None => {
                let bad: String = text[begin..lexer.at].iter().collect();
                let message = format!("Syntax error: token recognition error at: '{bad}'");
                issues.report(begin as u32, message);
            }
        }
    }
    let end = text.len() as u32;
    lexemes.push(Lexeme {
        token: Token::End,
        begin: end,
        end,
    });
    lexemes
}

struct Lexer<'a> {
    text: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_blank(&mut self) {
        loop {
            match self.peek(0) {
                Some('\t' | ' ' | '\r' | '\n' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// The token here. `None` leaves `at` behind what cannot be one.
    fn next(&mut self) -> Option<Token> {
        let first = self.peek(0)?;
        if first.is_ascii_digit()
            || first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())
        {
            return Some(self.number());
        }
        let begin = self.at;
        match self.quoted_text() {
            // What prefixes a text that does not end is a name by itself.
            Some(None) if first.is_ascii_alphabetic() => self.at = begin,
            Some(token) => return token,
            None => {}
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Some(self.name());
        }
        if first == '`' {
            return self.quoted_name();
        }
        for mark in MARKS {
            if mark
                .chars()
                .enumerate()
                .all(|(i, c)| self.peek(i) == Some(c))
            {
                self.at += mark.len();
                return Some(Token::Mark(mark));
            }
        }
        self.at += 1;
        // What might have become a longer token is named with the character that it failed at.
        if matches!(first, '=' | '&' | '|') && self.at < self.text.len() {
            self.at += 1;
        }
        None
    }

    fn number(&mut self) -> Token {
        if self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            self.skip(|c| c.is_ascii_hexdigit());
            return self.unsigned(Token::Int);
        }
        self.skip(|c| c.is_ascii_digit());
        let mut token = Token::Int;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            self.skip(|c| c.is_ascii_digit());
            token = Token::Float;
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                self.at += 1 + sign;
                self.skip(|c| c.is_ascii_digit());
                token = Token::Float;
            }
        }
        self.unsigned(token)
    }

    fn unsigned(&mut self, token: Token) -> Token {
        if token == Token::Int && matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Token::Uint;
        }
        token
    }

    fn skip(&mut self, of: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&of) {
            self.at += 1;
        }
    }

    fn name(&mut self) -> Token {
        let begin = self.at;
        self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
        let name: String = self.text[begin..self.at].iter().collect();
        match &*name {
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            "in" => Token::In,
            _ => Token::Name,
        }
    }

    fn quoted_name(&mut self) -> Option<Token> {
        let begin = self.at;
        self.at += 1;
        self.skip(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
        if self.peek(0) == Some('`') && self.at > begin + 1 {
            self.at += 1;
            return Some(Token::Quoted);
        }
        None
    }

    /// A string or bytes, if one begins here; `Some(None)` if it does not end as it must.
    fn quoted_text(&mut self) -> Option<Option<Token>> {
        let mut ahead = 0;
        let bytes = matches!(self.peek(0), Some('b' | 'B'));
        ahead += usize::from(bytes);
        let raw = matches!(self.peek(ahead), Some('r' | 'R'));
        ahead += usize::from(raw);
        let quote = self.peek(ahead).filter(|c| *c == '"' || *c == '\'')?;
        let token = if bytes { Token::Bytes } else { Token::Text };
        self.at += ahead;
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let ended = if triple && self.triple(quote, raw) {
            true
        } else {
            self.single(quote, raw)
        };
        Some(ended.then_some(token))
    }

    fn single(&mut self, quote: char, raw: bool) -> bool {
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\n' | '\r' => return false,
                '\\' if !raw && !self.escape() => return false,
                c if c == quote => return true,
                _ => {}
            }
        }
        false
    }

    fn triple(&mut self, quote: char, raw: bool) -> bool {
        let begin = self.at;
        self.at += 3;
        while let Some(c) = self.peek(0) {
            if c == quote && self.peek(1) == Some(quote) && self.peek(2) == Some(quote) {
                self.at += 3;
                return true;
            }
            self.at += 1;
            if c == '\\' && !raw && !self.escape() {
                break;
            }
        }
        self.at = begin;
        false
    }

    /// What follows a backslash.
    fn escape(&mut self) -> bool {
        let Some(kind) = self.peek(0) else {
            return false;
        };
        self.at += 1;
        let (digits, octal) = match kind {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => return true,
            'x' | 'X' => (2, false),
            'u' => (4, false),
            'U' => (8, false),
            '0'..='3' => (2, true),
            _ => return false,
        };
        for _ in 0..digits {
            match self.peek(0) {
                Some(c) if octal && ('0'..='7').contains(&c) || !octal && c.is_ascii_hexdigit() => {
                    self.at += 1;
                }
                _ => return false,
            }
        }
        true
    }
}
