//! What people are told, from facts in YAML.

mod deletion;
mod disruption;
mod jobs;
mod nodes;
mod pods;
mod unread;
mod workloads;

use std::collections::BTreeMap;

use api::Time;
use expect_test::Expect;
use serde::Deserialize;
use serde_json::Value;

use crate::decisions::{Decision, Decisions};
use crate::facts::{Facts, Source};

/// Noon.
const NOW: &str = "2026-01-01T12:00:00Z";

/// The first document is asked about, events and others are what is known beside it, and documents with
/// `controller` are decisions: `{controller, about, lines, failure}`.
fn facts(yaml: &str) -> Facts {
    let mut documents = serde_yaml_ng::Deserializer::from_str(yaml)
        .map(|document| Value::deserialize(document).expect("the test's YAML is good"));
    let object = documents.next().expect("there is an object");
    let source = Source::Manager("https://here".to_owned());
    let mut facts = Facts::new(Time::parse(NOW).unwrap(), source, object);
    for document in documents {
        if document["kind"] == "Event" {
            facts.events.push(document);
        } else if document["controller"].is_string() {
            add_decision(&mut facts.decisions, &document);
        } else {
            facts.related.push(document);
        }
    }
    facts
}

fn add_decision(decisions: &mut BTreeMap<String, Vec<Decisions>>, document: &Value) {
    let text = |name: &str| document[name].as_str().map(str::to_owned);
    let at = Time::parse("2026-01-01T11:58:00Z").unwrap().micro();
    let lines = document["lines"].as_array().unwrap().iter();
    let heard = Decisions {
        controller: text("controller").unwrap(),
        decisions: vec![Decision {
            at,
            last_at: at,
            count: 1,
            lines: lines
                .map(|line| line.as_str().unwrap().to_owned())
                .collect(),
            failure: text("failure"),
        }],
    };
    let key = text("about").unwrap();
    decisions.entry(key).or_default().push(heard);
}

fn check(yaml: &str, expected: Expect) {
    let facts = facts(yaml);
    let text = crate::explain(&facts).text(facts.now);
    expected.assert_eq(&text);
}

/// The headline and the help alone.
fn check_verdict(yaml: &str, expected: Expect) {
    let told = crate::explain(&facts(yaml));
    let help = told
        .help
        .map_or(String::new(), |help| format!("\n{}", help.command));
    expected.assert_eq(&format!("{}{help}", told.verdict));
}
