//! Events at two versions, of which one has stricter rules.

use super::*;

/// Requests sent to kube-apiserver 1.36 as dry runs, but for those that say `KEEP`, with what it answered.
#[tokio::test(start_paused = true)]
async fn events_are_refused_in_upstreams_words() {
    let server = Server::new();
    let namespace = json!({"metadata": {"name": "ev"}});
    assert_eq!(server.post("/api/v1/namespaces", namespace).await.0, 201);
    let corpus: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/events.json")).unwrap();
    assert!(corpus.len() > 90);
    for sent in &corpus {
        let (verb, path) = (
            sent["verb"].as_str().unwrap(),
            sent["path"].as_str().unwrap(),
        );
        let (method, query, media) = match verb {
            "KEEP" => (Method::POST, "", "application/json"),
            "PATCH" => (Method::PATCH, "?dryRun=All", "application/merge-patch+json"),
            verb => (verb.parse().unwrap(), "?dryRun=All", "application/json"),
        };
        let body = sent["body"].to_string().into();
        let (code, answer) = server
            .call(method, &format!("{path}{query}"), media, body)
            .await;
        assert_eq!(code, sent["code"], "{sent}: {answer}");
        if code == 422 {
            assert_eq!(answer["message"], sent["message"]);
            assert_eq!(answer["details"], sent["details"]);
        }
    }
}

/// Who manages an event, after each change of it: at which version, and which fields.
async fn managers<const N: usize>(changes: [(&str, &str, Value); N]) -> Vec<String> {
    let server = Server::new();
    let event = json!({"metadata": {"name": "e"}, "regarding": {"namespace": "default"}, "note": "a", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c", "reportingInstance": "i",
        "action": "a", "reason": "r", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}});
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, created) = server
        .post(&format!("{events}?fieldManager=ann"), event)
        .await;
    assert_eq!(code, 201, "{created}");
    let mut seen = Vec::new();
    for (who, version, change) in changes {
        let group = if version == "v1" { "api" } else { "apis" };
        let uri = format!("/{group}/{version}/namespaces/default/events/e?fieldManager={who}");
        let (code, changed) = if change["kind"] == "Event" {
            let media = "application/apply-patch+yaml";
            server
                .call(Method::PATCH, &uri, media, change.to_string().into())
                .await
        } else {
            server.patch(&uri, "merge-patch", change.clone()).await
        };
        assert_eq!(code, 200, "{changed}");
        let entries = changed["metadata"]["managedFields"].as_array().unwrap();
        let shown = entries.iter().map(|entry| {
            let fields = entry["fieldsV1"].as_object().unwrap().keys();
            let fields: Vec<&str> = fields.map(String::as_str).collect();
            let word = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            format!(
                "{} {} {}",
                word("manager"),
                word("apiVersion"),
                fields.join(" ")
            )
        });
        seen.push(shown.collect::<Vec<_>>().join(", "));
    }
    seen
}

/// UPSTREAM: the groups have no version in common, and what cannot be converted nobody manages.
#[tokio::test(start_paused = true)]
async fn managers_at_the_other_group_are_forgotten() {
    const NEW: &str = "events.k8s.io/v1";
    let series = |count: i64| json!({"series": {"count": count}});
    let updates = managers([
        ("bob", "v1", json!({"count": 3})),
        ("carl", NEW, series(3)),
        ("bob", "v1", json!({"count": 4})),
    ]);
    assert_eq!(
        updates.await,
        [
            "bob v1 f:count",
            "carl events.k8s.io/v1 f:series",
            "bob v1 f:count"
        ]
    );
    let config = |version: &str, more: Value| {
        let mut config = json!({"apiVersion": version, "kind": "Event", "metadata": {"name": "e"}});
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        config
    };
    let all = "f:action f:eventTime f:note f:reason f:regarding f:reportingController f:reportingInstance f:series f:type";
    let applies = managers([
        ("ann&force=true", NEW, config(NEW, series(2))),
        ("bob", "v1", config("v1", json!({"count": 7}))),
        ("bob", "v1", config("v1", series(9))),
    ]);
    let own = format!("ann {NEW} f:series, ann {NEW} {all}");
    assert_eq!(
        applies.await,
        [own.as_str(), "bob v1 f:count", "bob v1 f:series"]
    );
}
