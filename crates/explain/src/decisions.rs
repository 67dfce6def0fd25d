//! What controllers decided, as the debug endpoint tells it.

use api::MicroTime;
use serde::{Deserialize, Serialize};

/// What one controller decided about one object, oldest first.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Decisions {
    pub controller: String,
    pub decisions: Vec<Decision>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    #[serde(rename = "time")]
    pub at: MicroTime,
    #[serde(rename = "lastTime")]
    pub last_at: MicroTime,
    pub count: u64,
    pub lines: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What a line of a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Something is done.
    Act,
    /// Something is not done yet.
    Wait,
    /// How things stand.
    State,
}

/// Words that say that something is awaited, wherever they stand in the line.
const WAITS: [&str; 17] = [
    "waits ",
    "keeps ",
    "old replicas kept: ",
    "kept until ",
    " are left",
    "may take ",
    " are held by finalizer ",
    "counts as stuck",
    "creates no ",
    "goes on with ",
    "only when ",
    " more pods when ",
    "no rollout, only scaling",
    "does not roll back",
    "until somebody deletes them",
    "again and again",
    "has no pod on ",
];

/// Words that begin what a controller does.
const ACTS: [&str; 17] = [
    "creates ",
    "scales ",
    "deletes ",
    "deleted: ",
    "repairs ",
    "sees to ",
    "brings ",
    "rolls back",
    "goes now",
    "adopts ",
    "releases ",
    "may keep secrets",
    "signs ",
    "calls it silent",
    "taints it with ",
    "takes the taint ",
    "labels it ",
];

/// Tells what a line is about by the words that reasons are written in.
pub fn classify(line: &str) -> Line {
    if WAITS.iter().any(|words| line.contains(words)) {
        return Line::Wait;
    }
    let begins = |words: &&str| line.starts_with(*words) || line.contains(&format!(" {words}"));
    if ACTS.iter().any(begins) {
        return Line::Act;
    }
    Line::State
}
