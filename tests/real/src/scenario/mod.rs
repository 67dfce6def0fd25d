//! Scenarios: small scenarios about workloads, told once in YAML and run with either controller manager.
//!
//! A scenario is a list of steps that a user or a kubelet would take. After each step the runner waits
//! until the manager has nothing more to write, so that the scenario is the same every time; at the end it
//! records what is left and all that was written on the way. `compare` sets two records side by side.

mod compare;
mod embedded;
mod expand;
mod history;
mod normalise;
mod part;
mod record;
mod resources;
mod run;
mod step;
mod tail;
mod witness;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

pub use compare::{Difference, KnownDifferences, compare};
pub use part::Part;
pub use record::Record;
pub use run::{Run, Side, run_all};
pub use step::Step;

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// Whom it is played along with: controllers that clean up behind others, or that look after nodes, would disturb
    /// scenarios of workloads.
    pub part: Part,
    /// The controllers that it is about.
    pub controllers: Vec<String>,
    /// How long a manager may write nothing and still have something to do, if that is longer than usual: jobs gather the
    /// events of their pods for a second, and look again a second after they wrote.
    #[serde(default)]
    quiet_seconds: Option<f64>,
    pub steps: Vec<Step>,
}

impl Scenario {
    pub fn parse(name: &str, text: &str) -> Result<Scenario> {
        // By way of JSON, because there an enum is a map with one key and needs no YAML tag.
        let value: serde_json::Value = serde_yaml_ng::from_str(text)
            .with_context(|| format!("scenario {name} is not YAML"))?;
        let mut scenario: Scenario = serde_json::from_value(value)
            .with_context(|| format!("scenario {name} is not understood"))?;
        scenario.name = name.to_owned();
        Ok(scenario)
    }

    pub(crate) fn quiet(&self) -> Option<Duration> {
        self.quiet_seconds.map(Duration::from_secs_f64)
    }

    /// All scenarios whose name contains one of `wanted`; all of them if it is empty.
    pub fn load(wanted: &[String]) -> Result<Vec<Scenario>> {
        let mut scenarios = Vec::new();
        for path in scenario_files()? {
            let name = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or("")
                .to_owned();
            if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
                scenarios.push(Scenario::parse(&name, &std::fs::read_to_string(&path)?)?);
            }
        }
        if scenarios.is_empty() {
            bail!(
                "no scenario in {} is named like {wanted:?}",
                folder().display()
            );
        }
        Ok(scenarios)
    }
}

/// Exceptions from what is recorded that are none any more.
pub fn stale_exceptions() -> Vec<&'static str> {
    resources::stale_exceptions()
}

fn scenario_files() -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder()).context("the scenarios are missing")?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    Ok(files)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_understood() {
        let scenarios = Scenario::load(&[]).unwrap();
        for scenario in &scenarios {
            assert!(!scenario.steps.is_empty(), "{} has no steps", scenario.name);
            assert!(
                !scenario.about.is_empty(),
                "{} is about nothing",
                scenario.name
            );
        }
    }
}
