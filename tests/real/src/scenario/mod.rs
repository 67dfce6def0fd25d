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
    /// The controllers that it is about, where its name does not say.
    #[serde(default)]
    controllers: Vec<String>,
    /// Whom it is played along with, where its name does not say.
    #[serde(default)]
    part: Option<Part>,
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

    /// Which scenarios it is played along with: controllers that clean up behind others, or that look after nodes,
    /// would disturb scenarios of workloads.
    pub fn part(&self) -> Part {
        if let Some(part) = self.part {
            return part;
        }
        match self.name.split('-').next().unwrap_or("") {
            "deployment" | "replicaset" | "rc" | "statefulset" | "daemonset" | "job" => {
                Part::Workloads
            }
            "node" | "taint" => Part::Nodes,
            "legacytoken" => Part::Restarts,
            "binder" | "ephemeral" | "expander" => Part::Storage,
            "pv" | "pvc" | "vac" => Part::Protection,
            _ => Part::Housekeeping,
        }
    }

    /// How long a manager may be silent and still have something to do, if that is longer than usual: jobs
    /// gather the events of their pods for a second, and look again a second after they wrote; slices that somebody
    /// changes are looked at after a second.
    pub(crate) fn quiet(&self) -> Option<Duration> {
        let waits = |name: &String| name == "job-controller" || name.starts_with("endpoint");
        let is_slow = self.controllers().iter().any(waits);
        is_slow.then_some(Duration::from_millis(2500))
    }

    /// The controllers that it is about: those that it names, or that of the kind which its name begins with.
    pub fn controllers(&self) -> Vec<String> {
        match self.controllers.is_empty() {
            true => self
                .controllers_by_name()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            false => self.controllers.clone(),
        }
    }

    fn controllers_by_name(&self) -> Vec<&'static str> {
        let kind = self.name.split('-').next().unwrap_or("");
        let mut controllers = match kind {
            "deployment" => vec!["deployment-controller", "replicaset-controller"],
            "replicaset" => vec!["replicaset-controller"],
            "rc" => vec!["replicationcontroller-controller"],
            "statefulset" => vec!["statefulset-controller"],
            "daemonset" => vec!["daemonset-controller"],
            "job" => vec!["job-controller"],
            "gc" => vec!["garbage-collector-controller"],
            "namespace" => vec!["namespace-controller"],
            "serviceaccount" => vec!["serviceaccount-controller"],
            "token" => vec!["serviceaccount-token-controller"],
            "legacytoken" => vec!["legacy-serviceaccount-token-cleaner-controller"],
            "rootca" => vec!["root-ca-certificate-publisher-controller"],
            "podgc" => vec!["pod-garbage-collector-controller"],
            "ttl" => vec!["ttl-controller"],
            "finished" => vec!["ttl-after-finished-controller"],
            "clusterrole" => vec!["clusterrole-aggregation-controller"],
            "node" => vec!["node-lifecycle-controller", "taint-eviction-controller"],
            "taint" => vec!["taint-eviction-controller"],
            "pv" => vec!["persistentvolume-protection-controller"],
            "pvc" => vec!["persistentvolumeclaim-protection-controller"],
            "vac" => vec!["volumeattributesclass-protection-controller"],
            _ => panic!(
                "scenario {} does not say which controllers it is about",
                self.name
            ),
        };
        // Only the garbage collector ends what a deletion began.
        if self.name.contains("delete-")
            || self.name.contains("deleted-with")
            || self.name.contains("collision")
        {
            controllers.push("garbage-collector-controller");
        }
        controllers
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
