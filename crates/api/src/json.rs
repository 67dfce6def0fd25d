//! JSON that passes through us untouched.
//!
//! [`Node`] keeps key order, number text and the escapes of strings, so an edit changes just the
//! edited place. [`Node::to_go_canonical`] prints what Go's `encoding/json` prints for a map:
//! sorted keys and `<`, `>`, `&` escaped, which is what `ControllerRevision.data` must look like to
//! survive a swap between Go's controller manager and ours.

use std::borrow::Cow;
use std::fmt;

/// A JSON value whose scalars are kept as the text they came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// `null`, `true`, `false` or a number.
    Literal(Box<str>),
    /// A string, with its quotes and escapes.
    Text(Box<str>),
    Array(Vec<Node>),
    Object(Vec<(Box<str>, Node)>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {at}: {problem}")]
pub struct JsonError {
    pub at: usize,
    pub problem: &'static str,
}

/// Deeper nesting than this is refused: no Kubernetes object comes near it, and recursion is finite.
const DEPTH_MAX: usize = 200;

impl Node {
    pub fn parse(text: &str) -> Result<Node, JsonError> {
        let mut parser = Parser { text, at: 0 };
        let node = parser.value(0)?;
        parser.space();
        if parser.at < text.len() {
            return parser.fail("text after the value");
        }
        Ok(node)
    }

    pub fn object() -> Node {
        Node::Object(Vec::new())
    }

    /// A string value.
    pub fn text(value: &str) -> Node {
        let mut quoted = String::with_capacity(value.len() + 2);
        write_go_string(&mut quoted, value);
        Node::Text(quoted.into())
    }

    pub fn number(value: i64) -> Node {
        Node::Literal(value.to_string().into())
    }

    pub fn bool(value: bool) -> Node {
        Node::Literal(if value { "true" } else { "false" }.into())
    }

    /// Anything that serialises; for small values that we make ourselves.
    pub fn of(value: &impl serde::Serialize) -> Node {
        let text = serde_json::to_string(value).expect("our own values serialise");
        Node::parse(&text).expect("serde_json prints valid JSON")
    }

    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        match self {
            Node::Text(quoted) => Some(unquote(quoted)),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Node::Literal(text) if **text == *"null")
    }

    pub fn get(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, name| match node {
            Node::Object(fields) => fields
                .iter()
                .find(|(key, _)| **key == **name)
                .map(|(_, value)| value),
            _ => None,
        })
    }

    /// The value at `path`; objects that lie on the way are made, other values are replaced by one.
    pub fn entry(&mut self, path: &[&str]) -> &mut Node {
        let Some((name, rest)) = path.split_first() else {
            return self;
        };
        if !matches!(self, Node::Object(_)) {
            *self = Node::object();
        }
        let Node::Object(fields) = self else {
            unreachable!("made an object above");
        };
        let at = match fields.iter().position(|(key, _)| **key == **name) {
            Some(at) => at,
            None => {
                fields.push(((*name).into(), Node::Literal("null".into())));
                fields.len() - 1
            }
        };
        fields[at].1.entry(rest)
    }

    pub fn set(&mut self, path: &[&str], value: Node) {
        *self.entry(path) = value;
    }

    /// Removes the field at `path`, if it is there.
    pub fn remove(&mut self, path: &[&str]) -> Option<Node> {
        let (last, parents) = path.split_last()?;
        let mut node = self;
        for name in parents {
            let Node::Object(fields) = node else {
                return None;
            };
            node = &mut fields.iter_mut().find(|(key, _)| **key == **name)?.1;
        }
        let Node::Object(fields) = node else {
            return None;
        };
        let at = fields.iter().position(|(key, _)| **key == **last)?;
        Some(fields.remove(at).1)
    }

    /// What Go prints for the same value decoded into maps: keys sorted, HTML characters escaped.
    pub fn to_go_canonical(&self) -> String {
        let mut out = String::new();
        self.write_go(&mut out);
        out
    }

    fn write_go(&self, out: &mut String) {
        match self {
            Node::Literal(text) => out.push_str(text),
            Node::Text(quoted) => write_go_string(out, &unquote(quoted)),
            Node::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_go(out);
                }
                out.push(']');
            }
            Node::Object(fields) => {
                let mut sorted: Vec<_> = fields.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                out.push('{');
                for (index, (key, value)) in sorted.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_go_string(out, key);
                    out.push(':');
                    value.write_go(out);
                }
                out.push('}');
            }
        }
    }

    /// Drops fields that are `null`, everywhere: Go leaves them out or writes them, by version.
    pub fn without_nulls(mut self) -> Node {
        self.drop_nulls();
        self
    }

    fn drop_nulls(&mut self) {
        match self {
            Node::Object(fields) => {
                fields.retain(|(_, value)| !value.is_null());
                fields.iter_mut().for_each(|(_, value)| value.drop_nulls());
            }
            Node::Array(items) => items.iter_mut().for_each(Node::drop_nulls),
            Node::Literal(_) | Node::Text(_) => {}
        }
    }
}

