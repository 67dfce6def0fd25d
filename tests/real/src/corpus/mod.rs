//! The corpus: requests that are sent to kube-apiserver and to ours, whose answers must be the same.
//!
//! A file is a scenario in a namespace of its own, which holds a service account `default`. Its steps
//! are requests and short forms for many of them; `expand` turns them into requests, `play` sends
//! those, `normalise` takes out what differs between any two runs, `compare` judges.

pub mod compare;
mod expand;
mod normalise;
mod play;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

pub use play::{Observed, play};

/// A scenario, ready to be sent.
pub struct Scenario {
    pub name: String,
    pub requests: Vec<Request>,
}

/// One request; `$NS` in its path and body stands for the namespace of the scenario, `$name` for what
/// an earlier request kept under that name.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// How it is called in reports and in the list of known differences.
    pub title: String,
    pub method: String,
    pub path: String,
    pub content_type: String,
    pub accept: String,
    pub headers: Vec<(String, String)>,
    pub body: Sent,
    /// Name and place (a JSON pointer) of what later requests need from the answer.
    pub keep: Vec<(String, String)>,
    /// Places and what is waited for there: some things take effect a moment later.
    pub until: Vec<(String, Value)>,
}

#[derive(Clone, Debug, Default)]
pub enum Sent {
    #[default]
    Nothing,
    Json(Value),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "for whoever reads the file")]
    about: String,
    steps: Vec<serde_json::Map<String, Value>>,
}

/// Reads all scenarios of a folder, in the order of their names.
pub fn load(folder: &Path) -> Result<Vec<Scenario>> {
    let mut paths = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Scenario> {
    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let text = fs::read_to_string(path)?;
    let scenario = || -> Result<Scenario> {
        let file: File = serde_yaml_ng::from_str(&text)?;
        let mut requests = Vec::new();
        for (index, step) in file.steps.iter().enumerate() {
            requests.extend(expand::step(step).with_context(|| format!("step {}", index + 1))?);
        }
        Ok(Scenario { name, requests })
    };
    scenario().with_context(|| format!("{}", path.display()))
}
