//! `steersman preview` as an operator and a pipeline meet it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::{Cluster, steersman, text, unreachable};
use api::ResourceType;
use tempfile::TempDir;

const DEPLOYMENTS: ResourceType =
    ResourceType::namespaced("apps", "v1", "deployments", "Deployment");

fn deployment(image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 4
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: main, image: '{image}'}}]}}
"
    )
}

/// A directory with these files.
fn files(all: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for (file, content) in all {
        let path = directory.path().join(file);
        std::fs::write(path, content).expect("the directory can be written to");
    }
    directory
}

#[test]
fn the_exit_code_says_whether_it_completes() {
    let directory = files(&[
        ("old.yaml", &deployment("web:1")),
        ("new.yaml", &deployment("web:2")),
        ("bad.yaml", &deployment("web:bad")),
    ]);
    let path = |file: &str| directory.path().join(file).display().to_string();
    let (old, new, bad) = (path("old.yaml"), path("new.yaml"), path("bad.yaml"));
    let output = steersman(&["preview", "-f", &new, "--snapshot", &old]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.starts_with("From "), "{told}");
    assert!(told.contains("\nCompletes in 20s.\n"), "{told}");
    assert!(told.contains("never fewer than 3 of 4 available"), "{told}");
    assert!(
        !told.contains('\u{1b}'),
        "no colours where there is no terminal"
    );

    let arguments = [
        "preview",
        "-f",
        &bad,
        "--snapshot",
        &old,
        "--fail-image",
        "web:bad",
        "--for",
        "5m",
    ];
    let output = steersman(&arguments);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("\nDoes not complete within 5m.\n"), "{told}");

    let output = steersman(&[
        "preview",
        "-f",
        &new,
        "--snapshot",
        &old,
        "--output",
        "json",
        "--ready-after",
        "30s",
    ]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(
        (
            &told["completes"],
            &told["workloads"][0]["minimumAvailable"]
        ),
        (&true.into(), &3.into())
    );
    assert!(
        told["seconds"]
            .as_f64()
            .is_some_and(|seconds| (59.0..62.0).contains(&seconds))
    );
    let output = steersman(&["preview", "-f", &new, "--output", "svg"]);
    assert!(text(&output.stdout).starts_with("<svg "));
}

#[test]
fn bad_input_is_named_with_its_place() {
    let directory = files(&[
        ("broken.yaml", "a: b\n  c: [\n"),
        (
            "unknown.yaml",
            "apiVersion: a.io/v1\nkind: Foo\nmetadata: {name: x}\n",
        ),
        ("empty.yaml", "# nothing\n"),
        ("good.yaml", &deployment("web:1")),
    ]);
    let check = |file: &str, more: &[&str], expected: &str| {
        let path = directory.path().join(file).display().to_string();
        let mut arguments = vec!["preview", "-f", &path];
        arguments.extend(more);
        let output = steersman(&arguments);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file}: {told}");
        assert!(output.stdout.is_empty(), "{file}");
        assert!(told.contains(expected), "{file}: {told}");
    };
    check(
        "good.yaml",
        &["--empty", "--fail-image", "web:2"],
        "--fail-image web:2: nothing here has a container with this image",
    );
    check(
        "good.yaml",
        &["-f", "https://example.com/web.yaml"],
        "write `curl -sL https://example.com/web.yaml | steersman preview -f -`",
    );
    check(
        "broken.yaml",
        &[],
        "broken.yaml: line 2: mapping values are not allowed",
    );
    check(
        "unknown.yaml",
        &[],
        "unknown.yaml: line 1: no kind \"Foo\" is known in \"a.io/v1\"",
    );
    check(
        "empty.yaml",
        &[],
        "there is no object in what was given by -f",
    );
    check("nope.yaml", &[], "cannot read");
    check(
        "good.yaml",
        &["--kubeconfig", "/nonexistent"],
        "error: cannot read kubeconfig /nonexistent",
    );
    let unreachable = unreachable(directory.path());
    check(
        "good.yaml",
        &["--kubeconfig", &unreachable],
        "https://127.0.0.1:1",
    );
    check(
        "good.yaml",
        &["--snapshot", "/nonexistent"],
        "cannot read /nonexistent",
    );
    let output = steersman(&["preview", "-f", "x", "--ready-after", "soon"]);
    assert!(text(&output.stderr).contains("is not a duration such as 20s"));
    let output = steersman(&["preview", "-f", "x", "--for", "999999h"]);
    assert!(text(&output.stderr).contains("of 876000h (a century) at most"));
    let output = steersman(&["preview", "-f", "-", "--snapshot", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("standard input can be read once only"));
}

