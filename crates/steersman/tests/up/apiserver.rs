//! `steersman apiserver` on its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::home::{Api, Home, signal, wait};

/// Starts one that keeps nothing, and waits for the line that says where it is.
fn start(home: &Home) -> (Child, String) {
    let mut child = home
        .command(&[
            "apiserver",
            "--in-memory",
            "--port=0",
            "--kubeconfig=config",
        ])
        .current_dir(&home.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = child.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).unwrap();
    (child, line)
}

#[test]
fn in_memory_it_serves_ends_well_and_leaves_nothing_behind() {
    let home = Home::new("apiserver");
    let maps = "/api/v1/namespaces/default/configmaps";
    for _ in 0..2 {
        let (mut child, line) = start(&home);
        let config = home.0.join("config");
        let written = std::fs::read_to_string(&config).expect("it is written before the line");
        let url = line
            .trim()
            .strip_prefix("serving the Kubernetes API at ")
            .unwrap_or_else(|| panic!("{line}"));
        assert!(url.starts_with("https://127.0.0.1:") && !url.ends_with(":0"));
        assert!(written.contains(url), "{url} is not in\n{written}");

        let api = Api::new(&config);
        assert_eq!(api.get("/readyz?verbose"), json!(null), "it is no JSON");
        let listed = api.get(maps);
        assert_eq!(listed["items"], json!([]), "the last one is forgotten");
        api.create(
            maps,
            &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
        );
        assert_eq!(api.get(&format!("{maps}/a"))["data"]["k"], "v");

        // Nobody reads its connection any more, and the server would wait for that.
        drop(api);
        signal(child.id(), "TERM");
        assert_eq!(wait(&mut child).code(), Some(0));
        let left: Vec<_> = std::fs::read_dir(&home.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["config"]);
    }
}

#[test]
fn it_logs_as_the_manager_does() {
    let home = Home::new("apiserver-log");
    let mut child = home
        .command(&[
            "apiserver",
            "--in-memory",
            "--port=0",
            "--kubeconfig=config",
            "--logging-format=json",
            "-v=4",
        ])
        .current_dir(&home.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let output = child.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut said).unwrap();
    let api = Api::new(&home.0.join("config"));
    api.get("/api/v1/namespaces/default");
    drop(api);
    signal(child.id(), "TERM");
    let log = child.stderr.take().expect("it is piped");
    let lines: Vec<Value> = BufReader::new(log)
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).expect("each line is JSON"))
        .collect();
    assert_eq!(wait(&mut child).code(), Some(0));
    let find = |message: &str| {
        let found = lines.iter().find(|line| {
            let text = line["msg"].as_str().unwrap_or_default();
            text.starts_with(message)
        });
        found.unwrap_or_else(|| panic!("{message} is not in {lines:#?}"))
    };
    find("Serving securely on 127.0.0.1:");
    let request = find("HTTP");
    assert_eq!(request["verb"], "GET");
    assert_eq!(request["URI"], "/api/v1/namespaces/default");
    assert_eq!(request["resp"], 200);
}
