//! Clusters with names: several at once, found, stopped and forgotten by name.

use std::path::Path;

use crate::home::Home;
use serde_json::{Value, json};

fn start(home: &Home, arguments: &[&str]) -> Value {
    let mut all = vec![
        "up",
        "-d",
        "--port=0",
        "--output=json",
        "--nodes=1",
        "--no-dashboard",
    ];
    all.extend(arguments);
    serde_json::from_str(&home.succeed(&all)).unwrap()
}

fn text(path: &Value) -> String {
    std::fs::read_to_string(path.as_str().unwrap()).unwrap()
}

fn yaml(text: &str) -> Value {
    api::yaml::from_str(text).unwrap()
}

#[test]
fn several_are_up_at_once_and_each_has_its_own_of_everything() {
    let home = Home::new("named");
    let (dev, ci) = (
        start(&home, &["--name=dev"]),
        start(&home, &["--name=ci", "--in-memory"]),
    );
    assert_eq!((&dev["name"], &ci["name"]), (&json!("dev"), &json!("ci")));
    assert_ne!(dev["server"], ci["server"]);
    assert_ne!(dev["kubeconfig"], ci["kubeconfig"]);
    assert_eq!(ci["dataDir"], json!(null));
    assert_eq!(
        yaml(&text(&dev["kubeconfig"]))["current-context"],
        "steersman-dev"
    );
    let status = home.succeed(&["status"]);
    for expected in ["dev is up: ", "ci is up: ", "data        in memory"] {
        assert!(status.contains(expected), "{expected:?}: {status}");
    }
    let only = home.succeed(&["status", "--name=ci", "--output=json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&only).unwrap()[0]["name"],
        "ci"
    );
    let refused = home.refused(&["down"]);
    assert!(
        refused.contains("choose one with --name or --data-dir, or --all"),
        "{refused}"
    );
    assert!(
        refused.contains("dev ") && refused.contains("ci "),
        "{refused}"
    );
    home.succeed(&["node", "stop", "node-0", "--cluster=dev"]);
    let refused = home.refused(&["node", "stop", "node-0", "--cluster=prod"]);
    assert!(refused.contains("no cluster prod is up"), "{refused}");
    let beside = Path::new(ci["kubeconfig"].as_str().unwrap());
    assert!(beside.is_file());
    let said = home.succeed(&["down", "--name=ci"]);
    assert!(
        !beside.parent().unwrap().exists(),
        "neither keys nor a log are left of it"
    );
    assert!(
        said.contains("Stopped and forgotten: ci was in memory"),
        "{said}"
    );
    let said = home.succeed(&["down"]);
    assert!(
        said.contains("Stopped dev; what was in it stays in "),
        "{said}"
    );
    assert!(
        home.refused(&["down", "--name=prod"])
            .contains("there is no cluster prod")
    );
}

#[test]
fn a_cluster_on_the_disk_is_not_taken_for_one_in_memory() {
    let home = Home::new("named-memory");
    start(&home, &["--name=dev"]);
    home.succeed(&["down", "--name=dev"]);
    let refused = home.refused(&["up", "--name=dev", "--in-memory", "--port=0"]);
    assert!(refused.contains("the cluster dev is kept in "), "{refused}");
}

#[test]
fn what_is_forgotten_is_gone_and_what_is_not_ours_stays() {
    let home = Home::new("forget");
    let dev = start(&home, &["--name=dev"]);
    let dir = Path::new(dev["dataDir"].as_str().unwrap());
    let refused = home.refused(&["down", "--name=dev", "--forget"]);
    assert!(
        refused.contains("standard input is not a terminal; --yes deletes without asking"),
        "{refused}"
    );
    assert_eq!(
        home.run(&["status"]).status.code(),
        Some(0),
        "it is still up"
    );
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    let said = home.succeed(&["down", "--name=dev", "--forget", "--yes"]);
    assert!(
        said.contains("stays, because it holds other files: notes.txt"),
        "{said}"
    );
    let left = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["notes.txt"]);
    // One that is stopped can be forgotten, too, and then its folder is gone.
    let ci = start(&home, &["--name=ci"]);
    home.succeed(&["down"]);
    let said = home.succeed(&["down", "--name=ci", "--forget", "--yes"]);
    assert!(said.contains("Forgot ci; "), "{said}");
    assert!(!Path::new(ci["dataDir"].as_str().unwrap()).exists());
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}

/// Its folder may be called otherwise.
#[test]
fn what_is_stopped_keeps_its_name() {
    let home = Home::new("stopped-name");
    let folder = home.0.join("blue");
    let data_dir = format!("--data-dir={}", folder.display());
    start(&home, &["--name=dev", &data_dir]);
    home.succeed(&["down", "--name=dev"]);
    let status = home.run(&["status"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.contains("dev is stopped; its data is in "), "{said}");
    let said = home.succeed(&["down", "--name=dev", "--forget", "--yes"]);
    assert!(said.contains("Forgot dev; "), "{said}");
    assert!(!folder.exists());
}

#[test]
fn contexts_of_several_clusters_come_and_go() {
    let home = Home::new("contexts");
    let dev = start(&home, &["--name=dev", "--merge-kubeconfig"]);
    start(&home, &["--name=ci", "--merge-kubeconfig"]);
    let names = || {
        let config = yaml(&text(&dev["mergedInto"]));
        let contexts = config["contexts"].as_array().unwrap().iter();
        contexts
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["steersman-dev", "steersman-ci"]);
    home.succeed(&["down", "--name=ci"]);
    assert_eq!(names(), ["steersman-dev"]);
    home.succeed(&["down", "--name=dev"]);
    // There was no such file before.
    assert!(!Path::new(dev["mergedInto"].as_str().unwrap()).exists());
}

#[test]
fn a_namespace_that_is_set_survives_the_next_up() {
    let home = Home::new("namespace");
    let set = |path: &Value| {
        let path = path.as_str().unwrap();
        let mut config = yaml(&std::fs::read_to_string(path).unwrap());
        config["contexts"][0]["context"]["namespace"] = json!("shop");
        // JSON is YAML.
        std::fs::write(path, config.to_string()).unwrap();
    };
    let namespace = |facts: &Value, file: &str| {
        yaml(&text(&facts[file]))["contexts"][0]["context"]["namespace"].clone()
    };
    let dev = start(&home, &["--name=dev"]);
    set(&dev["kubeconfig"]);
    home.succeed(&["down"]);
    let dev = start(&home, &["--name=dev"]);
    assert_eq!(namespace(&dev, "kubeconfig"), "shop");
    home.succeed(&["down"]);
    // Set in a merged context, it is kept as well, although that goes.
    let ci = start(&home, &["--name=ci", "--merge-kubeconfig"]);
    set(&ci["mergedInto"]);
    home.succeed(&["down"]);
    let ci = start(&home, &["--name=ci", "--merge-kubeconfig"]);
    assert_eq!(namespace(&ci, "kubeconfig"), "shop");
    assert_eq!(namespace(&ci, "mergedInto"), "shop");
    home.succeed(&["down"]);
}
