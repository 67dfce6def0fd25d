//! Names of properties as names in expressions: what CEL cannot say is spelt out between underscores.

/// Words that mean a value or an operator.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Words that the language keeps for itself without a meaning.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn is_word(name: &str) -> bool {
    KEYWORDS.contains(&name) || RESERVED.contains(&name)
}

/// Whether expressions can use a name as it is.
pub fn is_identifier(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.starts_with(|letter: char| plain(letter) && !letter.is_ascii_digit())
        && name.chars().all(plain)
        && !is_word(name)
}

/// The name by which expressions select a property; `None` for names that they cannot reach.
pub fn escape(property: &str) -> Option<String> {
    let mut bytes = property.bytes();
    let first = bytes.next()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if first.is_ascii_digit()
        || !property
            .bytes()
            .all(|byte| plain(byte) || b"-./".contains(&byte))
    {
        return None;
    }
    if is_word(property) {
        return Some(format!("__{property}__"));
    }
    let mut escaped = String::with_capacity(property.len());
    let mut rest = property;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c => escaped.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(escaped)
}

/// The property behind a name.
pub fn unescape(name: &str) -> Option<String> {
    if let Some(word) = name
        .strip_prefix("__")
        .and_then(|name| name.strip_suffix("__"))
        && is_word(word)
    {
        return Some(word.to_owned());
    }
    let mut property = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("__") {
        property.push_str(&rest[..at]);
        let spelt = [
            ("__underscores__", "__"),
            ("__dot__", "."),
            ("__dash__", "-"),
            ("__slash__", "/"),
        ];
        let (spelling, means) = spelt
            .into_iter()
            .find(|(spelling, _)| rest[at..].starts_with(spelling))?;
        property.push_str(means);
        rest = &rest[at + spelling.len()..];
    }
    property.push_str(rest);
    Some(property)
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn escaping_is_undone_by_unescaping() {
        let pairs = [
            ("a", Some("a")),
            ("a.b", Some("a__dot__b")),
            ("a-b/c", Some("a__dash__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("namespace", Some("__namespace__")),
            ("1a", None),
            ("a b", None),
            ("", None),
            ("ä", None),
        ];
        for (property, name) in pairs {
            assert_eq!(escape(property).as_deref(), name, "{property}");
            if let Some(name) = name {
                assert_eq!(unescape(name).as_deref(), Some(property), "{name}");
            }
        }
        assert_eq!(unescape("a__x__b"), None);
    }
}
