//! `--help`: the table, in upstream's sections.

use std::fmt::Write;

use super::{Flag, Kind, table};

/// What the help says about this build, filled into the table's texts.
#[derive(Clone, Debug, Default)]
pub struct HelpFacts {
    pub controllers: String,
    pub disabled: String,
    pub not_built: String,
    pub gates: String,
    pub emulation: String,
    pub compatibility: String,
    pub ciphers: String,
}

/// The help text, wrapped to `width` columns.
pub fn help(program: &str, facts: &HelpFacts, width: usize) -> String {
    let mut text = String::new();
    wrap(&mut text, INTRODUCTION, 0, width);
    // Writing to a String cannot fail, here and below.
    let _ = write!(text, "\nUsage:\n  {program} [flags]\n");
    let mut section = "";
    for flag in table().iter().filter(|flag| flag.deprecated.is_none()) {
        if flag.section != section {
            section = flag.section;
            let _ = write!(text, "\n{} flags:\n\n", capitalized(section));
        }
        describe(&mut text, flag, facts, width);
    }
    if !facts.not_built.is_empty() {
        text.push('\n');
        wrap(
            &mut text,
            &format!(
                "Controllers that this build does not have yet: {}",
                facts.not_built
            ),
            0,
            width,
        );
    }
    text
}

const INTRODUCTION: &str = "Steersman's controller manager runs the control loops that turn the state of a Kubernetes \
    cluster into the state its objects ask for. It takes the place of kube-controller-manager: same controllers, \
    same flags, same lease.";

/// Columns before the text of a flag: enough to tell it from the flag's name.
const INDENT: usize = 16;

fn describe(text: &mut String, flag: &Flag, facts: &HelpFacts, width: usize) {
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
    let filled = flag
        .help
        .replace("{controllers}", &facts.controllers)
        .replace("{disabled}", &facts.disabled)
        .replace("{gates}", &facts.gates)
        .replace("{emulation}", &facts.emulation)
        .replace("{compatibility}", &facts.compatibility)
        .replace("{ciphers}", &facts.ciphers);
    for paragraph in filled.split("\\n") {
        wrap(text, paragraph, INDENT, width);
    }
    if let Some(reason) = flag.no_effect {
        wrap(text, &format!("No effect here: {reason}"), INDENT, width);
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
    use super::*;

    #[test]
    fn shows_every_visible_flag_in_its_section() {
        let facts = HelpFacts {
            gates: "A=true|false (ALPHA - default=false)\nB".into(),
            ..HelpFacts::default()
        };
        let text = help("kube-controller-manager", &facts, 100);
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
        let text = help("kube-controller-manager", &HelpFacts::default(), 80);
        let too_long = |line: &&str| {
            line.len() > 80 && line.starts_with("        ") && line.trim().contains(' ')
        };
        assert_eq!(text.lines().find(too_long), None);
    }
}
