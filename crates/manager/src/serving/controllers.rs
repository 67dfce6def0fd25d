//! `/debug/controllers/`: what each controller last decided, and why.
//!
//! ```text
//! /debug/controllers/                                    the controllers that decided something
//! /debug/controllers/?namespace=<namespace>&name=<name>  what any of them decided about objects of this name
//!                                         &kind=<kind>   and only about the one of this kind, such as Deployment
//! /debug/controllers/<controller>                        the objects it decided about
//! /debug/controllers/<controller>/<namespace>/<object>   its last decisions about one, oldest first
//! /debug/controllers/<controller>/<object>               the same for objects without a namespace
//! ```
//! The garbage collector has a page of its own beside these, `graph`.

use api::{Key, Uid};
use http::StatusCode;
use runtime::Decisions;

use super::router::{Reply, Request, Router, json, reply, text};
use crate::built::{GraphHandle, decisions_about};

pub const PREFIX: &str = "/debug/controllers/";

/// Adds the pages to a router.
pub fn register_decisions(router: &Router, decisions: Decisions) {
    router.handle(PREFIX, move |request| answer(&decisions, &request));
}

/// Adds the page that draws the garbage collector's graph: all of it, or with one `?uid=` or more what hangs
/// together with these objects.
pub fn register_graph(router: &Router, graph: GraphHandle) {
    let path = format!("{PREFIX}garbage-collector-controller/graph");
    router.handle(&path, move |request| {
        let named =
            |(name, value): &(String, String)| (name == "uid").then(|| value.as_str().into());
        let uids: Vec<Uid> = request.query.iter().filter_map(named).collect();
        reply(StatusCode::OK, "text/vnd.graphviz", graph.to_dot(&uids))
    });
}

fn answer(decisions: &Decisions, request: &Request) -> Reply {
    let rest = request
        .path
        .strip_prefix(PREFIX)
        .unwrap_or_default()
        .trim_end_matches('/');
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let body = match parts[..] {
        [] => match request.value("name") {
            Some(name) => {
                let namespace = request.value("namespace").unwrap_or_default();
                about(decisions, request.value("kind"), &Key::new(namespace, name))
            }
            None => serde_json::json!({ "controllers": decisions.controllers() }),
        },
        [controller] => {
            let keys: Vec<String> = decisions
                .keys(controller)
                .iter()
                .map(Key::to_string)
                .collect();
            if keys.is_empty() && crate::descriptors::find(controller).is_none() {
                return text(StatusCode::NOT_FOUND, "no controller has this name\n");
            }
            serde_json::json!({ "controller": controller, "objects": keys })
        }
        [controller, name] => return object(decisions, controller, &Key::new("", name)),
        [controller, namespace, name] => {
            return object(decisions, controller, &Key::new(namespace, name));
        }
        _ => return text(StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    json(StatusCode::OK, body.to_string())
}

/// Whoever asks what became of an object need not know who looks after it.
fn about(decisions: &Decisions, kind: Option<&str>, key: &Key) -> serde_json::Value {
    let found = match kind {
        Some(kind) => decisions_about(decisions, kind, key),
        None => decisions.about(key),
    };
    let found: Vec<serde_json::Value> = found
        .into_iter()
        .map(|(controller, decisions)| {
            serde_json::json!({"controller": controller, "decisions": decisions})
        })
        .collect();
    serde_json::json!({"object": key.to_string(), "controllers": found})
}

fn object(decisions: &Decisions, controller: &str, key: &Key) -> Reply {
    let found = decisions.get(controller, key);
    if found.is_empty() {
        let known = "nothing was decided about this object, or it was too long ago\n";
        return text(StatusCode::NOT_FOUND, known);
    }
    let body = serde_json::json!({
        "controller": controller,
        "object": key.to_string(),
        "decisions": found,
    });
    json(StatusCode::OK, body.to_string())
}

#[cfg(test)]
mod tests {
    use api::Time;

    use super::super::Request;
    use super::*;

    fn check(path: &str, code: u16, expected: &str) {
        let decisions = Decisions::new();
        let at = Time::from_unix(0).micro();
        let lines = || ["delete 1 pod: too many".to_owned()].into_iter();
        decisions.record(
            "replicaset-controller",
            &Key::new("default", "web"),
            at,
            lines(),
        );
        decisions.record("ttl-controller", &Key::new("", "node-1"), at, lines());
        let reply = answer(&decisions, &Request::get(path));
        let body = String::from_utf8(reply.body().to_vec()).unwrap();
        assert_eq!(reply.status().as_u16(), code, "{path}");
        assert!(body.contains(expected), "{path}: {body}");
    }

    #[test]
    fn from_the_list_to_one_object() {
        check(
            "/debug/controllers/",
            200,
            r#"{"controllers":["replicaset-controller","ttl-controller"]}"#,
        );
        check(
            "/debug/controllers/replicaset-controller",
            200,
            r#""objects":["default/web"]"#,
        );
        check(
            "/debug/controllers/replicaset-controller/default/web",
            200,
            r#""lines":["delete 1 pod: too many"]"#,
        );
        check(
            "/debug/controllers/ttl-controller/node-1",
            200,
            r#""object":"node-1""#,
        );
    }

    #[tokio::test]
    async fn the_graph_is_drawn() {
        let router = Router::default();
        register_decisions(&router, Decisions::new());
        register_graph(&router, GraphHandle::default());
        for query in ["", "?uid=3f9d9c3a-0000-4000-8000-000000000001&uid=none"] {
            let path = format!("/debug/controllers/garbage-collector-controller/graph{query}");
            let reply = router.answer(Request::get(&path)).await;
            assert_eq!(reply.status(), StatusCode::OK);
            assert_eq!(reply.headers()["content-type"], "text/vnd.graphviz");
            let text = String::from_utf8_lossy(reply.body());
            assert!(text.starts_with("strict digraph"), "{text}");
        }
    }

    #[test]
    fn all_about_one_object() {
        check(
            "/debug/controllers/?namespace=default&name=web",
            200,
            r#"{"controllers":[{"controller":"replicaset-controller","decisions":[{"#,
        );
        check(
            "/debug/controllers/?name=node-1",
            200,
            r#""object":"node-1""#,
        );
        check(
            "/debug/controllers/?name=nope",
            200,
            r#"{"controllers":[],"object":"nope"}"#,
        );
    }

    #[test]
    fn namesakes_of_other_kinds_are_told_apart() {
        let web = "/debug/controllers/?namespace=default&name=web&kind=";
        check(
            &format!("{web}ReplicaSet"),
            200,
            r#""controller":"replicaset-controller""#,
        );
        let nothing = r#"{"controllers":[],"object":"default/web"}"#;
        for kind in ["Service", "Deployment", "ConfigMap"] {
            check(&format!("{web}{kind}"), 200, nothing);
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        check("/debug/controllers/job-controller", 200, r#""objects":[]"#);
        check("/debug/controllers/nope", 404, "no controller");
        check(
            "/debug/controllers/replicaset-controller/default/nope",
            404,
            "nothing was decided",
        );
        check("/debug/controllers/a/b/c/d", 404, "404");
    }
}
