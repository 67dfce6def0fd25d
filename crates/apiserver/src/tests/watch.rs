//! Watches.

use super::*;
use std::time::Duration;

/// A watch, read event by event.
struct Events {
    body: Body,
    lines: Vec<Value>,
}

impl Events {
    async fn open(server: &Server, path: &str) -> Events {
        Events::open_as(server, path, "application/json").await
    }

    async fn open_as(server: &Server, path: &str, accept: &str) -> Events {
        let response = server
            .send(Method::GET, path, "", accept, Bytes::new())
            .await;
        assert_eq!(response.status(), 200);
        Events {
            body: response.into_body(),
            lines: Vec::new(),
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            for line in frame
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                self.lines.push(serde_json::from_slice(line).unwrap());
            }
        }
        Some(self.lines.remove(0))
    }

    /// `TYPE name` of the next events.
    async fn take(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            let event = self.next().await.unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
            texts.push(format!("{} {name}", event["type"].as_str().unwrap()));
        }
        texts
    }

    /// True if nothing comes within a second.
    async fn quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(1), self.next())
            .await
            .is_err()
    }
}

#[tokio::test(start_paused = true)]
async fn shows_changes_after_a_revision() {
    let server = Server::new();
    let first = server.config_map("a", json!({})).await;
    let at = revision(&first);
    let mut events = Events::open(
        &server,
        &format!("{CONFIG_MAPS}?watch=1&resourceVersion={at}"),
    )
    .await;
    server.config_map("b", json!({})).await;
    server
        .patch(
            &format!("{CONFIG_MAPS}/b"),
            "merge-patch",
            json!({"data": {"x": "y"}}),
        )
        .await;
    server.delete(&format!("{CONFIG_MAPS}/b")).await;
    assert_eq!(events.take(2).await, ["ADDED b", "MODIFIED b"]);
    let deleted = events.next().await.unwrap();
    assert_eq!(
        (&deleted["type"], revision(&deleted["object"])),
        (&json!("DELETED"), at + 3)
    );
    assert_eq!(deleted["object"]["kind"], "ConfigMap");
    assert!(events.quiet().await);
}

#[tokio::test(start_paused = true)]
async fn without_a_revision_starts_with_what_is_there() {
    let server = Server::new();
    server.config_map("a", json!({})).await;
    let mut events = Events::open(&server, &format!("{CONFIG_MAPS}?watch=1")).await;
    server.config_map("b", json!({})).await;
    assert_eq!(events.take(2).await, ["ADDED a", "ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark() {
    let server = Server::new();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    server.config_map("a", json!({})).await;
    let created = server.config_map("b", json!({})).await;
    let mut events = Events::open(&server, &path).await;
    assert_eq!(events.take(2).await, ["ADDED a", "ADDED b"]);
    let bookmark = events.next().await.unwrap();
    let expected = json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {
        "resourceVersion": revision(&created).to_string(), "annotations": {"k8s.io/initial-events-end": "true"}}}});
    assert_eq!(bookmark, expected);
    let (code, _) = server
        .get(&format!("{CONFIG_MAPS}?watch=1&sendInitialEvents=true"))
        .await;
    assert_eq!(code, 422);
    let mut future = Events::open(&server, &format!("{path}&resourceVersion=9999")).await;
    assert_eq!(future.next().await.unwrap()["object"]["code"], 504);
    assert_eq!(future.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_the_watch_ends_in_time() {
    let server = Server::new();
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=90"
    );
    let mut events = Events::open(&server, &path).await;
    assert_eq!(events.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn all_watches_have_their_bookmarks_at_the_same_moment() {
    let server = Server::new();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&allowWatchBookmarks=true");
    let begun = tokio::time::Instant::now();
    // The clock starts 40 s before a full minute.
    let mut watches = Vec::new();
    for (opened_after, first) in [(0, 40), (9, 40), (11, 100), (39, 100)] {
        tokio::time::sleep_until(begun + Duration::from_secs(opened_after)).await;
        watches.push((Events::open(&server, &path).await, first));
    }
    for now in [40, 100, 160] {
        for (events, first) in &mut watches {
            if now < *first {
                continue;
            }
            assert_eq!(events.next().await.unwrap()["type"], "BOOKMARK");
            assert_eq!(begun.elapsed().as_secs(), now);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_additions_and_deletions() {
    let server = Server::new();
    let mut events = Events::open(
        &server,
        &format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&labelSelector=app%3Da"),
    )
    .await;
    server.config_map("a", json!({})).await;
    server.config_map("b", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let (_, changed) = server
        .patch(
            &path,
            "merge-patch",
            json!({"metadata": {"labels": {"app": "z"}}}),
        )
        .await;
    assert_eq!(events.take(1).await, ["ADDED a"]);
    let gone = events.next().await.unwrap();
    assert_eq!(
        (&gone["type"], &gone["object"]["metadata"]["labels"]["app"]),
        (&json!("DELETED"), &json!("a"))
    );
    assert_eq!(revision(&gone["object"]), revision(&changed));
    server
        .patch(
            &path,
            "merge-patch",
            json!({"metadata": {"labels": {"app": "a"}}}),
        )
        .await;
    server.delete(&path).await;
    assert_eq!(events.take(2).await, ["ADDED a", "DELETED a"]);
    assert!(events.quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_left_behind_is_told_to_start_over() {
    let server = Server::with_log(3);
    let first = server.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&first));
    let mut slow = Events::open(&server, &path).await;
    for name in ["b", "c", "d", "e", "f"] {
        server.config_map(name, json!({})).await;
    }
    let error = slow.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(slow.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn metadata_watchers_see_metadata_only() {
    let server = Server::new();
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut events = Events::open_as(&server, &format!("{CONFIG_MAPS}?watch=1"), accept).await;
    server.config_map("a", json!({"k": "v"})).await;
    let event = events.next().await.unwrap();
    assert_eq!(
        (&event["object"]["kind"], event["object"].get("data")),
        (&json!("PartialObjectMetadata"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn other_namespaces_and_kinds_stay_out() {
    let server = Server::new();
    let mut events = Events::open(
        &server,
        "/api/v1/namespaces/kube-public/configmaps?watch=1&resourceVersion=1",
    )
    .await;
    server.config_map("a", json!({})).await;
    server.pod("p", "").await;
    assert!(events.quiet().await);
}

#[tokio::test(start_paused = true)]
async fn thousands_watch_and_one_that_sleeps_is_dropped() {
    const WATCHERS: usize = 5_000;
    const WRITES: usize = 12;
    // The log is shorter than what is written, so that who does not read is left behind.
    let server = Server::with_log(WRITES - 2);
    let at = revision(&server.config_map("first", json!({})).await);
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={at}");
    let mut sleeper = Events::open(&server, &path).await;
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        watchers.push(Events::open(&server, &path).await);
    }
    for number in 0..WRITES {
        let name = format!("m{number}");
        // It is answered although nobody has read what was written before.
        server.config_map(&name, json!({})).await;
        for watcher in &mut watchers {
            assert_eq!(watcher.take(1).await, [format!("ADDED {name}")]);
        }
    }
    let dropped = sleeper.next().await.unwrap();
    assert_eq!(
        (&dropped["type"], &dropped["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert!(sleeper.next().await.is_none(), "the stream has ended");
}
