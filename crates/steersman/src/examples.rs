//! Every example of the help and of the documents is typed: as far as the command line goes, it must be understood.

use std::path::{Path, PathBuf};

use clap::Command;

/// The arguments of a line that calls us, as a shell would hand them over, up to a pipe or a redirection.
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.split_once(" #").map_or(line, |(line, _)| line);
    // What comes before a pipe is another program's.
    let line = &line[line.find("steersman ")?..];
    let mut words = vec![String::new()];
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ' ') => words.push(String::new()),
            (_, character) => words.last_mut()?.push(character),
        }
    }
    let ends = |word: &String| matches!(word.as_str(), "|" | ">" | "&&" | ";" | "&" | "2>&1");
    let mut words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    if let Some(end) = words.iter().position(ends) {
        words.truncate(end);
    }
    Some(words)
}

/// Why it is not understood, if it is not.
fn refusal(line: &str) -> Option<String> {
    let words = arguments(line)?;
    let parsed = crate::cli::command().try_get_matches_from(words);
    // Help and versions are answers.
    let error = parsed.err().filter(clap::Error::use_stderr)?;
    Some(format!("{line}\n  {error}"))
}

fn examples_of(command: &Command, found: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string);
    let lines = help.unwrap_or_default();
    let calls = lines.lines().filter(|line| {
        let line = line.trim_start();
        line.starts_with("steersman ") || line.contains("| steersman ")
    });
    found.extend(calls.map(str::to_owned));
    for subcommand in command.get_subcommands() {
        examples_of(subcommand, found);
    }
}

#[test]
fn examples_of_the_help_are_understood() {
    let mut found = Vec::new();
    examples_of(&crate::cli::command(), &mut found);
    assert!(
        found.len() >= 20,
        "just {} examples were found",
        found.len()
    );
    let refused: Vec<String> = found.iter().filter_map(|line| refusal(line)).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = std::fs::read_dir(root.join("docs")).unwrap();
    let pages = listed.map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    pages.chain([root.join("README.md")]).collect()
}

#[test]
fn commands_in_the_documents_are_understood() {
    let mut typed = 0;
    let mut refused = Vec::new();
    for page in documents() {
        let text = std::fs::read_to_string(&page).unwrap();
        let mut is_code = false;
        for line in text.lines() {
            if let Some(kind) = line.trim_start().strip_prefix("```") {
                is_code = !is_code && matches!(kind, "sh" | "console" | "yaml");
                continue;
            }
            let call = line.trim_start().trim_start_matches("- run: ");
            let call = call.strip_prefix("$ ").unwrap_or(call);
            if is_code && call.starts_with("steersman ") {
                typed += 1;
                refused.extend(refusal(call).map(|why| format!("{}: {why}", page.display())));
            }
        }
    }
    assert!(typed >= 15, "just {typed} commands were found");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn every_document_is_in_the_index() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let index = std::fs::read_to_string(docs.join("README.md")).unwrap();
    for page in documents() {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(
            index.contains(&format!("]({name})")) || name == "README.md",
            "{name}"
        );
    }
    for link in index.split("](").skip(1) {
        let link = link.split(')').next().unwrap();
        assert!(docs.join(link).exists(), "{link}");
    }
}

#[test]
fn a_line_is_taken_apart_as_a_shell_does() {
    let check = |line: &str, expected: &str| {
        assert_eq!(arguments(line).unwrap().join("|"), expected);
    };
    check(
        "kustomize build . | steersman preview -f - > a.svg",
        "steersman|preview|-f|-",
    );
    check(
        "steersman apiserver --controllers '*'   # all",
        "steersman|apiserver|--controllers|*",
    );
    assert!(refusal("steersman up --nodes many").is_some());
    assert!(refusal("steersman up --help").is_none());
}
