//! `/debug/controllers/<name>/<namespace>/<object>`: what a controller last decided, and why.

use std::sync::Arc;

use api::Key;
use http::StatusCode;
use runtime::decisions::Decisions;

use super::router::{Reply, Request, Router, json, text};

const PREFIX: &str = "/debug/controllers";

/// Adds the pages to a router.
pub fn register(router: &Arc<Router>, decisions: Decisions) {
    let all = decisions.clone();
    router.handle(PREFIX, move |_| {
        json(StatusCode::OK, to_json(&all.controllers()))
    });
    router.handle(&format!("{PREFIX}/"), move |request| {
        answer(&decisions, &request)
    });
}

fn answer(decisions: &Decisions, request: &Request) -> Reply {
    let rest = request.path.trim_start_matches(PREFIX).trim_matches('/');
    let parts: Vec<&str> = rest.split('/').collect();
    match parts.as_slice() {
        [""] => json(StatusCode::OK, to_json(&decisions.controllers())),
        [controller] => {
            let keys: Vec<String> = decisions
                .keys(controller)
                .iter()
                .map(ToString::to_string)
                .collect();
            json(StatusCode::OK, to_json(&keys))
        }
        [controller, name] => json(
            StatusCode::OK,
            to_json(&decisions.get(controller, &Key::new("", name))),
        ),
        [controller, namespace, name] => json(
            StatusCode::OK,
            to_json(&decisions.get(controller, &Key::new(namespace, name))),
        ),
        _ => text(
            StatusCode::NOT_FOUND,
            "expected /debug/controllers/<controller>/<namespace>/<name>\n",
        ),
    }
}

fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("decisions serialise")
}
