//! Regular expressions by Go's rules: linear, without look-around, with ASCII classes.

use regex::{Regex, RegexBuilder};

/// The biggest program that a pattern may become.
const PROGRAM_MAX: usize = 1 << 20;
/// How deep groups may nest.
const NEST_MAX: u32 = 200;

/// Compiles a pattern; the error is in Go's words where it is a common one.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    if let Some(why) = repeats_too_often(pattern) {
        return Err(format!("error parsing regexp: {why}"));
    }
    let built = RegexBuilder::new(&translate(pattern))
        .size_limit(PROGRAM_MAX)
        .nest_limit(NEST_MAX)
        .build();
    built.map_err(|_| format!("error parsing regexp: {}", complaint(pattern)))
}

/// A pattern of Go's as one for the `regex` crate: `\d`, `\s` and `\w` know ASCII alone, `\Q…\E` quotes, and a brace
/// that begins no repetition is a brace.
pub fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let Some(next) = chars.next() else {
                    out.push('\\');
                    break;
                };
                let class = match next {
                    'd' => "0-9",
                    's' => "\\t\\n\\x0C\\r ",
                    'w' => "0-9A-Za-z_",
                    'D' => "^0-9",
                    'S' => "^\\t\\n\\x0C\\r ",
                    'W' => "^0-9A-Za-z_",
                    'Q' if !in_class => {
                        quote_until_end(&mut chars, &mut out);
                        continue;
                    }
                    'b' | 'B' if !in_class => {
                        out.push_str(if next == 'b' {
                            "(?-u:\\b)"
                        } else {
                            "(?-u:\\B)"
                        });
                        continue;
                    }
                    // Beginnings and ends of words in Rust.
                    '<' | '>' => {
                        out.push(next);
                        continue;
                    }
                    'p' | 'P' | 'x' if chars.as_str().starts_with('{') => {
                        out.push('\\');
                        out.push(next);
                        for inner in chars.by_ref() {
                            out.push(inner);
                            if inner == '}' {
                                break;
                            }
                        }
                        continue;
                    }
                    other => {
                        out.push('\\');
                        out.push(other);
                        continue;
                    }
                };
                out.push('[');
                out.push_str(class);
                out.push(']');
            }
            '[' if in_class && !chars.as_str().starts_with(':') => out.push_str("\\["),
            '[' if in_class => {
                // `[:alpha:]` is copied as it is.
                out.push('[');
                for inner in chars.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                if chars.as_str().starts_with('^') {
                    chars.next();
                    out.push('^');
                }
                if chars.as_str().starts_with(']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Rust has set operations that Go has not.
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && chars.as_str().starts_with('-') => out.push_str("\\-"),
            '{' if !in_class && repetition(chars.as_str()).is_none() => out.push_str("\\{"),
            '{' if !in_class => {
                // Copied whole, so that its end is not taken for a brace of its own.
                out.push('{');
                for inner in chars.by_ref() {
                    out.push(inner);
                    if inner == '}' {
                        break;
                    }
                }
            }
            '}' if !in_class => out.push_str("\\}"),
            c => out.push(c),
        }
    }
    out
}

/// The first repetition that counts further than Go does, in its words.
pub fn repeats_too_often(pattern: &str) -> Option<String> {
    /// The most that Go allows.
    const REPEAT_MAX: u64 = 1000;
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '\\']) {
        let found = &rest[at..];
        // What is escaped is no repetition, nor is the brace of `\p{L}`.
        let skipped = match found.strip_prefix('\\').map(|after| after.chars().next()) {
            Some(next) => 1 + next.map_or(0, char::len_utf8) + usize::from(next == Some('p')),
            None => 1,
        };
        if skipped == 1 && repetition(&found[1..]).is_some_and(|count| count > REPEAT_MAX) {
            let end = found.find('}').unwrap_or(found.len() - 1);
            return Some(format!("invalid repeat count: `{}`", &found[..=end]));
        }
        rest = found.get(skipped..).unwrap_or_default();
    }
    None
}

