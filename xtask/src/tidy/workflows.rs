//! Continuous integration runs what others wrote: each action by the commit that was looked at, because a tag can move.

use anyhow::Result;

use crate::workspace;

pub(super) fn check(findings: &mut Vec<String>) -> Result<()> {
    for path in workspace::files()? {
        let name = path.display().to_string();
        if name.starts_with(".github/") {
            check_actions(&name, &workspace::read(&path)?, findings);
        }
    }
    Ok(())
}

fn check_actions(name: &str, text: &str, findings: &mut Vec<String>) {
    let lines = text.lines().map(str::trim_start);
    let steps = lines.map(|line| line.strip_prefix("- ").unwrap_or(line).trim_start());
    for action in steps.filter_map(|line| line.strip_prefix("uses:")) {
        let action = action.split('#').next().unwrap_or_default().trim();
        let commit = action.rsplit_once('@').map_or("", |(_, commit)| commit);
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_commit && !action.starts_with("./") {
            findings.push(format!(
                "{name}: `{action}` is not pinned; name the commit, and the tag in a comment behind it"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_that_can_move_are_found() {
        let text = "
            - uses: a/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
            - uses: a/checkout@v4 # 11bd71901bbe5b1630ceea73d27597364c9af683
              uses: a/cache
            - uses: ./.github/own
            - run: uses: nothing@v1
        ";
        let mut findings = Vec::new();
        check_actions("ci.yaml", text, &mut findings);
        let named = |part: &str| findings.iter().any(|finding| finding.contains(part));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(named("`a/checkout@v4`") && named("`a/cache`"));
    }
}
