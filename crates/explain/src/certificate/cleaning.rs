//! When a request is deleted: what the cleaner goes by, read from the request, because it decides once an hour.

use api::Time;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::json::{list, text, time};

/// How long requests stay, in seconds: those that were dealt with, and those that wait to be.
const DECIDED: i64 = 60 * 60;
const WAITING: i64 = 24 * 60 * 60;

/// When the cleaner finds it old, and why: the first of its deadlines.
pub(super) fn deleted_at(request: &Value) -> Option<(Time, &'static str)> {
    let conditions = list(request, "/status/conditions");
    let is_issued = !text(request, "/status/certificate").is_empty();
    let mut deadlines: Vec<(Time, &'static str)> = Vec::new();
    let mut add = |since: Option<Time>, age: i64, why: &'static str| {
        deadlines.extend(since.map(|at| (Time::from_unix(at.unix() + age), why)));
    };
    if conditions.is_empty() {
        let created = time(request, "/metadata/creationTimestamp");
        add(created, WAITING, "it is neither approved nor denied");
    }
    for condition in conditions {
        let since = time(condition, "/lastUpdateTime");
        match text(condition, "/type") {
            "Denied" => add(since, DECIDED, "it was denied"),
            "Failed" => add(since, DECIDED, "it has failed"),
            "Approved" if is_issued => {
                add(since, DECIDED, "it was issued");
                add(certificate_end(request), 0, "its certificate ends then");
            }
            "Approved" => add(since, WAITING, "it is approved and not signed"),
            _ => {}
        }
    }
    deadlines.into_iter().min_by_key(|(at, _)| *at)
}

fn certificate_end(request: &Value) -> Option<Time> {
    let encoded = text(request, "/status/certificate");
    let pem = BASE64_STANDARD.decode(encoded).ok()?;
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
    let parsed = block.parse_x509().ok()?;
    Some(Time::from_unix(parsed.validity().not_after.timestamp()))
}
