//! `cargo xtask tidy`: the rules of the house that no compiler and no lint checks.

mod arrows;
mod from_upstream;
mod glossary;
mod sources;
mod workflows;

use anyhow::{Result, bail};

use crate::{COMMANDS, workspace};

pub(crate) fn run(_: &[String]) -> Result<()> {
    let mut findings = Vec::new();
    arrows::check(&mut findings)?;
    sources::check(&mut findings)?;
    from_upstream::check(&mut findings)?;
    workflows::check(&mut findings)?;
    check_that_commands_are_documented(&mut findings);
    if findings.is_empty() {
        println!("tidy");
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!(
        "{} findings of tidy; each line above says what to do",
        findings.len()
    )
}

/// A newcomer learns the commands from CONTRIBUTING.md: it must name them all.
fn check_that_commands_are_documented(findings: &mut Vec<String>) {
    const GUIDE: &str = "CONTRIBUTING.md";
    let Ok(guide) = workspace::read(GUIDE.as_ref()) else {
        findings.push(format!(
            "{GUIDE} is missing: write how to set up, the daily loop and the commands"
        ));
        return;
    };
    for command in &COMMANDS {
        if !guide.contains(&format!("cargo xtask {}", command.name)) {
            findings.push(format!(
                "{GUIDE} does not mention `cargo xtask {}`: add it",
                command.name
            ));
        }
    }
}
