//! The operator on a control plane in the test's own process.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use steersman_envtest::{Cluster, ClusterOptions};

async fn client(cluster: &Cluster) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default());
    Client::try_from(config.await.unwrap()).unwrap()
}

#[tokio::test]
async fn copies_follow_their_originals() {
    let cluster = Cluster::with(ClusterOptions {
        controllers: vec!["garbage-collector-controller".to_owned()],
        ..ClusterOptions::default()
    })
    .await
    .unwrap();
    let client = client(&cluster).await;
    let operator = tokio::spawn(rust_operator::run(client.clone()));
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    let original = ConfigMap {
        metadata: ObjectMeta {
            name: Some("original".to_owned()),
            labels: Some(BTreeMap::from([(rust_operator::LABEL.to_owned(), String::new())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), "value".to_owned())])),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &original).await.unwrap();
    until(&maps, |copy| copy.is_some_and(|copy| copy.data == original.data)).await;
    maps.delete("original", &DeleteParams::default()).await.unwrap();
    until(&maps, |copy| copy.is_none()).await;
    operator.abort();
}

async fn until(maps: &Api<ConfigMap>, holds: impl Fn(Option<ConfigMap>) -> bool) {
    let reached = async {
        while !holds(maps.get_opt("original-copy").await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reached).await.unwrap();
}
