//! Upstream's end-to-end specs, played on the cluster that `steersman up` starts.
//!
//! Which of them pass there is written down in `conformance.txt`: many need containers that run, or a network between
//! pods, and cannot. One that is listed and fails is a regression; one that passes and is not listed is news.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::installation::{self, Installation};
use crate::process::Process;
use crate::wait::{self, Seen};

/// Specs mostly wait for something to happen, so that more of them run at once than there are processors.
const AT_A_TIME: &str = "8";
/// The whole list takes minutes. A spec that hangs gives up by itself after some, most after five.
const LIMIT: &str = "2h";
/// The specs of namespaces and of scheduling want more than one node, others look at each of them.
const NODES: &str = "3";
const START_DEADLINE: Duration = Duration::from_secs(60);

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'a> {
    /// The specs that are listed.
    Listed,
    /// All specs whose names match a regular expression of Go.
    Matching(&'a str),
}

/// How one spec ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub name: String,
    pub ended: Ended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Passed,
    /// Left out by the spec itself: it needs what this cluster says that it has not.
    Skipped,
    Failed(String),
}

/// Outcomes beside what is listed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub passed: usize,
    pub skipped: usize,
    /// Listed, and did not pass: each with the reason.
    pub regressions: Vec<(String, String)>,
    /// Not listed, and did not pass.
    pub failed: Vec<(String, String)>,
    /// Not listed, and passed.
    pub newly_passing: Vec<String>,
}

/// The specs that pass: one on each line, `#` begins a comment.
pub fn listed() -> Result<BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance.txt");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse_list(&text))
}

fn parse_list(text: &str) -> BTreeSet<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Starts a cluster in `folder`, runs the chosen specs on it and ends it.
pub fn run(
    installation: &Installation,
    choice: Choice<'_>,
    listed: &BTreeSet<String>,
    folder: &Path,
) -> Result<Vec<Outcome>> {
    fs::create_dir_all(folder)?;
    let kubeconfig = folder.join("kubeconfig");
    let _cluster = start_cluster(folder, &kubeconfig)?;
    let report = folder.join("report.json");
    let focus = match choice {
        Choice::Listed => focus_on(listed),
        Choice::Matching(pattern) => pattern.to_owned(),
    };
    let path = |path: &Path| path.display().to_string();
    let mut arguments: Vec<String> = vec![
        // Configuration and caches of kubectl stay out of the user's.
        format!("HOME={}", path(folder)),
        path(&installation.command("ginkgo")),
        "--no-color".to_owned(),
        "--succinct".to_owned(),
        format!("--procs={AT_A_TIME}"),
        format!("--timeout={LIMIT}"),
        format!("--output-dir={}", path(folder)),
        "--json-report=report.json".to_owned(),
        format!("--focus={focus}"),
        path(&installation.command("e2e.test")),
    ];
    arguments.extend([
        "--".to_owned(),
        "--provider=skeleton".to_owned(),
        "--dump-logs-on-failure=false".to_owned(),
        format!("--kubeconfig={}", path(&kubeconfig)),
        format!("--kubectl-path={}", path(&installation.command("kubectl"))),
    ]);
    let mut specs = Process::start("specs", Path::new("env"), &arguments, folder)?;
    // It fails where a spec does; what counts is the report.
    let status = loop {
        match specs.ended() {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_secs(1)),
        }
    };
    let report = fs::read_to_string(&report).with_context(|| {
        let said = specs.last_lines();
        format!("the specs ended with {status} and left no report; {said}")
    })?;
    parse_report(&report)
}

fn start_cluster(folder: &Path, kubeconfig: &Path) -> Result<Process> {
    let arguments = [
        "up".to_owned(),
        "--port=0".to_owned(),
        "--no-dashboard".to_owned(),
        "--output=json".to_owned(),
        format!("--nodes={NODES}"),
        format!("--data-dir={}", folder.join("data").display()),
        format!("--kubeconfig={}", kubeconfig.display()),
    ];
    let program = installation::steersman_binary()?;
    let mut cluster = Process::start("up", &program, &arguments, folder)?;
    wait::until("the cluster to be up", START_DEADLINE, || {
        if let Some(status) = cluster.ended() {
            bail!("it ended with {status}; {}", cluster.last_lines());
        }
        let said = fs::read_to_string(cluster.log())?;
        Ok(match said.contains("\"nodes\":") {
            true => Seen::Ready(()),
            false => Seen::NotYet(said),
        })
    })?;
    Ok(cluster)
}

/// A regular expression of Go that matches these names and no others that end otherwise.
fn focus_on(names: &BTreeSet<String>) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
    format!("(?:{})$", quoted.join("|"))
}

fn quote(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 8);
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted
}

/// What ginkgo writes of a suite, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    #[serde(default)]
    spec_reports: Option<Vec<Spec>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    message: String,
}

/// The specs that were chosen. What ran before and after all of them counts where it failed.
fn parse_report(text: &str) -> Result<Vec<Outcome>> {
    let reports: Vec<Report> = serde_json::from_str(text).context("the report of the specs")?;
    let specs = reports
        .into_iter()
        .flat_map(|report| report.spec_reports.unwrap_or_default());
    Ok(specs.filter_map(outcome).collect())
}

