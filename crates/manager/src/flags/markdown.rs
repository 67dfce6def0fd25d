//! The flags as a page of documentation, made from the table so that it cannot be out of date.

use std::fmt::Write;

use super::{Table, table};

/// `docs/flags.md`.
pub fn markdown() -> String {
    page(INTRODUCTION, table())
}

/// A page on the flags of a table.
pub fn page(introduction: &str, table: &Table) -> String {
    let mut page = String::from(introduction);
    let mut section = "";
    // Writing to a String cannot fail, here and below.
    for flag in table {
        if flag.section != section {
            section = flag.section;
            let _ = write!(
                page,
                "\n## {section}\n\n| flag | type | default | |\n|---|---|---|---|\n"
            );
        }
        let kind = match flag.kind.type_name() {
            "" => "bool",
            kind => kind,
        };
        let default = match flag.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let mut text = flag
            .help
            .split("\\n")
            .next()
            .unwrap_or_default()
            .replace('|', "\\|");
        if let Some(reason) = flag.no_effect {
            let _ = write!(text, " *No effect here: {reason}*");
        }
        if let Some(reason) = flag.refused {
            let _ = write!(text, " *Refused here: {reason}*");
        }
        if let Some(reason) = flag.deprecated {
            let _ = write!(text, " *Deprecated: {reason}.*");
        }
        let _ = writeln!(
            page,
            "| `--{}` | {} | {default} | {text} |",
            flag.name,
            kind.replace('|', "\\|")
        );
    }
    page
}

const INTRODUCTION: &str = "\
# Flags of `steersman controller-manager`

Names, types and defaults are those of kube-controller-manager 1.36. `-` and `_` are the same in names. Durations are written as \
in Go (`30s`, `1m30s`), lists with commas; a list given twice is joined. Made from the table of flags by a test: run it with \
`UPDATE_EXPECT=1` after a change.
";

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    #[test]
    fn the_page_is_up_to_date() {
        expect_file!["../../../../docs/flags.md"].assert_eq(&super::markdown());
    }
}
