//! The same requests to kube-apiserver and to ours: the answers must be the same.

use std::path::{Path, PathBuf};

use real_tests::corpus::{self, Observed, Scenario, compare};
use real_tests::embedded::Embedded;
use real_tests::stranger::Stranger;
use real_tests::{Api, Cluster, ClusterOptions, installation};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn play_all(api: &Api, scenarios: &[Scenario], given: &[(String, String)]) -> Vec<Vec<Observed>> {
    let play =
        |scenario| corpus::play(api, scenario, given).expect("both servers answer all requests");
    scenarios.iter().map(play).collect()
}

/// `CORPUS=pods,crd` plays just those scenarios; then entries for the others may explain nothing.
#[test]
fn our_api_server_answers_as_kube_apiserver_does() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let mut scenarios = corpus::load(&folder()).unwrap();
    let chosen = std::env::var("CORPUS").ok();
    if let Some(chosen) = &chosen {
        scenarios.retain(|scenario| chosen.split(',').any(|name| name == scenario.name));
    }
    let options = ClusterOptions {
        apiserver_flags: vec![
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            // Off by default upstream, but on in every cluster; ours has it.
            "--enable-admission-plugins=NodeRestriction".to_owned(),
        ],
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&installation, options).unwrap();
    // The name of our administrator, which some objects carry.
    let (_, theirs) = cluster
        .user("corpus", "kubernetes-admin", Some("system:masters"))
        .unwrap();
    let stranger = Stranger::start(&cluster.path("stranger")).unwrap();
    let given = stranger.names();
    let embedded = Embedded::start(&cluster.path("embedded")).unwrap();
    let (theirs, ours) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| play_all(&theirs, &scenarios, &given));
        let ours = play_all(&embedded.api, &scenarios, &given);
        (theirs.join().unwrap(), ours)
    });
    let known = compare::known(&folder().join("known.yml")).unwrap();
    let mut found = Vec::new();
    for ((scenario, theirs), ours) in scenarios.iter().zip(&theirs).zip(&ours) {
        found.extend(compare::differences(&scenario.name, theirs, ours));
    }
    let (rest, used) = compare::unexplained(found, &known);
    let shown: Vec<String> = rest.iter().map(ToString::to_string).collect();
    assert!(
        rest.is_empty(),
        "{} differences:\n{}",
        rest.len(),
        shown.join("\n")
    );
    let unused = known
        .iter()
        .enumerate()
        .filter(|(index, entry)| !entry.sometimes && !used.contains(index));
    let unused: Vec<String> = unused.map(|(_, entry)| entry.shown()).collect();
    assert!(
        chosen.is_some() || unused.is_empty(),
        "these known differences are gone: {unused:?}"
    );
}
