//! What Go's `encoding/json` says of text that is no JSON: people search for these words. It is asked only once our own
//! parser has refused the text.

/// UPSTREAM: the deepest that Go's scanner goes.
const MAX_DEPTH: usize = 10_000;

/// The fault that Go finds first, or none if it finds none.
pub(crate) fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner {
        state: State::Value,
        open: Vec::new(),
    };
    for byte in text {
        if let Err(fault) = scanner.step(*byte) {
            return Some(fault);
        }
    }
    // A number ends with whatever follows it.
    let _ = scanner.step(b' ');
    (scanner.state != State::End).then(|| "unexpected end of JSON input".to_owned())
}

/// What is wrong with a body's type: `wanted` is the Go type that it is read into.
pub(crate) fn mismatch(found: &serde_json::Value, wanted: &str) -> String {
    let found = crate::schema::json_type(found);
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

struct Scanner {
    state: State,
    open: Vec<Open>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Before the colon, and behind it.
    Key,
    Member,
    List,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    /// Behind a value that is complete.
    Behind,
    Text,
    Escape,
    /// So many digits of a `\u` are still to come.
    Hex(u8),
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// The letters that are still to come, and the whole word.
    Word(&'static str, &'static str),
    End,
}

impl Scanner {
    fn step(&mut self, byte: u8) -> Result<(), String> {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match self.state {
            State::Value | State::ValueOrEnd | State::Key | State::KeyOrEnd | State::End
                if is_blank =>
            {
                return Ok(());
            }
            State::ValueOrEnd if byte == b']' => return self.close(),
            State::Value | State::ValueOrEnd => return self.begin(byte),
            State::KeyOrEnd if byte == b'}' => return self.close(),
            State::Key | State::KeyOrEnd if byte == b'"' => State::Text,
            State::Key | State::KeyOrEnd => {
                return wrong(byte, "looking for beginning of object key string");
            }
            State::Text => match byte {
                b'"' => State::Behind,
                b'\\' => State::Escape,
                0..0x20 => return wrong(byte, "in string literal"),
                _ => State::Text,
            },
            State::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => State::Text,
                b'u' => State::Hex(4),
                _ => return wrong(byte, "in string escape code"),
            },
            State::Hex(_) if !byte.is_ascii_hexdigit() => {
                return wrong(byte, "in \\u hexadecimal character escape");
            }
            State::Hex(1) => State::Text,
            State::Hex(left) => State::Hex(left - 1),
            State::Minus => match byte {
                b'0' => State::Zero,
                b'1'..=b'9' => State::Digits,
                _ => return wrong(byte, "in numeric literal"),
            },
            State::Digits if byte.is_ascii_digit() => State::Digits,
            State::Zero | State::Digits if byte == b'.' => State::Point,
            State::Zero | State::Digits | State::Fraction if matches!(byte, b'e' | b'E') => {
                State::Exponent
            }
            State::Point if !byte.is_ascii_digit() => {
                return wrong(byte, "after decimal point in numeric literal");
            }
            State::Point => State::Fraction,
            State::Fraction if byte.is_ascii_digit() => State::Fraction,
            State::Exponent if matches!(byte, b'+' | b'-') => State::ExponentSign,
            State::Exponent | State::ExponentSign if !byte.is_ascii_digit() => {
                return wrong(byte, "in exponent of numeric literal");
            }
            State::Exponent | State::ExponentSign => State::ExponentDigits,
            State::ExponentDigits if byte.is_ascii_digit() => State::ExponentDigits,
            State::Word(rest, word) => {
                let (next, rest) = rest.split_at(1);
                if next.as_bytes() != [byte] {
                    return wrong(byte, &format!("in literal {word} (expecting '{next}')"));
                }
                match rest {
                    "" => State::Behind,
                    rest => State::Word(rest, word),
                }
            }
            State::Zero
            | State::Digits
            | State::Fraction
            | State::ExponentDigits
            | State::Behind => return self.follow(byte, is_blank),
            State::End => return wrong(byte, "after top-level value"),
        };
        Ok(())
    }

    fn begin(&mut self, byte: u8) -> Result<(), String> {
        self.state = match byte {
            b'{' => {
                self.open.push(Open::Key);
                State::KeyOrEnd
            }
            b'[' => {
                self.open.push(Open::List);
                State::ValueOrEnd
            }
            b'"' => State::Text,
            b'-' => State::Minus,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Digits,
            b't' => State::Word("rue", "true"),
            b'f' => State::Word("alse", "false"),
            b'n' => State::Word("ull", "null"),
            _ => return wrong(byte, "looking for beginning of value"),
        };
        match self.open.len() > MAX_DEPTH {
            true => Err("exceeded max depth".to_owned()),
            false => Ok(()),
        }
    }

    /// What comes behind a value.
    fn follow(&mut self, byte: u8, is_blank: bool) -> Result<(), String> {
        let Some(open) = self.open.last_mut() else {
            self.state = State::End;
            return self.step(byte);
        };
        if is_blank {
            self.state = State::Behind;
            return Ok(());
        }
        self.state = match (*open, byte) {
            (Open::Key, b':') => {
                *open = Open::Member;
                State::Value
            }
            (Open::Member, b',') => {
                *open = Open::Key;
                State::Key
            }
            (Open::List, b',') => State::Value,
            (Open::Member, b'}') | (Open::List, b']') => return self.close(),
            (Open::Key, _) => return wrong(byte, "after object key"),
            (Open::Member, _) => return wrong(byte, "after object key:value pair"),
            (Open::List, _) => return wrong(byte, "after array element"),
        };
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        self.open.pop();
        self.state = match self.open.is_empty() {
            true => State::End,
            false => State::Behind,
        };
        Ok(())
    }
}

fn wrong(byte: u8, place: &str) -> Result<(), String> {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = api::syntax::go_quote(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    };
    Err(format!("invalid character {shown} {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_go_says() {
        for (text, fault) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            (r#"{"a": "b"#, "unexpected end of JSON input"),
            (
                "nonsense",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{} trailing", "invalid character 't' after top-level value"),
            ("1 2", "invalid character '2' after top-level value"),
            (
                "{a: 1}",
                "invalid character 'a' looking for beginning of object key string",
            ),
            (
                r#"{"a": 1,}"#,
                "invalid character '}' looking for beginning of object key string",
            ),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (
                r#"{"a": 1 "b"}"#,
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (
                r#""\u12g4""#,
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("-a", "invalid character 'a' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                "1e!",
                "invalid character '!' in exponent of numeric literal",
            ),
            ("01", "invalid character '1' after top-level value"),
            (
                "'a'",
                "invalid character '\\'' looking for beginning of value",
            ),
            ("ä", "invalid character 'Ã' looking for beginning of value"),
        ] {
            assert_eq!(
                syntax_error(text.as_bytes()).as_deref(),
                Some(fault),
                "{text}"
            );
        }
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(
            syntax_error(deep.as_bytes()).as_deref(),
            Some("exceeded max depth")
        );
    }

    proptest::proptest! {
        #[test]
        fn finds_faults_exactly_where_there_are_some(text in "[\\[\\]{}:,\"a0-9.eE+truefalsn\\\\ -]{0,40}") {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            proptest::prop_assert_eq!(syntax_error(text.as_bytes()).is_none(), is_json);
        }
    }
}
