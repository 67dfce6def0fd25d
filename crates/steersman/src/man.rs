//! The man pages, one for each command, from what `--help` says.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Command;

/// Writes `steersman.1`, `steersman-up.1` and so on into a folder.
pub(crate) fn write(command: Command, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    for (name, text) in pages(command)? {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The name and the text of each page.
fn pages(command: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    // The widths of terminals do not matter to man, which wraps words itself.
    let mut command = command.term_width(0);
    command.build();
    collect(&command, &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut page).context("cannot render a man page")?;
    pages.push((man.get_filename(), page));
    let shown = |one: &&Command| !one.is_hide_set() && one.get_name() != "help";
    for subcommand in command.get_subcommands().filter(shown) {
        collect(subcommand, pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_the_first_has_the_exit_codes() {
        let pages = pages(crate::cli::command()).unwrap();
        let text = |name: &str| {
            let page = pages.iter().find(|(known, _)| known == name);
            let page = page.unwrap_or_else(|| panic!("there is no page {name}"));
            String::from_utf8(page.1.clone()).unwrap()
        };
        assert!(text("steersman.1").contains("Exit codes"));
        assert!(text("steersman-up.1").contains("simulate"));
        assert!(text("steersman-node-drain.1").contains("disruption budgets"));
        assert!(!pages.iter().any(|(name, _)| name.contains("-man.")));
    }
}