#[test]
fn folders_and_standard_input() {
    let directory = files(&[
        ("a.yaml", &deployment("web:1")),
        ("notes.txt", "not a manifest"),
    ]);
    let output = steersman(&["preview", "-f", &directory.path().display().to_string()]);
    assert!(text(&output.stdout).contains("deployment/web in default: done"));
    let mut process = Command::new(env!("CARGO_BIN_EXE_steersman"))
        .args(["preview", "-f", "-", "--empty"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut input = process.stdin.take().expect("it was asked for");
    input
        .write_all(deployment("web:1").as_bytes())
        .expect("it reads its input");
    drop(input);
    let output = process.wait_with_output().expect("it ends");
    let said = text(&output.stdout);
    assert!(
        said.contains("you apply it; it is new: standard input"),
        "{said}"
    );
}

#[test]
fn a_running_cluster_is_read_and_never_written() {
    let cluster = Cluster::start("preview");
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    // It need not have settled: the copy does that by itself.
    let new = cluster.file("new.yaml", &deployment("web:2"));
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let output = steersman(&["preview", "-f", &new, "--kubeconfig", &kubeconfig]);
    let told = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{told}{}",
        text(&output.stderr)
    );
    assert!(told.contains("you apply a change"), "{told}");
    assert!(told.contains(", on 3 nodes."), "{told}");
    let after = cluster.get(&DEPLOYMENTS, "default", "web");
    assert_eq!(after["metadata"]["generation"], 1);
    assert_eq!(
        after["spec"]["template"]["spec"]["containers"][0]["image"],
        "web:1"
    );
}

#[test]
fn what_may_not_be_read_is_named_and_left_out() {
    let cluster = Cluster::start("preview-limited");
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    let new = cluster.file("new.yaml", &deployment("web:2"));
    let limited = cluster.limited_user().display().to_string();
    let output = steersman(&["preview", "-f", &new, "--kubeconfig", &limited]);
    let (told, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{complained}");
    assert!(told.contains("you apply a change"), "{told}");
    assert!(complained.contains("goes on without nodes"), "{complained}");
    assert!(!complained.contains("without deployments"), "{complained}");
}

#[test]
fn who_may_read_one_namespace_only_gets_a_preview_of_it() {
    let cluster = Cluster::start("preview-editor");
    let editor = cluster.editor_of("shop").display().to_string();
    cluster.apply(&DEPLOYMENTS, "shop", "web", &deployment("web:1"));
    let new = cluster.file("new.yaml", &deployment("web:2"));
    let output = steersman(&["preview", "-f", &new, "--kubeconfig", &editor]);
    let (told, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}{complained}");
    assert!(told.contains("deployment/web in shop: done"), "{told}");
    assert!(told.contains("you apply a change"), "{told}");
    let missing: Vec<&str> = complained
        .lines()
        .filter_map(|line| line.strip_prefix("goes on without "))
        .filter_map(|line| line.strip_suffix(": you may not list them"))
        .collect();
    assert_eq!(
        missing,
        [
            "customresourcedefinitions",
            "nodes",
            "priorityclasses",
            "storageclasses",
            "volumeattributesclasses",
            "persistentvolumes",
            "runtimeclasses"
        ]
    );
}

#[test]
fn the_namespace_is_the_one_asked_for() {
    let named = deployment("web:1").replace("{name: web}", "{name: web, namespace: other}");
    let directory = files(&[("plain.yaml", &deployment("web:1")), ("named.yaml", &named)]);
    let path = |file: &str| directory.path().join(file).display().to_string();
    let output = steersman(&["preview", "-f", &path("plain.yaml"), "-n", "shop"]);
    let told = text(&output.stdout);
    assert!(told.contains("deployment/web in shop: done"), "{told}");
    let output = steersman(&["preview", "-f", &path("named.yaml"), "--namespace=shop"]);
    let complained = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complained}");
    assert!(
        complained.contains(
            r#"the namespace from the provided object "other" does not match the namespace "shop". You must pass '--namespace=other' to perform this operation."#
        ),
        "{complained}"
    );
    let output = steersman(&["preview", "-f", &path("named.yaml"), "-n", "other"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let directory = files(&[("a.yaml", &deployment("web:1"))]);
    std::os::unix::fs::symlink("/nonexistent", directory.path().join("gone.yaml"))
        .expect("the directory can be written to");
    let output = steersman(&["preview", "-f", &directory.path().display().to_string()]);
    let complained = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complained}");
    assert!(complained.contains("gone.yaml"), "{complained}");
}

#[test]
fn a_job_that_fails_is_not_complete() {
    let job = "apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: job, command: ['false']}]}
";
    let directory = files(&[("job.yaml", job)]);
    let path = directory.path().join("job.yaml").display().to_string();
    let output = steersman(&["preview", "-f", &path]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("\nDoes not complete: job/once fails after 1s.\n"),
        "{told}"
    );
}

#[test]
fn it_starts_from_the_cluster_at_hand_and_says_so() {
    let cluster = Cluster::start("preview-drain");
    cluster.apply(&DEPLOYMENTS, "default", "web", &deployment("web:1"));
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let run = |arguments: &[&str]| {
        let output = Command::new(crate::cluster::BINARY)
            .arg("preview")
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .expect("the binary runs");
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    };
    let new = cluster.file("new.yaml", &deployment("web:2"));
    let (code, told) = run(&["-f", &new]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.starts_with("From the cluster at https://127.0.0.1:"),
        "{told}"
    );
    assert!(told.contains("you apply a change"), "{told}");
    let (_, told) = run(&["-f", &new, "--empty"]);
    assert!(
        told.starts_with("From an empty cluster of 3 nodes.\n"),
        "{told}"
    );

    let (code, told) = run(&["drain", "node-0"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("node/node-0 is drained after"), "{told}");
    let (code, told) = run(&["drain", "node-7"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("there is no node \"node-7\" to drain"),
        "{told}"
    );
    let (code, told) = run(&["sink", "node-0"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("\"sink node-0\" is not something to preview"),
        "{told}"
    );
    let nobody = unreachable(&cluster.directory);
    let output = Command::new(crate::cluster::BINARY)
        .args(["preview", "-f", &new])
        .env("KUBECONFIG", nobody)
        .output()
        .expect("the binary runs");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("--empty starts from an empty one"), "{told}");
}

/// `docs/preview.md` shows what comes back; `UPDATE_EXPECT=1` puts it in.
#[test]
fn the_page_about_previews_shows_what_comes_back() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = docs.join("preview.md");
    let held = std::fs::read_to_string(&page).expect("the page is there");
    let web = held.split("```yaml\n").nth(1).expect("it has a manifest");
    let web = web.split("```").next().unwrap_or_default();
    let directory = files(&[
        ("web-1.yaml", web),
        ("web-2.yaml", &web.replace("web:1", "web:2")),
    ]);
    let run = |line: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_steersman"))
            .args(line.split(' ').skip(1))
            .current_dir(directory.path())
            .env("COLUMNS", "80")
            .output()
            .expect("the binary runs");
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let mut typed = 0;
    let blocks = held.split("```").map(|block| {
        let call = block
            .strip_prefix("\n$ ")
            .and_then(|block| block.lines().next());
        let Some(call) = call.filter(|call| call.contains("--snapshot web-1.yaml")) else {
            return block.to_owned();
        };
        typed += 1;
        format!("\n$ {call}\n{}", run(call))
    });
    let told = blocks.collect::<Vec<_>>().join("```");
    assert_eq!(typed, 2);
    let picture = run("steersman preview -f web-2.yaml --snapshot web-1.yaml --output svg");
    for (path, told) in [(page, told), (docs.join("preview.svg"), picture)] {
        expect_test::expect_file![path].assert_eq(&told);
    }
}
