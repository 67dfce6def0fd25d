//! One clear sentence for each mistake, the right exit code, and nothing lost.

use crate::home::{BINARY, Home, Up, refusal};
use serde_json::json;

#[track_caller]
fn check(said: &str, expected: &str) {
    assert!(
        said.contains(expected),
        "{said:?} does not say {expected:?}"
    );
}

#[test]
fn a_port_that_was_asked_for_and_is_taken() {
    let home = Home::new("port");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = home.refused(&["up", "--quiet", "--in-memory", "--port", &port]);
    check(
        &said,
        &format!("cannot listen on port {port}: is it in use?"),
    );
}

#[test]
fn arguments_that_make_no_sense() {
    let home = Home::new("arguments");
    for (arguments, expected) in [
        (&["--nodes=many"][..], "it is not a whole number"),
        (&["--nodes=5001"], "5001 is not in 0..=5000"),
        (&["--nodes=-1"], "-1 is not in 0..=5000"),
        (&["--speed=0"], "not a number from 0.1 to 1000"),
        (&["--speed=NaN"], "not a number from 0.1 to 1000"),
        (&["--port=70000"], "is not in 0..=65535"),
        (&["--in-memory", "--data-dir=x"], "cannot be used with"),
        (&["--nodes=1", "--node-config=x"], "cannot be used with"),
        (
            &["--controllers=nope"],
            "\"nope\" is not in the list of known controllers",
        ),
    ] {
        let mut all = vec!["up"];
        all.extend(arguments);
        let output = home.run(&all);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        check(&said, expected);
    }
    assert_eq!(
        std::fs::read_dir(&home.0).unwrap().count(),
        0,
        "nothing was written"
    );
}

#[test]
fn node_and_stages_files() {
    let home = Home::new("files");
    let bad_nodes = home.file(
        "nodes.yaml",
        "nodes:\n- name: web\n  capacity:\n    cpu: lots\n",
    );
    let twice = home.file("twice.yaml", "nodes:\n- name: web\n- name: web\n");
    let bad_stages = home.file("stages.yaml", "stages:\n- name: a\n  next: Explode\n");
    let refused = |flag: &str, file: &str| home.refused(&["up", "--quiet", flag, file]);
    check(
        &refused("--node-config", &bad_nodes),
        &format!("{bad_nodes}: line 4: nodes[0].capacity.cpu: "),
    );
    check(
        &refused("--node-config", &twice),
        &format!("{twice}: line 3: nodes[1].name: a second node"),
    );
    check(
        &refused("--stages", &bad_stages),
        &format!("{bad_stages}: line 3: stages[0].next: unknown variant"),
    );
    std::fs::write(home.0.join("picture.png"), b"\x89PNG\xff").unwrap();
    let picture = home.0.join("picture.png").display().to_string();
    check(
        &refused("--stages", &picture),
        &format!("{picture} is not text"),
    );
    check(
        &refused("--node-config", "/nonexistent"),
        "cannot read /nonexistent",
    );
    check(
        &refused("--stages", home.0.to_str().unwrap()),
        "cannot read",
    );
}

#[test]
fn data_folders_that_cannot_be_used() {
    let home = Home::new("folders");
    let refused = |dir: &str| home.refused(&["up", "--quiet", "--port=0", "--data-dir", dir]);
    let file = home.file("file", "");
    check(
        &refused(&file),
        &format!("{file} is a file, and a folder is needed"),
    );
    let foreign = home.0.join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.txt"), "precious").unwrap();
    check(
        &refused(foreign.to_str().unwrap()),
        "holds \"thesis.txt\", which is not ours",
    );
    assert_eq!(
        std::fs::read_dir(&foreign).unwrap().count(),
        1,
        "nothing was put there"
    );

    let damaged = home.0.join("damaged");
    let damaged_text = damaged.to_str().unwrap();
    home.up(&["--data-dir", damaged_text, "--nodes=0"]).stop();
    let database = damaged.join("steersman.redb");
    let good = std::fs::read(&database).unwrap();
    std::fs::write(&database, "from another world").unwrap();
    check(&refused(damaged_text), "damaged or not ours");
    assert_eq!(
        std::fs::read(&database).unwrap(),
        b"from another world",
        "it is left alone"
    );
    std::fs::write(&database, good).unwrap();
    home.up(&["--data-dir", damaged_text, "--nodes=0"]).stop();
}

#[test]
fn a_folder_that_a_running_cluster_uses() {
    let home = Home::new("locked");
    let up = home.up(&["--nodes=0"]);
    let said = home.refused(&["up", "--quiet", "--port=0"]);
    check(&said, "a cluster is up in ");
    check(&said, up.facts["server"].as_str().unwrap());
    check(&said, "`steersman down");
    // The first one never noticed.
    up.api().get("/api/v1/namespaces/default");
    up.stop();
    home.up(&["--nodes=0"]).stop();
}

