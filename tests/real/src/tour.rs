//! A tour with kubectl: the same commands against two servers must print the same.
//!
//! A tour file holds manifests, written to a folder, and commands, one line each: the arguments of
//! kubectl. `|| true` is not needed: what a command exits with is compared, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tour {
    #[expect(dead_code, reason = "for whoever reads the file")]
    about: String,
    /// Name and text of each manifest.
    files: std::collections::BTreeMap<String, String>,
    pub commands: Vec<String>,
}

impl Tour {
    pub fn read(path: &Path) -> Result<Tour> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(serde_yaml_ng::from_str(&text)?)
    }

    /// Runs all commands in a folder of their own and returns what each said, normalised.
    pub fn run(
        &self,
        kubectl: &Path,
        kubeconfig: &Path,
        folder: &Path,
        namespace: &str,
    ) -> Result<Vec<String>> {
        fs::create_dir_all(folder)?;
        for (name, text) in &self.files {
            fs::write(folder.join(name), text)?;
        }
        let run = |command: &String| {
            let arguments = words(command);
            let ran = Command::new(kubectl)
                .arg("--kubeconfig")
                .arg(kubeconfig)
                .args(["--namespace", namespace])
                .args(&arguments)
                .current_dir(folder)
                // The cache of discovery and a kubectl's own configuration stay out of the user's.
                .env("HOME", folder)
                .env("KUBECTL_EXTERNAL_DIFF", "diff -u")
                .output()
                .with_context(|| format!("cannot run {}", kubectl.display()))?;
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&ran.stdout),
                String::from_utf8_lossy(&ran.stderr)
            );
            Ok(format!(
                "exit {}\n{}",
                ran.status.code().unwrap_or(-1),
                normal(&said)
            ))
        };
        self.commands.iter().map(run).collect()
    }
}

/// The kubectl on the search path, if it is of another minor version than the given one.
pub fn other_kubectl(than: &str) -> Option<PathBuf> {
    let path = PathBuf::from("kubectl");
    let ran = Command::new(&path)
        .args(["version", "--client", "-o", "json"])
        .output()
        .ok()?;
    let version: serde_json::Value = serde_json::from_slice(&ran.stdout).ok()?;
    let version = version["clientVersion"]["gitVersion"].as_str()?;
    let minor = |version: &str| version.split('.').take(2).collect::<Vec<_>>().join(".");
    (minor(version) != minor(than)).then_some(path)
}

/// Splits at blanks, but not within quotes.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in command.chars() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (' ', None) => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Without what differs between any two runs: widths of columns, ages, times, uids, revisions,
/// addresses, ports and the random ends of names.
fn normal(text: &str) -> String {
    const TIMED: [&str; 10] = [
        // How far a rollout is when one looks is a matter of luck.
        "Waiting for deployment",
        "diff -u",
        "CreationTimestamp:",
        "Start Time:",
        "creationTimestamp:",
        "resourceVersion:",
        "Last Transition Time",
        "time:",
        "---",
        "+++",
    ];
    let lines = text
        .lines()
        .filter(|line| !TIMED.iter().any(|start| line.trim().starts_with(start)))
        .filter(|line| !line.contains(REPAIRED));
    let lines = lines.map(|line| {
        let words: Vec<String> = line.split_whitespace().map(normal_word).collect();
        words.join(" ")
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    match text.strip_suffix("Events:\nType Reason Age From Message") {
        Some(rest) => format!("{rest}Events: <none>"),
        None => text,
    }
}

/// UPSTREAM: the loops that repair addresses and ports every three minutes say so of a Service that they meet before their
/// cache has its address: a matter of luck.
const REPAIRED: &str = "-repair-controller";

fn normal_word(word: &str) -> String {
    let inner = word.trim_matches(|letter: char| "\"'(),:;[]{}".contains(letter));
    let replaced = if is_age(inner) {
        "(age)"
    } else if inner.parse::<std::net::Ipv4Addr>().is_ok() {
        "(address)"
    } else if inner.len() == 36 && inner.matches('-').count() == 4 {
        "(uid)"
    } else if inner.len() >= 20
        && inner.contains('T')
        && inner.ends_with('Z')
        && inner.contains(':')
    {
        "(time)"
    } else if inner.starts_with("https://127.0.0.1:") {
        "(server)"
    } else if let Some(stem) = random_name(inner) {
        return word.replace(inner, &format!("{stem}-(random)"));
    } else {
        return node_ports(word);
    };
    word.replace(inner, replaced)
}

fn is_age(word: &str) -> bool {
    let units = word.bytes().filter(|byte| b"smhd".contains(byte)).count();
    units > 0
        && word
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_digit())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"smhd".contains(&byte))
}

/// `web-5d8f9c6b7-x2x4z` without its end.
fn random_name(word: &str) -> Option<&str> {
    let (stem, end) = word.rsplit_once('-')?;
    let random = end.len() == 5
        && end
            .bytes()
            .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte));
    random.then_some(stem)
}

/// `80:31234/TCP` without the port that was given out.
fn node_ports(word: &str) -> String {
    match word.split_once(':') {
        Some((port, rest)) if port.parse::<u16>().is_ok() && rest.contains('/') => {
            let protocol = rest.split_once('/').map_or("", |(_, protocol)| protocol);
            format!("{port}:(port)/{protocol}")
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_taken_out_and_the_rest_stays() {
        let said = "NAME   READY  AGE\nweb-5d8f9c6b7-x2x4z   1/1  3m2s\nCreationTimestamp: x\nsvc 10.0.0.7 80:31234/TCP";
        assert_eq!(
            normal(said),
            "NAME READY AGE\nweb-5d8f9c6b7-(random) 1/1 (age)\nsvc (address) 80:(port)/TCP"
        );
    }

    #[test]
    fn what_the_repair_of_addresses_says_is_taken_out() {
        let repaired = "Events:\n  Type     Reason  Age  From  Message\n  ----     ------  ---  ----  -------\n  Warning  ClusterIPNotAllocated  1s  ipallocator-repair-controller  Cluster IP is not allocated; repairing";
        assert_eq!(normal(repaired), "Events: <none>");
        let others = format!("{repaired}\n  Normal  Made  1s  x  made");
        assert_eq!(
            normal(&others),
            "Events:\nType Reason Age From Message\nNormal Made (age) x made"
        );
    }

    #[test]
    fn words_keep_what_is_quoted() {
        assert_eq!(
            words("patch a -p '{\"a\": 1}'"),
            ["patch", "a", "-p", "{\"a\": 1}"]
        );
    }
}
