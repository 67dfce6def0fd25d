//! Explanations, from facts in YAML.

mod autoscaler;
mod certificates;
mod cron_jobs;
mod deletion;
mod devices;
mod disruption;
mod jobs;
mod migrations;
mod nodes;
mod pods;
mod quotas;
mod services;
mod storage;
mod unread;
mod workloads;

use api::decision::{Decided, Decision, Line, Started};
use api::{ObjectId, Time};
use expect_test::Expect;
use serde::Deserialize;
use serde_json::Value;

use crate::facts::{Facts, Source};
use crate::kinds::group_of_kind;

/// Noon.
const NOW: &str = "2026-01-01T12:00:00Z";

/// The first document is asked about, events and others are what is known beside it, and documents with
/// `controller` are decisions; one with `absent` names a kind and a name that were looked for; one with `running` says which controllers there are. Built-in kinds need no `apiVersion`.
fn facts(yaml: &str) -> Facts {
    let documents = api::yaml::documents(yaml).expect("the test's YAML is good");
    let mut documents = documents
        .iter()
        .map(|document| serde_json::from_str(&document.json).expect("it came out as JSON"))
        .map(with_version);
    let object = documents.next().expect("there is an object");
    let source = Source::Manager("https://here".to_owned());
    let mut facts = Facts::new(Time::parse(NOW).unwrap(), source, object);
    for document in documents {
        if document["kind"] == "Event" {
            facts.events.push(document);
        } else if document["running"].is_array() {
            facts.started = Some(Started::deserialize(document).expect("the names are good"));
        } else if let Some(absent) = document["absent"].as_str() {
            let name = document["name"].as_str().unwrap_or_default();
            facts.absent.insert((absent.to_owned(), name.to_owned()));
        } else if document["controller"].is_string() {
            add_decision(&mut facts, document);
        } else {
            facts.related.push(document);
        }
    }
    facts
}

fn with_version(mut object: Value) -> Value {
    let group = object["kind"].as_str().and_then(group_of_kind);
    if let Some(group) = group.filter(|_| object["apiVersion"].is_null()) {
        let version = match group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        };
        object["apiVersion"] = Value::from(version);
    }
    object
}

/// What a controller decided two minutes ago.
#[derive(Deserialize)]
struct Document {
    controller: String,
    object: ObjectId,
    lines: Vec<Line>,
    failure: Option<String>,
    #[serde(default = "one")]
    count: u64,
}

fn one() -> u64 {
    1
}

fn add_decision(facts: &mut Facts, document: Value) {
    let document = Document::deserialize(document).expect("the test's decision is good");
    let at = Time::parse("2026-01-01T11:58:00Z").unwrap().micro();
    facts.decisions.push(Decided {
        controller: document.controller.into(),
        object: document.object,
        decisions: vec![Decision {
            at,
            last_at: at,
            count: document.count,
            lines: document.lines.into(),
            failure: document.failure.map(Into::into),
        }],
    });
}

fn check(yaml: &str, expected: Expect) {
    let facts = facts(yaml);
    let text = crate::explain(&facts).text(facts.now);
    expected.assert_eq(&text);
}

/// The headline and the help alone.
fn check_verdict(yaml: &str, expected: Expect) {
    let explanation = crate::explain(&facts(yaml));
    let help = explanation
        .help
        .map_or(String::new(), |help| format!("\n{}", help.command));
    expected.assert_eq(&format!("{}{help}", explanation.verdict));
}
