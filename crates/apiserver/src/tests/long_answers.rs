//! Answers that are larger than what is kept: put together while they are read.

use super::*;
use http_body::Body as _;

/// Objects of a megabyte, which take little room where they are kept.
async fn large_maps(server: &Server) {
    for name in ["a", "b", "c", "d", "e", "f"] {
        server
            .config_map(name, json!({"text": name.repeat(1_000_000)}))
            .await;
    }
}

async fn open(server: &Server, path: &str, accept: &str) -> Body {
    let answer = server
        .send(Method::GET, path, "", accept, Bytes::new())
        .await;
    assert_eq!(answer.status(), 200);
    answer.into_body()
}

const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[tokio::test(start_paused = true)]
async fn long_lists_are_put_together_as_they_are_read() {
    let server = Server::new();
    large_maps(&server).await;
    for accept in ["application/json", METADATA] {
        let mut body = open(&server, CONFIG_MAPS, accept).await;
        assert!(body.size_hint().exact().is_none());
        let (mut text, mut longest) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            longest = longest.max(data.len());
            text.extend_from_slice(&data);
        }
        assert!(longest < 1_500_000, "{longest}");
        let list: Value = serde_json::from_slice(&text).unwrap();
        let mut pages = Vec::new();
        let (mut token, mut head) = (String::new(), Value::Null);
        loop {
            let path = format!("{CONFIG_MAPS}?limit=2&continue={token}");
            let page = open(&server, &path, accept).await;
            assert!(page.size_hint().exact().is_some());
            let page = page.collect().await.unwrap().to_bytes();
            let mut page: Value = serde_json::from_slice(&page).unwrap();
            pages.extend(page["items"].as_array().unwrap().clone());
            page["items"].take();
            token = match page["metadata"]["continue"].as_str() {
                Some(token) => token.to_owned(),
                None => break,
            };
            head = page;
        }
        assert_eq!(list["items"], Value::Array(pages));
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&head["kind"], &head["apiVersion"])
        );
        assert_eq!(
            list["metadata"]["resourceVersion"],
            head["metadata"]["resourceVersion"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn watches_have_little_in_memory_at_a_time() {
    let server = Server::new();
    large_maps(&server).await;
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5");
    let mut changes = open(
        &server,
        &format!("{path}&resourceVersion=1"),
        "application/json",
    )
    .await;
    let mut states = open(&server, &path, "application/json").await;
    for body in [&mut changes, &mut states] {
        let mut names = String::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            assert!(data.len() < 1_500_000, "{}", data.len());
            let event: Value = serde_json::from_slice(&data).unwrap();
            names.push_str(event["object"]["metadata"]["name"].as_str().unwrap());
        }
        assert_eq!(names, "abcdef");
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_deleted_is_shown_as_a_list_is() {
    let server = Server::new();
    large_maps(&server).await;
    let answer = server
        .send(
            Method::DELETE,
            CONFIG_MAPS,
            "",
            "application/json",
            Bytes::new(),
        )
        .await;
    let body = answer.into_body();
    assert!(body.size_hint().exact().is_none());
    let list = body.collect().await.unwrap().to_bytes();
    let list: Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 6);
    assert_eq!(
        list["items"][5]["data"]["text"].as_str().unwrap().len(),
        1_000_000
    );
}
