//! What is seen on a terminal: `script` gives one to whatever it runs.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::home::{BINARY, Home, signal, until, wait};
use serde_json::Value;

/// Runs a command line of a shell on a terminal of this width, without COLUMNS in the environment.
fn on_terminal(home: &Home, columns: u32, line: &str) -> Command {
    let mut command = Command::new("script");
    command
        .args([
            "-qefc",
            &format!("stty cols {columns} -onlcr; {line}"),
            "/dev/null",
        ])
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .env_remove("KUBECONFIG")
        .env_remove("XDG_DATA_HOME")
        .env("HOME", &home.0)
        .env("TERM", "xterm")
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

fn seen(home: &Home, columns: u32, line: &str) -> String {
    let output = on_terminal(home, columns, line).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Without the codes of colours.
fn plain(text: &str) -> String {
    let codes = regex::Regex::new("\u{1b}\\[[0-9;]*[mK]").unwrap();
    codes.replace_all(text, "").into_owned()
}

#[test]
fn a_live_line_takes_the_place_of_log_lines() {
    let home = Home::new("live");
    let screen = home.0.join("screen");
    let mut child = on_terminal(
        &home,
        100,
        &format!("{BINARY} up --name=live --nodes=2 --port=0 --no-dashboard"),
    )
    .stdout(std::fs::File::create(&screen).unwrap())
    .spawn()
    .unwrap();
    let text = || std::fs::read_to_string(&screen).unwrap_or_default();
    until("the live line", || {
        text().contains("2 nodes ready · no pods · settled")
    });
    let facts: Value = serde_json::from_str(&home.succeed(&["status", "--output=json"])).unwrap();
    let log = facts[0]["log"].as_str().unwrap();
    assert!(text().contains(&format!("The log is {log}.")), "{}", text());
    assert!(std::path::Path::new(log).is_file());
    assert!(text().contains("\u{1b}[1mSteersman"), "{}", text());
    signal(
        u32::try_from(facts[0]["pid"].as_u64().unwrap()).unwrap(),
        "INT",
    );
    assert!(wait(&mut child).success());
    assert!(plain(&text()).contains("stopping"), "{}", text());
}

#[test]
fn words_are_wrapped_at_the_width_that_is_measured() {
    let home = Home::new("width");
    let up = home.up(&["--in-memory", "--nodes=1", "--no-dashboard"]);
    let config = up.kubeconfig().display();
    let wide = seen(
        &home,
        200,
        &format!("{BINARY} why node/node-0 --kubeconfig {config}"),
    );
    let narrow = seen(
        &home,
        40,
        &format!("{BINARY} why node/node-0 --kubeconfig {config}"),
    );
    assert!(
        plain(&wide).lines().any(|line| line.chars().count() > 40),
        "{wide}"
    );
    // What was done now was done a second ago when it is asked for again.
    let is_age = |word: &str| {
        let seconds = word.strip_suffix('s').map(str::parse::<u32>);
        matches!(word, "now" | "ago") || matches!(seconds, Some(Ok(_)))
    };
    let words = |text: &str| {
        let text = plain(text);
        let words = text.split_whitespace().filter(|word| !is_age(word));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words(&narrow), words(&wide), "{narrow}\n{wide}");
    for line in plain(&narrow).lines() {
        assert!(
            line.chars().count() <= 40 || !line.trim().contains(' '),
            "{line:?}"
        );
    }
    up.stop();
}

#[test]
fn colour_is_for_terminals_unless_somebody_says_otherwise() {
    let home = Home::new("colour");
    let up = home.up(&["--in-memory", "--nodes=1", "--no-dashboard"]);
    let config = up.kubeconfig().display().to_string();
    let why = format!("{BINARY} why node/node-0 --kubeconfig {config}");
    assert!(seen(&home, 80, &why).contains("\u{1b}["));
    assert!(!seen(&home, 80, &format!("NO_COLOR=1 {why}")).contains("\u{1b}["));
    assert!(!seen(&home, 80, &format!("{why} --color never")).contains("\u{1b}["));
    assert!(!seen(&home, 80, &format!("{why} | cat")).contains("\u{1b}["));
    let forced = home.succeed(&["--color=always", "status"]);
    assert!(forced.contains("\u{1b}[32manswers"), "{forced}");
    up.stop();
}

#[test]
fn a_person_is_asked_before_anything_is_deleted() {
    let home = Home::new("asked");
    home.succeed(&["up", "-d", "--port=0", "--name=dev", "--nodes=1"]);
    let ask = |answer: &str| {
        let mut child = on_terminal(&home, 80, &format!("{BINARY} down --name=dev --forget"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), answer.as_bytes()).unwrap();
        let mut said = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        wait(&mut child);
        said
    };
    let said = ask("n\n");
    assert!(
        said.contains("Delete this with everything in it? [y/N]"),
        "{said}"
    );
    assert!(
        said.contains("Nothing was stopped and nothing was deleted."),
        "{said}"
    );
    assert_eq!(home.run(&["status"]).status.code(), Some(0));
    let said = ask("y\n");
    assert!(said.contains("Forgot dev"), "{said}");
    assert_eq!(home.run(&["status"]).status.code(), Some(3));
}
