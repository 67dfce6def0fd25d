//! The certificates by which pods trust the API server, on one that has ClusterTrustBundles as alpha alone.

use std::time::Duration;

use real_tests::wait::{self, Seen};
use real_tests::{Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const GATE: &str = "--feature-gates=ClusterTrustBundle=true";
const PUBLISHER: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";
const ALPHA: &str = "/apis/certificates.k8s.io/v1alpha1";

#[test]
fn where_bundles_are_alpha_the_same_one_is_published_as_by_go() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        apiserver_flags: vec![
            "--runtime-config=certificates.k8s.io/v1alpha1=true".to_owned(),
            GATE.to_owned(),
        ],
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&installation, options).unwrap();
    let beta = cluster.api.find("/apis/certificates.k8s.io/v1beta1");
    assert_eq!(beta.unwrap(), None);
    let by_go = published(&cluster, Flavor::Go);
    let path = format!("{ALPHA}/clustertrustbundles/{}", by_go[0].0);
    cluster.api.delete(&path, &json!({})).unwrap();
    assert_eq!(published(&cluster, Flavor::Ours), by_go);
}

/// Name and specification of each bundle that a manager publishes.
fn published(cluster: &Cluster, flavor: Flavor) -> Vec<(String, Value)> {
    let options = ManagerOptions {
        controllers: vec![PUBLISHER.to_owned()],
        flags: vec![GATE.to_owned()],
        ..ManagerOptions::default()
    };
    let mut manager = Manager::start(cluster, flavor, &options).unwrap();
    let found = wait::until("a trust bundle", PATIENCE, || {
        let bundles = cluster.api.list(&format!("{ALPHA}/clustertrustbundles"))?;
        Ok(match bundles.is_empty() {
            true => Seen::NotYet("none".to_owned()),
            false => Seen::Ready(bundles),
        })
    });
    manager.check_alive().unwrap();
    let name = |bundle: &Value| bundle["metadata"]["name"].as_str().unwrap().to_owned();
    let found = found.unwrap();
    found
        .iter()
        .map(|bundle| (name(bundle), bundle["spec"].clone()))
        .collect()
}