#[test]
fn unreadable_folders_are_named() {
    let home = Home::new("unreadable");
    // A folder that even root cannot write to.
    let said = home.refused(&["up", "--quiet", "--port=0", "--data-dir", "/proc/steersman"]);
    check(
        &said,
        "cannot create the folder /proc/steersman: No such file or directory; choose one that you may write to",
    );
    let said = home.refused(&[
        "up",
        "--quiet",
        "--port=0",
        "--in-memory",
        "--kubeconfig=/proc/x",
    ]);
    check(&said, "cannot write /proc/x");
}

#[test]
fn a_full_disk_refuses_writes_and_keeps_what_was_acknowledged() {
    let home = Home::new("full");
    // The shell's unit is 512 bytes or 1 KiB: room for a hundred of what is written below, not for a thousand.
    let blocks = 16_384;
    let script = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec {BINARY} up --output=json --port=0 --nodes=0 --quiet"
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).env("HOME", &home.0);
    shell.env_remove("KUBECONFIG").env_remove("XDG_DATA_HOME");
    let full = Up::start(&mut shell);
    let api = full.api();
    let path = "/api/v1/namespaces/default/configmaps";
    let mut kept = 0;
    let refusal = loop {
        let map =
            json!({"metadata": {"name": format!("m{kept}")}, "data": {"k": "x".repeat(50_000)}});
        match api.send("POST", path, &map) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1000, "the disk was never full");
    };
    check(&refusal, "could not be made durable");
    assert!(kept > 0, "some fitted");
    // It goes on answering, and a read does not show what was refused.
    assert_eq!(
        api.get(path)["items"].as_array().unwrap().len() as i32,
        kept + 1
    );
    full.stop();
    let again = home.up(&["--nodes=0"]);
    let found = again.api().get(path);
    assert_eq!(
        found["items"].as_array().unwrap().len() as i32,
        kept + 1,
        "with the root certificate"
    );
    again.stop();
}

#[test]
fn a_broken_kubeconfig_of_the_users_is_left_alone() {
    let home = Home::new("merge-broken");
    std::fs::create_dir(home.0.join(".kube")).unwrap();
    let config = home.file(".kube/config", "{{{ not yaml");
    let said = refusal(&mut home.command(&["up", "--quiet", "--port=0", "--merge-kubeconfig"]));
    check(&said, &format!("{config}: it is not YAML: line 1: "));
    check(&said, "; nothing was changed");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "{{{ not yaml");
    let config = home.file(
        ".kube/config",
        "contexts: [{name: steersman, context: {cluster: boat}}]",
    );
    let said = refusal(&mut home.command(&["up", "--quiet", "--port=0", "--merge-kubeconfig"]));
    check(
        &said,
        "there is an entry \"steersman\" that we did not make",
    );
    assert!(std::fs::read_to_string(&config).unwrap().contains("boat"));
}

#[test]
fn commands_about_what_is_not_there() {
    let home = Home::new("nothing");
    check(&home.succeed(&["down"]), "No cluster is up.");
    let status = home.run(&["status"]);
    assert_eq!(status.status.code(), Some(3));
    for arguments in [&["node", "stop", "node-0"][..], &["pod", "fail", "web"]] {
        check(
            &home.refused(arguments),
            "no cluster is up: `steersman up` starts one",
        );
    }
}

#[test]
fn a_damaged_object_is_named_and_dropped_by_repair() {
    let home = Home::new("repair");
    let dir = home.0.join("data");
    let folder = dir.to_str().unwrap();
    let up = home.up(&["--data-dir", folder, "--nodes=0"]);
    let map = json!({"metadata": {"name": "lost"}, "data": {"k": "needle in a haystack"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    up.api().create(maps, &map);
    up.api()
        .create(maps, &json!({"metadata": {"name": "kept"}}));
    up.stop();
    let database = dir.join("steersman.redb");
    let mut bytes = std::fs::read(&database).unwrap();
    let needle = b"needle in a haystack";
    for place in 0..bytes.len() - needle.len() {
        if bytes[place..].starts_with(needle) {
            bytes[place] = 0xff;
        }
    }
    std::fs::write(&database, bytes).unwrap();
    let said = home.refused(&["up", "--quiet", "--port=0", "--data-dir", folder]);
    check(&said, "is damaged: configmaps default/lost");
    check(&said, "--repair");
    let repaired = home.up(&["--data-dir", folder, "--nodes=0", "--repair"]);
    let found = repaired.api().get(maps);
    let has = |name: &str| {
        let mut maps = found["items"].as_array().unwrap().iter();
        maps.any(|map| map["metadata"]["name"] == name)
    };
    assert!(has("kept"), "everything else is there");
    assert!(!has("lost"));
    repaired.stop();
}
