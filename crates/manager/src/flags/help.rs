//! `--help`: the table, in upstream's sections.

use std::fmt::Write;

use super::{Flag, Kind, Table};

/// What a program says beside its flags.
#[derive(Clone, Debug, Default)]
pub struct Help<'a> {
    pub program: &'a str,
    pub introduction: &'a str,
    /// What is filled into the table's texts: `{name}` and its text.
    pub facts: Vec<(&'static str, String)>,
    /// The last paragraph; "" for none.
    pub closing: String,
}

/// The help text, wrapped to `width` columns.
pub fn help(table: &Table, about: &Help<'_>, width: usize) -> String {
    let mut text = String::new();
    wrap(&mut text, about.introduction, 0, width);
    // Writing to a String cannot fail, here and below.
    let _ = write!(text, "\nUsage:\n  {} [flags]\n", about.program);
    let mut section = "";
    for flag in table.iter().filter(|flag| flag.deprecated.is_none()) {
        if flag.section != section {
            section = flag.section;
            let _ = write!(text, "\n{} flags:\n\n", capitalized(section));
        }
        describe(&mut text, flag, &about.facts, width);
    }
    if !about.closing.is_empty() {
        text.push('\n');
        wrap(&mut text, &about.closing, 0, width);
    }
    text
}

/// Columns before the text of a flag: enough to tell it from the flag's name.
const INDENT: usize = 16;

fn describe(text: &mut String, flag: &Flag, facts: &[(&str, String)], width: usize) {
    let shorthand = match flag.name {
        "help" => "-h, ",
        "v" => "-v, ",
        _ => "    ",
    };
    let _ = write!(text, "  {shorthand}--{}", flag.name);
    match flag.kind {
        Kind::Bool => {}
        Kind::Version => text.push_str(" version[=true]"),
        kind => {
            let _ = write!(text, " {}", kind.type_name());
        }
    }
    let silent = matches!(flag.default, "" | "false" | "0" | "0s" | "[]");
    match flag.kind {
        _ if silent => {}
        Kind::Text => {
            let _ = write!(text, "   (default {:?})", flag.default);
        }
        Kind::List => {
            let _ = write!(text, "   (default [{}])", flag.default);
        }
        _ => {
            let _ = write!(text, "   (default {})", flag.default);
        }
    }
    text.push('\n');
    let mut filled = flag.help.to_owned();
    for (name, fact) in facts {
        filled = filled.replace(&format!("{{{name}}}"), fact);
    }
    for paragraph in filled.split("\\n") {
        wrap(text, paragraph, INDENT, width);
    }
    if let Some(reason) = flag.no_effect {
        wrap(text, &format!("No effect here: {reason}"), INDENT, width);
    }
    if let Some(reason) = flag.refused {
        wrap(text, &format!("Refused here: {reason}"), INDENT, width);
    }
}

/// Appends `paragraph`, indented, with no line longer than `width` unless a single word is.
fn wrap(text: &mut String, paragraph: &str, indent: usize, width: usize) {
    for line in paragraph.lines() {
        let mut column = 0;
        for word in line.split_whitespace() {
            // A list with an item a line, as of the feature gates, stays so.
            let breaks = !line.starts_with("kube:") || !line.contains('|');
            if breaks && column > 0 && indent + column + 1 + word.len() > width {
                text.push('\n');
                column = 0;
            }
            if column == 0 {
                text.extend(std::iter::repeat_n(' ', indent));
            } else {
                text.push(' ');
                column += 1;
            }
            text.push_str(word);
            column += word.len();
        }
        text.push('\n');
    }
}

fn capitalized(section: &str) -> String {
    let mut characters = section.chars();
    characters
        .next()
        .map(|first| first.to_ascii_uppercase().to_string())
        .unwrap_or_default()
        + characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn shows_every_visible_flag_in_its_section() {
        let filled = [
            ("gates", "A=true|false (ALPHA - default=false)\nB"),
            ("controllers", ""),
            ("disabled", ""),
            ("emulation", ""),
            ("compatibility", ""),
            ("ciphers", ""),
        ];
        let about = Help {
            facts: filled.map(|(name, text)| (name, text.to_owned())).to_vec(),
            ..Help::default()
        };
        let text = help(table(), &about, 100);
        for flag in table() {
            let shown = text.contains(&format!("--{}\n", flag.name))
                || text.contains(&format!("--{} ", flag.name));
            assert_eq!(shown, flag.deprecated.is_none(), "--{}", flag.name);
        }
        assert!(text.contains("\nSecure serving flags:\n"));
        assert!(text.contains("  -v, --v Level\n"));
        assert!(text.contains("--leader-elect   (default true)\n"));
        assert!(text.contains("--cluster-name string   (default \"kubernetes\")\n"));
        assert!(text.contains("No effect here: In-tree cloud providers no longer exist."));
        assert!(!text.contains('{'), "a placeholder was not filled in");
    }

    #[test]
    fn lines_fit() {
        let text = help(table(), &Help::default(), 80);
        let too_long = |line: &&str| {
            line.len() > 80 && line.starts_with("        ") && line.trim().contains(' ')
        };
        assert_eq!(text.lines().find(too_long), None);
    }
}
