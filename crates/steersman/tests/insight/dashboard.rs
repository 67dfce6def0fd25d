//! The dashboard on the secure port of a controller manager.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::ResourceType;
use bytes::Bytes;
use client::Client;
use client::config::{Config, Environment};
use http::Request;

use crate::cluster::Cluster;

const DEPLOYMENTS: ResourceType =
    ResourceType::namespaced("apps", "v1", "deployments", "Deployment");
const ROLES: ResourceType = ResourceType::cluster(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterroles",
    "ClusterRole",
);

/// Asks the manager, with somebody's token.
struct Visitor<'a> {
    cluster: &'a Cluster,
    kubeconfig: PathBuf,
}

impl Visitor<'_> {
    /// The same user as in a kubeconfig of the cluster, on the port of the manager.
    fn new<'a>(cluster: &'a Cluster, user: &Path, port: &(String, String)) -> Visitor<'a> {
        let text = std::fs::read_to_string(user).expect("the kubeconfig is there");
        let mut config: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let (server, authority) = port;
        config["clusters"][0]["cluster"] =
            serde_json::json!({"server": server, "certificate-authority": authority});
        let kubeconfig = cluster.file("visitor.kubeconfig", &config.to_string());
        Visitor {
            cluster,
            kubeconfig: kubeconfig.into(),
        }
    }

    fn get(&self, path: &str) -> Result<String, String> {
        let config =
            Config::from_environment(Some(&self.kubeconfig), None, &Environment::default());
        let config = config.map_err(|error| error.to_string())?;
        let answer = self.cluster.block_on(async {
            let transport = client::https::transport(config, runtime::clock::wall());
            let client = Client::new(transport.map_err(|error| error.to_string())?);
            let request = Request::get(path).body(Bytes::new()).expect("a good path");
            let answer = client.request(request).await;
            answer.map_err(|error| client::describe(&error))
        })?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Asks until the answer says this: the manager takes a moment to start, and keeps what it was told of rights.
    fn wait_for(&self, path: &str, words: &str) -> String {
        let mut told = String::new();
        for _ in 0..600 {
            told = match self.get(path) {
                Ok(told) | Err(told) => told,
            };
            if told.contains(words) {
                return told;
            }
            let moment = async { tokio::time::sleep(Duration::from_millis(100)).await };
            self.cluster.block_on(moment);
        }
        panic!("{path} never said {words:?}: {told}");
    }
}

#[test]
fn the_manager_shows_each_viewer_what_their_token_may_read() {
    let mut cluster = Cluster::start_with("manager-dashboard", &["--controller-manager=external"]);
    let port = cluster.start_manager();
    let limited = cluster.limited_user();
    let web = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web}]}";
    cluster.apply(&DEPLOYMENTS, "default", "web", web);
    let visitor = Visitor::new(&cluster, &limited, &port);
    visitor.wait_for("/dashboard/stream", "cannot get path \"/dashboard/stream\"");

    let role = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: limited}
rules:
- {apiGroups: [apps], resources: [deployments, replicasets], verbs: [get, list]}
- {nonResourceURLs: ['/dashboard/*'], verbs: [get]}";
    cluster.apply(&ROLES, "", "limited", role);
    visitor.wait_for("/dashboard/", "importmap");
    let shown = "/dashboard/object?kind=Deployment&namespace=default&name=web";
    visitor.wait_for(shown, "name: web");
    let predicted = "/dashboard/predict?kind=Deployment&namespace=default&name=web";
    visitor.wait_for(predicted, "\"newReady\":2");
    // Read with the manager's own rights, this would be there.
    let hidden = visitor.wait_for("/dashboard/object?kind=Node&name=node-0", "node");
    assert!(
        hidden.contains("may not") || hidden.contains("forbidden"),
        "{hidden}"
    );
}
