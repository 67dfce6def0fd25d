//! The syntax of names, label keys and label values, with upstream's messages.
//!
//! Each `validate_*` returns what is wrong with a text, one message for each fault, and nothing if it
//! is fine. The messages name the regular expression that upstream uses, because users search for
//! them; the checks themselves are plain loops, because they run for every object that is written.

/// A label is at most this long in DNS (RFC 1035 and 1123); label keys and values took the limit over.
pub const LABEL_MAX: usize = 63;

/// A whole DNS name is at most this long (RFC 1123).
pub const SUBDOMAIN_MAX: usize = 253;

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1123_SUBDOMAIN_WITH_UNDERSCORE: &str =
    r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// A label key: an optional DNS subdomain and a slash, then a name.
pub fn validate_label_key(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            let rule = label_key_rule();
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let prefixed = subdomain_faults(prefix, too_many_bytes).into_iter();
            faults.extend(prefixed.map(|fault| format!("prefix part {fault}")));
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        faults.push(format!("name part {}", too_many_bytes(LABEL_MAX)));
    }
    if !is_label_name(name) {
        faults.push(format!("name part {}", label_key_rule()));
    }
    faults
}

/// A qualified name is what label keys are: the API uses it for resources, conditions and finalizers too.
pub fn validate_qualified_name(name: &str) -> Vec<String> {
    validate_label_key(name)
}