/// The largest count of a repetition, given what follows its brace; `None` if it is none.
fn repetition(rest: &str) -> Option<u64> {
    let (inner, _) = rest.split_once('}')?;
    let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(least) || !(most.is_empty() || is_number(most)) {
        return None;
    }
    let count = |text: &str| text.parse().unwrap_or(u64::MAX);
    Some(count(least).max(if most.is_empty() { 0 } else { count(most) }))
}

fn quote_until_end(chars: &mut std::str::Chars<'_>, out: &mut String) {
    let rest = chars.as_str();
    let end = rest.find("\\E");
    let quoted = &rest[..end.unwrap_or(rest.len())];
    out.push_str(&regex::escape(quoted));
    let skipped = quoted.chars().count() + if end.is_some() { 2 } else { 0 };
    for _ in 0..skipped {
        chars.next();
    }
}

/// What Go would say of a pattern that is wrong.
pub fn complaint(pattern: &str) -> String {
    let mut depth = 0i32;
    let mut chars = pattern.chars();
    let mut in_class = false;
    let mut last_repeat = None;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                match chars.next() {
                    None => return "trailing backslash at end of expression: ``".to_owned(),
                    Some(next)
                        if next.is_ascii_alphanumeric()
                            && !"abBdDfnrsStvwWxzACEpPQ01234567".contains(next) =>
                    {
                        return format!("invalid escape sequence: `\\{next}`");
                    }
                    _ => {}
                }
                last_repeat = None;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => {
                let rest = chars.as_str();
                for look in ["?=", "?!", "?<=", "?<!"] {
                    if rest.starts_with(look) {
                        return format!("invalid or unsupported Perl syntax: `({look}`");
                    }
                }
                depth += 1;
                last_repeat = None;
            }
            ')' => {
                depth -= 1;
                if depth < 0 {
                    return format!("unexpected ): `{pattern}`");
                }
                last_repeat = None;
            }
            '*' | '+' => {
                if let Some(before) = last_repeat {
                    return format!("invalid nested repetition operator: `{before}{c}`");
                }
                last_repeat = Some(c);
            }
            _ => last_repeat = None,
        }
    }
    if depth > 0 {
        return format!("missing closing ): `{pattern}`");
    }
    if in_class {
        let at = pattern.rfind('[').unwrap_or(0);
        return format!("missing closing ]: `{}`", &pattern[at..]);
    }
    match pattern.chars().next() {
        Some(c @ ('*' | '+' | '?')) => format!("missing argument to repetition operator: `{c}`"),
        _ => format!("expression too large or invalid: `{pattern}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn classes_are_ascii_and_quotes_are_kept() {
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w-]+$", "a_b-c", true),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^\w+$", "ä", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[a&&b]+$", "&", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "]", false),
            (r"^\{a\}{x}$", "{a}{x}", true),
            (r"^{[a-z]{1,2}}$", "{ab}", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^\<a\>$", "<a>", true),
            (r"^\PC*$", "ab ä", true),
            (r"^\PC*$", "a\u{7}", false),
            (r"^\p{L}+$", "äß", true),
            (r"^\p{Greek}+$", "αβ", true),
            (r"^\p{Greek}+$", "ab", false),
            (r"^[\p{Lu}\d]+$", "Ä1", true),
        ] {
            let regex = compile(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert_eq!(regex.is_match(text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn patterns_that_would_be_huge_are_refused() {
        let expected = "error parsing regexp: invalid repeat count: `{1001}`";
        assert_eq!(compile("a{1001}").unwrap_err(), expected);
        assert!(compile(r"\{1001}a{1000}\p{L}ä").is_ok());
        assert!(compile("((a{1000}){1000}){1000}").is_err());
        assert!(compile(&"(".repeat(100_000)).is_err());
        let expected = "error parsing regexp: missing closing ): `(`";
        assert_eq!(compile("(").unwrap_err(), expected);
    }
}
