//! What the simulator relies on: every change in order, and restarts.

use super::*;

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(server: &Server, name: &str) {
    let body = Bytes::from(config_map(name).to_string());
    let (code, answer) = server
        .call(Method::POST, MAPS, "application/json", body)
        .await;
    assert_eq!(code, 201, "{answer}");
}

async fn delete(server: &Server, name: &str) {
    let path = format!("{MAPS}/{name}");
    let (code, answer) = server
        .call(Method::DELETE, &path, "application/json", Bytes::new())
        .await;
    assert_eq!(code, 200, "{answer}");
}

async fn names(server: &Server) -> Vec<String> {
    let (_, list) = server
        .call(Method::GET, MAPS, "application/json", Bytes::new())
        .await;
    let items = list["items"].as_array().unwrap();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    items.iter().map(name).collect()
}

fn reopened(server: &Server, lost: u64) -> Server {
    let clock = Clock::fixed(api::Time::from_unix(1_700_000_000));
    Server {
        server: server.server.reopened(lost, clock, Rng::from_seed(2)),
    }
}

#[tokio::test(start_paused = true)]
async fn changes_come_in_order_and_say_what_is_gone() {
    let server = Server::new();
    let before = server.server.revision();
    create(&server, "a").await;
    create(&server, "b").await;
    delete(&server, "a").await;
    let seen: Vec<(String, String, bool)> = server
        .server
        .changes_after(before)
        .into_iter()
        .map(|change| (change.plural.into_owned(), change.name, change.is_deleted))
        .collect();
    let map = |name: &str, gone| ("configmaps".to_owned(), name.to_owned(), gone);
    assert_eq!(seen, [map("a", false), map("b", false), map("a", true)]);
    let after = server.server.revision();
    assert!(server.server.changes_after(after).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_everything_or_loses_the_tail() {
    let server = Server::new();
    create(&server, "a").await;
    create(&server, "b").await;
    delete(&server, "a").await;
    let kept = reopened(&server, 0);
    assert_eq!(names(&kept).await, ["b"]);
    assert_eq!(kept.server.revision(), server.server.revision());
    let lost = reopened(&server, 2);
    assert_eq!(names(&lost).await, ["a"]);
    assert!(lost.server.revision() > server.server.revision());
    create(&lost, "c").await;
    assert_eq!(names(&lost).await, ["a", "c"]);
    assert_eq!(names(&server).await, ["b"], "the old server is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_a_restart_has_to_start_over() {
    let server = Server::new();
    create(&server, "a").await;
    let old = server.server.revision() - 1;
    let restarted = reopened(&server, 0);
    let path = format!("{MAPS}?watch=true&resourceVersion={old}");
    let (code, answer) = restarted
        .call(Method::GET, &path, "application/json", Bytes::new())
        .await;
    assert_eq!((code, &answer["code"]), (200, &json!(null)), "{answer}");
    assert_eq!(answer["object"]["code"], 410, "{answer}");
}
