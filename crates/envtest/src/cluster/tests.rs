use bytes::Bytes;
use http::Request;
use tower::ServiceExt;

use super::*;

/// The status of an answer.
async fn ask(cluster: &Cluster, method: &str, path: &str, body: &str) -> u16 {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Bytes::from(body.to_owned()))
        .unwrap();
    let answer = cluster.transport().oneshot(request).await.unwrap();
    answer.status().as_u16()
}

const NAMESPACE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"test"}}"#;

#[tokio::test(start_paused = true)]
async fn namespaces_go_where_their_controller_runs() {
    let cluster = Cluster::with(ClusterOptions {
        controllers: vec!["namespace-controller".to_owned()],
        tokio_time: true,
        ..ClusterOptions::default()
    })
    .await
    .unwrap();
    assert_eq!(
        ask(&cluster, "POST", "/api/v1/namespaces", NAMESPACE).await,
        201
    );
    assert_eq!(
        ask(&cluster, "DELETE", "/api/v1/namespaces/test", "").await,
        200
    );
    let gone = async {
        while ask(&cluster, "GET", "/api/v1/namespaces/test", "").await != 404 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone)
        .await
        .unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_stay_where_no_controller_runs() {
    let cluster = Cluster::with(ClusterOptions {
        tokio_time: true,
        ..ClusterOptions::default()
    })
    .await
    .unwrap();
    ask(&cluster, "POST", "/api/v1/namespaces", NAMESPACE).await;
    ask(&cluster, "DELETE", "/api/v1/namespaces/test", "").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        ask(&cluster, "GET", "/api/v1/namespaces/test", "").await,
        200
    );
}

#[tokio::test]
async fn nodes_are_there_when_the_cluster_is() {
    let cluster = Cluster::with(ClusterOptions {
        nodes: 2,
        ..ClusterOptions::default()
    })
    .await
    .unwrap();
    let found = ask(&cluster, "GET", "/api/v1/nodes/node-1", "").await;
    assert_eq!(found, 200);
}

#[tokio::test]
async fn the_port_is_closed_once_the_cluster_is_dropped() {
    let cluster = Cluster::start().await.unwrap();
    let address = cluster.url().trim_start_matches("https://").to_owned();
    tokio::net::TcpStream::connect(&address).await.unwrap();
    cluster.stop().await;
    assert!(tokio::net::TcpStream::connect(&address).await.is_err());
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let unknown = Cluster::with(ClusterOptions {
        controllers: vec!["nothing".to_owned()],
        ..ClusterOptions::default()
    });
    assert!(matches!(unknown.await, Err(Error::Controllers(_))));
    let crowd = Cluster::with(ClusterOptions {
        nodes: usize::MAX,
        ..ClusterOptions::default()
    });
    assert!(matches!(crowd.await, Err(Error::TooManyNodes { .. })));
}
