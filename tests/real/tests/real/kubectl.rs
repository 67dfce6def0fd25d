//! kubectl, of two versions, on kube-apiserver and on ours: it must not be able to tell.
//! Go's controller manager runs on both, so that what controllers do is the same.

use std::path::{Path, PathBuf};

use real_tests::embedded::Embedded;
use real_tests::kubelet::AutomaticKubelet;
use real_tests::tour::{self, Tour};
use real_tests::{Api, Cluster, ClusterOptions, Flavor, Manager, ManagerOptions, installation};
use serde_json::json;

#[test]
fn a_tour_with_kubectl_looks_the_same_on_both_servers() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let options = ClusterOptions {
        apiserver_flags: vec!["--service-cluster-ip-range=10.0.0.0/24".to_owned()],
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&installation, options).unwrap();
    let (theirs, _) = cluster
        .user("tour", "kubernetes-admin", Some("system:masters"))
        .unwrap();
    let options = ManagerOptions {
        use_service_account_credentials: true,
        ..ManagerOptions::default()
    };
    let mut manager = Manager::start(&cluster, Flavor::Go, &options).unwrap();
    let embedded = Embedded::start(&cluster.path("embedded")).unwrap();
    let program = installation.command("kube-controller-manager");
    let mut ours_manager = embedded.start_manager(&program).unwrap();

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tour.yaml");
    let tour = Tour::read(&path).unwrap();
    let mut clients = vec![installation.command("kubectl")];
    match tour::other_kubectl(&installation.kubernetes_version) {
        Some(other) => clients.push(other),
        None => installation::say("skipped: there is no second kubectl of another version"),
    }
    for (index, client) in clients.iter().enumerate() {
        let namespace = format!("tour-{index}");
        let folder = |side: &str| cluster.path(&format!("{side}-{namespace}"));
        let (theirs, ours) = std::thread::scope(|scope| {
            let api = &cluster.api;
            let (tour, namespace) = (&tour, namespace.as_str());
            let go = scope.spawn(|| visit(tour, client, api, &theirs, folder("theirs"), namespace));
            let kubeconfig = embedded.kubeconfig();
            let ours = visit(
                tour,
                client,
                &embedded.api,
                &kubeconfig,
                folder("ours"),
                namespace,
            );
            (go.join().unwrap(), ours)
        });
        let mut found = Vec::new();
        for ((command, theirs), ours) in tour.commands.iter().zip(&theirs).zip(&ours) {
            if theirs != ours {
                found.push(format!(
                    "$ kubectl {command}\ntheirs: {theirs}\nours: {ours}"
                ));
            }
        }
        assert!(
            found.is_empty(),
            "{} {} of {} commands differ:\n{}",
            client.display(),
            found.len(),
            tour.commands.len(),
            found.join("\n\n")
        );
    }
    manager.check_alive().unwrap();
    assert!(
        ours_manager.ended().is_none(),
        "{}",
        ours_manager.last_lines()
    );
}

fn visit(
    tour: &Tour,
    client: &Path,
    api: &Api,
    kubeconfig: &Path,
    folder: PathBuf,
    namespace: &str,
) -> Vec<String> {
    let object = json!({"metadata": {"name": namespace}});
    api.create("/api/v1/namespaces", &object)
        .expect("a new namespace");
    let kubelet = AutomaticKubelet::start(api, namespace, 1);
    let said = tour
        .run(client, kubeconfig, &folder, namespace)
        .expect("kubectl runs");
    drop(kubelet);
    said
}
