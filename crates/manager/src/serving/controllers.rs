//! `/debug/controllers/`: what each controller last decided, and why.
//!
//! ```text
//! /debug/controllers/                                    the controllers that decided something, those that run, and
//!                                                        those that their configuration turns off
//! /debug/controllers/?namespace=<namespace>&name=<name>  what any of them decided about objects of this name
//!                  &kind=<kind>&group=<group>&uid=<uid>  and only about those of this kind, such as Deployment
//! /debug/controllers/<controller>                        the objects it decided about
//! /debug/controllers/<controller>/<namespace>/<object>   its last decisions about those of that name, oldest first
//! /debug/controllers/<controller>/<object>               the same for objects without a namespace
//! ```
//! Decisions are typed: `api::decision` says what is in them. The garbage collector has a page of its own beside
//! these, `graph`.

use api::decision::Decided;
use api::{Key, ObjectId, Uid};
use controllers::garbage_collector::GraphHandle;
use http::StatusCode;
use runtime::Decisions;

use super::router::{Reply, Request, Router, json, reply, text};

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
        [] if request.value("name").is_some() => {
            let found = decisions.about(|_, object| is_meant(request, object));
            serde_json::json!({ "controllers": found })
        }
        [] => {
            let started = decisions.started().borrow().clone();
            serde_json::json!({
                "controllers": decisions.controllers(),
                "running": started.running,
                "skipped": started.skipped,
            })
        }
        [controller] => {
            let objects = decisions.objects(controller);
            if objects.is_empty() && controllers::find(controller).is_none() {
                return text(StatusCode::NOT_FOUND, "no controller has this name\n");
            }
            serde_json::json!({ "controller": controller, "objects": objects })
        }
        [controller, name] => return object(decisions, controller, &Key::new("", name)),
        [controller, namespace, name] => {
            return object(decisions, controller, &Key::new(namespace, name));
        }
        _ => return text(StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    json(StatusCode::OK, body.to_string())
}

/// Does the query mean this object? What it does not say may be anything, but for the namespace.
fn is_meant(request: &Request, object: &ObjectId) -> bool {
    let says = |parameter: &str, value: &str| {
        let asked = request.value(parameter);
        asked.is_none_or(|asked| asked == value)
    };
    request.value("namespace").unwrap_or_default() == &*object.namespace
        && says("name", &object.name)
        && says("kind", &object.kind)
        && says("group", &object.group)
        // Some controllers know the object by its name alone.
        && (object.uid.is_empty() || says("uid", &object.uid.to_string()))
}

fn object(decisions: &Decisions, controller: &str, key: &Key) -> Reply {
    let found: Vec<Decided> =
        decisions.about(|by, object| by == controller && object.key() == *key);
    if found.is_empty() {
        let known = "nothing was decided about this object, or it was too long ago\n";
        return text(StatusCode::NOT_FOUND, known);
    }
    let body = serde_json::json!({ "controllers": found });
    json(StatusCode::OK, body.to_string())
}

#[cfg(test)]
mod tests {
    use api::Time;
    use api::decision::{Line, Started};
    use api::kinds::{Node, ReplicaSet};

    use runtime::Report;

    use super::super::Request;
    use super::*;

    fn check(path: &str, code: u16, expected: &str) {
        let decisions = Decisions::new();
        let at = Time::from_unix(0).micro();
        let lines = || [Line::acts("TooMany", "deletes 1 pod").because("there are 2")];
        let web = ObjectId::named::<ReplicaSet>(&Key::new("default", "web"));
        Report::new("replicaset-controller", &decisions, at).decide(web.clone(), lines());
        let node = ObjectId::named::<Node>(&Key::new("", "node-1"));
        Report::new("ttl-controller", &decisions, at).decide(node.clone(), lines());
        let _begun = decisions.begin(Started {
            running: vec!["ttl-controller".into()],
            skipped: vec!["route".into()],
        });
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
            r#"{"controllers":["replicaset-controller","ttl-controller"],"running":["ttl-controller"],"skipped":["route"]}"#,
        );
        check(
            "/debug/controllers/replicaset-controller",
            200,
            r#""objects":[{"group":"apps","kind":"ReplicaSet","name":"web","namespace":"default"}]"#,
        );
        check(
            "/debug/controllers/replicaset-controller/default/web",
            200,
            r#""lines":[{"class":"acts","reason":"TooMany","what":"deletes 1 pod","why":"there are 2"}]"#,
        );
        check(
            "/debug/controllers/ttl-controller/node-1",
            200,
            r#""object":{"kind":"Node","name":"node-1"}"#,
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
            r#""object":{"kind":"Node","name":"node-1"}"#,
        );
        check(
            "/debug/controllers/?name=nope",
            200,
            r#"{"controllers":[]}"#,
        );
    }

    #[test]
    fn namesakes_of_other_kinds_are_distinguished() {
        let web = "/debug/controllers/?namespace=default&name=web&kind=";
        check(
            &format!("{web}ReplicaSet"),
            200,
            r#""controller":"replicaset-controller""#,
        );
        let nothing = r#"{"controllers":[]}"#;
        for kind in ["Service", "Deployment", "ReplicaSet&group=example.com"] {
            check(&format!("{web}{kind}"), 200, nothing);
        }
    }

    #[test]
    fn a_recreated_object_is_another_one() {
        let decisions = Decisions::new();
        let (at, line) = (
            Time::from_unix(0).micro(),
            Line::acts("TooFew", "creates 1 pod"),
        );
        let web = ObjectId {
            uid: "old".into(),
            ..ObjectId::named::<ReplicaSet>(&Key::new("default", "web"))
        };
        Report::new("replicaset-controller", &decisions, at).decide(web.clone(), [line]);
        let found = |query: &str| {
            let path = format!("/debug/controllers/?namespace=default&name=web{query}");
            let reply = answer(&decisions, &Request::get(&path));
            String::from_utf8_lossy(reply.body()).contains("creates 1 pod")
        };
        assert!(found("") && found("&uid=old&group=apps"));
        assert!(!found("&uid=new") && !found("&uid=old&group="));
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
