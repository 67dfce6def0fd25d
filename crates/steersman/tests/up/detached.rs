//! `up --detach`, `status` and `down`.

use crate::home::{Api, Home, signal};
use serde_json::{Value, json};

#[test]
fn a_detached_cluster_is_found_and_stopped() {
    let home = Home::new("detached");
    let said = home.succeed(&["up", "-d", "--port=0"]);
    assert!(
        said.contains("A Kubernetes cluster is up at https://127.0.0.1:"),
        "{said}"
    );
    assert!(said.contains("`steersman down` stops it"), "{said}");
    let status = home.succeed(&["status"]);
    assert!(status.contains(" answers\n  nodes       3\n"), "{status}");
    let facts: Value = serde_json::from_str(&home.succeed(&["status", "--output=json"])).unwrap();
    assert_eq!(facts[0]["nodes"], 3);
    let pid = u32::try_from(facts[0]["pid"].as_u64().unwrap()).unwrap();
    // A terminal that closes does not take it along.
    signal(pid, "HUP");
    Api::new(facts[0]["kubeconfig"].as_str().unwrap().as_ref()).get("/api/v1/nodes/node-0");
    let said = home.succeed(&["down"]);
    assert!(said.contains("; what was in it stays in "), "{said}");
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}

#[test]
fn one_in_another_place_is_found_there() {
    let home = Home::new("elsewhere");
    let dir = home.0.join("blue");
    let flag = format!("--data-dir={}", dir.display());
    let said = home.succeed(&["up", "-d", "--port=0", &flag]);
    assert!(
        said.contains("`steersman down --name blue` stops it"),
        "{said}"
    );
    let status = home.succeed(&["status"]);
    assert!(
        status.contains("blue is up: https://127.0.0.1:"),
        "{status}"
    );
    let said = home.succeed(&["down"]);
    let expected = format!("Stopped blue; what was in it stays in {}", dir.display());
    assert!(said.contains(&expected), "{said}");
    let status = home.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.code(), Some(3));
    assert!(said.contains("blue is stopped; its data is in "), "{said}");
    // What is deleted is no longer on record.
    std::fs::remove_dir_all(&dir).unwrap();
    let said = home.run(&["status"]).stdout;
    assert!(!String::from_utf8_lossy(&said).contains("blue"));
}

#[test]
fn what_is_down_can_be_up_again_at_once() {
    let home = Home::new("again");
    for round in 0..5 {
        let said = home.succeed(&[
            "up",
            "-d",
            "--port=0",
            "--output=json",
            "--merge-kubeconfig",
        ]);
        let facts: Value = serde_json::from_str(&said).unwrap();
        assert!(
            facts["mergedInto"]
                .as_str()
                .unwrap()
                .ends_with(".kube/config")
        );
        // A connection that is open, with an answer on its way, does not keep it up.
        let api = Api::new(facts["kubeconfig"].as_str().unwrap().as_ref());
        let map = json!({"metadata": {"name": format!("m{round}")}});
        api.create("/api/v1/namespaces/default/configmaps", &map);
        home.succeed(&["down"]);
    }
    home.succeed(&["up", "-d", "--port=0"]);
    home.succeed(&["down"]);
}

#[test]
fn a_detached_start_that_fails_says_why() {
    let home = Home::new("detached-fails");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = home.refused(&["up", "--detach", "--port", &port]);
    assert!(
        said.contains(&format!("cannot listen on port {port}")),
        "{said}"
    );
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}

#[test]
fn several_clusters_are_told_apart() {
    let home = Home::new("several");
    let start = |arguments: &[&str]| -> Value {
        let mut all = vec!["up", "-d", "--port=0", "--output=json", "--nodes=1"];
        all.extend(arguments);
        serde_json::from_str(&home.succeed(&all)).unwrap()
    };
    let (one, two) = (start(&["--in-memory"]), start(&["--in-memory"]));
    let kept = start(&[]);
    assert_ne!(one["kubeconfig"], two["kubeconfig"]);
    assert_eq!(
        (&one["dataDir"], kept["dataDir"].is_string()),
        (&json!(null), true)
    );
    assert!(home.refused(&["down"]).contains("several clusters are up"));
    assert!(
        home.refused(&["node", "stop", "node-0"])
            .contains("choose one with --kubeconfig or --cluster")
    );
    home.succeed(&["down", "--data-dir", kept["dataDir"].as_str().unwrap()]);
    home.succeed(&["down", "--all"]);
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}
