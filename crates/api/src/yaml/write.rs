//! JSON written as YAML, so that readers of YAML 1.1 and of 1.2 get back what was there.
//!
//! In blocks, lists as deep as the name that they belong to, text without quotes wherever it can be read as nothing else.
// UPSTREAM: as sigs.k8s.io/yaml prints.

use serde_json::Value;

use super::scalar::{self, Scalar};

/// One document, with a line feed at its end.
pub fn to_string(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

/// Writes a value where a line begins, or after the `- ` of an item.
fn write(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    pad(indent, text);
                }
                text.push_str(&word(name));
                text.push(':');
                write_member(value, indent, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(indent, text);
                }
                text.push_str("- ");
                write(item, indent + 2, text);
            }
        }
        Value::String(content) => write_text(content, indent, text),
        other => {
            text.push_str(&other.to_string());
            text.push('\n');
        }
    }
}

/// Writes a value behind the colon of its name.
fn write_member(value: &Value, indent: usize, text: &mut String) {
    let deeper = match value {
        Value::Object(members) if !members.is_empty() => indent + 2,
        Value::Array(items) if !items.is_empty() => indent,
        _ => {
            text.push(' ');
            // A block of text is deeper than the name that it belongs to.
            return write(value, indent + 2, text);
        }
    };
    text.push('\n');
    pad(deeper, text);
    write(value, deeper, text);
}

fn pad(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

fn write_text(content: &str, indent: usize, text: &mut String) {
    let Some(chomping) = block_chomping(content).filter(|_| indent > 0) else {
        text.push_str(&word(content));
        text.push('\n');
        return;
    };
    text.push('|');
    text.push_str(chomping);
    text.push('\n');
    for line in content.split_inclusive('\n') {
        if line != "\n" {
            pad(indent, text);
        }
        text.push_str(line);
    }
    if !content.ends_with('\n') {
        text.push('\n');
    }
}

/// What a block of lines says of its end; none for text that cannot be one.
fn block_chomping(content: &str) -> Option<&'static str> {
    // How deep a block is, its first line says: that one has to have a beginning that can be seen.
    let begins_well = !content.starts_with([' ', '\t', '\n']);
    let is_block = content.contains('\n')
        && begins_well
        && content.chars().all(|it| it == '\n' || is_printable(it));
    is_block.then(|| match content.trim_end_matches('\n').len() {
        all if all == content.len() => "-",
        but_one if but_one + 1 == content.len() => "",
        _ => "+",
    })
}

/// Text on one line: as it is, where that is read as this very text, else in quotes.
fn word(content: &str) -> String {
    match is_plain(content) {
        true => content.to_owned(),
        // Its escapes are those of JSON, and a few more.
        false => scalar::quoted(content),
    }
}

fn is_plain(content: &str) -> bool {
    const INDICATORS: &[char] = &[
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@',
        '`', ' ', '=', '<', '.',
    ];
    let is_text = matches!(Scalar::resolve(content), Ok(Scalar::Text(_)));
    is_text
        && !content.starts_with(INDICATORS)
        && !content.ends_with([' ', ':'])
        && !content.contains(": ")
        && !content.contains(" #")
        && content.chars().all(is_printable)
        && !is_date_or_base_60(content)
}

/// YAML 1.1 knows times (`2001-12-14`) and numbers to the base of 60 (`190:20:30`), which ours does not read as such.
fn is_date_or_base_60(content: &str) -> bool {
    content.starts_with(|first: char| first.is_ascii_digit())
        && content.contains(['-', ':'])
        && content
            .chars()
            .all(|it| it.is_ascii_digit() || "-:._+TtZz ".contains(it))
}

/// Can stand in a text without an escape, whatever reads it.
fn is_printable(it: char) -> bool {
    // A next line, line and paragraph separators break lines for some; a byte order mark is none inside of a text.
    !it.is_control() && !matches!(it, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: Value, expected: Expect) {
        expected.assert_eq(&to_string(&value));
    }

    #[test]
    fn lists_are_as_deep_as_their_name() {
        check(
            json!({"spec": {"containers": [{"args": ["a", ["b", {}]], "name": "web"}], "volumes": []}}),
            expect![[r#"
                spec:
                  containers:
                  - args:
                    - a
                    - - b
                      - {}
                    name: web
                  volumes: []
            "#]],
        );
    }

    #[test]
    fn what_would_be_read_as_something_else_is_in_quotes() {
        check(
            json!([
                "yes",
                "0755",
                "1_000",
                "1.5",
                "~",
                "",
                "2026-11-18T08:00:00Z",
                "190:20:30",
                "<<",
                "=",
                "- a",
                "a: b",
                "a #b",
                "nginx:1.25",
                "1.2.3",
                "10.0.0.0/8",
                "it's",
                "Grüße",
                "a\tb",
                "-",
                "*"
            ]),
            expect![[r#"
                - "yes"
                - "0755"
                - "1_000"
                - "1.5"
                - "~"
                - ""
                - "2026-11-18T08:00:00Z"
                - "190:20:30"
                - "<<"
                - "="
                - "- a"
                - "a: b"
                - "a #b"
                - nginx:1.25
                - 1.2.3
                - 10.0.0.0/8
                - it's
                - Grüße
                - "a\tb"
                - "-"
                - "*"
            "#]],
        );
    }

    #[test]
    fn lines_are_a_block() {
        check(
            json!({"one": "a\nb\n", "none": "a\n\nb", "more": "a\n\n", "odd": " a\nb", "bell": "a\n\u{7}"}),
            expect![[r#"
                bell: "a\n\u0007"
                more: |+
                  a

                none: |-
                  a

                  b
                odd: " a\nb"
                one: |
                  a
                  b
            "#]],
        );
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~\n]{0,12}",
            any::<String>(),
            "(yes|no|null|~|<<|=|-|0x1f|0o7|1e3|1_0|:|#|---|\\.\\.\\.|\\.inf)",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in values()) {
            let text = to_string(&value);
            let read = super::super::from_str::<Value>(&text);
            prop_assert_eq!(read, Ok(value), "{}", text);
        }
    }
}