fn outcome(spec: Spec) -> Option<Outcome> {
    let reason = spec.failure.map(|failure| failure.message);
    let ended = match spec.state.as_str() {
        "passed" => Ended::Passed,
        // One that was not chosen is skipped without a word.
        "skipped" => reason.as_ref().map(|_| Ended::Skipped)?,
        "pending" => return None,
        state => Ended::Failed(format!("{state}: {}", reason.unwrap_or_default())),
    };
    let is_spec = spec.leaf_node_type == "It";
    if !is_spec && !matches!(ended, Ended::Failed(_)) {
        return None;
    }
    let mut name = spec.container_hierarchy_texts.unwrap_or_default();
    name.push(match is_spec {
        true => spec.leaf_node_text,
        false => spec.leaf_node_type,
    });
    name.retain(|part| !part.is_empty());
    let name = name.join(" ");
    Some(Outcome { name, ended })
}

/// What the outcomes mean. Of the listed specs none may be missing if all of them were asked for.
pub fn verdict(outcomes: &[Outcome], listed: &BTreeSet<String>, choice: Choice<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for Outcome { name, ended } in outcomes {
        let expected = listed.contains(name);
        match (ended, expected) {
            (Ended::Passed, _) => {
                verdict.passed += 1;
                if !expected {
                    verdict.newly_passing.push(name.clone());
                }
            }
            (Ended::Skipped, false) => verdict.skipped += 1,
            (Ended::Skipped, true) => verdict
                .regressions
                .push((name.clone(), "skipped".to_owned())),
            (Ended::Failed(reason), true) => {
                verdict.regressions.push((name.clone(), reason.clone()));
            }
            (Ended::Failed(reason), false) => verdict.failed.push((name.clone(), reason.clone())),
        }
    }
    if matches!(choice, Choice::Listed) {
        let ran: BTreeSet<&str> = outcomes
            .iter()
            .map(|outcome| outcome.name.as_str())
            .collect();
        for name in listed.iter().filter(|name| !ran.contains(name.as_str())) {
            verdict
                .regressions
                .push((name.clone(), "there is no such spec".to_owned()));
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_list_has_a_spec_on_each_line() {
        let text = "# apps\n\n[sig-apps] Job should run\n  [sig-node] Lease works # 2\n";
        assert_eq!(
            parse_list(text),
            list(&["[sig-apps] Job should run", "[sig-node] Lease works # 2"])
        );
    }

    #[test]
    fn names_are_no_patterns() {
        assert_eq!(focus_on(&list(&["[a] b (c)?"])), r"(?:\[a\] b \(c\)\?)$");
    }

    #[test]
    fn only_specs_that_ran_and_what_failed_around_them_are_outcomes() {
        let text = serde_json::json!([{"SpecReports": [
            {"ContainerHierarchyTexts": ["[sig-a]", ""], "LeafNodeType": "It", "LeafNodeText": "works", "State": "passed"},
            {"ContainerHierarchyTexts": ["[sig-a]"], "LeafNodeType": "It", "LeafNodeText": "was not chosen", "State": "skipped"},
            {"ContainerHierarchyTexts": ["[sig-a]"], "LeafNodeType": "It", "LeafNodeText": "wants a cloud", "State": "skipped",
             "Failure": {"Message": "only for gce"}},
            {"ContainerHierarchyTexts": ["[sig-a]"], "LeafNodeType": "It", "LeafNodeText": "hangs", "State": "timedout",
             "Failure": {"Message": "too long"}},
            {"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedBeforeSuite", "LeafNodeText": "", "State": "passed"},
            {"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedAfterSuite", "LeafNodeText": "", "State": "failed",
             "Failure": {"Message": "broken"}},
        ]}]);
        let found = parse_report(&text.to_string()).unwrap();
        let shown: Vec<String> = found
            .iter()
            .map(|outcome| format!("{}: {:?}", outcome.name, outcome.ended))
            .collect();
        let expected = [
            "[sig-a] works: Passed",
            "[sig-a] wants a cloud: Skipped",
            "[sig-a] hangs: Failed(\"timedout: too long\")",
            "SynchronizedAfterSuite: Failed(\"failed: broken\")",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_listed_spec_that_does_not_pass_is_a_regression() {
        let outcome = |name: &str, ended| Outcome {
            name: name.to_owned(),
            ended,
        };
        let outcomes = [
            outcome("a", Ended::Passed),
            outcome("b", Ended::Failed("no".to_owned())),
            outcome("c", Ended::Failed("never did".to_owned())),
            outcome("d", Ended::Passed),
            outcome("e", Ended::Skipped),
            outcome("f", Ended::Skipped),
        ];
        let listed = list(&["a", "b", "e", "gone"]);
        let why = |name: &str, reason: &str| (name.to_owned(), reason.to_owned());
        let mut expected = Verdict {
            passed: 2,
            skipped: 1,
            regressions: vec![why("b", "no"), why("e", "skipped")],
            failed: vec![why("c", "never did")],
            newly_passing: vec!["d".to_owned()],
        };
        assert_eq!(verdict(&outcomes, &listed, Choice::Matching("x")), expected);
        expected
            .regressions
            .push(why("gone", "there is no such spec"));
        assert_eq!(verdict(&outcomes, &listed, Choice::Listed), expected);
    }
}