/// Compact, in the order and with the text in which it came.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Literal(text) | Node::Text(text) => f.write_str(text),
            Node::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
            Node::Object(fields) => {
                f.write_str("{")?;
                for (index, (key, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    let mut quoted = String::with_capacity(key.len() + 2);
                    write_go_string(&mut quoted, key);
                    write!(f, "{comma}{quoted}:{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// A string as Go's `json.Marshal` writes it.
pub fn write_go_string(out: &mut String, text: &str) {
    use fmt::Write;
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(character)).expect("writing to a string");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

fn unquote(quoted: &str) -> Cow<'_, str> {
    let inner = &quoted[1..quoted.len() - 1];
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    // The parser has checked the escapes; a lone surrogate becomes U+FFFD, as in Go.
    Cow::Owned(serde_json::from_str(quoted).unwrap_or_else(|_| lossy(inner)))
}

fn lossy(inner: &str) -> String {
    let mut text = String::new();
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let length = if rest[at + 1..].starts_with('u') {
            6
        } else {
            2
        };
        let escape = format!("\"{}\"", &rest[at..at + length]);
        match serde_json::from_str::<String>(&escape) {
            Ok(character) => text.push_str(&character),
            Err(_) => text.push('\u{fffd}'),
        }
        rest = &rest[at + length..];
    }
    text.push_str(rest);
    text
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn fail<T>(&self, problem: &'static str) -> Result<T, JsonError> {
        Err(JsonError {
            at: self.at,
            problem,
        })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Node, JsonError> {
        if depth > DEPTH_MAX {
            return self.fail("nested too deeply");
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Node::Text(self.string()?.into())),
            Some(_) => self.literal(),
            None => self.fail("unexpected end"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node, JsonError> {
        self.at += 1;
        let mut fields: Vec<(Box<str>, Node)> = Vec::new();
        if self.take(b'}') {
            return Ok(Node::Object(fields));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fail("expected a field name");
            }
            let key: Box<str> = unquote(self.string()?).into();
            if !self.take(b':') {
                return self.fail("expected a colon");
            }
            let value = self.value(depth + 1)?;
            match fields.iter_mut().find(|(held, _)| *held == key) {
                Some(field) => field.1 = value,
                None => fields.push((key, value)),
            }
            if self.take(b'}') {
                return Ok(Node::Object(fields));
            }
            if !self.take(b',') {
                return self.fail("expected a comma or a closing brace");
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Node::Array(items));
            }
            if !self.take(b',') {
                return self.fail("expected a comma or a closing bracket");
            }
        }
    }

    /// The string at the cursor with its quotes; escapes are checked.
    fn string(&mut self) -> Result<&str, JsonError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return self.fail("unterminated string"),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..=0x1f) => return self.fail("control character in a string"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.text[start..self.at])
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let bytes = &self.text.as_bytes()[self.at + 1..];
        match bytes.first() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') if bytes.len() > 4 && bytes[1..5].iter().all(u8::is_ascii_hexdigit) => {
                self.at += 6
            }
            _ => return self.fail("bad escape in a string"),
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<Node, JsonError> {
        let start = self.at;
        while matches!(
            self.peek(),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'-' | b'.')
        ) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let valid = matches!(text, "null" | "true" | "false") || is_number(text);
        if !valid {
            self.at = start;
            return self.fail("expected a value");
        }
        Ok(Node::Literal(text.into()))
    }
}

fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_order_numbers_and_escapes() {
        let text = r#"{"z":1.50,"a":[1e3,-0,"\u00e4\/x"],"m":{"k":null}}"#;
        assert_eq!(Node::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn edits_touch_only_their_place() {
        let mut node = Node::parse(r#"{"spec":{"b":1,"a":2}}"#).unwrap();
        node.set(&["metadata", "labels", "x"], Node::text("y"));
        node.set(&["spec", "b"], Node::number(7));
        assert_eq!(node.remove(&["spec", "a"]), Some(Node::number(2)));
        assert_eq!(node.remove(&["spec", "a"]), None);
        assert_eq!(
            node.to_string(),
            r#"{"spec":{"b":7},"metadata":{"labels":{"x":"y"}}}"#
        );
    }

    #[test]
    fn prints_as_go_does() {
        let node = Node::parse(r#"{"b":"<a>&\u2028\b","a":{"d":1,"c":"é"}}"#).unwrap();
        assert_eq!(
            node.to_go_canonical(),
            r#"{"a":{"c":"é","d":1},"b":"\u003ca\u003e\u0026\u2028\b"}"#
        );
    }

    #[test]
    fn refuses_what_is_not_json() {
        for text in [
            "", "{", "[1,]", "{\"a\"}", "01", "1.", "nul", "\"\\x\"", "\"a", "1 2", "+1", "{'a':1}",
        ] {
            assert!(Node::parse(text).is_err(), "{text}");
        }
        assert!(Node::parse(&"[".repeat(100_000)).is_err());
        assert_eq!(
            Node::parse("\"\\ud800x\"").unwrap().as_str().unwrap(),
            "\u{fffd}x"
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = Node::parse(&text);
        }

        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{},:"a0-9\\. eu-]{0,24}"#) {
            let ours = Node::parse(&text);
            let theirs: Result<serde_json::Value, _> = serde_json::from_str(&text);
            if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
                let back: serde_json::Value = serde_json::from_str(&ours.to_go_canonical()).unwrap();
                prop_assert_eq!(&back, theirs);
            }
            prop_assert!(ours.is_ok() || theirs.is_err(), "{}", text);
        }
    }
}
