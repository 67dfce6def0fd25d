//! Sends the requests of a scenario to one server and writes down what it answers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::normalise::Normaliser;
use super::{Request, Scenario, Sent};
use crate::http::{Answer, Api};
use crate::wait::{self, Seen};

/// Definitions are served and roles take effect within a second or two.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is compared of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub title: String,
    /// `code`, `type`, `warnings` and `body`, without what differs between any two runs.
    pub answer: Value,
}

/// Plays a scenario in a namespace that is named after it. `given` has more names that requests may use.
pub fn play(api: &Api, scenario: &Scenario, given: &[(String, String)]) -> Result<Vec<Observed>> {
    let namespace = format!("corpus-{}", scenario.name);
    api.create(
        "/api/v1/namespaces",
        &json!({"metadata": {"name": namespace}}),
    )?;
    let account = json!({"metadata": {"name": "default"}});
    api.create(
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        &account,
    )?;
    let mut kept = BTreeMap::from([("NS".to_owned(), namespace)]);
    kept.extend(given.iter().cloned());
    let mut normaliser = Normaliser::default();
    let mut observed = Vec::new();
    for request in &scenario.requests {
        let (answer, body) = final_answer(api, request, &kept)
            .with_context(|| format!("{}: {}", scenario.name, request.title))?;
        for (name, pointer) in &request.keep {
            let value = body
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default();
            kept.insert(name.clone(), value.to_owned());
        }
        let mut warnings: Vec<&str> = answer.header("warning").collect();
        warnings.sort_unstable();
        let mut answer = json!({
            "code": answer.status,
            "type": answer.header("content-type").next(),
            "warnings": warnings,
            "body": body,
        });
        if request.path.contains("dryRun=All") {
            // What was never stored does not count.
            normaliser.clone().normalise(&mut answer);
        } else {
            normaliser.normalise(&mut answer);
        }
        observed.push(Observed {
            title: request.title.clone(),
            answer,
        });
    }
    Ok(observed)
}

/// The answer, once it is what the request waits for.
fn final_answer(
    api: &Api,
    request: &Request,
    kept: &BTreeMap<String, String>,
) -> Result<(Answer, Value)> {
    wait::until(&request.title, PATIENCE, || {
        let answer = send(api, request, kept)?;
        let body = body_of(request, &answer);
        let seen = json!({"code": answer.status, "body": body});
        let wanted = |(place, value): &(String, Value)| seen.pointer(place) == Some(value);
        Ok(if request.until.iter().all(wanted) {
            Seen::Ready((answer, body))
        } else {
            Seen::NotYet(seen.to_string())
        })
    })
}

fn send(api: &Api, request: &Request, kept: &BTreeMap<String, String>) -> Result<Answer> {
    let fill = |text: &str| {
        // Backwards: `$STRANGERPORT` is not `$STRANGER` and a word behind it.
        kept.iter()
            .rev()
            .fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("${name}"), value)
            })
    };
    let body = match &request.body {
        Sent::Nothing => String::new(),
        Sent::Json(body) => fill(&body.to_string()),
        Sent::Text(text) => fill(text),
    };
    let mut headers = vec![("Accept", request.accept.as_str())];
    if !body.is_empty() {
        headers.push(("Content-Type", &request.content_type));
    }
    let filled = request.headers.iter();
    let filled: Vec<(&str, String)> = filled
        .map(|(name, value)| (name.as_str(), fill(value)))
        .collect();
    headers.extend(filled.iter().map(|(name, value)| (*name, value.as_str())));
    let path = [(" ", "%20"), ("<", "%3C"), (">", "%3E")]
        .iter()
        .fold(fill(&request.path), |path, (letter, code)| {
            path.replace(letter, code)
        });
    api.send_with(&request.method, &path, &headers, body.as_bytes())
}

/// The JSON of the answer, the events of a watch as a list, or the text.
fn body_of(request: &Request, answer: &Answer) -> Value {
    let text = || Value::String(String::from_utf8_lossy(&answer.body).into_owned());
    if request.path.contains("watch=") && answer.status == 200 {
        let lines = answer.body.split(|byte| *byte == b'\n');
        let events = lines.filter(|line| !line.is_empty());
        return events
            .map(|line| serde_json::from_slice(line).unwrap_or_else(|_| text()))
            .collect();
    }
    if answer.header("content-type").next() == Some("application/yaml") {
        return serde_yaml_ng::from_slice(&answer.body).unwrap_or_else(|_| text());
    }
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| text())
}
