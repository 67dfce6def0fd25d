//! The guide for those who know upstream's code: what it points at is there, in both languages.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::workspace;

const GUIDES: [&str; 2] = ["docs/from-upstream.md", "docs/from-upstream.zh.md"];

pub(crate) fn check(findings: &mut Vec<String>) -> Result<()> {
    let mut all = Vec::new();
    for guide in GUIDES {
        let text = workspace::read(guide.as_ref())?;
        let links = links(&text);
        for (path, name) in &links {
            let source = workspace::read(path.as_ref()).unwrap_or_default();
            if !declares(&source, name) {
                findings.push(format!(
                    "{guide}: there is no `{name}` in {path}; point at what does it now"
                ));
            }
        }
        all.push(links);
    }
    if all[0] != all[1] {
        let differing: Vec<&(String, String)> = all[0].symmetric_difference(&all[1]).collect();
        findings.push(format!(
            "{} and {} point at different things: {differing:?}",
            GUIDES[0], GUIDES[1]
        ));
    }
    Ok(())
}

/// The places in the code that a guide links to: a file and what is declared in it.
fn links(text: &str) -> BTreeSet<(String, String)> {
    let ends = text
        .split("](../")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    let places = ends.filter_map(|(target, _)| target.split_once('#'));
    places
        .map(|(path, name)| (path.to_owned(), name.to_owned()))
        .collect()
}

fn declares(source: &str, name: &str) -> bool {
    const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    KEYWORDS.iter().any(|keyword| {
        let declaration = format!("{keyword} {name}");
        let mut ends = source
            .match_indices(&declaration)
            .map(|(at, found)| at + found.len());
        ends.any(|end| {
            let next = source[end..].chars().next();
            !next.is_some_and(|char| char.is_alphanumeric() || char == '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_and_declarations() {
        let text = "| x | [`run`](../crates/a.rs#run), [ADR](../docs/x.md) |";
        let expected = BTreeSet::from([("crates/a.rs".to_owned(), "run".to_owned())]);
        assert_eq!(links(text), expected);
        assert!(declares("pub async fn run<T>()", "run"));
        assert!(!declares("fn run_all()", "run"));
    }
}