/// A label value: empty, or like the name of a label key.
pub fn validate_label_value(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > LABEL_MAX {
        faults.push(too_many_bytes(LABEL_MAX));
    }
    if !value.is_empty() && !is_label_name(value) {
        faults.push(rule(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// One DNS label, as namespaces and most names inside of pods must be.
pub fn validate_dns1123_label(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > LABEL_MAX {
        faults.push(too_many_characters(LABEL_MAX));
    }
    if !is_dns1123_label(name) {
        faults.push(if is_dns1123_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            rule(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                DNS1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    faults
}

/// DNS labels joined by dots, as the names of most objects must be.
pub fn validate_dns1123_subdomain(name: &str) -> Vec<String> {
    subdomain_faults(name, too_many_characters)
}

/// As [`validate_dns1123_subdomain`], with underscores but for the ends: DNS search paths have them.
pub fn validate_dns1123_subdomain_with_underscore(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        faults.push(too_many_characters(SUBDOMAIN_MAX));
    }
    let is_label = |label: &str| {
        // One underscore may come first, as in the names of services.
        let label = label.strip_prefix('_').unwrap_or(label);
        let outer = [label.chars().next(), label.chars().last()];
        !outer.contains(&Some('_')) && is_dns1123_label(&label.replace('_', "-"))
    };
    if !name.split('.').all(is_label) {
        faults.push(rule(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN_WITH_UNDERSCORE,
            &["example.com"],
        ));
    }
    faults
}

/// A DNS label that starts with a letter, as the names of services were long required to be.
pub fn validate_dns1035_label(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > LABEL_MAX {
        faults.push(too_many_characters(LABEL_MAX));
    }
    let starts_with_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !starts_with_letter || !is_dns1123_label(name) {
        faults.push(rule(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    faults
}

/// A name that can be one segment of a URL path, as the names of RBAC objects need only be.
pub fn validate_path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|part| name.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// Whether a text is a whole number in its shortest decimal form: no plus sign, no leading zeros.
pub fn is_decimal_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    match digits.as_bytes() {
        b"0" => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Quotes a text as Go's `%q` does.
pub fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\0'..' ' | '\u{7f}' => quoted.push_str(&format!("\\x{:02x}", character as u32)),
            '\u{80}'..'\u{a1}' | '\u{ad}' => {
                quoted.push_str(&format!("\\u{:04x}", character as u32));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn subdomain_faults(name: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        faults.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_dns1123_subdomain(name) {
        faults.push(rule(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    faults
}

fn is_dns1123_label(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

fn is_label_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn label_key_rule() -> String {
    rule(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        LABEL_KEY,
        &["MyName", "my.name", "123-abc"],
    )
}

fn rule(words: &str, expression: &str, examples: &[&str]) -> String {
    let mut text = format!("{words} (e.g. ");
    for (index, example) in examples.iter().enumerate() {
        let separator = if index > 0 { " or " } else { "" };
        text.push_str(&format!("{separator}'{example}', "));
    }
    text.push_str(&format!("regex used for validation is '{expression}')"));
    text
}

/// UPSTREAM: label keys and values count bytes, names count characters; both mean bytes.
fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn too_many_characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn check(validate: fn(&str) -> Vec<String>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(validate(text), Vec::<String>::new(), "{text:?} is fine");
        }
        for text in bad {
            assert!(!validate(text).is_empty(), "{text:?} has a fault");
        }
    }

    fn long(length: usize) -> &'static str {
        Box::leak("a".repeat(length).into_boxed_str())
    }

    #[test]
    fn label_keys() {
        check(
            validate_label_key,
            &[
                "simple",
                "now-with-dashes",
                "1-starts-with-num",
                "1234",
                "UpperCase",
                "a.b_c-d",
                "simple/simple",
                "now-with-dashes/simple",
                "1.2.3.4/5678",
                "example.com/Uppercase",
                long(63),
            ],
            &[
                "nospecialchars%^=@",
                "cantendwithadash-",
                "-cantstart",
                ".dot",
                "only/one/slash",
                "Example.com/abc",
                "example_com/abc",
                "example.com/",
                "/simple",
                "",
                "a b",
                long(64),
                "ä",
            ],
        );
        check(validate_qualified_name, &["example.com/x"], &["x/"]);
    }

    #[test]
    fn label_values() {
        check(
            validate_label_value,
            &["", "simple", "1234", "a.b", "A_b-C", long(63)],
            &["-x", "x-", ".", "a/b", "a b", "_x", long(64)],
        );
    }

    #[test]
    fn dns_names() {
        check(
            validate_dns1123_label,
            &["a", "0", "01", "a-1", "a--b", long(63)],
            &["", "A", "a.b", "-", "a-", "-a", "a_b", long(64)],
        );
        check(
            validate_dns1123_subdomain,
            &["a", "a.b", "0.0", "a-1.b-2", long(253)],
            &["", "A", "a..b", ".a", "a.", "a.-b", "a_b.c", long(254)],
        );
        check(
            validate_dns1123_subdomain_with_underscore,
            &["a", "_a", "_a._b", "a_b.c-d", "a__b"],
            &["", "_", "a_", "__a", "_-a", "a..b", "A", "a._", long(254)],
        );
        check(
            validate_dns1035_label,
            &["a", "ab", "a1", "a-b", long(63)],
            &["", "0", "1a", "A", "a.b", "a-", long(64)],
        );
    }

    #[test]
    fn path_segments() {
        check(
            validate_path_segment,
            &["a:b", "system:x", "", "..."],
            &[".", "..", "a/b", "a%b"],
        );
    }

    #[test]
    fn messages_are_upstreams() {
        let faults = [
            validate_label_key("/a_b-"),
            validate_label_key("a/b/c"),
            validate_label_value("-"),
            validate_dns1123_label("a.b"),
            validate_dns1123_label("A"),
            validate_dns1123_subdomain("A"),
            validate_dns1035_label("1"),
        ];
        expect![[r#"
            prefix part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            must not contain dots
            a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        "#]]
        .assert_eq(&faults.map(|faults| faults.join("; ") + "\n").concat());
    }

    #[test]
    fn lengths_are_bytes_in_labels_and_characters_in_names() {
        let bytes = |max| vec![format!("must be no more than {max} bytes")];
        let characters = |max| vec![format!("must be no more than {max} characters")];
        assert_eq!(validate_label_value(long(64)), bytes(63));
        assert_eq!(
            validate_label_key(long(64)),
            ["name part must be no more than 63 bytes"]
        );
        let prefixed = format!("{}/a", long(254));
        assert_eq!(
            validate_label_key(&prefixed),
            ["prefix part must be no more than 253 bytes"]
        );
        assert_eq!(validate_dns1123_label(long(64)), characters(63));
        assert_eq!(validate_dns1123_subdomain(long(254)), characters(253));
        assert_eq!(validate_dns1035_label(long(64)), characters(63));
    }

    #[test]
    fn decimal_integers() {
        for good in ["0", "1", "-1", "100", "-9"] {
            assert!(is_decimal_integer(good), "{good}");
        }
        for bad in ["", "-", "+1", "01", "-0", "1.0", "a", "1a", " 1"] {
            assert!(!is_decimal_integer(bad), "{bad}");
        }
    }

    #[test]
    fn quotes_as_go_does() {
        assert_eq!(go_quote("a\"\\\n\u{1}ä"), r#""a\"\\\n\x01ä""#);
    }
}
