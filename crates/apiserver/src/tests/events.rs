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
