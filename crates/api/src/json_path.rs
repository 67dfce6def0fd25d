//! Where in a JSON text an error happened, as a path that a user can follow (`spec.containers[0].name`).
//!
//! `serde_json` says line and column only. Finding the path from them takes one walk over the text when something
//! is wrong, where deserializers that keep track of it would be compiled once more for every kind there is.

/// The path of what an error is about; `.` is the whole text.
pub(crate) fn of_error(json: &[u8], error: &serde_json::Error) -> String {
    let mut walk = Walk::default();
    walk.to(&json[..offset(json, error.line(), error.column())]);
    // What a field's own rules refuse is told after the end of the object if it was the last field; what the
    // object lacks is told there, too, and is about the object.
    if error.is_data() && !error.to_string().starts_with("missing field") {
        walk.open.extend(walk.closed.take());
    }
    walk.path()
}

/// Columns count the bytes of a line that were read.
fn offset(json: &[u8], line: usize, column: usize) -> usize {
    let before = json.split_inclusive(|byte| *byte == b'\n');
    let start: usize = before.take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    start.saturating_add(column).min(json.len())
}

/// A walk over a text up to some place in it.
#[derive(Default)]
struct Walk<'a> {
    /// What is open at this place, from the outside to the inside.
    open: Vec<Step<'a>>,
    /// The last step inside what was closed just before this place.
    closed: Option<Step<'a>>,
}

enum Step<'a> {
    /// Inside an object, at this field; none before its first key and after a comma.
    Field(Option<&'a [u8]>),
    Item(usize),
}

impl<'a> Walk<'a> {
    fn to(&mut self, json: &'a [u8]) {
        let mut at = 0;
        while let Some(&byte) = json.get(at) {
            at += 1;
            match byte {
                b'{' => self.open.push(Step::Field(None)),
                b'[' => self.open.push(Step::Item(0)),
                b'}' | b']' => {
                    self.closed = self.open.pop();
                    continue;
                }
                b',' => match self.open.last_mut() {
                    Some(Step::Item(index)) => *index += 1,
                    Some(step) => *step = Step::Field(None),
                    None => {}
                },
                b'"' => {
                    let text = string(&json[at..]);
                    at += text.len() + 1;
                    if let Some(Step::Field(field @ None)) = self.open.last_mut() {
                        *field = Some(text);
                    }
                }
                _ if byte.is_ascii_whitespace() => continue,
                _ => {}
            }
            self.closed = None;
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.open {
            match step {
                Step::Field(Some(name)) => {
                    let dot = if path.is_empty() { "" } else { "." };
                    path.push_str(dot);
                    path.push_str(&String::from_utf8_lossy(name));
                }
                Step::Field(None) => {}
                Step::Item(index) => path.push_str(&format!("[{index}]")),
            }
        }
        if path.is_empty() {
            path.push('.');
        }
        path
    }
}

/// A string up to its closing quotation mark, or to the end of the text.
fn string(json: &[u8]) -> &[u8] {
    let mut escaped = false;
    let end = json.iter().position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => *byte == b'"',
    });
    &json[..end.unwrap_or(json.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Deserializer, de};

    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "decoding is what is tested")]
    struct Outer {
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        map: std::collections::BTreeMap<String, u8>,
        #[serde(default, deserialize_with = "even")]
        even: u8,
    }

    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "decoding is what is tested")]
    struct Inner {
        name: String,
        #[serde(default, deserialize_with = "even")]
        even: u8,
    }

    fn even<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
        match u8::deserialize(deserializer)? {
            odd if odd % 2 == 1 => Err(de::Error::custom("must be even")),
            even => Ok(even),
        }
    }

    fn check(json: &str, expected: &str) {
        let error = serde_json::from_str::<Outer>(json).expect_err(json);
        assert_eq!(of_error(json.as_bytes(), &error), expected, "{error}");
    }

    #[test]
    fn a_path_leads_to_what_is_wrong() {
        for (json, expected) in [
            (r#"{"list":"none"}"#, "list"),
            (r#"{"list":[{"name":"a"},{"name":1}]}"#, "list[1].name"),
            (r#"{"list":[{"name":"a"},{"name":{}}]}"#, "list[1].name"),
            ("{\"list\": [\n  {\"name\": \"a\"},\n  {}\n]}", "list[1]"),
            (r#"{"list":[{"even":2}],"even":4}"#, "list[0]"),
            (r#"{"list":[{"name":"a","even":3}]}"#, "list[0].even"),
            (r#"{"list":[{"name":"a","even":3 } ]}"#, "list[0].even"),
            (r#"{"even":3,"list":[]}"#, "even"),
            (r#"{"map":{"a.b/c":1,"d\"e":"x"}}"#, r#"map.d\"e"#),
            (r#"{"map":{"a":256}}"#, "map.a"),
            (r#"{"list":[{"name":"a"}"#, "list[0]"),
            (r#"{"map":{"a":1,}}"#, "map"),
            ("7", "."),
            ("", "."),
            ("{} x", "."),
        ] {
            check(json, expected);
        }
    }
}
